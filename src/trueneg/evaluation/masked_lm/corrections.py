"""Mispredictions that a detector calls false negatives: their record, and which of them to show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from trueneg.errors import TaskError
from trueneg.files.records import read_record


@dataclass(frozen=True)
class Correction:
    """A misprediction that a detector calls a false negative."""

    gold: str
    predicted: str
    probability: float
    """The model's own probability of the predicted token."""
    gold_probability: float
    before: str
    """Text to the left, within the document."""
    after: str
    """Text to the right."""
    credit: float | None = None
    """The detector's credit for it, at least 1/2; None in files of a former version."""
    part_of_speech: str = ""
    """Gold's part of speech in context: noun, verb, adjective, adverb or other; empty in files of a former version."""

    @property
    def sentence(self) -> str:
        """The text, with ``[gold → predicted]`` in place of the token."""
        return f"{self.before} [{self.gold} → {self.predicted}] {self.after}".strip()


def most_convincing(corrections: Iterable[Correction], num: int) -> list[Correction]:
    """Choose the most probable corrections, using each pair of words and each sentence once."""
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
class FalseNegativeRecord:
    """One text and detector of a ``false-negatives.json``: the part that reports show."""

    readings: dict[str, float]
    corrections: list[Correction]
    """The most probable first."""
    detector: str = ""
    text: str = ""
    num_rows: int = 0
    checkpoint: str = ""
    step: int | None = None
    """Step of the checkpoint, if all of a run's were evaluated."""


@dataclass(frozen=True)
class _File(FalseNegativeRecord):
    records: list[FalseNegativeRecord] = field(default_factory=list)
    """One per text and detector; the top-level fields are those of the first."""


def load_false_negatives(path: Path) -> list[FalseNegativeRecord]:
    """Read a file written by ``trueneg evaluate``: one record per text and detector.

    Raises:
        TaskError: if the file is damaged, naming the field.
    """
    remedy = "evaluate the run again with trueneg evaluate masked-lm RUN --corpus CORPUS"
    found = read_record(_File, path, TaskError, remedy, ignores_others=True)
    return found.records or [found]


def judgement(detector: str) -> str:
    """Describe how often people are known to agree with a detector.

    The figure is from SWORDS' development split, 22,978 substitutes of 370 words: see docs/detectors.md.
    """
    if detector.partition("@")[0] == "lexical":
        return (
            "WordNet lists them as synonyms in some sense of the word, this one or another: where people judged such "
            "pairs in context, about 18 in 100 were right (SWORDS, development split)"
        )
    return "this is the detector's verdict: trueneg detect benchmark measures how often human annotators agree with it"
