"""Word families: words derived from one another, and compounds with their first part."""

from __future__ import annotations

from functools import lru_cache

from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PARTS_OF_SPEECH

MIN_PART = 3
"""Minimum number of letters of either part of a compound."""


class Families:
    """Decides which words, in any form, are of one family, from a WordNet."""

    def __init__(self, wordnet: WordNet) -> None:
        self.wordnet = wordnet
        self.roots = lru_cache(maxsize=1 << 17)(self._roots)
        self.bases = lru_cache(maxsize=1 << 17)(self._bases)

    def are_related(self, word: str, other: str) -> bool:
        """Whether two words are derived from one another or a third, or one is the first part of the other, a compound.

        Synonyms ("historic", "historical") and forms of one word do not count.

        Example:
            With WordNet 3.0, "japanese" is related to "japan", "songs" to "singers", "filmmakers" to "film".
        """
        one, two = word.lower(), other.lower()
        is_one = not self.roots(one).isdisjoint(self.roots(two))
        is_one = is_one or not self.bases(one).isdisjoint(self.first_parts(two))
        is_one = is_one or not self.bases(two).isdisjoint(self.first_parts(one))
        return is_one and not self.wordnet.are_synonyms(one, two)

    def first_parts(self, word: str) -> frozenset[str]:
        """First parts of a compound of two words that WordNet knows: "film" for "filmmakers"."""
        return frozenset(
            base[:end]
            for base in self.bases(word)
            for end in range(MIN_PART, len(base) - MIN_PART + 1)
            if base[:end] in self.wordnet and base[end:] in self.wordnet
        )

    def _bases(self, word: str) -> frozenset[str]:
        return frozenset((word, *(base for pos in PARTS_OF_SPEECH for base in self.wordnet.morphy(word, pos))))

    def _roots(self, word: str) -> frozenset[str]:
        return self.bases(word) | {lemma.lower() for lemma in self.wordnet.derived(word)}
