"""A run's sentence similarity (STS-B), stored in its folder for its model card."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from trueneg.errors import CheckpointError
from trueneg.files.records import read_record
from trueneg.files.whole import write_json


@dataclass(frozen=True)
class SimilarityRecord:
    """Spearman's correlation of cosines with human judgements, by pooling: ``cls`` and ``mean``."""

    task: str
    split: str
    num_pairs: int
    step: int
    """Training step of the measured model."""
    after: dict[str, float]
    """For the run's model."""
    before: dict[str, float] = field(default_factory=dict)
    """For the model that the run started from; empty if it was not measured."""

    def save(self, path: Path) -> None:
        """Write the record as JSON."""
        write_json(path, dataclasses.asdict(self))


def read_similarity(path: Path) -> SimilarityRecord | None:
    """Read the record; None if there is none.

    Raises:
        CheckpointError: if the file is damaged.
    """
    if not path.is_file():
        return None
    return read_record(SimilarityRecord, path, CheckpointError, "remove it and measure again")
