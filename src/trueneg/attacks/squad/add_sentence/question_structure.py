"""The structure of a question: [words before ,] [preposition] question phrase, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trueneg.attacks.squad.add_sentence.clauses import (
    AUXILIARY,
    BE,
    DO,
    HAVE,
    MODAL,
    STRANDED,
    is_third_person,
    predicate_place,
)
from trueneg.attacks.squad.add_sentence.question_words import Word

WH = frozenset("what which who whom whose when where why how".split())  # noqa: SIM905
"""Question words."""
KINDS = frozenset("type types kind kinds sort sorts form forms style styles genre genres".split())  # noqa: SIM905
"""Nouns that ask for a kind of the noun behind their "of"."""
TIME_NOUNS = frozenset(
    "year years month months century centuries decade decades era period date day time season".split()  # noqa: SIM905
)
"""Nouns that ask for when something was."""


@dataclass(frozen=True)
class Question:
    """A question in parts.

    Attributes:
        before: what stands before the question phrase, without its preposition.
        preposition: of the question phrase: one word at most.
        wh: the question word: "who", "what" (also for "which"), "how many", "how long", "how".
        noun: the rest of the question phrase.
        start: where the question phrase begins in the text.
        rest: what follows the question phrase, without the question mark and the like at the end.
        is_front: whether the question phrase opens the question proper, and does not stand where the answer would.
    """

    before: tuple[Word, ...]
    preposition: tuple[Word, ...]
    wh: str
    noun: tuple[Word, ...]
    start: int
    rest: tuple[Word, ...]
    is_front: bool

    @property
    def head(self) -> str:
        """The noun that is asked for, in small letters."""
        of = next((at for at, word in enumerate(self.noun) if at and word.tag in ("IN", "TO")), len(self.noun))
        head = self.noun[of - 1].low if self.noun[:of] else ""
        if head in KINDS and of + 1 < len(self.noun):
            return self.noun[-1].low
        return head


def read_question(words: Sequence[Word]) -> Question | None:
    """Read what :func:`~question_words.read_words` gives; None without a question phrase."""
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
            place for place in range(at + 2, end) if words[place].tag == "NNS" and is_third_person(words[place].low)
        ]
        if inside and inside[-1] + 1 < len(words):
            end = inside[-1]
    if before and front:
        before = [*before[:-1]] if before[-1].text == "," else before
        before = [*before, Word(",", "", is_glued=True)]
    is_front = bool(front)
    return Question(
        tuple(before),
        tuple(preposition),
        wh,
        tuple(word for word in words[at + len(wh.split()) : end] if word.low != "else"),
        words[at].start,
        tuple(words[end:]),
        is_front,
    )


def is_adjunct(question: Question) -> bool:
    """Whether the question phrase is no subject or object."""
    if question.preposition and question.preposition[-1].low not in ("about", "approximately"):
        return True
    if question.wh in ("when", "where", "why", "how"):
        return True
    if question.wh.startswith("how ") and question.wh not in ("how many", "how much"):
        return True
    is_time = question.wh == "what" and question.head in TIME_NOUNS
    if not is_time or not question.rest:
        return False
    rest = question.rest
    if rest[0].low in DO or rest[0].low in HAVE | MODAL:
        return rest[-1].low not in STRANDED
    return rest[0].low in BE and predicate_place(list(rest[1:])) is not None and len(rest) > 2


def _is_verbal(word: Word) -> bool:
    return word.tag[:2] in ("VB", "MD") or word.low in AUXILIARY


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
    return end + 1 < len(words) and (words[end].low in AUXILIARY or words[end].tag[:2] == "VB")


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
        if following is None or following.low in AUXILIARY or following.tag not in ("JJ", "RB", "JJR", "RBR"):
            return wh, end
        wh, end = f"how {following.low}", end + 1
        if following.low not in ("many", "much"):
            return wh, end
    begin = end
    while end < len(words):
        word, last = words[end], words[end - 1]
        if word.tag != "POS" and (word.low in AUXILIARY or word.tag[:2] in ("VB", "MD", "WP", "WD", "WR", "PR")):
            is_modifier = word.tag in ("VBN", "VBG") and end + 1 < len(words) and words[end + 1].tag in ("NN", "NNS")
            if not (is_modifier and word.low not in AUXILIARY):
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

    others = (word.tag[:2] in ("VB", "MD") or word.low in AUXILIARY for word in words[at + 1 :])
    return "VERB" in getAllLemmas(words[at].low) and at + 1 < len(words) and not any(others)
