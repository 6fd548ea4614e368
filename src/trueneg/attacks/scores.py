"""Effect of an attack on a model: metrics before and after, with confidence intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trueneg.attacks.base import AdversarialExample
from trueneg.evaluation.results.robustness import before_attack
from trueneg.evaluation.results.store import columns_of
from trueneg.evaluation.statistics.bootstrap import Bootstrap
from trueneg.evaluation.statistics.intervals import percentiles
from trueneg.tasks.base import Prediction
from trueneg.tasks.metrics import METRICS

TEXT_METRICS = ("accuracy_under_attack", "accuracy_before", "attack_success_rate")
"""Metrics of a classifier's result."""
SQUAD_METRICS = ("exact_match_under_attack", "squad_f1_under_attack", "exact_match_before", "squad_f1_before")
"""Metrics of a reader's result."""
TEXT_DROPS, SQUAD_DROPS = ("accuracy",), ("exact_match", "squad_f1")
"""Metrics that are compared before and after."""


@dataclass(frozen=True)
class Figure:
    """An estimate with its confidence interval, if there is one."""

    estimate: float
    low: float | None
    """None, like ``high``, if there is only one example or group."""
    high: float | None
    num: int
    """Number of examples, or groups of them, that it is based on."""


@dataclass(frozen=True)
class Drop:
    """A metric before and after an attack, on the same examples."""

    metric: str
    before: Figure
    after: Figure
    drop: Figure
    """Before minus after."""


def text_predictions(
    examples: Sequence[AdversarialExample[Any]], before: Sequence[Prediction], after: Sequence[Prediction]
) -> list[Prediction]:
    """Make one record per example, as ``TEXT_METRICS`` read them.

    ``predicted`` is the prediction under attack, ``predicted_before`` the one on the original, whose group it keeps:
    an attack on a shared premise would separate its examples.
    """
    return [
        {
            **{name: value for name, value in now.items() if name not in ("probabilities", "group")},
            **{name: value for name, value in then.items() if name == "group"},
            "predicted_before": then["predicted"],
            "outcome": example.outcome,
            "num_queries": example.num_queries,
        }
        for example, then, now in zip(examples, before, after, strict=True)
    ]


def squad_predictions(
    examples: Sequence[AdversarialExample[Any]], before: Sequence[Prediction], after: Sequence[Prediction]
) -> list[Prediction]:
    """Make one record per question, as ``SQUAD_METRICS`` read them.

    Of several examples with the same key, the prediction with the lowest F1 counts (the first in case of ties), as in
    Jia and Liang's evaluation.
    """
    worst: dict[str, Prediction] = {}
    for example, then, now in zip(examples, before, after, strict=True):
        was = {f"{name}_before": then[name] for name in ("predicted", "exact", "f1")}
        known = worst.get(now["key"])
        if known is None or now["f1"] < known["f1"]:
            worst[now["key"]] = {**now, **was, "outcome": example.outcome}
    return list(worst.values())


def outcomes(examples: Sequence[AdversarialExample[Any]]) -> dict[str, int]:
    """Count outcomes, the ``queries`` of attacked examples, and adversarial examples noted as ``invalid``.

    Some attacks also query examples that they skip, which does not count as a cost of success.
    """
    counts: dict[str, int] = dict(Counter(example.outcome for example in examples))
    more = {
        "queries": sum(a.num_queries for a in examples if a.outcome in ("succeeded", "failed")),
        "invalid": sum(a.notes.get("is_valid") is False for a in examples),
    }
    return counts | {name: num for name, num in more.items() if num}


def drops(
    predictions: Sequence[Prediction],
    metrics: Sequence[str],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Drop]:
    """Compute metrics before and after, with percentile intervals of one bootstrap, over groups if there are any.

    A single example or group has no interval.

    Args:
        predictions: From ``text_predictions`` or ``squad_predictions``.
        metrics: ``TEXT_DROPS`` or ``SQUAD_DROPS``.
        confidence: Of the intervals.
        resamples: Number of bootstrap resamples.
        seed: Of the resamples, which are the same for before and after.
    """
    columns = columns_of(predictions)
    found = []
    for name in metrics:
        pair = [before_attack(METRICS[name], columns), columns]
        was, now = (METRICS[name](side) for side in pair)
        values = (was, now, was - now)
        bootstrap = Bootstrap.over(columns, resamples, seed)
        ends: list[tuple[float | None, float | None]] = [(None, None)] * len(values)
        if bootstrap.num_groups > 1:
            drawn = bootstrap.measure(METRICS[name], pair)
            samples = (drawn[:, 0], drawn[:, 1], drawn[:, 0] - drawn[:, 1])
            ends = [percentiles(some, confidence) for some in samples]
        figures = [Figure(value, *both, bootstrap.num_groups) for value, both in zip(values, ends, strict=True)]
        found.append(Drop(name, *figures))
    return found
