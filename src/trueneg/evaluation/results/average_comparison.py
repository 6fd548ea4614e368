"""Comparison of averages over tasks: GLUE's by the paper's rule, and that of all tasks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from trueneg.errors import TaskError
from trueneg.evaluation.results.split_pairs import SELECTED, MeasuredPair
from trueneg.evaluation.results.summary import GLUE_AVERAGE
from trueneg.evaluation.statistics.averages import MeanDifference, error_reduction, mean_difference
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.evaluation.statistics.significance import holm


@dataclass(frozen=True)
class AverageCompared:
    """An average over tasks: the contender's against the baseline's."""

    name: str
    """``GLUE average``, or ``average`` of all tasks in common."""
    baseline: str
    contender: str
    tasks: list[str]
    """What is averaged: task, split and metric."""
    missing: list[str]
    """GLUE's tasks that one of the two lacks: the average excludes them."""
    left: float
    """The baseline's mean over tasks of means over seeds."""
    right: float
    """The contender's."""
    left_medians: float
    """The baseline's mean over tasks of medians over seeds, as ``report`` shows it."""
    right_medians: float
    """The contender's."""
    difference: MeanDifference
    """Difference of the means."""
    p_adjusted: float
    """By Holm's method over the contenders."""
    error_reduction: Interval | None
    notes: list[str] = field(default_factory=list)


_TEST_FIRST = ("test", "dev_matched", "dev")
"""The first of these splits that a task has enters the average; else the task's first split."""
NOT_AVERAGED = ("contrast-", "attack-")
"""Prefixes of splits that are not averaged over."""


def averages_of(
    baseline: str,
    contender: str,
    measured: Sequence[MeasuredPair],
    confidence: float,
    without: Sequence[str],
) -> list[AverageCompared]:
    """Average over GLUE's tasks and, if there are others, over all; one split per task, as tasks are independent.

    Args:
        baseline: Its name.
        contender: Its name.
        measured: What was compared.
        confidence: Confidence level.
        without: Why tasks that both have could not be compared.

    Raises:
        TaskError: if there are fewer than two tasks to average over.
    """
    glue = [one for one in measured if GLUE_AVERAGE.get(one[0].task) == (one[0].split, one[0].metric)]
    by_task: dict[str, list[MeasuredPair]] = {}
    for one in measured:
        if one[0].is_primary and not one[0].split.startswith(NOT_AVERAGED):
            by_task.setdefault(one[0].task, []).append(one)
    every = [
        min(of, key=lambda one: _TEST_FIRST.index(one[0].split) if one[0].split in _TEST_FIRST else len(_TEST_FIRST))
        for of in by_task.values()
    ]
    missing = [task for task in GLUE_AVERAGE if task not in {row.task for row, _ in glue}]
    found = [("GLUE average", glue, missing)] if len(glue) > 1 else []
    if len(every) > 1 and not {row.task for row, _ in every} <= GLUE_AVERAGE.keys():
        found.append(("average", every, []))
    if not found:
        raise TaskError(
            f"--average: {baseline} and {contender} have {len(every)} task in common "
            f"({', '.join(by_task) or 'none'}), and an average is over two at least: fine-tune both on more"
            + "".join(f"; {note}" for note in without)
        )
    return [_average(name, baseline, contender, parts, lacking, confidence, without) for name, parts, lacking in found]


def _average(
    name: str,
    baseline: str,
    contender: str,
    parts: Sequence[MeasuredPair],
    missing: list[str],
    confidence: float,
    without: Sequence[str],
) -> AverageCompared:
    rows, pairs = [row for row, _ in parts], [pair for _, pair in parts]
    found = mean_difference([row.difference for row in rows], confidence)
    (left, left_medians), (right, right_medians) = (
        [
            statistics.fmean(middle(by_seed.values()) for by_seed in side)
            for middle in (statistics.fmean, statistics.median)
        ]
        for side in ([row.left for row in rows], [row.right for row in rows])
    )
    return AverageCompared(
        name=name,
        baseline=baseline,
        contender=contender,
        tasks=[f"{row.task} {row.split} {row.metric}" for row in rows],
        missing=missing,
        left=left,
        right=right,
        left_medians=left_medians,
        right_medians=right_medians,
        difference=found,
        p_adjusted=found.p,
        error_reduction=error_reduction(pairs, confidence=confidence),
        notes=[
            *(f"{row.task}: {note}" for row in rows for note in row.notes if SELECTED in note or "unpaired" in note),
            *without,
        ],
    )


def averages_adjusted(averages: Sequence[AverageCompared]) -> list[AverageCompared]:
    """Adjust p-values for the number of contenders, per kind of average."""
    adjusted: dict[int, float] = {}
    for name in {one.name for one in averages}:
        numbers = [number for number, one in enumerate(averages) if one.name == name]
        adjusted |= zip(numbers, holm([averages[number].difference.p for number in numbers]), strict=True)
    return [replace(one, p_adjusted=adjusted[number]) for number, one in enumerate(averages)]
