"""How well a substitute goes with the words on either side of it, by their bigram counts in a corpus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trueneg.corpus.bigrams import BOUNDARY, Bigrams, words_of
from trueneg.detectors.scorers.base import Substitution

FEATURES = tuple(
    f"{what} {where}"
    for what in ("log count", "log count, less the word's", "log count, less its own")
    for where in ("after what is before", "before what is after")
)
"""Features of a substitution, see :meth:`Collocations.features`."""


class Collocations:
    """Counts of a substitute next to the word before it and the word after it.

    Args:
        bigrams: Bigram counts of a corpus.
    """

    def __init__(self, bigrams: Bigrams) -> None:
        self.bigrams = bigrams
        self.provenance = dict(bigrams.provenance)

    def features(self, substitutions: Sequence[Substitution]) -> NDArray[np.float64]:
        """Compute ``FEATURES`` of each substitution, float64 ``[n, 6]``.

        The log counts of two bigrams: the word before and the substitute's first word, and the substitute's last word
        and the word after; both minus those with the original word; and both minus the log count of the substitute's
        own word. 0.5 is added to every count.
        """
        # A text is split once for all substitutes of a word.
        places = {
            (text, start, end): ((words_of(text[:start]) or [BOUNDARY])[-1], (words_of(text[end:]) or [BOUNDARY])[0])
            for text, start, end in {(s.text, s.start, s.end) for s in substitutions}
        }
        beside = [places[s.text, s.start, s.end] for s in substitutions]
        before, after = [one for one, _ in beside], [other for _, other in beside]
        pairs, own = self._logs([s.substitute for s in substitutions], before, after)
        of_word, _ = self._logs([s.target for s in substitutions], before, after)
        return np.concatenate([pairs, pairs - of_word, pairs - own], 1)

    def _logs(
        self, texts: Sequence[str], before: Sequence[str], after: Sequence[str]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return log counts with either neighbour, and of the words alone, each float64 ``[n, 2]``."""
        words = [words_of(text) or [""] for text in texts]
        first, last = [one[0] for one in words], [one[-1] for one in words]
        counts = self.bigrams
        pairs = np.stack([counts.of_pairs(before, first), counts.of_pairs(last, after)], 1)
        return np.log(pairs + 0.5), np.log(np.stack([counts.of_words(first), counts.of_words(last)], 1) + 0.5)

    def digest(self) -> str:
        """Digest of the counts, 16 hexadecimal digits."""
        return self.bigrams.digest
