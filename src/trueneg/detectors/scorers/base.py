"""Interface of scorers: how well a word fits in place of another in its sentence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.files.digests import fingerprint_of
from trueneg.lexicon.wordnet_location import PartOfSpeech

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Substitution:
    """A word of a text, and its substitute.

    Example:
        >>> Substitution("its primary function", 4, 11, "main").substituted
        'its main function'
    """

    text: str
    start: int
    """Offset of the word's first character."""
    end: int
    """Offset after its last character."""
    substitute: str
    """The substitute, in the form and casing that it would have in the text: one word or several."""
    pos: PartOfSpeech | None = None
    """Part of speech of the word, if known; it restricts what lexicons consider."""

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end <= len(self.text):
            raise ValueError(f"characters {self.start} to {self.end} are no word of a text of {len(self.text)}")

    @property
    def target(self) -> str:
        """The word that is in the text."""
        return self.text[self.start : self.end]

    @property
    def substituted(self) -> str:
        """The text with the substitute in it; the substitute begins at the same character."""
        return self.text[: self.start] + self.substitute + self.text[self.end :]


class SubstitutionScorer(ABC):
    """Scores how well substitutes fit in place of a word.

    A *score* is a number in [0, 1], higher for better; substitutes with a score of at least ``threshold`` are
    acceptable. Scores of different scorers are on different scales; their *acceptance* is on a common one.
    """

    threshold: float = 0.5
    provenance: Mapping[str, str] = {}
    """Where its resources and its threshold come from."""

    @abstractmethod
    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """Score each substitution: float64 ``[n]``, in [0, 1]."""

    def acceptance(self, substitutions: Sequence[Substitution]) -> Scores:
        """Scores on a common scale, float64 ``[n]``: 1/2 at the threshold, linear on either side."""
        return acceptance(self.scores(substitutions), self.threshold)

    def with_threshold(self, threshold: float, provenance: Mapping[str, str] | None = None) -> Self:
        """Return the same scorer with another threshold, and further provenance."""
        other = copy(self)
        other.threshold = threshold
        other.provenance = {**self.provenance, **(provenance or {})}
        return other

    @property
    def counts(self) -> Mapping[str, int]:
        """Numbers of texts and words cut to a window, and of words without tokens, since the scorer was made."""
        return {}

    def reads(self) -> tuple[object, ...]:
        """Everything that scores depend on: digests of weights, vectors and lexicons, and settings.

        JSON values without file locations, so that moving a file changes nothing.
        """
        return ()

    def digest(self) -> str:
        """Digest of all that scores depend on, and of the threshold: 16 hexadecimal digits."""
        # The suffix of the classes' former names, which older checkpoints recorded.
        name = type(self).__name__.removesuffix("Scorer") + "Judge"
        return fingerprint_of([name, self.threshold, *self.reads()])

    def to(self, device: torch.device) -> None:  # noqa: B027  most scorers have nothing to move
        """Move the scorer's models, if it has any, to a device."""


def sum_of_counts(scorers: Iterable[SubstitutionScorer]) -> dict[str, int]:
    """Add up the counts of several scorers."""
    return dict(sum((Counter(scorer.counts) for scorer in scorers), Counter[str]()))


def acceptance(scores: Scores, threshold: float) -> Scores:
    """Map scores in [0, 1] so that the threshold becomes 1/2; order, 0 and 1 are preserved.

    A threshold of 0 or less accepts everything; one of 1 or more, only scores that reach it.

    Example:
        >>> acceptance(np.array([0.0, 0.4, 0.8, 0.9, 1.0]), threshold=0.8).round(3).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if threshold <= 0:
        return 0.5 + scores / 2
    if threshold >= 1:
        return np.where(scores >= threshold, 1.0, scores / (2 * threshold))
    below, above = np.minimum(scores, threshold) / (2 * threshold), 0.5 + (scores - threshold) / (2 * (1 - threshold))
    return np.where(scores >= threshold, above, below)
