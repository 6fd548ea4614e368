"""What was measured of a run's vectors (STS-B), kept beside the run for its card."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from trueneg.errors import CheckpointError
from trueneg.files.records import read_record
from trueneg.files.whole import write_json


@dataclass(frozen=True)
class SimilarityRecord:
    """Spearman's correlation of cosines with people's judgement, by pooling: ``cls`` and ``mean``."""

    task: str
    split: str
    num_pairs: int
    step: int
    """Of the run's model then."""
    after: dict[str, float]
    before: dict[str, float] = field(default_factory=dict)
    """Of what the run continued; empty if that was not measured."""

    def save(self, path: Path) -> None:
        """Write it."""
        write_json(path, dataclasses.asdict(self))


def read_similarity(path: Path) -> SimilarityRecord | None:
    """Read what was measured; None if nothing was.

    Raises:
        CheckpointError: if the file is damaged.
    """
    if not path.is_file():
        return None
    return read_record(SimilarityRecord, path, CheckpointError, "remove it and measure again")
