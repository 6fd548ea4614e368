"""Results of measuring detectors against human judgements, as the result file holds them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trueneg.evaluation.statistics.intervals import Interval
from trueneg.files.whole import write_whole

TASK = "substitution"

Threshold = Literal["calibrated", "own"]

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Reading:
    """One detector's figures on a subset of the items, at one level of agreement.

    A ratio without a denominator is None. ``intervals`` holds 95 % bootstrap intervals over targets.
    """

    level: str
    items: str
    """The subset: "all", "single tokens", or a part of speech."""
    num_items: int
    num_targets: int
    num_accepted: int
    chance: float
    """Share of acceptable items: the average precision of a random ranking."""
    average_precision: float
    precision: float | None
    recall: float
    f1: float
    intervals: Mapping[str, Bounds | None]


@dataclass(frozen=True)
class ErrorRate:
    """Share of the words of the wrong meaning that a detector accepts."""

    num: int
    num_accepted: int
    share: Interval
    """``num_accepted / num``, with an interval over the targets that have such words."""


@dataclass(frozen=True)
class Measured:
    """One detector's figures."""

    detector: str
    threshold: float | None
    """Chosen on all the data; None where no threshold has the requested precision."""
    threshold_from: Threshold
    """"own": the detector's; "calibrated": chosen here, and then precision, recall and F1 are cross-validated."""
    is_fitted: bool
    """Whether it was fitted to this data; then all its figures are cross-validated."""
    readings: tuple[Reading, ...]
    precision_at_reference_recall: float | None
    """Precision at the recall of the detector "lexical", level "most"; None where that was not measured."""
    errors: Mapping[str, ErrorRate]
    """Kind of wrong word (antonyms, sisters) to the rate at which it is accepted."""
    differences: Mapping[str, Interval]
    """Level to average precision minus the first detector's, on the same bootstrap samples."""
    curve: Mapping[str, tuple[float, ...]]
    """Precision and recall at a sample of thresholds, level "most", all items."""
    seconds: float
    provenance: Mapping[str, str]

    def reading(self, level: str = "most", items: str = "all") -> Reading:
        """Find the reading of a level and subset."""
        return next(r for r in self.readings if (r.level, r.items) == (level, items))

    def row(self) -> dict[str, Any]:
        """Give the figures that tables show: level "most", all items, and the average precision at "any"."""
        reading = self.reading()
        accepted = {kind: rate.share.estimate for kind, rate in self.errors.items()}
        return {
            "detector": self.detector,
            "average_precision": reading.average_precision,
            "average_precision_interval": reading.intervals["average_precision"],
            "precision": reading.precision,
            "recall": reading.recall,
            "f1": reading.f1,
            "threshold": self.threshold,
            "threshold_from": self.threshold_from,
            "is_fitted": self.is_fitted,
            "average_precision_any": self.reading("any").average_precision,
            "precision_at_reference_recall": self.precision_at_reference_recall,
            "antonyms_accepted": accepted.get("antonyms"),
            "sisters_accepted": accepted.get("sisters"),
            "chance": reading.chance,
            "num_items": reading.num_items,
            "num_targets": reading.num_targets,
        }


@dataclass(frozen=True)
class SubstitutionResult:
    """Detectors against human judgements."""

    measured: tuple[Measured, ...]
    data: Mapping[str, str]
    """Files to the SHA-256 of their bytes."""
    options: Mapping[str, Any]
    versions: Mapping[str, str]

    def rows(self) -> list[dict[str, Any]]:
        """Give one row per detector."""
        return [measured.row() for measured in self.measured]

    def summary(self) -> dict[str, Any]:
        """Give the result as plain data."""
        return {"task": TASK, "rows": self.rows(), **dataclasses.asdict(self)}

    def save(self, path: Path) -> None:
        """Write the result as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(self.summary(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
