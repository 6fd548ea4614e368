"""Two systems' predictions for one split of one task: the difference in each metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trueneg.config.codec import flatten, with_current_names
from trueneg.config.fields import names_where
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.errors import TaskError, unknown_name
from trueneg.evaluation.results.robustness import before_and_after
from trueneg.evaluation.results.store import HELD_OUT, Result, columns_of, is_constant, load_predictions
from trueneg.evaluation.statistics.averages import Pair, error_reduction
from trueneg.evaluation.statistics.bootstrap import Bootstrap, groups_of
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.evaluation.statistics.significance import (
    MIN_SEEDS,
    Difference,
    Scores,
    SignTest,
    difference,
    sign_test,
    stochastic_order,
)
from trueneg.tasks.metrics import METRICS, Columns, Floats, Metric


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
    """The baseline's score by seed."""
    right: dict[int, float]
    """The contender's score by seed."""
    is_paired: bool
    """Whether the difference is taken seed by seed."""
    num_examples: int
    num_groups: int
    """Number of independent examples, or groups of them."""
    difference: Difference
    """Contender minus baseline."""
    signs: SignTest
    eps_min: float | None
    """How far the contender's seeds are from being stochastically above the baseline's; None with fewer than
    ``MIN_SEEDS``, which are too few to tell."""
    p_adjusted: float | None = None
    """By Holm's method over all primary metrics of the comparison; None for other metrics."""
    error_reduction: Interval | None = None
    """The difference as a share of the baseline's errors; None if it makes none."""
    notes: list[str] = field(default_factory=list)
    """What else differs between the two: seeds left out, settings."""

    @property
    def has_seeds(self) -> bool:
        """Whether the difference holds for the training methods, not only for these models."""
        return self.difference.seeds is not None


MeasuredPair: TypeAlias = tuple[Compared, Pair]
"""The comparison of a metric, and the scores behind it."""


class SplitPair:
    """Two systems' results on one split of one task, with the seeds that are compared.

    Args:
        baseline: Its name.
        contender: Its name.
        task: Its name in the results.
        split: Its name in the results.
        left: The baseline's result file and result, by seed.
        right: The contender's, likewise.
    """

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

    def compared(self, metric: str, confidence: float, resamples: int, seed: int) -> list[MeasuredPair]:
        """Compare each chosen metric that all results have."""
        chosen = self._chosen(metric)
        if unknown := [name for name in chosen if name not in METRICS]:
            first_path = next(iter(self.sides[0].values()))[0]
            raise TaskError(f"'{first_path}': {unknown_name('metric', unknown[0], METRICS)}: evaluate the model again")
        if not chosen or self._too_few:
            return []
        self.notes += [
            f"{name} predicts the same of everything with seeds {_listed(seeds)}"
            for name, seeds in zip((self.names["baseline"], self.names["contender"]), self._read[1], strict=True)
            if seeds
        ]
        return [
            self._compared(METRICS[name], pair, confidence, seed)
            for name in chosen
            if (pair := self.scores(name, "", resamples, seed))
        ]

    def scores(self, metric: str, subtract: str = "", resamples: int = 10_000, seed: int = 0) -> Pair | None:
        """Score both systems with each seed, and on bootstrap samples.

        Args:
            metric: Name of the metric.
            subtract: Metric before an attack to subtract ``metric`` from, which gives the drop; empty for none.
            resamples: Number of bootstrap samples.
            seed: Seed of the bootstrap.

        Returns:
            The scores; None if there are fewer than two examples, or groups of them, or some results lack a metric.
        """
        names = [subtract, metric] if subtract else [metric]
        if not all(self._chosen(name) for name in names) or self._too_few:
            return None
        bootstrap, systems = Bootstrap(self._groups, resamples, seed), [*self._read[0][0], *self._read[0][1]]
        figures = [
            [self._by_seed(METRICS[name], *side) for name in names]
            for side in zip(self.sides, self._read[0], strict=True)
        ]
        if subtract:
            before, after = before_and_after(bootstrap, METRICS[metric], systems)
            by_seed, drawn = [was - now for was, now in figures], before - after
        else:
            by_seed, drawn = [of_side[0] for of_side in figures], bootstrap.measure(METRICS[metric], systems)
        samples = np.split(drawn, [len(by_seed[0])], axis=1)
        left, right = (Scores(*side) for side in zip(by_seed, samples, strict=True))
        return Pair(left, right, bootstrap.num_groups, self.is_paired)

    def lacking(self, metric: str) -> list[str]:
        """List the chosen metrics that only some results have, or report that there are too few examples."""
        results = [result for side in self.sides for _, result in side.values()]
        if not all(result.metrics for result in results):
            return []
        where = f"{self.names['task']} {self.names['split']}"
        if self._chosen(metric) and self._too_few:
            return [f"{where}: {self._too_few}, of which nothing is compared"]
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
        return [f"{where}: {', '.join(found)}: evaluate again"] if found else []

    def _chosen(self, metric: str) -> list[str]:
        """Return the chosen metrics that all results have."""
        results = [result for side in self.sides for _, result in side.values()]
        known = [name for name in results[0].metrics if all(name in result.metrics for result in results)]
        chosen = known if metric == "all" else [results[0].primary if metric == "primary" and known else metric]
        return [name for name in chosen if name in known]

    @cached_property
    def _too_few(self) -> str:
        """Describe examples of which nothing can be compared; empty if there are enough."""
        if next(iter(self.sides[0].values()))[1].num_examples < 2:
            return "one example"
        return "one group of examples" if len(np.unique(self._groups)) < 2 else ""

    @cached_property
    def _groups(self) -> NDArray[Any]:
        return groups_of([columns for systems in self._read[0] for columns in systems])

    @cached_property
    def _read(self) -> tuple[list[list[Columns]], list[list[int]]]:
        """Read each side's predictions by seed, all in the order of the first file, and list its constant seeds."""
        order: dict[str, int] = {}
        gold: list[Any] = []
        sides, constant = [], []
        for side in self.sides:
            systems, of_side = [], []
            for seed, (path, _) in side.items():
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
                of_side += [seed] if is_constant(ordered) else []
            sides.append(systems)
            constant.append(of_side)
        return sides, constant

    def _compared(self, metric: Metric, pair: Pair, confidence: float, seed: int) -> MeasuredPair:
        by_seed = [pair.left.by_seed, pair.right.by_seed]
        figures = [dict(zip(side, of.tolist(), strict=True)) for side, of in zip(self.sides, by_seed, strict=True)]
        mean_scores = [np.mean([metric.scores(columns) for columns in systems], axis=0) for systems in self._read[0]]
        upward = -1.0 if metric.less_is_better else 1.0
        row = Compared(
            **self.names,
            metric=metric.name,
            is_primary=metric.name == next(iter(self.sides[0].values()))[1].primary,
            left=figures[0],
            right=figures[1],
            is_paired=self.is_paired,
            num_examples=len(self._groups),
            num_groups=pair.num_groups,
            difference=difference(
                pair.left, pair.right, pair.num_groups, is_paired=self.is_paired, confidence=confidence
            ),
            signs=sign_test(mean_scores[1] - mean_scores[0], self._groups),
            eps_min=stochastic_order(*(upward * scores for scores in by_seed), seed=seed)
            if min(map(len, by_seed)) >= MIN_SEEDS
            else None,
            error_reduction=error_reduction([pair], less_is_better=metric.less_is_better, confidence=confidence),
            notes=self.notes,
        )
        return row, pair

    def _by_seed(self, metric: Metric, side: Mapping[int, tuple[Path, Result]], systems: Sequence[Columns]) -> Floats:
        """Compute the metric of each seed from its predictions, which must reproduce the value in the result file."""
        figures = np.array([metric(columns) for columns in systems])
        for (path, result), figure in zip(side.values(), figures, strict=True):
            if abs(figure - result.metrics[metric.name]) > 1e-6:
                raise TaskError(
                    f"the predictions behind '{path}' give {metric.name} {figure:.6f}, the file says "
                    f"{result.metrics[metric.name]:.6f}: one of them is not of this run, evaluate again"
                )
        return figures


def _other_settings(sides: Sequence[Mapping[int, tuple[Path, Result]]]) -> list[str]:
    """Report settings in which the runs differ, other than the models and seeds that are compared."""
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


SELECTED = " is the best of "


def _selected_on(result: Result, split: str) -> str:
    """Report the split on which a sweep selected a result; empty for held-out training examples."""
    swept = result.train.get("sweep")
    if not swept or swept["on"] == HELD_OUT:
        return ""
    effect = ", the examples of this comparison: too high" if swept["on"] == split else ""
    names = " and ".join(swept["settings"])
    return f"{names}{SELECTED}{swept['num_combinations']} by {swept['metric']} on {swept['on']}{effect}"


def _settings(result: Result) -> dict[str, Any]:
    flat = flatten(with_current_names(FinetuneConfig, result.config))
    ignored = names_where(FinetuneConfig, lambda rule: not rule.is_compared)
    settings = {name: value for name, value in flat.items() if name not in ignored}
    settings |= {name: result.train[name] for name in ("num_examples",) if name in result.train}
    settings |= {f"data of {split}": digest for split, digest in result.train.get("data", {}).items()}
    return settings | {"selection": result.selection}


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))
