"""A misprediction that is none: what is kept of it, and which to show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Correction:
    """A misprediction that a detector accepts."""

    gold: str
    predicted: str
    probability: float
    """The model's own probability of the predicted token."""
    gold_probability: float
    before: str
    """The text to the left, within the document."""
    after: str

    @property
    def sentence(self) -> str:
        """The text with ``[gold → predicted]`` in its place."""
        return f"{self.before} [{self.gold} → {self.predicted}] {self.after}".strip()


def most_convincing(corrections: Iterable[Correction], num: int) -> list[Correction]:
    """The most probable corrections, each pair of words and each sentence once."""
    seen: set[frozenset[str] | str] = set()
    chosen: list[Correction] = []
    for correction in corrections:
        pair = frozenset({correction.gold.lower(), correction.predicted.lower()})
        names: set[frozenset[str] | str] = {pair, correction.before + correction.after}
        if len(chosen) < num and not names & seen:
            chosen.append(correction)
            seen |= names
    return chosen
