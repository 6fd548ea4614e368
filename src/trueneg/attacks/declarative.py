"""Turn a question and an answer into a sentence (AddSent, Jia and Liang 2017, step 3), with nothing but tags.

A question is read as [words before ,] [preposition] question phrase, auxiliary, subject, predicate. The subject ends
where the form of verb stands that the auxiliary calls for; the verb gets the tense of *do*; the answer goes to the gap:
after a stranded preposition, after the last verb that has no object, or to the end. Patterns over a constituency tree,
as the authors have them, are in :mod:`trueneg.attacks.declarative_trees`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from trueneg.attacks.fake_answer import Asked, FakeAnswer, verb_phrase
from trueneg.attacks.question_words import Word, written
from trueneg.attacks.substitutes import MONTHS
from trueneg.lexicon.articles import agreeing_article
from trueneg.lexicon.articles import article as article_for
from trueneg.lexicon.morphology import inflections

WH = frozenset("what which who whom whose when where why how".split())  # noqa: SIM905
_DO = {"do": "VBP", "does": "VBZ", "did": "VBD"}
_BE = frozenset(["is", "are", "was", "were", "'s", "’s", "am", "'re", "’re"])
_HAVE = frozenset(["has", "have", "had"])
_MODAL = frozenset("can could will would shall should may might must".split())  # noqa: SIM905
_AUXILIARY = frozenset(_DO) | _BE | _HAVE | _MODAL
_NOT = frozenset(["not", "n't", "n’t", "never"])
_STRANDED = frozenset(
    """
    of in on at from to with for by about into as after against like over through under upon than towards toward near
    around between within without off out up behind
    """.split()  # noqa: SIM905
)
_PARTICLES = frozenset(["up", "out", "off", "down"])
_SUBORDINATING = frozenset(["when", "while", "after", "before", "because", "since", "if", "although", "until", "where"])
_NOMINAL = frozenset("NN NNS NNP NNPS CD PRP DT EX WP".split())  # noqa: SIM905
_SHARES = frozenset(["percentage", "percent", "proportion", "share", "fraction"])
_KINDS = frozenset("type types kind kinds sort sorts form forms style styles genre genres".split())  # noqa: SIM905
_TIME_NOUNS = frozenset(
    "year years month months century centuries decade decades era period date day time season".split()  # noqa: SIM905
)
_ATTRIBUTES = frozenset(
    "nationality gender religion color colour size age shape language profession ethnicity denomination".split()  # noqa: SIM905
)
_NAMING = frozenset("called named known considered termed dubbed nicknamed titled referred used made".split())  # noqa: SIM905
_LEADING = frozenset("in on at during before after between around since until by from within as for throughout".split())  # noqa: SIM905
_MONTH = "|".join(MONTHS)
_QUANTITY = re.compile(r"[$£€%°]|\d\s*[a-z]|percent|dollar|million|billion|thousand", re.IGNORECASE)


@dataclass(frozen=True)
class Declarative:
    """A sentence, and the rule that made it."""

    text: str
    rule: str


@dataclass(frozen=True)
class _Question:
    """A question in parts."""

    before: tuple[Word, ...]  # what stands before the question phrase, without its preposition
    preposition: tuple[Word, ...]
    wh: str  # "who", "what", "how many", "how long", "how"
    noun: tuple[Word, ...]  # the rest of the question phrase
    start: int  # where the question phrase begins in the text
    rest: tuple[Word, ...]
    is_front: bool

    @property
    def head(self) -> str:
        """The noun that is asked for, in small letters."""
        of = next((at for at, word in enumerate(self.noun) if at and word.tag in ("IN", "TO")), len(self.noun))
        head = self.noun[of - 1].low if self.noun[:of] else ""
        if head in _KINDS and of + 1 < len(self.noun):
            return self.noun[-1].low
        return head


def asked(words: Sequence[Word]) -> Asked | None:
    """What a question asks for; None without a question phrase.

    Example:
        With the tagger "pattern", "Which Italian painter was depicted?" asks for ``Asked("what", "painter")``.
    """
    question = _read(words)
    if question is None:
        return None
    noun, rest = question.noun, question.rest
    head = question.head
    if not noun and question.wh == "what" and len(rest) > 1 and rest[0].low in _BE:  # what is the name of the river
        end = _nominal_end(rest[1:]) + 1
        of = [at for at in range(1, end) if rest[at].low == "of"]
        end = of[0] if of and rest[of[0] - 1].low not in ("name", "names", "one") else end
        head = rest[end - 1].low if rest[end - 1].tag in ("NN", "NNS") else ""
    is_action = (
        question.wh == "what" and not noun and any(word.low == "do" and word.tag[:2] == "VB" for word in rest[1:])
    )
    phrase = (question.start, noun[-1].end if noun else question.start + 1)
    is_plural = noun[-1].tag in ("NNS", "NNPS") if noun else bool(rest) and rest[0].low in ("are", "were")
    return Asked(question.wh, head, is_plural, any(word.low in _KINDS for word in noun), phrase, is_action)


def declarative(words: Sequence[Word], answer: FakeAnswer, *, last_resort: bool = True) -> Declarative | None:
    """Make a sentence of a question and an answer to it.

    Args:
        words: the question, from :func:`~trueneg.attacks.question_words.read_words`.
        answer: what is put in the place of the question phrase.
        last_resort: where no rule fits, replace the question phrase and leave the order of words ("replace").

    Returns:
        None for a question without a question phrase, or if no rule fits.
    """
    question = _read(words)
    if question is None:
        return None
    if not question.is_front:
        before = question.before
        if before and before[-1].tag == "DT":  # "ban a what?"
            before = before[:-1]
        if before and before[-1].low == "do" and answer.kind == "verb":  # "to do what?"
            before, answer = before[:-1], replace(answer, text=answer.text.removeprefix("to "))
        elif question.preposition or (before and before[-1].low in _STRANDED):
            answer = _as_object(answer)
        return Declarative(_sentence([*before, *_phrase(question, answer), *question.rest]), "in-situ")
    found = _fronted(question, answer)
    if found is None:
        if not last_resort:
            return None
        found = [*_phrase(question, answer), *question.rest], "replace"
    body, rule = found
    return Declarative(_sentence([*question.before, *body]), rule)


def _read(words: Sequence[Word]) -> _Question | None:
    words = list(words)
    while words and not words[-1].tag and words[-1].text not in (")", '"', "”", "%"):
        words.pop()
    places = [at for at, word in enumerate(words) if word.low in WH and word.tag.startswith("W")]
    if not places:
        return None
    if len(places) > 1 and words[places[0]].low in ("when", "where") and places[0] == 0 and not _is_inverted(words, 0):
        places = places[1:]  # "When rock folds, what does it create?"
    front = [at for at in places if _opens_clause(words, at)]
    at = front[0] if front else _asking(words, places)
    if at is None:
        return None
    first = at
    if at and words[at - 1].tag in ("IN", "TO") and (at == 1 or words[at - 2].text == "," or not front):
        first = at - 1
    before = words[:first]
    preposition = [replace(word, text=word.low) for word in words[first:at]]
    wh, end = _phrase_end(words, at)
    if front and wh == "what" and not any(_is_verbal(word) for word in words[end:]):  # which law concerns the state
        inside = [
            place for place in range(at + 2, end) if words[place].tag == "NNS" and _is_third_person(words[place].low)
        ]
        if inside and inside[-1] + 1 < len(words):
            end = inside[-1]
    if before and front:
        before = [*before[:-1]] if before[-1].text == "," else before
        before = [*before, Word(",", "", is_glued=True)]
    is_front = bool(front)
    return _Question(
        tuple(before),
        tuple(preposition),
        wh,
        tuple(word for word in words[at + len(wh.split()) : end] if word.low != "else"),
        words[at].start,
        tuple(words[end:]),
        is_front,
    )


def _is_verbal(word: Word) -> bool:
    return word.tag[:2] in ("VB", "MD") or word.low in _AUXILIARY


def _is_third_person(word: str) -> bool:
    from lemminflect import getAllLemmas

    return any(word in inflections(base, "v").get("VBZ", ()) for base in getAllLemmas(word).get("VERB", ()))


def _opens_clause(words: Sequence[Word], at: int) -> bool:
    """Whether the question proper begins with a question word."""
    if at == 0 or (at == 1 and (words[0].tag in ("IN", "TO", "CC", "RB") or not words[0].tag)):
        return True
    if words[at - 1].text == ",":
        return (
            at + 1 < len(words) and words[at].low not in ("which", "who", "where", "whose", "when")
        ) or _is_inverted(words, at)
    is_lead = at <= 8 and words[0].tag in ("IN", "JJ", "RB", "VBG") and words[at - 1].tag not in ("IN", "TO")
    if is_lead and words[at].low not in ("when", "where", "whose"):
        return not any(word.tag[:2] in ("VB", "MD") for word in words[1:at]) and _is_inverted(words, at)
    if words[at - 1].tag in ("IN", "TO") and at >= 2 and words[at - 2].text == ",":
        return _is_inverted(words, at) and words[at - 1].low != "of"
    return False


def _is_inverted(words: Sequence[Word], at: int) -> bool:
    """Whether an auxiliary with a subject behind it follows a question phrase."""
    _, end = _phrase_end(words, at)
    return end + 1 < len(words) and (words[end].low in _AUXILIARY or words[end].tag[:2] == "VB")


def _asking(words: Sequence[Word], places: Sequence[int]) -> int | None:
    """The question word in a sentence in the order of a statement: "It was founded in what year"."""
    for at in reversed(places):
        if words[at].low in ("what", "how", "whom") or words[at - 1].tag in ("IN", "TO") or at + 1 == len(words):
            return at
        if words[at].low == "which" and words[at - 1].tag.startswith("VB"):
            return at
    return None


def _phrase_end(words: Sequence[Word], at: int) -> tuple[str, int]:
    """The question word and where its phrase ends."""
    wh, end = words[at].low, at + 1
    if wh == "which":
        wh = "what"
    if end < len(words) and words[end].low == "else":
        end += 1
    if wh in ("who", "whom", "when", "where", "why"):
        return wh, end
    if wh == "how":
        following = words[end] if end < len(words) else None
        if following is None or following.low in _AUXILIARY or following.tag not in ("JJ", "RB", "JJR", "RBR"):
            return wh, end
        wh, end = f"how {following.low}", end + 1
        if following.low not in ("many", "much"):
            return wh, end
    begin = end
    while end < len(words):
        word, last = words[end], words[end - 1]
        if word.tag != "POS" and (word.low in _AUXILIARY or word.tag[:2] in ("VB", "MD", "WP", "WD", "WR", "PR")):
            is_modifier = word.tag in ("VBN", "VBG") and end + 1 < len(words) and words[end + 1].tag in ("NN", "NNS")
            if not (is_modifier and word.low not in _AUXILIARY):
                break
        if end == begin and wh == "what" and word.tag == "NNS" and _is_finite(words, end):
            break
        if word.tag in ("DT", "PDT", "EX") and last.tag not in ("IN", "TO", "POS") and last.low != "of":
            break
        if not word.tag and word.text not in ("-", '"', "“", "”", "'", "/"):
            break
        if word.tag in ("IN", "TO", "RB") and end == begin and word.low != "of":
            break
        if word.tag in ("RB", "TO"):
            break
        end += 1
    while end > begin and words[end - 1].tag in ("IN", "TO", "CC"):
        end -= 1
    return wh, end


def _is_finite(words: Sequence[Word], at: int) -> bool:
    """Whether a word in -s is the verb, as no other can be: "what causes strain"."""
    from lemminflect import getAllLemmas

    others = (word.tag[:2] in ("VB", "MD") or word.low in _AUXILIARY for word in words[at + 1 :])
    return "VERB" in getAllLemmas(words[at].low) and at + 1 < len(words) and not any(others)


def _fronted(question: _Question, answer: FakeAnswer) -> tuple[list[Word], str] | None:
    rest = question.rest
    if not rest:
        return None
    first = rest[0].low
    if first in _DO and len(rest) > 1:
        return _with_do(question, answer)
    if first in _BE:
        return _with_be(question, answer)
    if first in _HAVE | _MODAL:
        return _with_auxiliary(question, answer)
    if _is_adjunct(question):
        return None
    if rest[0].tag == "NNS":
        rest = (replace(rest[0], tag="VBZ"), *rest[1:])
    if rest[0].tag[:2] in ("VB", "MD", "RB", "NN") or any(word.tag[:2] == "VB" for word in rest[1:4]):
        return _agreeing(question, answer, list(rest)), "subject"
    return None


def _with_do(question: _Question, answer: FakeAnswer) -> tuple[list[Word], str] | None:
    rest = list(question.rest)
    tag = _DO[rest[0].low]
    body, negated = _without_not(rest[1:])
    at = _verb_place(body, "VB")
    if at is None:
        if not _is_adjunct(question) and (rest[1].low in ("a", "an") or (negated and rest[1].low in _NOT)):
            return _agreeing(question, answer, rest), "subject"  # who did a parody
        return None
    verb = body[at]
    subject, tail = body[:at], body[at + 1 :]
    if negated:
        form = [Word(rest[0].low, tag), Word("not", "RB"), verb]
    else:
        form = [replace(verb, text=_conjugated(verb.text, tag), tag=tag, is_glued=False)]
    if verb.low == "do" and answer.kind == "verb" and question.wh == "what" and not question.noun:
        head = answer.text.removeprefix("to ")
        if not negated:
            head = verb_phrase(head, tag) if head.split()[0] in ("paint", "repair", "plant", "feed", "open") else head
        return [*subject, *form[:-1], *_made(head), *tail], "do-verb"
    return _filled(question, answer, [*subject, *form], tail, "do")


def _with_be(question: _Question, answer: FakeAnswer) -> tuple[list[Word], str] | None:
    rest = list(question.rest)
    verb = replace(
        rest[0], text={"'s": "is", "’s": "is", "'re": "are", "’re": "are"}.get(rest[0].low, rest[0].low), is_glued=False
    )
    body, negated = _without_not(rest[1:])
    be = [verb, Word("not", "RB")] if negated else [verb]
    if not body:
        return None
    if question.wh.startswith("how ") and question.wh not in ("how many", "how much", "how long", "how often"):
        return _measured(question, answer, be, body)
    if body[0].tag == "EX" or body[0].low == "there":
        phrase = _adjunct(question, answer) if _is_adjunct(question) else _phrase(question, answer)
        if _is_adjunct(question):
            return [body[0], *be, *body[1:], *phrase], "there"
        return [body[0], *be, *phrase, *body[1:]], "there"
    starts_nominal = body[0].tag in _NOMINAL | {"PRP$", "JJ", "JJS", "JJR", "PDT"} or body[0].text in (
        '"',
        "“",
        "'",
        "(",
    )
    if _is_adjunct(question):
        at = _predicate_place(body)
        if at is None:
            if question.wh == "why":
                return None
            split = _nominal_end(body)
            at = split if split < len(body) and body[split].low in ("a", "an", "the") else len(body)
            if body[-1].low in _STRANDED and body[-1].tag in ("IN", "TO") and question.wh == "where":
                at -= 1
        elif body[-1].tag in ("VBN", "VBD") and _ends_nominal(body, len(body) - 1):
            at = len(body) - 1  # the beaker called Luck was dated
        return _filled(question, answer, [*body[:at], *be], body[at:], "be-adjunct")
    if not starts_nominal or (body[0].tag[:2] in ("JJ", "VB") and _is_over(body, 1)):
        return _agreeing(question, answer, [*be, *body]), "be-subject"
    at = _predicate_place(body)
    if at is not None and _takes_answer(question, body, at):
        end = next(place for place in range(at, len(body)) if not body[place].tag.startswith("RB")) + 1
        return _filled(question, answer, [*body[:at], *be, *body[at:end]], body[end:], "be-object")
    if body[-1].low in _STRANDED and body[-1].tag in ("IN", "TO", "RP") and question.wh in ("what", "who"):
        split = _nominal_end(body)
        if (
            split < len(body)
            and body[split].tag in _NOMINAL
            and body[split].low not in ("a", "an")
            and body[0].tag != "PRP"
        ):  # what are the duties they deal with
            return [*body, *be, *_phrase(question, answer)], "be-copula"
        return [*body[:split], *be, *body[split:], *_phrase(question, _as_object(answer))], "be-stranded"
    if question.wh in ("how many", "how much") and body[0].tag == "DT" and at is None:
        return [*body, *be, *_phrase(question, answer)], "be-copula"
    if question.noun and question.head not in _ATTRIBUTES and not body[0].tag.startswith("NNP"):
        return _agreeing(question, answer, [*be, *body]), "be-noun"
    if question.wh in ("how many", "how much") and at is not None:
        return [*_phrase(question, answer), *be, *body], "be-subject"
    plain = replace(question, noun=()) if question.head in _ATTRIBUTES or body[0].tag.startswith("NNP") else question
    if answer.kind == "verb" and not answer.text.startswith("to "):
        return [*body, *be, *_made("to " + answer.text)], "be-copula"
    return [*body, *be, *_phrase(plain, answer)], "be-copula"


def _agreeing(question: _Question, answer: FakeAnswer, predicate: list[Word]) -> list[Word]:
    """The answer as the subject of a predicate, whose verb gets its number."""
    phrase = _phrase(question, answer)
    at = next((at for at, word in enumerate(predicate) if not word.tag.startswith("RB")), 0)
    verb = predicate[at]
    if answer.kind == "figure" or any(word.start >= 0 and word not in question.preposition for word in phrase):
        return [*phrase, *predicate]
    is_plural = answer.kind == "plural" or " and " in answer.text
    numbers = {"is": "are", "was": "were", "has": "have", "does": "do"}
    if is_plural:
        text = numbers.get(verb.low) or (_base_of(verb.low) if verb.tag == "VBZ" else verb.text)
    else:
        singular = {plural: one for one, plural in numbers.items()}.get(verb.low)
        text = singular or (_conjugated(verb.text, "VBZ") if verb.tag == "VBP" else verb.text)
    return [*phrase, *predicate[:at], replace(verb, text=text), *predicate[at + 1 :]]


def _base_of(verb: str) -> str:
    from lemminflect import getAllLemmas

    return next(iter(getAllLemmas(verb).get("VERB", ())), verb)


def _is_over(body: Sequence[Word], at: int) -> bool:
    """Whether what stands at a place cannot go on with a noun phrase."""
    return at >= len(body) or body[at].tag in ("IN", "TO", "RB", "") or body[at].low in _SUBORDINATING


def _measured(question: _Question, answer: FakeAnswer, be: list[Word], body: list[Word]) -> tuple[list[Word], str]:
    """How old was Tesla when he wrote it: Tesla was 42 when he wrote it."""
    at = _nominal_end(body)
    if at < len(body) and body[at].low in ("that", "which", "who"):
        at = len(body)
    return [*body[:at], *be, *_made(answer.text), *body[at:]], "how-measure"


def _with_auxiliary(question: _Question, answer: FakeAnswer) -> tuple[list[Word], str] | None:
    rest = list(question.rest)
    auxiliary = [replace(rest[0], text=rest[0].low, is_glued=False)]
    body, negated = _without_not(rest[1:])
    if negated:
        auxiliary.append(Word("not", "RB"))
    wanted = "VB" if rest[0].low in _MODAL else "VBN"
    if not body:
        return None
    adverbs = 0
    while adverbs + 1 < len(body) and body[adverbs].tag.startswith("RB"):
        adverbs += 1
    if not _is_adjunct(question):
        is_verb = body[adverbs].tag.startswith("VB") or (wanted == "VB" and body[adverbs].low in ("be", "have"))
        if is_verb:
            return _agreeing(question, answer, [*auxiliary, *body]), "auxiliary-subject"
    at = _verb_place(body, wanted)
    if at is None:
        if rest[0].low in _HAVE and not _is_adjunct(question):
            return _agreeing(question, answer, rest), "subject"
        return None
    start = at
    while start > 1 and body[start - 1].tag.startswith("RB"):
        start -= 1
    return _filled(question, answer, [*body[:start], *auxiliary, *body[start : at + 1]], body[at + 1 :], "auxiliary")


def _filled(
    question: _Question, answer: FakeAnswer, head: list[Word], tail: list[Word], rule: str
) -> tuple[list[Word], str]:
    """Put the answer into its place in what follows the verb."""
    if _is_adjunct(question):
        at = next(
            (at for at, word in enumerate(tail) if word.low in _SUBORDINATING or (at and word.text in (",", ";"))),
            next(
                (
                    at
                    for at, word in enumerate(tail)
                    if word.low == "that" and (at == 0 or tail[at - 1].tag[:2] == "VB")
                ),
                len(tail),
            ),
        )
        if tail and tail[-1].low in _STRANDED - _PARTICLES and tail[-1].tag in ("IN", "TO") and at == len(tail):
            if question.preposition and question.preposition[-1].low == tail[-1].low:
                tail = tail[:-1]  # "in which city did he live in"
                at -= 1
            elif not question.preposition:
                text = re.sub(r"^(?:in|on|at|from|to) ", "", answer.text)
                return [*head, *tail, *_made(text)], f"{rule}-stranded"
        return [*head, *tail[:at], *_adjunct(question, answer), *tail[at:]], f"{rule}-adjunct"
    at = _gap(tail, is_person=question.wh in ("who", "whom"))
    if tail and tail[0].low == "that" and head[-1].low in ("called", "named"):
        at = 0  # the rock is called X that the river flows around
    if at and tail[at - 1].low in _STRANDED:
        answer = _as_object(answer)
    phrase = _phrase(question, answer)
    if at and tail[at - 1].low == "do" and answer.kind == "verb":
        return [*head, *tail[: at - 1], *_made(answer.text.removeprefix("to ")), *tail[at:]], f"{rule}-gap"
    return [*head, *tail[:at], *phrase, *tail[at:]], f"{rule}-gap"


def _gap(tail: Sequence[Word], *, is_person: bool = False) -> int:
    """Where an object is missing after a verb."""
    if not tail:
        return 0
    if tail[-1].low in _STRANDED and tail[-1].tag in ("IN", "TO", "RP", "RB"):
        return len(tail)
    stranded = next((at for at in range(len(tail)) if _is_stranded(tail, at)), None)
    if stranded is not None:
        return stranded + 1
    if tail[0].low == "that":  # what did he think that it became
        return len(tail)
    if is_person and tail[0].tag != "TO":
        return 0
    at = 0
    while at < len(tail):
        word, following = tail[at], tail[at + 1] if at + 1 < len(tail) else None
        if (
            word.tag == "TO"
            and following is not None
            and following.tag in ("VB", "VBP", "NN")
            and _is_base(following.low)
        ):
            at += 2
            if following.low == "do":
                return at
        elif word.tag in ("VBG", "VBN", "VB"):
            at += 1
        elif following is not None and word.tag == "PRP" and following.tag in ("VBD", "VBP", "VBZ", "MD"):
            at += 2  # what did he say she made
        elif following is not None and word.tag == "IN" and following.tag == "VBG":
            at += 2  # what did he work on refining
        elif word.tag == "RP" or (word.low in _STRANDED and _is_stranded(tail, at)):
            at += 1
        elif at and word.tag in ("NN", "NNS", "JJ", "DT", "PRP$", "NNP", "PRP", "CD"):
            end = _nominal_end(tail[at:]) + at
            if end < len(tail) and tail[end].tag in ("TO", "VB", "VBG"):
                at = end
            else:
                return 0 if tail[0].tag == "TO" else end  # what did he use to keep it
        elif not at and word.tag in ("NN", "NNS", "JJ", "JJR", "DT", "PRP$", "NNP", "NNPS", "PRP", "CD", "EX"):
            end = _nominal_end(tail)
            if end < len(tail) and tail[end].tag in ("TO", "VB", "VBG", "VBN"):
                at = end
            else:
                return len(tail) if not _subordinate(tail) else _subordinate(tail)
        else:
            return at
    return at


def _is_stranded(words: Sequence[Word], at: int) -> bool:
    """Whether a preposition has lost its object: nothing or another preposition follows."""
    if words[at].tag not in ("IN", "TO", "RP") or words[at].low not in _STRANDED:
        return False
    following = words[at + 1] if at + 1 < len(words) else None
    if following is None or following.text in (",", ";"):
        return True
    return following.tag in ("IN", "WRB") and following.low not in ("than", "that", "of")


def _subordinate(tail: Sequence[Word]) -> int:
    return next((at for at, word in enumerate(tail) if at and word.low in _SUBORDINATING), 0)


def _is_adjunct(question: _Question) -> bool:
    """Whether the question phrase is no subject or object."""
    if question.preposition and question.preposition[-1].low not in ("about", "approximately"):
        return True
    if question.wh in ("when", "where", "why", "how"):
        return True
    if question.wh.startswith("how ") and question.wh not in ("how many", "how much"):
        return True
    is_time = question.wh == "what" and question.head in _TIME_NOUNS
    if not is_time or not question.rest:
        return False
    rest = question.rest
    if rest[0].low in _DO or rest[0].low in _HAVE | _MODAL:
        return rest[-1].low not in _STRANDED
    return rest[0].low in _BE and _predicate_place(list(rest[1:])) is not None and len(rest) > 2


def _phrase(question: _Question, answer: FakeAnswer) -> list[Word]:
    """The answer where a subject or object stands."""
    lead = list(question.preposition)
    wh, noun, text = question.wh, list(question.noun), answer.text
    if len(noun) > 2 and noun[0].low in _SHARES and noun[1].low == "of" and answer.kind == "figure":
        unit = "%" if re.fullmatch(r"[\d.,]+", text) and noun[0].low.startswith("percent") else ""
        return [*lead, *_made(text + unit), *noun[1:]]
    if wh == "whose":
        return [*lead, *_made(text + "'s"), *noun]
    if wh == "how much" and noun and not (answer.kind == "figure" and _QUANTITY.search(text)):
        return [*lead, *_made(text), *noun] if answer.kind in ("figure", "adjective") else [*lead, *_made(text)]
    if wh == "how many" and noun:
        head = noun[-1].low.rstrip("s")
        if answer.kind not in ("figure", "adjective") or head in text.lower():
            return [*lead, *_made(text)]
        if "%" in text and noun[0].low != "of":
            text += " of"
        return [*lead, *_made(text), *noun]
    if wh != "what" or not noun or noun[0].low == "of":
        return [*lead, *_made(text)]
    kinds = [at for at, word in enumerate(noun) if word.low in _KINDS]
    if kinds and kinds[-1] + 2 < len(noun) and noun[kinds[-1] + 1].low == "of":
        thing = noun[kinds[-1] + 2 :]
        if answer.kind in ("adjective", "noun", "other") and text.split()[0] not in ("the", "a", "an"):
            article = [] if thing[-1].tag in ("NNS", "NNPS") or thing[0].tag == "DT" else _made(article_for(text))
            return [*lead, *article, *_made(text), *thing]
        return [*lead, *_made(text)]
    if question.head in _TIME_NOUNS:
        if question.head == "century" and re.fullmatch(r"(?:the )?(?:\w+th|\w+st|\w+nd|\w+rd)", text):
            text = f"the {text.removeprefix('the ')} century"
        elif re.match(r"\d+s\b", text):
            text = "the " + text
        if question.head in ("year", "years") and re.fullmatch(r"\d+", text):
            return [*lead, *_made(text)] if lead else [*_made("the year " + text)]
        return [*lead, *_made(text)]
    is_plain = all(word.tag in ("NN", "JJ", "NNP", "CD", "POS", "VBN") for word in noun)
    if answer.kind in ("person", "place", "organization", "other") and is_plain:
        if noun[-1].low in text.lower():
            return [*lead, *_made(text)]
        return [*lead, *_made("the"), *noun, *_made(text)]
    if answer.kind == "adjective" and noun:
        article = [] if noun[-1].tag in ("NNS", "NNPS") else _made(article_for(text))
        return [*lead, *article, *_made(text), *noun]
    if answer.kind == "figure" and re.fullmatch(r"[\d,.]+", text) and is_plain:
        return [*lead, *_made("the"), *noun, *_made("of " + text)]
    return [*lead, *_made(text)]


def _adjunct(question: _Question, answer: FakeAnswer) -> list[Word]:
    """The answer where it says when, where, why, how, or what follows a preposition."""
    text, wh = answer.text, question.wh
    leads = text.split()[0].lower() if text else ""
    if question.preposition:
        if leads in _LEADING:
            text = text.split(" ", 1)[-1]
        return _phrase(question, replace(answer, text=text))
    if wh == "when" or (wh == "what" and question.head in _TIME_NOUNS):
        if leads in _LEADING or text.endswith(("ago", "later", "earlier")):
            return _made(text)
        is_day = re.match(
            rf"(?:the )?(?:\w+day\b|(?:{_MONTH}) \d{{1,2}}\b(?!\d)|\d{{1,2}}(?:th|st|nd|rd)? (?:of )?(?:{_MONTH}))",
            text,
        )
        if re.match(r"\d+['’]?s\b|[\w-]+ century", text, re.IGNORECASE):
            text = "the " + text
        if re.search(r"\d:\d|[ap]\.?m\b", text):
            return _made("at " + text)
        return _made(("on " if is_day else "in ") + text)
    if wh == "where":
        return _made(text if leads in _LEADING or leads in ("near", "to", "along") else "in " + text)
    if wh == "why":
        if leads in ("to", "because", "for", "due", "since", "as", "by"):
            return _made(text)
        return _made(("to " if answer.kind == "verb" else "because of ") + text)
    if wh == "how long":
        return _made(text if leads in (*_LEADING, "for") or leads in ("until", "over") else "for " + text)
    if wh == "how":
        if answer.kind in ("adverb", "adjective") or leads in (*_LEADING, "through", "with", "via", "using", "to"):
            return _made(text)
        if answer.kind == "verb":
            return _made("by " + verb_phrase(text.removeprefix("to "), "VBG") if _is_pool(text) else "to " + text)
        return _made("by " + text if answer.kind == "gerund" else "with " + text)
    return _made(text)


def _as_object(answer: FakeAnswer) -> FakeAnswer:
    """An answer as it stands after a preposition: "of painting the walls"."""
    if answer.kind != "verb" or not _is_pool(answer.text):
        return answer
    return replace(answer, text=verb_phrase(answer.text.removeprefix("to "), "VBG"), kind="gerund")


def _is_pool(text: str) -> bool:
    return text.removeprefix("to ").split()[0] in ("paint", "repair", "plant", "feed", "open")


def _made(text: str) -> list[Word]:
    return [Word(text, "NN")] if text else []


def _without_not(body: list[Word]) -> tuple[list[Word], bool]:
    if body and body[0].low in _NOT - {"never"}:
        return body[1:], True
    at = next((at for at, word in enumerate(body[:6]) if word.low in ("not", "n't", "n’t")), None)
    if at is not None and any(word.tag[:2] in ("VB", "MD") for word in body[:at]):
        at = None  # of another clause
    return (body, False) if at is None else ([*body[:at], *body[at + 1 :]], True)


def _verb_place(body: Sequence[Word], form: str) -> int | None:
    """Where the predicate's verb stands, after a subject of one word at least."""
    weak = None
    for at in range(1, len(body)):
        word = body[at]
        if not _ends_nominal(body, at):
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
                if (
                    following in ("NN", "NNS", "JJ")
                    and body[at - 1].tag in ("NNP", "NNPS", "NNS", "PRP")
                    and word.tag == "NN"
                ):
                    return at
                if word.tag in ("NN", "VBD", "VBN", "JJ") and following in ("IN", "TO", "", "RB", "NNS", "JJ", "RP"):
                    weak = at  # the last such word, unless a plain verb comes
        elif word.tag in ("VBN", "VBD") or word.low == "been":
            return at
    return weak


def _ends_nominal(body: Sequence[Word], at: int) -> bool:
    """Whether a noun phrase can end before a place, adverbs aside."""
    before = at - 1
    while before > 0 and (body[before].tag.startswith("RB") or body[before].low == "first"):
        before -= 1
    word = body[before]
    if word.tag in _NOMINAL - {"DT"} or (not word.tag and word.text in (")", '"', "”", "'")):
        return True
    if word.tag == "DT":
        return word.low in ("this", "that", "these", "those", "both", "all", "some")
    if word.tag == "VBG" and before == 0:  # does cycling promote
        return True
    # "the French", "the rich"
    return (
        word.tag in ("JJ", "JJR", "VBG", "RB", "VBN")
        and before > 0
        and body[before - 1].tag in ("DT", "NN", "IN", "JJ")
    )


@lru_cache(maxsize=1 << 16)
def _is_base(word: str) -> bool:
    """Whether a word is the base form of a verb."""
    from lemminflect import getAllLemmas

    return word in getAllLemmas(word).get("VERB", ()) or word in ("be", "do", "have")


@lru_cache(maxsize=1 << 16)
def _is_participle(word: str) -> bool:
    from lemminflect import getAllLemmas

    return any(word in inflections(base, "v").get("VBN", ()) for base in getAllLemmas(word).get("VERB", ()))


def _predicate_place(body: Sequence[Word]) -> int | None:
    """Where a participle or an adjective stands that a form of *be* goes with."""
    for at in range(1, len(body)):
        word = body[at]
        start = at
        while start > 1 and body[start - 1].tag.startswith("RB"):
            start -= 1
        if not _ends_nominal(body, at):
            continue
        following = body[at + 1].tag if at + 1 < len(body) else ""
        if word.tag in ("VBN", "VBD", "VBG") and (word.tag == "VBG" or _is_participle(word.low)):
            return start
        if word.tag == "JJ" and following in ("", "IN", "TO", "WRB", "WDT", "CC"):
            return start
    return None


def _takes_answer(question: _Question, body: Sequence[Word], at: int) -> bool:
    """Whether a participle after a noun is the predicate, and not a clause about the noun."""
    verb = next(word for word in body[at:] if not word.tag.startswith("RB"))
    if any(_is_stranded(body, place) for place in range(at, len(body))):
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


def _nominal_end(body: Sequence[Word]) -> int:
    """Where the noun phrase ends that a text begins with, with what "of" attaches."""
    at = 0
    while at < len(body):
        word = body[at]
        following = body[at + 1].tag if at + 1 < len(body) else ""
        is_linked = (word.low == "of" or word.text == "'") and at > 0
        is_joined = word.tag == "CC" and following in ("NN", "NNS", "NNP", "NNPS", "DT", "JJ", "PRP$", "CD")
        is_participle = word.tag in ("VBG", "VBN") and following in ("NN", "NNS")
        inside = word.tag in (
            "DT",
            "PRP$",
            "CD",
            "JJ",
            "JJR",
            "JJS",
            "NN",
            "NNS",
            "NNP",
            "NNPS",
            "POS",
            "PDT",
            "PRP",
            "EX",
        )
        if word.tag in ("DT", "PRP") and at and body[at - 1].tag in ("NN", "NNS", "NNP", "NNPS", "PRP"):
            break
        if not (inside or is_linked or is_joined or is_participle or word.text in ('"', "“", "”", "(", ")")):
            break
        at += 1
    return max(at, 1)


def _conjugated(verb: str, tag: str) -> str:
    """A base form in the tense of *do*, *does* or *did*."""
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


def _sentence(words: Sequence[Word]) -> str:
    """Words as a sentence: a capital, a full stop, articles that agree, no space before what is glued on."""
    words = [word for word in words if word.text]
    made: list[Word] = []
    for at, word in enumerate(words):
        if at == 0 or (
            word.is_glued
            and word.tag
            and word.low not in ("'s", "’s", "'", "’", "n't", "n’t")
            and words[at - 1].end != word.start
        ):
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
