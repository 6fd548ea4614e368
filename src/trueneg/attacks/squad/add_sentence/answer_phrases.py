"""The words of an answer where it stands in a sentence: as a subject or object, or as what says when, where and how."""

from __future__ import annotations

import re
from dataclasses import replace

from trueneg.attacks.squad.add_sentence.fake_answer import FakeAnswer, verb_phrase
from trueneg.attacks.squad.add_sentence.question_structure import KINDS, TIME_NOUNS, Question
from trueneg.attacks.squad.add_sentence.question_words import Word
from trueneg.attacks.squad.add_sentence.substitutes import MONTHS
from trueneg.lexicon.articles import article as article_for

POOL_VERBS = frozenset(["paint", "repair", "plant", "feed", "open"])
"""The first words of the verb phrases that wrong answers are drawn from."""

_SHARES = frozenset(["percentage", "percent", "proportion", "share", "fraction"])
_LEADING = frozenset("in on at during before after between around since until by from within as for throughout".split())  # noqa: SIM905
_MONTH = "|".join(MONTHS)
_QUANTITY = re.compile(r"[$£€%°]|\d\s*[a-z]|percent|dollar|million|billion|thousand", re.IGNORECASE)


def answer_phrase(question: Question, answer: FakeAnswer) -> list[Word]:
    """The answer where a subject or object stands."""
    lead = list(question.preposition)
    wh, noun, text = question.wh, list(question.noun), answer.text
    if len(noun) > 2 and noun[0].low in _SHARES and noun[1].low == "of" and answer.kind == "figure":
        unit = "%" if re.fullmatch(r"[\d.,]+", text) and noun[0].low.startswith("percent") else ""
        return [*lead, *as_words(text + unit), *noun[1:]]
    if wh == "whose":
        return [*lead, *as_words(text + "'s"), *noun]
    if wh == "how much" and noun and not (answer.kind == "figure" and _QUANTITY.search(text)):
        return [*lead, *as_words(text), *noun] if answer.kind in ("figure", "adjective") else [*lead, *as_words(text)]
    if wh == "how many" and noun:
        head = noun[-1].low.rstrip("s")
        if answer.kind not in ("figure", "adjective") or head in text.lower():
            return [*lead, *as_words(text)]
        if "%" in text and noun[0].low != "of":
            text += " of"
        return [*lead, *as_words(text), *noun]
    if wh != "what" or not noun or noun[0].low == "of":
        return [*lead, *as_words(text)]
    kinds = [at for at, word in enumerate(noun) if word.low in KINDS]
    if kinds and kinds[-1] + 2 < len(noun) and noun[kinds[-1] + 1].low == "of":
        thing = noun[kinds[-1] + 2 :]
        if answer.kind in ("adjective", "noun", "other") and text.split()[0] not in ("the", "a", "an"):
            article = [] if thing[-1].tag in ("NNS", "NNPS") or thing[0].tag == "DT" else as_words(article_for(text))
            return [*lead, *article, *as_words(text), *thing]
        return [*lead, *as_words(text)]
    if question.head in TIME_NOUNS:
        if question.head == "century" and re.fullmatch(r"(?:the )?(?:\w+th|\w+st|\w+nd|\w+rd)", text):
            text = f"the {text.removeprefix('the ')} century"
        elif re.match(r"\d+s\b", text):
            text = "the " + text
        if question.head in ("year", "years") and re.fullmatch(r"\d+", text):
            return [*lead, *as_words(text)] if lead else [*as_words("the year " + text)]
        return [*lead, *as_words(text)]
    is_plain = all(word.tag in ("NN", "JJ", "NNP", "CD", "POS", "VBN") for word in noun)
    if answer.kind in ("person", "place", "organization", "other") and is_plain:
        if noun[-1].low in text.lower():
            return [*lead, *as_words(text)]
        return [*lead, *as_words("the"), *noun, *as_words(text)]
    if answer.kind == "adjective" and noun:
        article = [] if noun[-1].tag in ("NNS", "NNPS") else as_words(article_for(text))
        return [*lead, *article, *as_words(text), *noun]
    if answer.kind == "figure" and re.fullmatch(r"[\d,.]+", text) and is_plain:
        return [*lead, *as_words("the"), *noun, *as_words("of " + text)]
    return [*lead, *as_words(text)]


def answer_adjunct(question: Question, answer: FakeAnswer) -> list[Word]:
    """The answer where it says when, where, why, how, or what follows a preposition."""
    text, wh = answer.text, question.wh
    leads = text.split()[0].lower() if text else ""
    if question.preposition:
        if leads in _LEADING:
            text = text.split(" ", 1)[-1]
        return answer_phrase(question, replace(answer, text=text))
    if wh == "when" or (wh == "what" and question.head in TIME_NOUNS):
        if leads in _LEADING or text.endswith(("ago", "later", "earlier")):
            return as_words(text)
        is_day = re.match(
            rf"(?:the )?(?:\w+day\b|(?:{_MONTH}) \d{{1,2}}\b(?!\d)|\d{{1,2}}(?:th|st|nd|rd)? (?:of )?(?:{_MONTH}))",
            text,
        )
        if re.match(r"\d+['’]?s\b|[\w-]+ century", text, re.IGNORECASE):
            text = "the " + text
        if re.search(r"\d:\d|[ap]\.?m\b", text):
            return as_words("at " + text)
        return as_words(("on " if is_day else "in ") + text)
    if wh == "where":
        return as_words(text if leads in _LEADING or leads in ("near", "to", "along") else "in " + text)
    if wh == "why":
        if leads in ("to", "because", "for", "due", "since", "as", "by"):
            return as_words(text)
        return as_words(("to " if answer.kind == "verb" else "because of ") + text)
    if wh == "how long":
        return as_words(text if leads in (*_LEADING, "for") or leads in ("until", "over") else "for " + text)
    if wh == "how":
        if answer.kind in ("adverb", "adjective") or leads in (*_LEADING, "through", "with", "via", "using", "to"):
            return as_words(text)
        if answer.kind == "verb":
            return as_words("by " + verb_phrase(text.removeprefix("to "), "VBG") if _is_pool(text) else "to " + text)
        return as_words("by " + text if answer.kind == "gerund" else "with " + text)
    return as_words(text)


def after_preposition(answer: FakeAnswer) -> FakeAnswer:
    """An answer as it stands after a preposition: "of painting the walls"."""
    if answer.kind != "verb" or not _is_pool(answer.text):
        return answer
    return replace(answer, text=verb_phrase(answer.text.removeprefix("to "), "VBG"), kind="gerund")


def as_words(text: str) -> list[Word]:
    """A text that comes from nowhere, as one word; none for no text."""
    return [Word(text, "NN")] if text else []


def _is_pool(text: str) -> bool:
    return text.removeprefix("to ").split()[0] in POOL_VERBS
