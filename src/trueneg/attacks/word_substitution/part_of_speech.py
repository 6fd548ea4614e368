"""Whether a word has the same part of speech as another: the twelve universal ones (Petrov et al. 2012)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from trueneg.bounded_cache import BoundedCache
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


def universal(tag: str) -> str:
    """Map a Penn tag to its part of speech: ``.`` for punctuation, ``X`` for a tag that is not in the Penn Treebank.

    Example:
        >>> [universal(tag) for tag in ("VBZ", "TO", "-LRB-", "XX")]
        ['VERB', 'PRT', '.', 'X']
    """
    return UNIVERSAL.get(tag, "X" if tag.isalpha() else ".")


def may_replace(old: str, new: str) -> bool:
    """Whether parts of speech are the same, or one is a noun and the other a verb, which taggers confuse most.

    Example:
        >>> may_replace("NOUN", "VERB"), may_replace("ADJ", "ADV")
        (True, False)
    """
    return old == new or {old, new} <= {"NOUN", "VERB"}


class UniversalTagger:
    """Tags words of sentences with universal parts of speech; repeated sentences are tagged once."""

    def __init__(self, tagger: Tagger) -> None:
        self._tagger = tagger
        self._cache: BoundedCache[tuple[str, ...], tuple[str, ...]] = BoundedCache(1 << 16)

    def __call__(self, sentences: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Tag sentences."""
        return self._cache.look_up(sentences, lambda new: (tuple(map(universal, tags)) for tags in self._tagger(new)))
