"""A misprediction that is none: what is kept of it, and which to show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from trueneg.errors import TaskError
from trueneg.files.records import read_record


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


@dataclass(frozen=True)
class Found:
    """What an evaluation found in held-out text, as far as it is shown."""

    readings: dict[str, float]
    corrections: list[Correction]
    """The most probable first."""
    detector: str = ""
    text: str = ""
    num_rows: int = 0


@dataclass(frozen=True)
class _File(Found):
    records: list[Found] = field(default_factory=list)
    """One for each text and detector; the fields on top are those of the first."""


def load_found(path: Path) -> list[Found]:
    """Read what ``trueneg evaluate`` has written of a model, one entry for each text and detector.

    Raises:
        TaskError: if the file is damaged, naming the field.
    """
    remedy = "evaluate the run again with trueneg evaluate RUN --task false-negatives --corpus CORPUS"
    found = read_record(_File, path, TaskError, remedy, ignores_others=True)
    return found.records or [found]


def judgement(detector: str) -> str:
    """What is known of how often people agree with what a detector accepts.

    The figure is of SWORDS' development split, 22,978 substitutes of 370 words: see docs/detectors.md.
    """
    if detector.partition("@")[0] == "lexical":
        return (
            "WordNet lists them as synonyms in one sense or another, be it this one or not: where people judged such "
            "pairs in context, about 18 in 100 were right (SWORDS, development split)"
        )
    return "that is the detector's verdict, not people's: trueneg detect swords measures how often people agree with it"
