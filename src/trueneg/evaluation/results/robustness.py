"""Effect of attacks on a model, over its seeds: metrics before and after, on the same examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trueneg.evaluation.results.store import columns_of, load_predictions
from trueneg.evaluation.results.summary import Runs
from trueneg.evaluation.statistics.bootstrap import Bootstrap, groups_of
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.evaluation.statistics.significance import Scores, difference
from trueneg.tasks.metrics import METRICS, Columns, Floats, Metric

ATTACK = "attack-"
"""Prefix of an attack's splits."""

BEFORE_AND_AFTER = (
    ("accuracy_before", "accuracy_under_attack"),
    ("exact_match_before", "exact_match_under_attack"),
    ("squad_f1_before", "squad_f1_under_attack"),
)


@dataclass(frozen=True)
class Robustness:
    """One metric of a model before and after one attack: means over seeds."""

    task: str
    attack: str
    metric: str
    before: float
    after: float
    change: Interval | None
    """After minus before, over seeds and examples; None if seeds have different examples, or just one."""
    num_seeds: int
    num_examples: int


def robustness(runs: Runs) -> list[Robustness]:
    """Measure the effect of a model's attacks, in the order of its results."""
    found = []
    for (task, split), seeds in runs.items():
        if not split.startswith(ATTACK):
            continue
        results = [result for _, result in seeds.values()]
        predictions = [load_predictions(path) for path, _ in seeds.values()]
        for before, after in BEFORE_AND_AFTER:
            if not all(name in result.metrics for name in (before, after) for result in results):
                continue
            sides = [np.array([result.metrics[name] for result in results]) for name in (before, after)]
            keys = {tuple(str(one.get("key")) for one in of_seed) for of_seed in predictions}
            change = None
            if len(keys) == 1 and len(next(iter(keys))) > 1:
                systems = [columns_of(of_seed) for of_seed in predictions]
                bootstrap = Bootstrap(groups_of(systems))
                if bootstrap.num_groups > 1:
                    samples = before_and_after(bootstrap, METRICS[after], systems)
                    left, right = (Scores(*pair) for pair in zip(sides, samples, strict=True))
                    change = difference(left, right, bootstrap.num_groups, is_paired=True).interval
            found.append(
                Robustness(
                    task,
                    attack=split.removeprefix(ATTACK),
                    metric=before.removesuffix("_before"),
                    before=float(sides[0].mean()),
                    after=float(sides[1].mean()),
                    change=change,
                    num_seeds=len(results),
                    num_examples=results[0].num_examples,
                )
            )
    return found


def before_and_after(bootstrap: Bootstrap, metric: Metric, systems: Sequence[Columns]) -> tuple[Floats, Floats]:
    """Measure systems before and under an attack on the same samples, ``[num_resamples, systems]`` each."""
    # One call for both: the bootstrap draws the same samples for what is measured together.
    drawn = bootstrap.measure(metric, [*(before_attack(metric, one) for one in systems), *systems])
    before, after = np.split(drawn, 2, axis=1)
    return before, after


def before_attack(metric: Metric, columns: Columns) -> Columns:
    """Return the columns that a metric under attack reads, as they were before the attack."""
    return {name: columns.get(f"{name}_before", columns[name]) for name in metric.columns}
