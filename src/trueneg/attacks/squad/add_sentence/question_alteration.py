"""Make a question ask for something else: other names, other numbers, antonyms (AddSent, Jia and Liang 2017, step 1).

The authors change one token at a time, with neighbours from GloVe and types of names from CoreNLP. Here names are
changed as phrases, and neighbours of words and types of names come from WordNet.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trueneg.attacks.squad.add_sentence.questions import WH, Word
from trueneg.attacks.squad.add_sentence.substitutes import (
    NAMES,
    NATIONALITIES,
    RELIGIONS,
    WordNetEntities,
    WordNetNeighbours,
    changed_figure,
    free,
)
from trueneg.attacks.squad.edits import Edit
from trueneg.lexicon.articles import agreeing_article
from trueneg.lexicon.english import MONTHS
from trueneg.lexicon.surface import casing
from trueneg.lexicon.tags import coarse

# From convert_questions.py of github.com/robinjia/adversarial-squad (Copyright (c) 2017 Robin Jia, MIT licence), like
# the list that follows.
_SPECIAL = {
    "States": "Kingdom", "US": "UK", "U.S": "U.K.", "U.S.": "U.K.", "UK": "US", "U.K.": "U.S.", "U.K": "U.S.",
    "largest": "smallest", "smallest": "largest", "highest": "lowest", "lowest": "highest", "May": "April",
    "Peyton": "Trevor",
}  # fmt: skip
_KEPT = frozenset(
    """
    many such few much other same general type record kind sort part form terms use place way old young bowl united one
    likely different square war republic doctor color
    """.split()  # noqa: SIM905
)

# Antonyms that are missing from the fixed swaps and from first meanings in WordNet, or are there only as rare words.
_ANTONYMS = {
    a: b
    for pairs in (
        "largest/smallest biggest/smallest highest/lowest oldest/newest longest/shortest best/worst",
        "first/last earliest/latest northern/southern eastern/western north/south east/west upper/lower larger/smaller",
        "higher/lower bigger/smaller longer/shorter older/younger major/minor male/female public/private",
        "internal/external inner/outer maximum/minimum early/late before/after positive/negative rural/urban",
    )
    for pair in pairs.split()
    for a, b in (pair.split("/"), pair.split("/")[::-1])
}
_KEPT_PHRASES = _KEPT | frozenset(
    """
    name names term year date amount number world people person man day time example examples thing things someone
    anyone something anything everyone nothing little goal front back sound life home end order hand right left
    top bottom whole multiple most least
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class AlteredQuestion:
    """A question that asks for something else.

    Attributes:
        words: its words; those from the original question keep their offsets in it.
        edits: changes to the text of the question.
        rules: the rule of each edit.
    """

    words: tuple[Word, ...]
    edits: tuple[Edit, ...]
    rules: tuple[str, ...]


def alter_question(
    words: Sequence[Word],
    *,
    neighbours: WordNetNeighbours,
    entities: WordNetEntities,
    context: str,
    randomness: random.Random,
    phrase: tuple[int, int] = (0, 0),
) -> AlteredQuestion:
    """Alter every word that can be altered with confidence.

    Names are treated as phrases: "Battle of Hastings" becomes "Battle of Lisbon". Only names that occur in neither
    question nor context are drawn. If no name, number or antonym is found outside the question phrase, one noun or
    adjective there is replaced by a neighbour.

    Args:
        words: the question.
        neighbours: source of neighbours and antonyms.
        entities: types of names.
        context: context of the question; names that occur in it are not drawn.
        randomness: source of random numbers.
        phrase: start and end of the question phrase in the text of the question.

    Returns:
        The altered question; the original one, without edits, if nothing can be altered.
    """
    return _Alteration(words, neighbours, entities, context, randomness, phrase).altered()


@dataclass
class _Alteration:
    """Alteration of one question."""

    words: Sequence[Word]
    neighbours: WordNetNeighbours
    entities: WordNetEntities
    context: str
    randomness: random.Random
    phrase: tuple[int, int]

    def __post_init__(self) -> None:
        self._asked = {at for at, word in enumerate(self.words) if self.phrase[0] <= word.start < self.phrase[1]}
        self._own = {word.low for word in self.words}
        self._taken = " ".join([self.context, *(word.text for word in self.words)]).lower()
        self._new: dict[tuple[int, int], tuple[str, str]] = {}  # replacement and rule, by first and end position
        self._drawn: dict[str, str] = {}  # repeated names get the same replacement

    def altered(self) -> AlteredQuestion:
        runs = _name_runs(self.words)
        inside = {at for begin, end in runs for at in range(begin, end)}
        for begin, end in runs:
            self._alter_name(begin, end)
        for at, word in enumerate(self.words):
            if at in inside or word.low in WH or word.low in _KEPT_PHRASES:
                continue
            may_count = word.tag in ("CD", "JJ") and word.low != "one"
            if may_count and (figure := changed_figure(word.text, self.randomness)):
                self._put(at, at + 1, figure, "number")
            elif pool := _adjectives(word.text):
                self._put(at, at + 1, free(pool, self._taken, self.randomness), "adjective")
            elif antonym := self._antonym(word):
                self._put(at, at + 1, antonym, "antonym")
        if not any(begin not in self._asked for begin, _ in self._new):
            self._alter_one(inside | self._asked)
        return self._done()

    def _alter_name(self, begin: int, end: int) -> None:
        name = self.words[begin:end]
        if self.entities(self.words, begin, end) == "role":
            return
        if len(name) == 1 and (pool := _adjectives(name[0].text)):
            self._put(begin, end, free(pool, self._taken, self.randomness), "adjective")
            return
        if special := _SPECIAL.get(name[-1].text if len(name) == 1 else ""):
            self._put(begin, end, special, "special")
            return
        figures = [at for at in range(begin, end) if _has_figure(self.words[at].text)]
        for at in figures:
            if figure := changed_figure(self.words[at].text, self.randomness):
                self._put(at, at + 1, figure, "number")
        if figures:
            return
        if " ".join(word.text for word in name) in ("United States", "United Kingdom"):
            self._put(begin, end, free(("Soviet Union", "Dutch Republic"), self._taken, self.randomness), "place")
            return
        of = next((at for at in range(end - 2, begin, -1) if self.words[at].low == "of"), None)
        if of is not None:  # the Treaty of Rome becomes the Treaty of Lisbon
            has_the = self.words[of + 1].low == "the"
            self._put_name(of + 1 + has_the, end, "other" if has_the else "place")
            return
        self._put_name(*self._renamed(begin, end))

    def _renamed(self, begin: int, end: int) -> tuple[int, int, str]:
        """Part of a name that is changed, and the type of the new name."""
        type_, head, num = self.entities(self.words, begin, end), self.words[end - 1], end - begin
        before = self.words[begin - 1].low if begin else ""
        following = self.words[end].tag if end < len(self.words) else ""
        if head.text.isupper() and len(head.text) > 1:
            return end - 1, end, "abbreviation"
        if num > 1 and self.words[begin].low in _TITLES:
            return begin + 1, end, "modifier" if self.words[begin].low in _PLACES else "surname"
        if head.low.endswith("ism"):
            return end - 1, end, "doctrine"
        if head.low in WH:  # Doctor Who
            return begin, end, "modifier" if following in ("NN", "NNS") else "other"
        is_plural = head.low.endswith("s") and not head.low.endswith(("ss", "us", "is"))
        if is_plural and (before == "the" or type_ != "place"):
            return begin, end, "group"
        if following in ("NN", "NNS"):
            return begin, end, "modifier"
        if num > 1 and type_ != "person" and _is_common(head.low):
            return begin, end - 1, "modifier"
        if num == 1 and type_ == "person":
            return begin, end, "surname"
        return begin, end, "river" if type_ == "place" and before == "the" else type_

    def _put_name(self, begin: int, end: int, kind: str) -> None:
        old = " ".join(word.text for word in self.words[begin:end])
        if old not in self._drawn:
            self._drawn[old] = free([n for n in NAMES[kind] if n != old], self._taken, self.randomness)
            self._taken += self._drawn[old].lower()
        self._put(begin, end, self._drawn[old], f"name:{kind}")

    def _antonym(self, word: Word) -> str | None:
        if word.low in _ANTONYMS and coarse(word.tag) in ("a", "r"):
            return _ANTONYMS[word.low]
        antonyms = self.neighbours.antonyms(word.low, word.tag)
        return next((a for a in antonyms if a not in self._own and not a.startswith(("non", word.low))), None)

    def _alter_one(self, inside: set[int]) -> None:
        """Replace one noun, else one adjective, by a neighbour."""
        for pos in "na":
            places = [at for at, word in enumerate(self.words) if coarse(word.tag) == pos and at not in inside]
            for at in reversed(places):
                word = self.words[at]
                if word.low in _KEPT_PHRASES or word.tag.startswith("NNP"):
                    continue
                near = [n for n in self.neighbours(word.low, word.tag) if not self._is_like_own(n)][:3]
                if near:
                    self._put(at, at + 1, self.randomness.choice(near), f"neighbour:{pos}")
                    return

    def _is_like_own(self, word: str) -> bool:
        return any(word.lower()[:4] == own[:4] for own in self._own)

    def _put(self, begin: int, end: int, new: str, rule: str) -> None:
        old = self.words[begin].text
        if rule not in ("number", "special", "adjective") and not rule.startswith("name"):
            cases = {"upper": new.upper(), "title": new[:1].upper() + new[1:]}
            new = cases.get(casing(old), new) if old != "I" else new
        if new.lower() != " ".join(word.text for word in self.words[begin:end]).lower():
            self._new[begin, end] = (new, rule)

    def _done(self) -> AlteredQuestion:
        words: list[Word] = []
        edits: list[Edit] = []
        rules: list[str] = []
        at = 0
        for (begin, end), (new, rule) in sorted(self._new.items()):
            words += self.words[at:begin]
            first, last = self.words[begin], self.words[end - 1]
            if words and words[-1].low in ("a", "an"):
                before = words[-1]
                article = agreeing_article(before.text, first.text, new)
                if article != before.text:
                    words[-1] = replace(before, text=article)
                    edits.append(Edit(before.start, before.end, article))
                    rules.append("agreement")
            words.append(replace(first, text=new, tag=last.tag))
            edits.append(Edit(first.start, last.end, new))
            rules.append(rule)
            at = end
            if end < len(self.words) and self.words[end].text in ("'", "’") and not new.endswith("s"):
                after = self.words[end]  # Dioscorides' book becomes Porter's book
                words.append(replace(after, text=f"{after.text}s"))
                edits.append(Edit(after.start, after.end, f"{after.text}s"))
                rules.append("agreement")
                at = end + 1
        return AlteredQuestion((*words, *self.words[at:]), tuple(edits), tuple(rules))


def _is_common(word: str) -> bool:
    """Whether the last word of a name is a common noun, too: "Canal", "Act"."""
    from lemminflect import getAllLemmas

    return "NOUN" in getAllLemmas(word)


_PLACES = frozenset(["lake", "mount", "fort", "cape", "port"])
_TITLES = _PLACES | frozenset("president king queen pope emperor prince saint st. dr. mr. mrs. sir general".split())  # noqa: SIM905


def _name_runs(words: Sequence[Word]) -> list[tuple[int, int]]:
    """Start and end of each name: proper nouns, with numbers after them and "of" between them."""
    runs: list[tuple[int, int]] = []
    at = 0
    while at < len(words):
        begin = at
        has_name_next = at + 1 < len(words) and words[at + 1].tag == "NNP"
        if at and has_name_next and words[at].tag == "JJ" and words[at].text.istitle():
            at += 1  # Scottish Parliament
        while at < len(words) and (words[at].tag in ("NNP", "NNPS") or (at > begin and _goes_on(words, at))):
            at += 1
        if at > begin and words[begin].low not in WH and words[at - 1].tag != "JJ":
            runs.append((begin, at))
        at += at == begin
    return runs


def _goes_on(words: Sequence[Word], at: int) -> bool:
    """Whether a word continues the name that ends before it."""
    if words[at].tag == "CD":
        return words[at - 1].tag == "NNP" and words[at - 1].low not in ("in", "of")
    following = [word.tag for word in words[at + 1 : at + 3]] + ["", ""]
    if words[at].low != "of":
        return words[at].low == "the" and words[at - 1].low == "of" and following[0] in ("NNP", "NNPS")
    is_the = at + 1 < len(words) and words[at + 1].low == "the"
    return following[1 if is_the else 0] in ("NNP", "NNPS")


def _adjectives(word: str) -> Sequence[str]:
    return next((pool for pool in (NATIONALITIES, RELIGIONS) if word in pool), ())


def _has_figure(text: str) -> bool:
    is_roman = len(text) > 1 and set(text) <= set("IVXL")
    return any(letter.isdigit() for letter in text) or is_roman or text in MONTHS
