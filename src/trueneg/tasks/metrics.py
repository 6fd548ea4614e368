"""Metrics of predictions: shares in [0, 1] and correlations in [-1, 1], higher is better unless stated otherwise.

A metric reads columns of predictions and weights each example, so that one formula computes a task's score (all weights
one) and those of thousands of bootstrap samples at once (how often each example was drawn); SciPy and scikit-learn,
which the tests compare with, compute one sample at a time. Undefined values, such as a correlation with a constant or a
ratio with denominator zero, are 0, as in scikit-learn's MCC and F1 and as GLUE counts a model that predicts the same
for everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trueneg.errors import TaskError

Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""Predictions by column, ``[examples]`` each."""
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """A metric of many examples, and each example's own score.

    Example:
        >>> METRICS["accuracy"]({"gold": np.array([1, 0, 1, 1]), "predicted": np.array([1, 0, 0, 1])})
        0.75
    """

    name: str
    columns: tuple[str, ...]
    """Columns that it reads."""
    formula: Callable[[Columns, Floats], Floats]
    """Maps columns ``[examples]`` and weights ``[samples, examples]`` to values ``[samples]``."""
    score: Callable[[Columns], Floats]
    """For sign tests: a number per example, ``[examples]``, higher for the better prediction."""
    takes_words: bool = False
    """Whether its columns may hold labels as text; otherwise numbers only."""
    less_is_better: bool = False

    def __call__(self, columns: Columns) -> float:
        """Compute the metric of all examples.

        Raises:
            TaskError: for no examples, a missing column, or numbers that are not finite.
        """
        return float(self.weighted(columns, np.ones((1, len(self._checked(columns)))))[0])

    def weighted(self, columns: Columns, weights: NDArray[np.number[Any]]) -> Floats:
        """Compute the metric of samples in which example ``i`` occurs ``weights[:, i]`` times: ``[samples]``.

        Raises:
            TaskError: as ``__call__``.
        """
        self._checked(columns)
        return self.formula(columns, np.asarray(weights, dtype=np.float64))

    def scores(self, columns: Columns) -> Floats:
        """Score each prediction by itself, ``[examples]``: see ``score``.

        Raises:
            TaskError: as ``__call__``.
        """
        self._checked(columns)
        return np.asarray(self.score(columns), dtype=np.float64)

    def _checked(self, columns: Columns) -> NDArray[Any]:
        for name in self.columns:
            if name not in columns:
                raise TaskError(f"the metric '{self.name}' reads '{name}', which the answers lack: evaluate again")
            if not len(columns[name]):
                raise TaskError(f"the metric '{self.name}' has no examples to measure: evaluate a split with examples")
            if columns[name].dtype.kind not in "biuf" and not self.takes_words:
                raise TaskError(f"the metric '{self.name}' reads '{name}', which holds no numbers: evaluate again")
            if columns[name].dtype.kind == "f" and not np.isfinite(columns[name]).all():
                raise TaskError(f"'{name}' holds numbers that are not finite: the model diverged, train it again")
        return columns[self.columns[0]]


def _share(over: Floats, under: Floats) -> Floats:
    """Divide; 0 where the denominator is zero."""
    return np.divide(over, under, out=np.zeros_like(over), where=under > 0)


def _is_right(columns: Columns) -> Floats:
    return np.asarray(columns["gold"] == columns["predicted"], dtype=np.float64)


def _was_right(columns: Columns) -> Floats:
    return np.asarray(columns["gold"] == columns["predicted_before"], dtype=np.float64)


def _was_misled(columns: Columns) -> Floats:
    return _was_right(columns) * (1.0 - _is_right(columns))


def _mean_of(values: Callable[[Columns], Floats]) -> Callable[[Columns, Floats], Floats]:
    return lambda columns, weights: _share(weights @ values(columns), weights.sum(axis=1))


def _column(name: str) -> Callable[[Columns], Floats]:
    return lambda columns: np.asarray(columns[name], dtype=np.float64)


def _class_counts(columns: Columns, weights: Floats, classes: NDArray[Any]) -> tuple[Floats, Floats, Floats]:
    """Count right, gold and predicted examples of each class, ``[samples, classes]`` each."""
    is_gold = columns["gold"][:, None] == classes
    is_predicted = columns["predicted"][:, None] == classes
    right, gold, predicted = (
        weights @ kind.astype(np.float64) for kind in (is_gold & is_predicted, is_gold, is_predicted)
    )
    return right, gold, predicted


def _classes(columns: Columns) -> NDArray[Any]:
    return np.union1d(columns["gold"], columns["predicted"])


def _f1(columns: Columns, weights: Floats) -> Floats:
    right, gold, predicted = _class_counts(columns, weights, np.array([1]))
    return _share(2 * right, gold + predicted)[:, 0]


def _macro_f1(columns: Columns, weights: Floats) -> Floats:
    """Average over the classes that occur in a sample as gold or predicted."""
    right, gold, predicted = _class_counts(columns, weights, _classes(columns))
    return _share(_share(2 * right, gold + predicted).sum(axis=1), (gold + predicted > 0).sum(axis=1).astype(float))


def _matthews(columns: Columns, weights: Floats) -> Floats:
    """Compute Gorodkin (2004)'s R_K for any number of classes; for two it is Matthews' correlation."""
    right, gold, predicted = _class_counts(columns, weights, _classes(columns))
    total = weights.sum(axis=1)
    covariance = right.sum(axis=1) * total - (gold * predicted).sum(axis=1)
    variances = (total**2 - (gold**2).sum(axis=1)) * (total**2 - (predicted**2).sum(axis=1))
    return _share(covariance, np.sqrt(variances))


def _pearson(columns: Columns, weights: Floats) -> Floats:
    x, y = (_standard(columns[name]) for name in ("gold", "predicted"))
    total = weights.sum(axis=1)
    mean_x, mean_y, xx, yy, xy = (weights @ values / total for values in (x, y, x * x, y * y, x * y))
    return _correlation(xx - mean_x**2, yy - mean_y**2, xy - mean_x * mean_y)


def _spearman(columns: Columns, weights: Floats) -> Floats:
    """Compute Pearson's correlation of the ranks *within each sample*, ties at their mean rank."""
    total = weights.sum(axis=1, keepdims=True)
    x, y = (_ranks(columns[name], weights) / total - 0.5 for name in ("gold", "predicted"))
    weighted_x, weighted_y = weights * x, weights * y
    xx, yy, xy = (np.einsum("se,se->s", *pair) for pair in ((weighted_x, x), (weighted_y, y), (weighted_x, y)))
    return _correlation(xx, yy, xy)


def _ranks(values: NDArray[Any], weights: Floats) -> Floats:
    """Rank values, with mean ``total / 2``: the weight of lower values, plus half that of equal ones."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    same = np.add.reduceat(weights[:, order], starts, axis=1)
    middle = np.cumsum(same, axis=1) - same / 2
    number = np.empty(len(values), dtype=np.int64)
    number[order] = np.repeat(np.arange(len(starts)), np.diff([*starts, len(values)]))
    ranks: Floats = middle[:, number]
    return ranks


def _standard(values: NDArray[Any]) -> Floats:
    """Shift and scale, so that sums of squares lose no precision; zeros for a constant."""
    numbers = np.asarray(values, dtype=np.float64)
    spread = float(np.ptp(numbers))
    return (numbers - numbers.mean()) / spread if spread else np.zeros_like(numbers)


def _correlation(xx: Floats, yy: Floats, xy: Floats) -> Floats:
    is_constant = (xx < 1e-14) | (yy < 1e-14)  # constant up to rounding
    correlation: Floats = np.where(is_constant, 0.0, xy / np.sqrt(np.where(is_constant, 1.0, xx * yy)))
    return np.clip(correlation, -1.0, 1.0)


def _span_f1(columns: Columns, weights: Floats) -> Floats:
    right, gold, predicted = (weights @ columns[f"num_{kind}"] for kind in ("right", "gold", "predicted"))
    return _share(2 * right, gold + predicted)


def _ratio(name: str, over: str, under: str) -> Metric:
    """Make a ratio of sums over all examples."""
    return Metric(
        name,
        (over, under),
        lambda columns, weights: _share(weights @ columns[over], weights @ columns[under]),
        _column(over),
    )


def _nearness(columns: Columns) -> Floats:
    return -np.abs(np.asarray(columns["predicted"], dtype=np.float64) - columns["gold"])


SUBSTITUTION_LEVELS: Mapping[str, Callable[[float], bool]] = {
    "acceptable": lambda share: share > 0.5,
    "conceivable": lambda share: share >= 0.1 - 1e-9,
}
"""Level to whether a substitute accepted by a share of annotators is right, as in SWORDS (Lee et al. 2021)."""

SUBSTITUTION_LISTS = ("lenient", "strict")
"""Only words that people judged, or all words that a system gives."""


def _f10(right: str, given: str, possible: str) -> Metric:
    """Make F1 of the ten best words, from sums over all targets: ``2 right / (given + possible)``."""
    return Metric(
        right.replace("num_", "f10_").removesuffix("_10"),
        (right, given, possible),
        lambda columns, weights: _share(2 * (weights @ columns[right]), weights @ (columns[given] + columns[possible])),
        lambda columns: 2.0 * columns[right] - columns[given] - columns[possible],
    )


_SUBSTITUTION = [
    *(
        _f10(f"num_{way}_{level}_10", f"num_{way}_10", f"num_{level}")
        for way in SUBSTITUTION_LISTS
        for level in SUBSTITUTION_LEVELS
    ),
    *(
        _ratio(f"p1_{way}_{level}", f"num_{way}_{level}_1", f"num_{way}_1")
        for way in SUBSTITUTION_LISTS
        for level in SUBSTITUTION_LEVELS
    ),
]

SUBSTITUTION_METRICS = tuple(metric.name for metric in _SUBSTITUTION)
"""Metrics of words predicted in a target's place: F10 and precision at 1, ``<metric>_<list>_<level>``."""

GAP = "gap"
"""Generalized average precision of the judged words, ranked by a model: the mean over targets with an accepted word."""

_LABELS = ("gold", "predicted")

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", _LABELS, _mean_of(_is_right), _is_right, takes_words=True),
        Metric("f1", _LABELS, _f1, _is_right),
        Metric("macro_f1", _LABELS, _macro_f1, _is_right, takes_words=True),
        Metric("matthews", _LABELS, _matthews, _is_right, takes_words=True),
        Metric("pearson", _LABELS, _pearson, _nearness),
        Metric("spearman", _LABELS, _spearman, _nearness),
        Metric("exact_match", ("exact",), _mean_of(_column("exact")), _column("exact")),
        Metric("squad_f1", ("f1",), _mean_of(_column("f1")), _column("f1")),
        Metric(
            "span_f1",
            ("num_gold", "num_predicted", "num_right"),
            _span_f1,
            # Minus the number of extra and missing spans: F1 is undefined for an example without spans.
            lambda columns: 2.0 * columns["num_right"] - columns["num_gold"] - columns["num_predicted"],
        ),
        _ratio("token_accuracy", "num_tokens_right", "num_tokens"),
        _ratio("group_consistency", "num_groups_right", "num_groups"),
        _ratio("pair_consistency", "num_pairs_right", "num_revised"),
        _ratio("original", "num_original_right", "num_original"),
        _ratio("revised", "num_revised_right", "num_revised"),
        Metric("accuracy_under_attack", _LABELS, _mean_of(_is_right), _is_right, takes_words=True),
        Metric("accuracy_before", ("gold", "predicted_before"), _mean_of(_was_right), _was_right, takes_words=True),
        Metric(
            "attack_success_rate",
            ("gold", "predicted", "predicted_before"),
            lambda columns, weights: _share(weights @ _was_misled(columns), weights @ _was_right(columns)),
            lambda columns: -_was_misled(columns),
            takes_words=True,
            less_is_better=True,
        ),
        Metric("exact_match_under_attack", ("exact",), _mean_of(_column("exact")), _column("exact")),
        Metric("squad_f1_under_attack", ("f1",), _mean_of(_column("f1")), _column("f1")),
        Metric("exact_match_before", ("exact_before",), _mean_of(_column("exact_before")), _column("exact_before")),
        Metric("squad_f1_before", ("f1_before",), _mean_of(_column("f1_before")), _column("f1_before")),
        *_SUBSTITUTION,
        _ratio(GAP, "gap", "has_gain"),
    )
}
"""Metrics by name. ``f1`` is that of class 1, ``macro_f1`` the mean over classes; ``exact_match`` and ``squad_f1`` are
means of the columns ``exact`` and ``f1``; ``span_f1`` and ``token_accuracy`` use sums over all examples ("micro"). For
contrast sets: groups and pairs that are right as a whole, originals, and revised examples. For attacks: metrics on the
same examples ``before`` and ``under_attack``, and ``attack_success_rate``, the share of the examples right before that
are wrong after (TextAttack's definition). For words in a target's place: ``SUBSTITUTION_METRICS`` and ``GAP``."""
