"""Comparison of two or more models on the same examples: the differences, and their significance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trueneg.errors import ConfigError, TaskError, unknown_name
from trueneg.evaluation.results.average_comparison import NOT_AVERAGED, AverageCompared, averages_adjusted, averages_of
from trueneg.evaluation.results.split_pairs import Compared, MeasuredPair, SplitPair
from trueneg.evaluation.results.summary import Runs, read_runs, refuse_other_data
from trueneg.evaluation.statistics.significance import holm
from trueneg.files.names import distinct_names
from trueneg.tasks.metrics import METRICS


@dataclass(frozen=True)
class Comparison:
    """Comparison of all that two or more folders of results have in common."""

    baseline: str
    contenders: list[str]
    confidence: float
    rows: list[Compared]
    notes: list[str]
    """What could not be compared, and why."""
    averages: list[AverageCompared] = field(default_factory=list)


def compare(
    left: str | Path,
    *right: str | Path,
    metric: str = "primary",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    average: bool = False,
    names: Sequence[str] = (),
) -> Comparison:
    """Compare folders of results with the first one, task by task and split by split.

    Seeds that both sides have are paired, also if each side has one and the same; otherwise, with fewer than two in
    common, all are used, unpaired. Metrics are computed from the predictions, and recomputed on each bootstrap sample
    of the examples (or of whole groups).

    Args:
        left: The baseline's folder.
        right: One or more other folders.
        metric: ``primary``, ``all``, or a metric's name.
        confidence: Confidence level.
        resamples: Number of bootstrap samples.
        seed: Seed of the bootstrap.
        average: Also compare averages over tasks: GLUE's (``summary.GLUE_AVERAGE``) and, if there are other tasks,
            that of all primary metrics, one split per task.
        names: Names of the folders; by default, as much of their paths as distinguishes them.

    Raises:
        ConfigError: for no contender, or invalid options.
        TaskError: if a folder has no results, predictions are of different examples, nothing is comparable, or fewer
            than two tasks can be averaged over.
    """
    if not right:
        raise ConfigError("nothing to compare with: name a baseline's folder and at least one other")
    if metric not in ("primary", "all", *METRICS):
        raise ConfigError(unknown_name("metric", metric, ["primary", "all", *METRICS]))
    if not 0 < confidence < 1:
        raise ConfigError(f"--confidence {confidence}: must be between 0 and 1, for example 0.95")
    if resamples < 2:
        raise ConfigError(f"resamples must be at least 2, got {resamples}")
    if average and metric not in ("primary", "all"):
        raise ConfigError(f"--metric {metric}: --average is over primary metrics: leave one of them out")
    names = names or distinct_names([left, *right])
    ours = read_runs(left)
    rows: list[Compared] = []
    notes: list[str] = []
    averages: list[AverageCompared] = []
    for name, folder in zip(names[1:], right, strict=True):
        theirs = read_runs(folder)
        refuse_other_data(ours, theirs)
        notes += _one_sided(names[0], ours, name, theirs)
        measured: list[MeasuredPair] = []
        without: list[str] = []
        for key in ours:
            if key in theirs:
                pair = SplitPair(names[0], name, *key, ours[key], theirs[key])
                measured += pair.compared(metric, confidence, resamples, seed)
                notes += pair.lacking(metric)
                without += [] if key[1].startswith(NOT_AVERAGED) else pair.lacking("primary")
        rows += [row for row, _ in measured]
        if average:
            averages += averages_of(names[0], name, measured, confidence, without)
    if not rows:
        reason = "; ".join(notes) or f"none has the metric '{metric}'"
        raise TaskError(f"'{left}' and the others have no labelled split in common: {reason}")
    return Comparison(names[0], [*names[1:]], confidence, _adjusted(rows), notes, averages_adjusted(averages))


def _adjusted(rows: Sequence[Compared]) -> list[Compared]:
    adjusted = iter(holm([row.difference.p for row in rows if row.is_primary]))
    return [replace(row, p_adjusted=next(adjusted)) if row.is_primary else row for row in rows]


def _one_sided(left_name: str, left: Runs, right_name: str, right: Runs) -> list[str]:
    notes = []
    for name, ours, theirs in ((left_name, left, right), (right_name, right, left)):
        if alone := [" ".join(key) for key in ours if key not in theirs]:
            notes.append(f"only in {name}: {', '.join(alone)}")
    both = [key for key in left if key in right]
    unlabelled = [
        " ".join(key)
        for key in both
        if not all(result.metrics for side in (left, right) for _, result in side[key].values())
    ]
    return [*notes, f"without labels: {', '.join(unlabelled)}"] if unlabelled else notes
