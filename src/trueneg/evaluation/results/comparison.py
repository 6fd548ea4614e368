"""Two or more models on the same examples: how much better, and whether that would be seen again."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from trueneg.config.codec import flatten, with_current_names
from trueneg.config.fields import names_where
from trueneg.config.options import FinetuneConfig
from trueneg.errors import ConfigError, TaskError, unknown_name
from trueneg.evaluation.results.store import HELD_OUT, Result, columns_of, load_predictions
from trueneg.evaluation.results.summary import GLUE_AVERAGE, Runs, read_runs, refuse_other_data
from trueneg.evaluation.statistics.averages import MeanDifference, Pair, error_reduction, mean_difference
from trueneg.evaluation.statistics.bootstrap import Bootstrap
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.evaluation.statistics.significance import (
    MIN_SEEDS,
    Difference,
    Scores,
    SignTest,
    difference,
    holm,
    sign_test,
    stochastic_order,
)
from trueneg.files.names import tell_apart
from trueneg.tasks.metrics import METRICS, Columns, Metric


@dataclass(frozen=True)
class Compared:
    """One metric on one split of one task: the contender's mean over seeds against the baseline's."""

    task: str
    split: str
    metric: str
    is_primary: bool
    baseline: str
    contender: str
    left: dict[int, float]
    """The baseline's figure by seed."""
    right: dict[int, float]
    """The contender's."""
    is_paired: bool
    """Whether the difference is taken seed by seed."""
    num_examples: int
    num_groups: int
    """Examples, or groups of them, that vary independently."""
    difference: Difference
    """Contender minus baseline."""
    signs: SignTest
    eps_min: float | None
    """How far the contender's seeds are from being stochastically above the baseline's; None with fewer than
    ``MIN_SEEDS``, which say too little of an order."""
    p_adjusted: float | None = None
    """By Holm's method over all primary metrics of the comparison; None for other metrics."""
    error_reduction: Interval | None = None
    """The difference as a share of the baseline's errors; None where it makes none."""
    notes: list[str] = field(default_factory=list)
    """What else differs between the two: seeds left out, settings."""

    @property
    def has_seeds(self) -> bool:
        """Whether the difference holds for ways of training, not only for these models."""
        return self.difference.variance_seeds is not None


@dataclass(frozen=True)
class AverageCompared:
    """An average over tasks: the contender's against the baseline's."""

    name: str
    """``GLUE average``, or ``average`` of all tasks in common."""
    baseline: str
    contender: str
    tasks: list[str]
    """Those it is over: task, split and metric."""
    missing: list[str]
    """GLUE's tasks that one of the two lacks: the average is without them."""
    left: float
    """The baseline's mean over tasks of means over seeds."""
    right: float
    """The contender's."""
    left_medians: float
    """The baseline's mean over tasks of medians over seeds, as ``report`` shows it."""
    right_medians: float
    """The contender's."""
    difference: MeanDifference
    """Of the means."""
    p_adjusted: float
    """By Holm's method over the contenders."""
    error_reduction: Interval | None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    """All that two or more folders of results have in common."""

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
) -> Comparison:
    """Compare folders of results with the first of them, task by task and split by split.

    Seeds that both sides have are paired; with fewer than two in common all are taken, unpaired. Figures are computed
    from the predictions, and anew in each bootstrap sample of the examples (of whole groups, where there are groups).

    Args:
        left: The baseline's results.
        right: One or more others.
        metric: ``primary``, ``all``, or a metric's name.
        confidence: The intervals'.
        resamples: Number of bootstrap samples.
        seed: The bootstrap's.
        average: Compare averages over tasks, too: GLUE's (``summary.GLUE_AVERAGE``) and, where there are other tasks,
            that of all primary metrics, one split a task.

    Raises:
        ConfigError: for no contender, or options that nothing can have.
        TaskError: if a folder has no results, predictions are of other examples, nothing is comparable, or there are
            fewer than two tasks to average over.
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
    names = tell_apart([left, *right])
    ours = read_runs(left)
    rows: list[Compared] = []
    notes: list[str] = []
    averages: list[AverageCompared] = []
    for name, folder in zip(names[1:], right, strict=True):
        theirs = read_runs(folder)
        refuse_other_data(ours, theirs)
        notes += _one_sided(names[0], ours, name, theirs)
        measured: list[_Measured] = []
        without: list[str] = []
        for key in ours:
            if key in theirs:
                pair = _Pair(names[0], name, *key, ours[key], theirs[key])
                measured += pair.compared(metric, confidence, resamples, seed)
                notes += pair.lacking(metric)
                without += [] if key[1].startswith(_NOT_AVERAGED) else pair.lacking("primary")
        rows += [row for row, _ in measured]
        if average:
            averages += _averages(names[0], name, measured, confidence, without)
    if not rows:
        reason = "; ".join(notes) or f"none has the metric '{metric}'"
        raise TaskError(f"'{left}' and the others have no labelled split in common: {reason}")
    return Comparison(names[0], names[1:], confidence, _adjusted(rows), notes, _averages_adjusted(averages))


_Measured: TypeAlias = tuple[Compared, Pair]
"""What is said of a metric, and the figures it rests on."""


class _Pair:
    """One split of one task as two systems predicted it, with the seeds that are compared."""

    def __init__(
        self,
        baseline: str,
        contender: str,
        task: str,
        split: str,
        left: Mapping[int, tuple[Path, Result]],
        right: Mapping[int, tuple[Path, Result]],
    ) -> None:
        self.names: dict[str, Any] = {"baseline": baseline, "contender": contender, "task": task, "split": split}
        common = sorted(left.keys() & right.keys())
        self.is_paired = len(common) > 1 or left.keys() == right.keys()
        seeds = (common, common) if self.is_paired else (sorted(left), sorted(right))
        self.sides = [{seed: side[seed] for seed in chosen} for side, chosen in zip((left, right), seeds, strict=True)]
        self.notes = [
            f"seeds {_listed(side.keys() - set(chosen))} of {name} are not used: the other has not run them"
            for name, side, chosen in zip((baseline, contender), (left, right), seeds, strict=True)
            if side.keys() - set(chosen)
        ]
        if not self.is_paired:
            self.notes.append(f"unpaired: seeds {_listed(left)} against {_listed(right)}")
        self.notes += _other_settings(self.sides)
        self.notes += [
            note
            for name, side in zip((baseline, contender), self.sides, strict=True)
            for found in sorted({_selected_on(result, split) for _, result in side.values()})
            if found and (note := f"of {name}, {found}")
        ]

    def compared(self, metric: str, confidence: float, resamples: int, seed: int) -> list[_Measured]:
        """Compare each metric that was chosen and that all results have."""
        results = [result for side in self.sides for _, result in side.values()]
        first = results[0]
        known = [name for name in first.metrics if all(name in result.metrics for result in results)]
        chosen = known if metric == "all" else [first.primary if metric == "primary" and known else metric]
        chosen = [name for name in chosen if name in known]
        if unknown := [name for name in chosen if name not in METRICS]:
            first_path = next(iter(self.sides[0].values()))[0]
            raise TaskError(f"'{first_path}': {unknown_name('metric', unknown[0], METRICS)}: evaluate the model again")
        if not chosen:
            return []
        if results[0].num_examples < 2:
            return []
        predictions = self._predictions()
        self.notes += self._constants(predictions)
        return [
            self._compared(METRICS[name], name == first.primary, predictions, confidence, resamples, seed)
            for name in chosen
        ]

    def lacking(self, metric: str) -> list[str]:
        """Say which of the chosen metrics some results have and others lack, or that there are too few examples."""
        results = [result for side in self.sides for _, result in side.values()]
        if not all(result.metrics for result in results):
            return []
        if results[0].num_examples < 2:
            return [f"{self.names['task']} {self.names['split']}: one example, of which nothing is compared"]
        some = dict.fromkeys(name for result in results for name in result.metrics)
        chosen = {"all": list(some), "primary": [results[0].primary]}.get(metric, [metric])
        found = [
            f"'{name}' is not in the results of {' and '.join(without)}"
            for name in chosen
            if name in some
            and (
                without := [
                    self.names[role] + (f" (seeds {_listed(seeds)})" if len(seeds) < len(side) else "")
                    for role, side in zip(("baseline", "contender"), self.sides, strict=True)
                    if (seeds := [seed for seed, (_, result) in side.items() if name not in result.metrics])
                ]
            )
        ]
        where = f"{self.names['task']} {self.names['split']}"
        return [f"{where}: {', '.join(found)}: evaluate again"] if found else []

    def _predictions(self) -> list[list[Columns]]:
        """Read each side's predictions by seed, all in the order of the first."""
        order: dict[str, int] = {}
        gold: list[Any] = []
        sides = []
        for side in self.sides:
            systems = []
            for path, _ in side.values():
                predictions = load_predictions(path)
                keys = [one.get("key") for one in predictions]
                if not order:
                    order = {str(key): number for number, key in enumerate(keys)}
                    gold = [one.get("gold") for one in predictions]
                    first = path
                numbers = [order.get(str(key), -1) for key in keys]
                if sorted(numbers) != list(range(len(gold))):
                    strange = sum(number < 0 for number in numbers)
                    raise TaskError(
                        f"'{first}' and '{path}' are of different examples ({len(gold):,} and {len(keys):,}, "
                        f"{strange:,} of them unknown to the first): evaluate both on the same split"
                    )
                ordered = [predictions[number] for number in np.argsort(numbers)]
                if [one.get("gold") for one in ordered] != gold:
                    raise TaskError(
                        f"'{first}' and '{path}' differ in their gold labels: evaluate both on the same data"
                    )
                systems.append(columns_of(ordered))
            sides.append(systems)
        return sides

    def _constants(self, predictions: Sequence[Sequence[Columns]]) -> list[str]:
        """Say which seeds predict the same of all examples: a fine-tuning that failed."""
        return [
            f"{name} predicts the same of everything with seeds {_listed(failed)}"
            for name, side, systems in zip(
                (self.names["baseline"], self.names["contender"]), self.sides, predictions, strict=True
            )
            if (
                failed := [
                    seed
                    for seed, columns in zip(side, systems, strict=True)
                    if "predicted" in columns and len(np.unique(columns["predicted"])) == 1
                ]
            )
        ]

    def _compared(
        self,
        metric: Metric,
        is_primary: bool,
        predictions: Sequence[Sequence[Columns]],
        confidence: float,
        resamples: int,
        seed: int,
    ) -> _Measured:
        figures = [self._figures(metric, side, systems) for side, systems in zip(self.sides, predictions, strict=True)]
        by_seed = [np.array(list(side.values())) for side in figures]
        first = predictions[0][0]
        bootstrap = Bootstrap.over(first, resamples, seed)
        samples = np.split(bootstrap.measure(metric, [*predictions[0], *predictions[1]]), [len(by_seed[0])], axis=1)
        left, right = (Scores(*pair) for pair in zip(by_seed, samples, strict=True))
        pair = Pair(left, right, bootstrap.num_groups, self.is_paired)
        mean_scores = [np.mean([metric.scores(columns) for columns in systems], axis=0) for systems in predictions]
        upward = -1.0 if metric.less_is_better else 1.0
        row = Compared(
            **self.names,
            metric=metric.name,
            is_primary=is_primary,
            left=figures[0],
            right=figures[1],
            is_paired=self.is_paired,
            num_examples=len(first[metric.columns[0]]),
            num_groups=bootstrap.num_groups,
            difference=difference(left, right, bootstrap.num_groups, is_paired=self.is_paired, confidence=confidence),
            signs=sign_test(mean_scores[1] - mean_scores[0], first.get("group")),
            eps_min=stochastic_order(*(upward * scores for scores in by_seed), seed=seed)
            if min(map(len, by_seed)) >= MIN_SEEDS
            else None,
            error_reduction=error_reduction([pair], less_is_better=metric.less_is_better, confidence=confidence),
            notes=self.notes,
        )
        return row, pair

    def _figures(
        self, metric: Metric, side: Mapping[int, tuple[Path, Result]], systems: Sequence[Columns]
    ) -> dict[int, float]:
        """Compute the metric of each seed from its predictions, which must give what the result file says."""
        figures = {}
        for (seed, (path, result)), columns in zip(side.items(), systems, strict=True):
            figures[seed] = metric(columns)
            if abs(figures[seed] - result.metrics[metric.name]) > 1e-6:
                raise TaskError(
                    f"the predictions behind '{path}' give {metric.name} {figures[seed]:.6f}, the file says "
                    f"{result.metrics[metric.name]:.6f}: one of them is not of this run, evaluate again"
                )
        return figures


_TEST_FIRST = ("test", "dev_matched", "dev")
"""Of a task's splits, the first of these is averaged over; else the first there is."""
_NOT_AVERAGED = ("contrast-", "attack-")
"""How the names of splits begin that are not averaged over."""


def _averages(
    baseline: str,
    contender: str,
    measured: Sequence[_Measured],
    confidence: float,
    without: Sequence[str],
) -> list[AverageCompared]:
    """Average over GLUE's tasks and, where there are others, over all; one split of each: tasks are independent.

    Args:
        baseline: Its name.
        contender: Its name.
        measured: What was compared.
        confidence: The intervals'.
        without: Why tasks of both could not be compared.

    Raises:
        TaskError: if there are not two tasks to average over.
    """
    glue = [one for one in measured if GLUE_AVERAGE.get(one[0].task) == (one[0].split, one[0].metric)]
    by_task: dict[str, list[_Measured]] = {}
    for one in measured:
        if one[0].is_primary and not one[0].split.startswith(_NOT_AVERAGED):
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
    parts: Sequence[_Measured],
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
            *(f"{row.task}: {note}" for row in rows for note in row.notes if _SELECTED in note or "unpaired" in note),
            *without,
        ],
    )


def _averages_adjusted(averages: Sequence[AverageCompared]) -> list[AverageCompared]:
    """Allow for several contenders: each kind of average by itself."""
    adjusted: dict[int, float] = {}
    for name in {one.name for one in averages}:
        numbers = [number for number, one in enumerate(averages) if one.name == name]
        adjusted |= zip(numbers, holm([averages[number].difference.p for number in numbers]), strict=True)
    return [replace(one, p_adjusted=adjusted[number]) for number, one in enumerate(averages)]


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


def _other_settings(sides: Sequence[Mapping[int, tuple[Path, Result]]]) -> list[str]:
    """Say which settings of the runs differ, beyond the models and seeds that are compared."""
    found: dict[str, list[set[str]]] = {}
    for side in sides:
        flat = [_settings(result) for _, result in side.values()]
        for name in {name for settings in flat for name in settings}:
            found.setdefault(name, []).append({str(settings.get(name, "not set")) or "(empty)" for settings in flat})
    return [
        f"{name} differs: {' against '.join('/'.join(sorted(values)) for values in by_side)}"
        for name, by_side in sorted(found.items())
        if len(by_side) < len(sides) or len(set().union(*by_side)) > 1
    ]


_SELECTED = " is the best of "


def _selected_on(result: Result, split: str) -> str:
    """Say which split a result was selected on by a sweep; nothing of examples that no result is reported on."""
    swept = result.train.get("sweep")
    if not swept or swept["on"] == HELD_OUT:
        return ""
    effect = ", the examples of this comparison: too high" if swept["on"] == split else ""
    names = " and ".join(swept["settings"])
    return f"{names}{_SELECTED}{swept['num_combinations']} by {swept['metric']} on {swept['on']}{effect}"


def _settings(result: Result) -> dict[str, Any]:
    flat = flatten(with_current_names(FinetuneConfig, result.config))
    ignored = names_where(FinetuneConfig, lambda rule: not rule.is_compared)
    settings = {name: value for name, value in flat.items() if name not in ignored}
    settings |= {name: result.train[name] for name in ("num_examples",) if name in result.train}
    settings |= {f"data of {split}": digest for split, digest in result.train.get("data", {}).items()}
    return settings | {"selection": result.selection}


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))
