"""A reproduced table of a paper: its figures next to ours, and the verdicts on its claims."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from trueneg.errors import TaskError
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.files.records import read_versioned
from trueneg.files.whole import write_json
from trueneg.tasks.metrics import METRICS
from trueneg.version import __version__

Verdict = Literal["replicated", "confirmed", "not resolved", "contradicted", "not comparable"]
"""``confirmed`` is for a claim of our own, which no paper makes."""
TABLE = "table.json"
ROWS = "rows"
"""Folder next to it with each row's results, as ``trueneg compare`` reads them."""
SCHEMA = 1
REMEDY = "run the same trueneg reproduce again"


@dataclass(frozen=True)
class Cell:
    """One figure of a table, in the paper's unit."""

    row: str
    column: str
    paper: float | None
    """The figure as printed; None if the paper has none."""
    by_seed: dict[int, float] = field(default_factory=dict)
    """Our figures by seed; empty if nothing was measured."""

    @property
    def mean(self) -> float | None:
        """Our mean over seeds; None if nothing was measured."""
        return statistics.fmean(self.by_seed.values()) if self.by_seed else None


@dataclass(frozen=True)
class Claim:
    """A difference between two rows that the paper reports, and ours."""

    row: str
    baseline: str
    column: str
    paper: float | None
    """The row's figure minus the baseline's in the paper; None if the paper has no such row."""
    interval: Interval | None
    """Our difference, at 95 %; None if nothing was measured."""
    p: float | None
    """Two-sided, by Holm's method over all claims of the table."""
    verdict: Verdict
    reason: str
    """Reason for the verdict."""


@dataclass(frozen=True)
class ReproducedTable:
    """Contents of ``table.json`` in a recipe's folder."""

    recipe: str
    title: str
    source: str
    """Paper and table."""
    scale: str
    rows: list[str]
    columns: list[str]
    """In the paper's order."""
    cells: list[Cell]
    claims: list[Claim]
    notes: list[str]
    """What differs from the paper, and what was left out."""
    commands: dict[str, str]
    """Name of each job to its command."""
    data: dict[str, str]
    """SHA-256 of the data that was read, by name."""
    versions: dict[str, str]
    arms: list[str] = field(default_factory=list)
    """Additional rows that were requested."""
    settings: list[str] = field(default_factory=list)
    """``key=value`` settings of all its runs; files by name, without their folder."""
    results: dict[str, list[str]] = field(default_factory=dict)
    """Result files below ``rows`` by job name, for jobs with results of a task; predictions are next to them."""
    schema: int = SCHEMA
    version: str = __version__

    def cell(self, row: str, column: str) -> Cell | None:
        """Find a figure; None where the table has none."""
        return next((cell for cell in self.cells if (cell.row, cell.column) == (row, column)), None)


def judge(
    paper: float | None, interval: Interval | None, p: float | None, obstacle: str = "", *, is_ours: bool = False
) -> tuple[Verdict, str]:
    """Return the verdict on a claim, and the reason.

    Only its direction is tested: the paper's models are larger and saw more text, so sizes are only reported.

    Args:
        paper: The paper's difference.
        interval: Our difference.
        p: p-value of no difference, adjusted for the number of claims.
        obstacle: Why the two cannot be compared; empty if they can.
        is_ours: Whether the claim is our own, which is then that the difference is positive.

    Example:
        >>> judge(1.0, Interval(0.6, 0.2, 1.0, 5), 0.01)
        ('replicated', 'the same direction: +0.60 [+0.20, +1.00]')
        >>> judge(1.0, Interval(0.1, -0.2, 0.4, 5), 0.5)
        ('not resolved', "+0.10 [-0.20, +0.40] includes zero, and excludes the paper's +1.00")
    """
    if obstacle or interval is None:
        return "not comparable", obstacle or "nothing was measured"
    found = f"{interval:+.2f}"
    if not paper and not is_ours:
        lacking = "the paper has no such figure" if paper is None else "the paper shows no difference"
        return "not comparable", f"{lacking}; ours: {found}"
    if interval.excludes_zero and p is not None and p < 0.05:
        is_same = (interval.estimate > 0) == (is_ours or (paper or 0.0) > 0)
        same: Verdict = "confirmed" if is_ours else "replicated"
        return (same, f"the same direction: {found}") if is_same else ("contradicted", f"the opposite: {found}")
    if interval.excludes_zero and interval.is_point:
        return "not resolved", f"{found} with every seed and every example: no spread to judge by, add examples"
    if interval.excludes_zero:
        return "not resolved", f"{found}, but not once all claims of the table are allowed for (Holm)"
    is_within = paper is None or interval.low <= paper <= interval.high
    excludes = "" if is_within else f", and excludes the paper's {paper:+.2f}"
    return "not resolved", f"{found} includes zero{excludes}"


def less_is_better(column: str) -> bool:
    """Tell whether lower is better in a table's column, as for a drop under attack or a loss.

    Example:
        >>> less_is_better("AddSentenceDiverse drop of EM"), less_is_better("AddSentenceDiverse EM")
        (True, False)
    """
    metric = METRICS.get(column)
    return metric.less_is_better if metric else f" {column}".endswith(" loss") or " drop of " in f" {column}"


def save_table(table: ReproducedTable, folder: Path) -> Path:
    """Write ``table.json`` atomically into a folder, which is created if needed."""
    path = folder / TABLE
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(table))
    return path


def load_table(folder: Path) -> ReproducedTable:
    """Read ``table.json`` from a recipe's folder.

    Raises:
        TaskError: if there is none, it is damaged, or a newer version of trueneg wrote it.
    """
    return read_versioned(ReproducedTable, folder / TABLE, SCHEMA, TaskError, REMEDY)
