"""What an attack did to a model: figures before and after, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trueneg.attacks.base import AdversarialExample
from trueneg.evaluation.results.store import columns_of
from trueneg.evaluation.statistics.bootstrap import Bootstrap
from trueneg.evaluation.statistics.intervals import percentiles
from trueneg.tasks.base import Prediction
from trueneg.tasks.metrics import METRICS, Columns, Metric

TEXT_METRICS = ("accuracy", "accuracy_before", "withstood")
"""After the attack, before it, and how many of those that were right stayed so."""
SQUAD_METRICS = ("exact_match", "squad_f1", "exact_match_before", "squad_f1_before")


@dataclass(frozen=True)
class Figure:
    """An estimate with its interval, as far as there is one."""

    estimate: float
    low: float | None
    """None, as ``high``, if there is but one example or group: its figure says nothing of others."""
    high: float | None
    num: int
    """Examples, or groups of them, that it rests on."""


@dataclass(frozen=True)
class Drop:
    """A metric before and after an attack, of the same examples."""

    metric: str
    before: Figure
    after: Figure
    drop: Figure
    """Before minus after."""


def text_answers(
    adversaries: Sequence[AdversarialExample[Any]], before: Sequence[Prediction], after: Sequence[Prediction]
) -> list[Prediction]:
    """One answer an example, as ``TEXT_METRICS`` read them.

    ``predicted`` is what the model says after the attack, and ``is_attacked`` whether it was right before it: who is
    wrong already is not attacked, and counts as wrong.
    """
    return [
        {
            **{name: value for name, value in now.items() if name != "probabilities"},
            "predicted_before": then["predicted"],
            "outcome": adversary.outcome,
            "num_queries": adversary.num_queries,
            "num_examples": 1,
            "is_attacked": int(then["predicted"] == then["gold"]),
            "is_withstood": int(then["predicted"] == then["gold"] == now["predicted"]),
        }
        for adversary, then, now in zip(adversaries, before, after, strict=True)
    ]


def squad_answers(
    adversaries: Sequence[AdversarialExample[Any]], before: Sequence[Prediction], after: Sequence[Prediction]
) -> list[Prediction]:
    """One answer a question, as ``SQUAD_METRICS`` read them."""
    return [
        {**now, **{f"{name}_before": then[name] for name in ("predicted", "exact", "f1")}, "outcome": adversary.outcome}
        for adversary, then, now in zip(adversaries, before, after, strict=True)
    ]


def outcomes(adversaries: Sequence[AdversarialExample[Any]]) -> dict[str, int]:
    """How often each outcome came; of what was attacked, the ``queries``; and adversaries noted as ``invalid``.

    Some attacks ask about what they skip, too: that is no part of what a success costs.
    """
    counts: dict[str, int] = dict(Counter(adversary.outcome for adversary in adversaries))
    more = {
        "queries": sum(a.num_queries for a in adversaries if a.outcome in ("succeeded", "failed")),
        "invalid": sum(a.notes.get("is_valid") is False for a in adversaries),
    }
    return counts | {name: num for name, num in more.items() if num}


def drops(
    answers: Sequence[Prediction],
    metrics: Sequence[str],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Drop]:
    """Each metric before and after, with percentile intervals of one bootstrap, over groups where answers have them.

    Of a single example or group there is no interval.

    Args:
        answers: Of ``text_answers`` or ``squad_answers``.
        metrics: Of the answers' kind; what has no "before" is left out.
        confidence: Of the intervals.
        resamples: How many.
        seed: Of the draws, which are the same for before and after.
    """
    columns = columns_of(answers)
    found = []
    for name in metrics:
        before = _before(METRICS[name], columns)
        if before is None:
            continue
        pair = [before, columns]
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


def _before(metric: Metric, columns: Columns) -> Columns | None:
    """Columns in which a metric of afterwards reads what was so before; None if it reads nothing of the kind."""
    renamed = {name: columns[f"{name}_before"] for name in metric.columns if f"{name}_before" in columns}
    return {**columns, **renamed} if renamed else None
