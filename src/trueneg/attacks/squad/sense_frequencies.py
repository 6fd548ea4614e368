"""Frequencies of words and of their first meanings in the texts that WordNet's authors tagged."""

from __future__ import annotations

from trueneg.lexicon.replacements import sense_counts
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PartOfSpeech


class SenseFrequencies:
    """Counts of words and their meanings.

    Args:
        wordnet: a WordNet with these counts.

    Raises:
        LexiconError: if it has none.
    """

    def __init__(self, wordnet: WordNet) -> None:
        self._wordnet = wordnet
        self._counts = sense_counts(wordnet.path)

    def count(self, form: str, pos: PartOfSpeech) -> int:
        """Number of occurrences of a word, in any form; of several base forms, that of the most frequent one."""
        bases = self._wordnet.morphy(form, pos)
        return max((sum(self._counts.get((pos, base), {}).values()) for base in bases), default=0)

    def is_settled(self, base: str, pos: PartOfSpeech, min_share: float) -> bool:
        """Whether a word mostly has its first meaning, in at least ``min_share`` of its occurrences.

        Counts of all meanings are smoothed by adding one half, so for a word of three meanings that does not occur in
        the texts, the first is not dominant.
        """
        counts = self._counts.get((pos, base), {})
        num_senses = sum(found == base for *_, found in self._wordnet.senses(base, pos))
        return counts.get(1, 0) + 0.5 >= min_share * (sum(counts.values()) + 0.5 * num_senses)
