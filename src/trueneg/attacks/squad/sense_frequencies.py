"""How usual a word and its first meaning are, by the texts that WordNet's authors tagged."""

from __future__ import annotations

from trueneg.lexicon.replacements import sense_counts
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PartOfSpeech


class SenseFrequencies:
    """Counts of words and their meanings.

    Args:
        wordnet: one that has these counts.

    Raises:
        LexiconError: if it has none.
    """

    def __init__(self, wordnet: WordNet) -> None:
        self._wordnet = wordnet
        self._counts = sense_counts(wordnet.path)

    def count(self, form: str, pos: PartOfSpeech) -> int:
        """How often the texts have a word, in any form; of several base forms that of the most frequent."""
        bases = self._wordnet.morphy(form, pos)
        return max((sum(self._counts.get((pos, base), {}).values()) for base in bases), default=0)

    def is_settled(self, base: str, pos: PartOfSpeech, min_share: float) -> bool:
        """Whether a word mostly has its first meaning: that of ``min_share`` of its occurrences.

        Every meaning is taken to occur half a time more than it does, so one of three that none of the texts has
        settles nothing.
        """
        counts = self._counts.get((pos, base), {})
        num_senses = sum(found == base for *_, found in self._wordnet.senses(base, pos))
        return counts.get(1, 0) + 0.5 >= min_share * (sum(counts.values()) + 0.5 * num_senses)
