"""What a name is the name of: a guess from WordNet and from the words around it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from trueneg.attacks.squad.add_sentence.question_words import Word
from trueneg.lexicon.wordnet import WordNet

EntityType = Literal["person", "place", "organization", "role", "other"]

_CUE_WORDS: tuple[tuple[EntityType, str], ...] = (
    ("person", "mr. mrs. dr. sir king queen pope emperor president saint lord prince jr. sr."),
    (
        "organization",
        "company corporation inc university college church party league union association society institute",
    ),
    ("organization", "school team committee council ministry agency bank network club court parliament congress"),
    ("place", "city river lake street avenue boulevard road valley county island islands mountains ocean sea park"),
    (
        "place",
        "stadium hall square bridge palace castle desert bay district country state nation kingdom province town",
    ),
    ("place", "village republic empire region continent capital"),
)
_CUES: dict[str, EntityType] = {word: kind for kind, words in _CUE_WORDS for word in words.split()}
_KINDS: tuple[tuple[str, EntityType], ...] = (
    ("person", "person"),
    ("organization", "organization"),
    ("social group", "organization"),
    ("location", "place"),
    ("facility", "place"),
    ("structure", "place"),
    ("body of water", "place"),
    ("geological formation", "place"),
)
_DETERMINERS = frozenset(["the", "a", "an", "'s", "this", "his", "her", "their", "its"])
_ABSTRACT = ("ism", "ity", "tion", "ics", "ness", "ology")
_PLACE_PREPOSITIONS = frozenset(["in", "near", "at", "to", "from", "into", "across", "outside"])


class WordNetEntities:
    """Goes by the last word of a name, by what WordNet says of it, and by the preposition before it.

    Args:
        wordnet: where names and kinds of things are looked up.
    """

    def __init__(self, wordnet: WordNet) -> None:
        self._wordnet = wordnet
        self.kind = lru_cache(maxsize=1 << 16)(self._kind)

    def __call__(self, words: Sequence[Word], begin: int, end: int) -> EntityType:
        """Type the name that the words ``begin`` to ``end`` make."""
        name = words[begin:end]
        for cue in (name[-1].low, name[0].low):
            if cue in _CUES:
                return _CUES[cue]
        found = self.kind(" ".join(word.text for word in name)) or self.kind(name[-1].text)
        before = words[begin - 1].low if begin else ""
        if found == "person" and before in _DETERMINERS:
            if not self._is_individual(name[-1].text):
                return "role"  # the General Manager
            found = None  # the Rhine, not J. B. Rhine
        if found:
            return found
        if before in _PLACE_PREPOSITIONS:
            return "place"
        if len(name) > 1 and self._wordnet.synsets(name[0].text, "a") and self._wordnet.synsets(name[-1].text, "n"):
            return "other"  # Super Bowl
        is_plain = before not in ("the", "a", "an") and all(word.text.istitle() for word in name)
        return "person" if len(name) in (1, 2) and is_plain and not name[-1].low.endswith(_ABSTRACT) else "other"

    def _is_individual(self, word: str) -> bool:
        return any(p.symbol == "@i" for synset in self._wordnet.synsets(word, "n")[:1] for p in synset.pointers)

    def _kind(self, word: str) -> EntityType | None:
        """What a word is a kind or a case of, by its first meaning as a noun; None if WordNet does not say."""
        if word.lower() in _CUES:
            return _CUES[word.lower()]
        synsets = self._wordnet.synsets(word, "n")
        above: set[str] = set()
        frontier = [*synsets[:1]]
        for _ in range(16):
            above.update(lemma for synset in frontier for lemma in synset.lemmas)
            pointers = [p for synset in frontier for p in synset.pointers if p.symbol in ("@", "@i")]
            frontier = [self._wordnet.synset(p.pos, p.offset) for p in pointers]
        return next((kind for lemma, kind in _KINDS if lemma in above), None)
