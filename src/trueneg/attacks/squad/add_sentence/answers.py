"""A wrong answer of the right kind (AddSent, Jia and Liang 2017, step 2), and its form within a sentence.

The authors use one fixed answer for each kind. Here answers are drawn, and keep the articles, prepositions and verb
forms of the right one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trueneg.attacks.squad.add_sentence.questions import KINDS, TIME_NOUNS, Question, Word, written
from trueneg.attacks.squad.add_sentence.substitutes import (
    NAMES,
    NATIONALITIES,
    RELIGIONS,
    EntityType,
    WordNetEntities,
    changed_figure,
    free,
)
from trueneg.lexicon.articles import article as article_for
from trueneg.lexicon.english import MONTHS
from trueneg.lexicon.morphology import inflections

AnswerKind = Literal[
    "figure", "person", "place", "organization", "other", "noun", "plural", "adjective", "adverb", "verb", "gerund"
]

POOLS: Mapping[str, Sequence[str]] = {
    "count": ("hamster", "wooden clock", "garden", "violin", "lantern", "barrel"),
    "noun": ("honey", "cotton", "granite", "poetry", "copper", "chess"),
    "plural": ("hamsters", "wooden clocks", "gardens", "violins", "lanterns", "barrels"),
    "people": ("plumbers", "gardeners", "musicians", "bakers", "tailors", "shepherds"),
    "adjective": ("deep", "purple", "wooden", "silent", "round", "bitter"),
    "adverb": ("silently", "quickly", "carefully", "rarely", "loudly"),
    "verb": ("paint the walls", "repair old clocks", "plant potatoes", "feed the birds", "open a bakery"),
    "reason": ("bad weather", "a lack of paper", "the price of salt", "heavy snow"),
}
"""Pools for answers that are neither numbers nor names (``substitutes.NAMES``); verbs are base forms."""

_DETERMINERS = ("the", "a", "an")
_LONGEST_FIGURE = 8
_TIMES = frozenset(["year", "years", "date", "day", "month", "decade", "decades", "century", "time", "age", "era"])
POOL_VERBS = frozenset(phrase.split()[0] for phrase in POOLS["verb"])
"""The first words of the verb phrases that wrong answers are drawn from."""

_SHARES = frozenset(["percentage", "percent", "proportion", "share", "fraction"])
_LEADING = frozenset("in on at during before after between around since until by from within as for throughout".split())  # noqa: SIM905
_MONTH = "|".join(MONTHS)
_DAY = re.compile(
    rf"(?:the )?(?:\w+day\b|(?:{_MONTH}) \d{{1,2}}\b(?!\d)|\d{{1,2}}(?:th|st|nd|rd)? (?:of )?(?:{_MONTH}))"
)
_QUANTITY = re.compile(r"[$£€%°]|\d\s*[a-z]|percent|dollar|million|billion|thousand", re.IGNORECASE)


@dataclass(frozen=True)
class FakeAnswer:
    """A wrong answer.

    Attributes:
        text: text that can replace the right answer.
        kind: its kind, which determines its form in a sentence.
        rule: the rule that made it.
    """

    text: str
    kind: AnswerKind
    rule: str


@dataclass(frozen=True)
class ExpectedAnswer:
    """Kind of answer that a question asks for.

    Attributes:
        wh: its question word, with "many" or similar: "who", "what", "how many", "how".
        head: the noun of the question phrase: "painter" in "which Italian painter" and in "what is the name of the
            painter"; empty if it has none.
        is_plural: whether that noun, or else the verb after the question word, is plural.
        is_kind: whether a kind of something is asked for.
        phrase: start and end of the question phrase in the text of the question.
        is_action: whether the question asks what somebody does.
    """

    wh: str
    head: str = ""
    is_plural: bool = False
    is_kind: bool = False
    phrase: tuple[int, int] = (0, 0)
    is_action: bool = False


def fake_answer(
    answer: Sequence[Word],
    expected: ExpectedAnswer,
    *,
    entities: WordNetEntities,
    taken: str,
    randomness: random.Random,
) -> FakeAnswer:
    """Make up an answer.

    Args:
        answer: the right answer.
        expected: kind of answer that is asked for.
        entities: types of names and nouns.
        taken: lower-case text; names that occur in it are not drawn.
        randomness: source of random numbers.
    """
    made = _Maker(answer, expected, entities, taken, randomness)
    return (not expected.is_action and (made.figure() or made.name())) or made.common()


def verb_phrase(base: str, tag: str) -> str:
    """A phrase of ``POOLS["verb"]`` with its verb in another form.

    Example:
        >>> verb_phrase("feed the birds", "VBD")
        'fed the birds'
    """
    verb, _, rest = base.partition(" ")
    return f"{inflections(verb, 'v')[tag][0]} {rest}" if tag in ("VBD", "VBZ", "VBG", "VBN") else base


@dataclass(frozen=True)
class _Maker:
    """Makes up an answer to replace the right one."""

    answer: Sequence[Word]
    expected: ExpectedAnswer
    entities: WordNetEntities
    taken: str
    randomness: random.Random

    def figure(self) -> FakeAnswer | None:
        """Replace the numbers of an answer that consists mainly of numbers."""
        expected, words = self.expected, [word for word in self.answer if word.tag or word.text.isalnum()]
        if len(words) > _LONGEST_FIGURE:
            return self._made_figure()
        changed = [changed_figure(word.text, self.randomness) for word in self.answer]
        if not any(changed):
            return self._made_figure()
        rest = [word for word, new in zip(self.answer, changed, strict=True) if not new and word.tag.startswith("NNP")]
        if rest and not self.answer[0].text[0].isdigit() and expected.wh != "when" and expected.head not in _TIMES:
            return None
        figures = [word for word, new in zip(self.answer, changed, strict=True) if new]
        is_spelt = not any(letter.isdigit() for word in figures for letter in word.text)
        is_asked = expected.wh[:4] in ("when", "how ") or expected.head in _TIMES
        if is_spelt and not is_asked and len(words) > 1 and not all(word.text in MONTHS for word in figures):
            return None  # "one of the ships", "the second wife"
        new_words = [replace(w, text=new) if new else w for w, new in zip(self.answer, changed, strict=True)]
        return FakeAnswer(written(new_words).strip(" ,."), "figure", "figure")

    def _made_figure(self) -> FakeAnswer | None:
        """Make a number if the question asks for one and the answer has none ("several", "when Edison died")."""
        wh, head = self.expected.wh, self.expected.head
        if wh == "when" or head in ("year", "date"):
            return FakeAnswer(str(self.randomness.randrange(1650, 1950)), "figure", "made:year")
        if wh in ("how many", "how much") and head:
            share = "%" if wh == "how much" else ""
            return FakeAnswer(f"{self.randomness.randrange(12, 90)}{share}", "figure", "made:number")
        if wh in ("how long", "how old"):
            years = "years" if wh == "how long" else "years old"
            return FakeAnswer(f"{self.randomness.randrange(12, 90)} {years}", "figure", "made:years")
        return None

    def name(self) -> FakeAnswer | None:
        """Draw a name to replace a name, or any answer to *who* and *where*."""
        words = [word for word in self.answer if word.tag]
        words = words[1:] if words and words[0].low in _DETERMINERS else words
        if not words:
            return None
        for pool in (NATIONALITIES, RELIGIONS):
            if len(words) == 1 and words[0].text in pool:
                return FakeAnswer(self._draw(pool), "adjective", "adjective")
        kind = "person" if self.expected.wh in ("who", "whom", "whose") else self.entities.kind(self.expected.head)
        is_name = all(word.text[0].isupper() or word.tag in ("IN", "DT", "CC", "CD", "POS") for word in words)
        is_name = is_name and any(word.text[0].isupper() for word in words)
        if not is_name:
            return self._named("place") if self.expected.wh == "where" and len(words) < _LONGEST_FIGURE else None
        if len(words) == 1 and words[0].text.isupper() and len(words[0].text) > 1 and kind not in ("person", "place"):
            return FakeAnswer(self._draw(NAMES["abbreviation"]), "organization", "abbreviation")
        kind = "place" if self.expected.wh == "where" else kind
        typed = kind or self.entities(words, 0, len(words))
        return self._named("other" if typed == "person" and not kind and self.expected.head else typed)

    def _named(self, kind: EntityType) -> FakeAnswer:
        kind = "person" if kind == "role" else kind
        name = self._draw(NAMES[kind])
        if kind == "person" and self.expected.is_plural:
            others = [other for other in NAMES[kind] if other != name]
            name = f"{name} and {self._draw(others)}"
        return FakeAnswer(name, kind, f"name:{kind}")

    def common(self) -> FakeAnswer:
        """Draw common words, with the article, the preposition or the verb form of the answer."""
        words = [word for word in self.answer if word.tag] or list(self.answer)
        wh, tag = self.expected.wh, words[0].tag
        if self.expected.head in ("reason", "reasons", "cause") or (wh == "why" and tag not in ("TO", "VB")):
            return FakeAnswer(self._pick("reason"), "noun", "reason")
        if self.expected.is_action or tag in ("TO", "VB"):
            return self._verb("VB", "to " if tag == "TO" and not self.expected.is_action else "")
        if tag == "VBG" and (wh == "how" or (len(words) > 1 and words[1].tag[:2] not in ("NN", "JJ", "CC"))):
            return self._verb(tag, "")
        head = self._head(words)
        if wh in ("who", "whom") or self.entities.kind(self.expected.head) == "person":
            is_plural = self._is_plural(head)
            return FakeAnswer(self._pick("people"), "plural", "people") if is_plural else self._named("person")
        if len(words) == 1 and head.tag.startswith("RB"):
            return FakeAnswer(self._pick("adverb"), "adverb", "adverb")
        if self.expected.is_kind or head.tag.startswith("JJ") or (len(words) == 1 and head.tag in ("VBN", "VBD")):
            return FakeAnswer(self._pick("adjective"), "adjective", "adjective")
        if self._is_plural(head):
            the = "the " if words[0].low == "the" else ""
            return FakeAnswer(the + self._pick("plural"), "plural", "plural")
        if words[0].low not in _DETERMINERS:
            return FakeAnswer(self._pick("noun"), "noun", "noun")
        return FakeAnswer(f"{'the' if words[0].low == 'the' else 'a'} {self._pick('count')}", "noun", "noun")

    def _verb(self, tag: str, lead: str) -> FakeAnswer:
        kind: AnswerKind = "gerund" if tag == "VBG" else "verb"
        return FakeAnswer(lead + verb_phrase(self._pick("verb"), tag), kind, f"verb:{tag}")

    def _is_plural(self, head: Word) -> bool:
        return head.tag in ("NNS", "NNPS", "VBZ") or any(word.low == "and" for word in self.answer)

    def _head(self, words: Sequence[Word]) -> Word:
        """The last word of the first noun phrase: before a preposition, a verb or a comma."""
        start = next((at for at, word in enumerate(words) if word.tag not in ("IN", "TO")), 0)
        end = start + 1
        while end < len(words) and words[end].tag[:2] in ("NN", "JJ", "CD", "VB", "PO", "CC", "RB", "DT"):
            end += 1
        return words[end - 1]

    def _pick(self, pool: str) -> str:
        return self._draw(POOLS[pool])

    def _draw(self, pool: Sequence[str]) -> str:
        return free(pool, self.taken, self.randomness)


def answer_phrase(question: Question, answer: FakeAnswer) -> list[Word]:
    """Form of the answer as a subject or object."""
    lead = list(question.preposition)
    wh, noun, text = question.wh, list(question.noun), answer.text
    plain = [*lead, *as_words(text)]
    if len(noun) > 2 and noun[0].low in _SHARES and noun[1].low == "of" and answer.kind == "figure":
        unit = "%" if re.fullmatch(r"[\d.,]+", text) and noun[0].low.startswith("percent") else ""
        return [*lead, *as_words(text + unit), *noun[1:]]
    if wh == "whose":
        return [*lead, *as_words(text + "'s"), *noun]
    if wh == "how much" and noun and not (answer.kind == "figure" and _QUANTITY.search(text)):
        return [*plain, *noun] if answer.kind in ("figure", "adjective") else plain
    if wh == "how many" and noun:
        head = noun[-1].low.rstrip("s")
        if answer.kind not in ("figure", "adjective") or head in text.lower():
            return plain
        if "%" in text and noun[0].low != "of":
            text += " of"
        return [*lead, *as_words(text), *noun]
    if wh != "what" or not noun or noun[0].low == "of":
        return plain
    kinds = [at for at, word in enumerate(noun) if word.low in KINDS]
    if kinds and kinds[-1] + 2 < len(noun) and noun[kinds[-1] + 1].low == "of":
        thing = noun[kinds[-1] + 2 :]
        if answer.kind in ("adjective", "noun", "other") and text.split()[0] not in ("the", "a", "an"):
            article = [] if thing[-1].tag in ("NNS", "NNPS") or thing[0].tag == "DT" else as_words(article_for(text))
            return [*lead, *article, *as_words(text), *thing]
        return plain
    if question.head in TIME_NOUNS:
        if question.head == "century" and re.fullmatch(r"(?:the )?(?:\w+th|\w+st|\w+nd|\w+rd)", text):
            text = f"the {text.removeprefix('the ')} century"
        elif re.match(r"\d+s\b", text):
            text = "the " + text
        if question.head in ("year", "years") and not lead and re.fullmatch(r"\d+", text):
            text = "the year " + text
        return [*lead, *as_words(text)]
    is_plain = all(word.tag in ("NN", "JJ", "NNP", "CD", "POS", "VBN") for word in noun)
    if answer.kind in ("person", "place", "organization", "other") and is_plain:
        return plain if noun[-1].low in text.lower() else [*lead, *as_words("the"), *noun, *as_words(text)]
    if answer.kind == "adjective":
        article = [] if noun[-1].tag in ("NNS", "NNPS") else as_words(article_for(text))
        return [*lead, *article, *as_words(text), *noun]
    if answer.kind == "figure" and re.fullmatch(r"[\d,.]+", text) and is_plain:
        return [*lead, *as_words("the"), *noun, *as_words("of " + text)]
    return plain


def answer_adjunct(question: Question, answer: FakeAnswer) -> list[Word]:
    """Form of the answer as an adjunct: when, where, why, how, or after a preposition."""
    text, wh = answer.text, question.wh
    leads = text.split()[0].lower() if text else ""
    if question.preposition:
        if leads in _LEADING:
            text = text.split(" ", 1)[-1]
        return answer_phrase(question, replace(answer, text=text))
    if wh == "when" or (wh == "what" and question.head in TIME_NOUNS):
        if leads in _LEADING or text.endswith(("ago", "later", "earlier")):
            return as_words(text)
        is_day = _DAY.match(text)
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
    """Form of an answer after a preposition: "of painting the walls"."""
    if answer.kind != "verb" or not _is_pool(answer.text):
        return answer
    return replace(answer, text=verb_phrase(answer.text.removeprefix("to "), "VBG"), kind="gerund")


def as_words(text: str) -> list[Word]:
    """Inserted text as one word; empty for an empty text."""
    return [Word(text, "NN")] if text else []


def _is_pool(text: str) -> bool:
    return text.removeprefix("to ").split()[0] in POOL_VERBS
