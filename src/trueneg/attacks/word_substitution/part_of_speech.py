"""Whether a word could be what another is in its place: the twelve universal parts of speech (Petrov et al. 2012)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from trueneg.lexicon.tagging import Tagger

_TAGS = {
    "NOUN": "NN NNS NNP NNPS",
    "VERB": "MD VB VBD VBG VBN VBP VBZ",
    "ADJ": "JJ JJR JJS",
    "ADV": "RB RBR RBS WRB",
    "PRON": "PRP PRP$ WP WP$",
    "DET": "DT EX PDT WDT",
    "ADP": "IN",
    "NUM": "CD",
    "CONJ": "CC",
    "PRT": "POS RP TO",
    "X": "FW LS SYM UH",
}
UNIVERSAL: Mapping[str, str] = MappingProxyType({tag: part for part, tags in _TAGS.items() for tag in tags.split()})
"""The universal part of speech of each Penn tag."""

_REMEMBERED = 1 << 16  # sentences


def universal(tag: str) -> str:
    """The part of speech of a Penn tag: ``.`` for punctuation, ``X`` for a name that is not in the Penn Treebank.

    Example:
        >>> [universal(tag) for tag in ("VBZ", "TO", "-LRB-", "XX")]
        ['VERB', 'PRT', '.', 'X']
    """
    return UNIVERSAL.get(tag, "X" if tag.isalpha() else ".")


def may_replace(old: str, new: str) -> bool:
    """Whether parts of speech are the same, or one is a noun and the other a verb: taggers mistake these most.

    Example:
        >>> may_replace("NOUN", "VERB"), may_replace("ADJ", "ADV")
        (True, False)
    """
    return old == new or {old, new} <= {"NOUN", "VERB"}


class UniversalTagger:
    """Gives the words of sentences their universal parts of speech, and asks about the same sentence once."""

    def __init__(self, tagger: Tagger) -> None:
        self._tagger = tagger
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __call__(self, sentences: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Tag sentences."""
        asked = dict.fromkeys(sentences)
        if new := [sentence for sentence in asked if sentence not in self._known]:
            found = zip(new, self._tagger(new), strict=True)
            self._known.update((sentence, tuple(map(universal, tags))) for sentence, tags in found)
        tagged = [self._known[sentence] for sentence in sentences]
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return tagged
