"""Turn a question and an answer into a sentence (AddSent, Jia and Liang 2017, step 3), using only part-of-speech tags.

The subject ends at the verb form that the auxiliary requires; the verb gets the tense of *do*; the answer is inserted
at the gap: after a stranded preposition, after the last verb without an object, or at the end. The authors' patterns
match a constituency tree instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from trueneg.attacks.squad.add_sentence.answers import (
    POOL_VERBS,
    ExpectedAnswer,
    FakeAnswer,
    after_preposition,
    answer_adjunct,
    answer_phrase,
    as_words,
    verb_phrase,
)
from trueneg.attacks.squad.add_sentence.questions import (
    BE,
    DO,
    HAVE,
    KINDS,
    MODAL,
    NOMINAL,
    NOT,
    STRANDED,
    SUBORDINATING,
    Question,
    Word,
    ends_nominal,
    is_adjunct,
    predicate_place,
    read_question,
    verb_lemmas,
    written,
)
from trueneg.lexicon.articles import agreeing_article
from trueneg.lexicon.morphology import inflections

_PARTICLES = frozenset(["up", "out", "off", "down"])
_IN_NOMINAL = frozenset("DT PRP$ CD JJ JJR JJS NN NNS NNP NNPS POS PDT PRP EX".split())  # noqa: SIM905
_ATTRIBUTES = frozenset(
    "nationality gender religion color colour size age shape language profession ethnicity denomination".split()  # noqa: SIM905
)
_CLITICS = ("'s", "’s", "'", "’", "n't", "n’t")
_FULL_FORMS = {"'s": "is", "’s": "is", "'re": "are", "’re": "are"}
_NAMING = frozenset("called named known considered termed dubbed nicknamed titled referred used made".split())  # noqa: SIM905


@dataclass(frozen=True)
class Declarative:
    """A sentence, and the rule that made it."""

    text: str
    rule: str


def expected_answer(words: Sequence[Word]) -> ExpectedAnswer | None:
    """Kind of answer that a question asks for; None without a question phrase.

    Example:
        With the tagger "pattern", "Which Italian painter was depicted?" asks for ``ExpectedAnswer("what", "painter")``.
    """
    question = read_question(words)
    if question is None:
        return None
    noun, rest, head = question.noun, question.rest, question.head
    if not noun and question.wh == "what" and len(rest) > 1 and rest[0].low in BE:  # what is the name of the river
        end = nominal_end(rest[1:]) + 1
        of = [at for at in range(1, end) if rest[at].low == "of"]
        end = of[0] if of and rest[of[0] - 1].low not in ("name", "names", "one") else end
        head = rest[end - 1].low if rest[end - 1].tag in ("NN", "NNS") else ""
    is_action = (
        question.wh == "what" and not noun and any(word.low == "do" and word.tag[:2] == "VB" for word in rest[1:])
    )
    phrase = (question.start, noun[-1].end if noun else question.start + 1)
    is_plural = noun[-1].tag in ("NNS", "NNPS") if noun else bool(rest) and rest[0].low in ("are", "were")
    return ExpectedAnswer(question.wh, head, is_plural, any(word.low in KINDS for word in noun), phrase, is_action)


def declarative(words: Sequence[Word], answer: FakeAnswer, *, last_resort: bool = True) -> Declarative | None:
    """Make a sentence from a question and an answer to it.

    Args:
        words: the question, from :func:`~trueneg.attacks.squad.add_sentence.questions.read_words`.
        answer: the answer that replaces the question phrase.
        last_resort: if no rule fits, replace the question phrase and keep the word order ("replace").

    Returns:
        None for a question without a question phrase, or if no rule fits.
    """
    question = read_question(words)
    if question is None:
        return None
    if not question.is_front:
        before = question.before
        if before and before[-1].tag == "DT":  # "ban a what?"
            before = before[:-1]
        if before and before[-1].low == "do" and answer.kind == "verb":  # "to do what?"
            before, answer = before[:-1], replace(answer, text=answer.text.removeprefix("to "))
        elif question.preposition or (before and before[-1].low in STRANDED):
            answer = after_preposition(answer)
        return Declarative(_sentence([*before, *answer_phrase(question, answer), *question.rest]), "in-situ")
    found = _fronted(question, answer)
    if found is None and last_resort:
        found = [*answer_phrase(question, answer), *question.rest], "replace"
    if found is None:
        return None
    body, rule = found
    return Declarative(_sentence([*question.before, *body]), rule)


def _fronted(question: Question, answer: FakeAnswer) -> tuple[list[Word], str] | None:
    rest = question.rest
    if not rest:
        return None
    first = rest[0].low
    if first in DO and len(rest) > 1:
        return _with_do(question, answer)
    if first in BE:
        return _with_be(question, answer)
    if first in HAVE | MODAL:
        return _with_auxiliary(question, answer)
    if is_adjunct(question):
        return None
    if rest[0].tag == "NNS":
        rest = (replace(rest[0], tag="VBZ"), *rest[1:])
    if rest[0].tag[:2] in ("VB", "MD", "RB", "NN") or any(word.tag[:2] == "VB" for word in rest[1:4]):
        return _agreeing(question, answer, list(rest)), "subject"
    return None


def _with_do(question: Question, answer: FakeAnswer) -> tuple[list[Word], str] | None:
    rest = list(question.rest)
    tag = DO[rest[0].low]
    body, negated = without_not(rest[1:])
    at = verb_place(body, "VB")
    if at is None:
        if not is_adjunct(question) and (rest[1].low in ("a", "an") or (negated and rest[1].low in NOT)):
            return _agreeing(question, answer, rest), "subject"  # who did a parody
        return None
    verb = body[at]
    subject, tail = body[:at], body[at + 1 :]
    if negated:
        form = [Word(rest[0].low, tag), Word("not", "RB"), verb]
    else:
        form = [replace(verb, text=conjugated(verb.text, tag), tag=tag, is_glued=False)]
    if verb.low == "do" and answer.kind == "verb" and question.wh == "what" and not question.noun:
        head = answer.text.removeprefix("to ")
        if not negated and head.split()[0] in POOL_VERBS:
            head = verb_phrase(head, tag)
        return [*subject, *form[:-1], *as_words(head), *tail], "do-verb"
    return _filled(question, answer, [*subject, *form], tail, "do")


def _with_be(question: Question, answer: FakeAnswer) -> tuple[list[Word], str] | None:
    rest = list(question.rest)
    verb = replace(rest[0], text=_FULL_FORMS.get(rest[0].low, rest[0].low), is_glued=False)
    body, negated = without_not(rest[1:])
    be = [verb, Word("not", "RB")] if negated else [verb]
    if not body:
        return None
    if question.wh.startswith("how ") and question.wh not in ("how many", "how much", "how long", "how often"):
        return _measured(question, answer, be, body)
    if body[0].tag == "EX" or body[0].low == "there":
        if is_adjunct(question):
            return [body[0], *be, *body[1:], *answer_adjunct(question, answer)], "there"
        return [body[0], *be, *answer_phrase(question, answer), *body[1:]], "there"
    starts_nominal = body[0].tag in NOMINAL | {"PRP$", "JJ", "JJS", "JJR", "PDT"} or body[0].text in tuple("\"“'(")
    if is_adjunct(question):
        at = predicate_place(body)
        if at is None:
            if question.wh == "why":
                return None
            split = nominal_end(body)
            at = split if split < len(body) and body[split].low in ("a", "an", "the") else len(body)
            if body[-1].low in STRANDED and body[-1].tag in ("IN", "TO") and question.wh == "where":
                at -= 1
        elif body[-1].tag in ("VBN", "VBD") and ends_nominal(body, len(body) - 1):
            at = len(body) - 1  # the beaker called Luck was dated
        return _filled(question, answer, [*body[:at], *be], body[at:], "be-adjunct")
    if not starts_nominal or (body[0].tag[:2] in ("JJ", "VB") and is_over(body, 1)):
        return _agreeing(question, answer, [*be, *body]), "be-subject"
    at = predicate_place(body)
    if at is not None and _takes_answer(question, body, at):
        end = next(place for place in range(at, len(body)) if not body[place].tag.startswith("RB")) + 1
        return _filled(question, answer, [*body[:at], *be, *body[at:end]], body[end:], "be-object")
    if body[-1].low in STRANDED and body[-1].tag in ("IN", "TO", "RP") and question.wh in ("what", "who"):
        split = nominal_end(body)
        is_clause = split < len(body) and body[split].tag in NOMINAL and body[split].low not in ("a", "an")
        if is_clause and body[0].tag != "PRP":  # what are the duties they deal with
            return [*body, *be, *answer_phrase(question, answer)], "be-copula"
        return [*body[:split], *be, *body[split:], *answer_phrase(question, after_preposition(answer))], "be-stranded"
    if question.wh in ("how many", "how much") and body[0].tag == "DT" and at is None:
        return [*body, *be, *answer_phrase(question, answer)], "be-copula"
    if question.noun and question.head not in _ATTRIBUTES and not body[0].tag.startswith("NNP"):
        return _agreeing(question, answer, [*be, *body]), "be-noun"
    if question.wh in ("how many", "how much") and at is not None:
        return [*answer_phrase(question, answer), *be, *body], "be-subject"
    plain = replace(question, noun=()) if question.head in _ATTRIBUTES or body[0].tag.startswith("NNP") else question
    if answer.kind == "verb" and not answer.text.startswith("to "):
        return [*body, *be, *as_words("to " + answer.text)], "be-copula"
    return [*body, *be, *answer_phrase(plain, answer)], "be-copula"


def _with_auxiliary(question: Question, answer: FakeAnswer) -> tuple[list[Word], str] | None:
    rest = list(question.rest)
    auxiliary = [replace(rest[0], text=rest[0].low, is_glued=False)]
    body, negated = without_not(rest[1:])
    if negated:
        auxiliary.append(Word("not", "RB"))
    form = "VB" if rest[0].low in MODAL else "VBN"
    if not body:
        return None
    adverbs = 0
    while adverbs + 1 < len(body) and body[adverbs].tag.startswith("RB"):
        adverbs += 1
    is_verb = body[adverbs].tag.startswith("VB") or (form == "VB" and body[adverbs].low in ("be", "have"))
    if is_verb and not is_adjunct(question):
        return _agreeing(question, answer, [*auxiliary, *body]), "auxiliary-subject"
    at = verb_place(body, form)
    if at is None:
        if rest[0].low in HAVE and not is_adjunct(question):
            return _agreeing(question, answer, rest), "subject"
        return None
    start = at
    while start > 1 and body[start - 1].tag.startswith("RB"):
        start -= 1
    return _filled(question, answer, [*body[:start], *auxiliary, *body[start : at + 1]], body[at + 1 :], "auxiliary")


def _agreeing(question: Question, answer: FakeAnswer, predicate: list[Word]) -> list[Word]:
    """Combine the answer, as the subject, with a predicate, whose verb agrees with it in number."""
    phrase = answer_phrase(question, answer)
    at = next((at for at, word in enumerate(predicate) if not word.tag.startswith("RB")), 0)
    verb = predicate[at]
    if answer.kind == "figure" or any(word.start >= 0 and word not in question.preposition for word in phrase):
        return [*phrase, *predicate]
    is_plural = answer.kind == "plural" or " and " in answer.text
    numbers = {"is": "are", "was": "were", "has": "have", "does": "do"}
    if is_plural:
        text = numbers.get(verb.low) or (
            next(iter(verb_lemmas(verb.low)), verb.low) if verb.tag == "VBZ" else verb.text
        )
    else:
        singular = {plural: one for one, plural in numbers.items()}.get(verb.low)
        text = singular or (conjugated(verb.text, "VBZ") if verb.tag == "VBP" else verb.text)
    return [*phrase, *predicate[:at], replace(verb, text=text), *predicate[at + 1 :]]


def _measured(question: Question, answer: FakeAnswer, be: list[Word], body: list[Word]) -> tuple[list[Word], str]:
    """Answer "how old was Tesla when he wrote it": "Tesla was 42 when he wrote it"."""
    at = nominal_end(body)
    if at < len(body) and body[at].low in ("that", "which", "who"):
        at = len(body)
    return [*body[:at], *be, *as_words(answer.text), *body[at:]], "how-measure"


def _takes_answer(question: Question, body: Sequence[Word], at: int) -> bool:
    """Whether a participle after a noun is the predicate, not a clause about the noun."""
    verb = next(word for word in body[at:] if not word.tag.startswith("RB"))
    if any(is_stranded(body, place) for place in range(at, len(body))):
        return True
    if question.noun and question.wh in ("how many", "how much"):
        return False
    if verb.low in ("called", "named", "known", "considered", "termed", "dubbed", "nicknamed", "titled", "referred"):
        return True
    if verb.tag == "VBG":
        return at + 1 == len(body) or body[at + 1].tag in ("IN", "TO", "RB")
    is_short = body[0].tag in ("NNP", "PRP") or body[0].low in ("his", "her", "their", "its")
    if verb.low in _NAMING:
        following = body[body.index(verb) + 1 :]
        return is_short or (bool(following) and following[0].low == "as") or body[-1].tag == "TO"
    return is_short and at <= 2 and not question.noun and verb.tag != "JJ"


def _filled(
    question: Question, answer: FakeAnswer, head: list[Word], tail: list[Word], rule: str
) -> tuple[list[Word], str]:
    """Insert the answer at its position in the words after the verb."""
    if is_adjunct(question):
        clauses = [at for at, word in enumerate(tail) if word.low in SUBORDINATING or (at and word.text in (",", ";"))]
        clauses += [
            at for at, word in enumerate(tail) if word.low == "that" and (not at or tail[at - 1].tag[:2] == "VB")
        ]
        at = clauses[0] if clauses else len(tail)
        if tail and tail[-1].low in STRANDED - _PARTICLES and tail[-1].tag in ("IN", "TO") and at == len(tail):
            if question.preposition and question.preposition[-1].low == tail[-1].low:
                tail = tail[:-1]  # "in which city did he live in"
                at -= 1
            elif not question.preposition:
                text = re.sub(r"^(?:in|on|at|from|to) ", "", answer.text)
                return [*head, *tail, *as_words(text)], f"{rule}-stranded"
        return [*head, *tail[:at], *answer_adjunct(question, answer), *tail[at:]], f"{rule}-adjunct"
    at = gap_place(tail, is_person=question.wh in ("who", "whom"))
    if tail and tail[0].low == "that" and head[-1].low in ("called", "named"):
        at = 0  # the rock is called X that the river flows around
    if at and tail[at - 1].low in STRANDED:
        answer = after_preposition(answer)
    phrase = answer_phrase(question, answer)
    if at and tail[at - 1].low == "do" and answer.kind == "verb":
        return [*head, *tail[: at - 1], *as_words(answer.text.removeprefix("to ")), *tail[at:]], f"{rule}-gap"
    return [*head, *tail[:at], *phrase, *tail[at:]], f"{rule}-gap"


def _sentence(words: Sequence[Word]) -> str:
    """Write words as a sentence: with a capital, a full stop, agreeing articles, no space before glued words."""
    words = [word for word in words if word.text]
    made: list[Word] = []
    for at, word in enumerate(words):
        is_moved = word.tag and word.low not in _CLITICS and words[at - 1].end != word.start
        if at == 0 or is_moved:
            word = replace(word, is_glued=False)
        if made and made[-1].low in ("a", "an") and made[-1].start >= 0 and words[at - 1].end + 1 != word.start:
            made[-1] = replace(made[-1], text=agreeing_article(made[-1].text, made[-1].text, word.text))
        made.append(word)
    first = made[0]
    if first.start >= 0 and len(made) > 1 and first.text[:1].islower():
        made[0] = replace(first, text=first.text[:1].upper() + first.text[1:])
    text = re.sub(r"\s+([,.;:?!])", r"\1", written(made)).replace("?", "").strip(" .,;:-")
    text = re.sub(r"\s{2,}", " ", text)
    return text[:1].upper() + text[1:] + "."


def nominal_end(body: Sequence[Word]) -> int:
    """End of the noun phrase at the beginning of a text, including phrases attached by "of"."""
    at = 0
    while at < len(body):
        word = body[at]
        following = body[at + 1].tag if at + 1 < len(body) else ""
        is_linked = (word.low == "of" or word.text == "'") and at > 0
        is_joined = word.tag == "CC" and following in ("NN", "NNS", "NNP", "NNPS", "DT", "JJ", "PRP$", "CD")
        is_participle = word.tag in ("VBG", "VBN") and following in ("NN", "NNS")
        if word.tag in ("DT", "PRP") and at and body[at - 1].tag in ("NN", "NNS", "NNP", "NNPS", "PRP"):
            break
        if not (
            word.tag in _IN_NOMINAL or is_linked or is_joined or is_participle or word.text in ('"', "“", "”", "(", ")")
        ):
            break
        at += 1
    return max(at, 1)


def is_over(body: Sequence[Word], at: int) -> bool:
    """Whether the word at a position cannot continue a noun phrase."""
    return at >= len(body) or body[at].tag in ("IN", "TO", "RB", "") or body[at].low in SUBORDINATING


def verb_place(body: Sequence[Word], form: str) -> int | None:
    """Position of the predicate's verb, after a subject of at least one word."""
    weak = None
    for at in range(1, len(body)):
        word = body[at]
        if not ends_nominal(body, at):
            continue
        if form == "VB":
            if not _is_base(word.low) or word.text[0].isupper():
                continue
            if word.tag in ("VB", "VBP") or word.low in ("have", "be", "do"):
                return at
            following = body[at + 1].tag if at + 1 < len(body) else ""
            if word.tag in ("NN", "JJ", "IN", "VBD", "VBN", "RB"):
                if following in ("DT", "PRP", "PRP$", "NNP", "CD") and word.tag != "IN":
                    return at
                is_subject_before = body[at - 1].tag in ("NNP", "NNPS", "NNS", "PRP")
                if word.tag == "NN" and following in ("NN", "NNS", "JJ") and is_subject_before:
                    return at
                if word.tag in ("NN", "VBD", "VBN", "JJ") and following in ("IN", "TO", "", "RB", "NNS", "JJ", "RP"):
                    weak = at  # the last such word, unless a plain verb comes
        elif word.tag in ("VBN", "VBD") or word.low == "been":
            return at
    return weak


def gap_place(tail: Sequence[Word], *, is_person: bool = False) -> int:
    """Position after a verb at which an object is missing."""
    if not tail:
        return 0
    if tail[-1].low in STRANDED and tail[-1].tag in ("IN", "TO", "RP", "RB"):
        return len(tail)
    stranded = next((at for at in range(len(tail)) if is_stranded(tail, at)), None)
    if stranded is not None:
        return stranded + 1
    if tail[0].low == "that":  # what did he think that it became
        return len(tail)
    if is_person and tail[0].tag != "TO":
        return 0
    at = 0
    while at < len(tail):
        word, following = tail[at], tail[at + 1] if at + 1 < len(tail) else None
        is_verb_next = following is not None and following.tag in ("VB", "VBP", "NN") and _is_base(following.low)
        if word.tag == "TO" and following is not None and is_verb_next:
            at += 2
            if following.low == "do":
                return at
        elif word.tag in ("VBG", "VBN", "VB"):
            at += 1
        elif following is not None and word.tag == "PRP" and following.tag in ("VBD", "VBP", "VBZ", "MD"):
            at += 2  # what did he say she made
        elif following is not None and word.tag == "IN" and following.tag == "VBG":
            at += 2  # what did he work on refining
        elif word.tag == "RP" or (word.low in STRANDED and is_stranded(tail, at)):
            at += 1
        elif at and word.tag in ("NN", "NNS", "JJ", "DT", "PRP$", "NNP", "PRP", "CD"):
            end = nominal_end(tail[at:]) + at
            if end < len(tail) and tail[end].tag in ("TO", "VB", "VBG"):
                at = end
            else:
                return 0 if tail[0].tag == "TO" else end  # what did he use to keep it
        elif not at and word.tag in ("NN", "NNS", "JJ", "JJR", "DT", "PRP$", "NNP", "NNPS", "PRP", "CD", "EX"):
            end = nominal_end(tail)
            if end < len(tail) and tail[end].tag in ("TO", "VB", "VBG", "VBN"):
                at = end
            else:
                return next((at for at, word in enumerate(tail) if at and word.low in SUBORDINATING), len(tail))
        else:
            return at
    return at


def is_stranded(words: Sequence[Word], at: int) -> bool:
    """Whether a preposition has no object: nothing, or another preposition, follows."""
    if words[at].tag not in ("IN", "TO", "RP") or words[at].low not in STRANDED:
        return False
    following = words[at + 1] if at + 1 < len(words) else None
    if following is None or following.text in (",", ";"):
        return True
    return following.tag in ("IN", "WRB") and following.low not in ("than", "that", "of")


def without_not(body: list[Word]) -> tuple[list[Word], bool]:
    """Words after an auxiliary without "not", and whether there was one."""
    if body and body[0].low in NOT - {"never"}:
        return body[1:], True
    at = next((at for at, word in enumerate(body[:6]) if word.low in ("not", "n't", "n’t")), None)
    if at is not None and any(word.tag[:2] in ("VB", "MD") for word in body[:at]):
        at = None  # belongs to another clause
    return (body, False) if at is None else ([*body[:at], *body[at + 1 :]], True)


def conjugated(verb: str, tag: str) -> str:
    """Inflect a base form like *do*, *does* or *did*."""
    low = verb.lower()
    if tag == "VBP":
        return low
    if low == "have":
        return {"VBZ": "has", "VBD": "had"}[tag]
    if low == "be":
        return {"VBZ": "is", "VBD": "was"}[tag]
    found = inflections(low, "v").get(tag)
    if found:
        return found[0]
    return low + ("s" if tag == "VBZ" else "d" if low.endswith("e") else "ed")


@lru_cache(maxsize=1 << 16)
def _is_base(word: str) -> bool:
    """Whether a word is the base form of a verb."""
    return word in verb_lemmas(word) or word in ("be", "do", "have")
