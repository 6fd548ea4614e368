"""How well scores rank right items above wrong ones: precision, recall, average precision.

Tests compare all of it with scikit-learn, which cannot compute average precision of thousands of weighted samples at
once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trueneg.evaluation.statistics.bootstrap import Statistic

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Curve:
    """Precision and recall at every distinct threshold, the highest first.

    Items with equal scores are accepted together, so that their order does not matter.
    """

    thresholds: Floats
    precision: Floats
    recall: Floats

    @classmethod
    def of(cls, is_right: Booleans, scores: Floats) -> Curve:
        """Compute the curve of a ranking.

        Args:
            is_right: ``[items]``, at least one of them true.
            scores: ``[items]``, higher for better.

        Raises:
            ValueError: if nothing is right.
        """
        if not is_right.any():
            raise ValueError("recall is undefined where nothing is right")
        order = np.argsort(-scores, kind="stable")
        ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
        num_right = is_right[order].cumsum()[ends]
        return cls(scores[order][ends], num_right / (ends + 1), num_right / num_right[-1])

    @property
    def average_precision(self) -> float:
        """Precision averaged over recall, as a step function: no interpolation."""
        return float(np.sum(np.diff(self.recall, prepend=0.0) * self.precision))

    @property
    def f1(self) -> Floats:
        """Harmonic mean of precision and recall at each threshold; 0 where both are 0."""
        total = self.precision + self.recall
        return np.divide(2 * self.precision * self.recall, total, out=np.zeros_like(total), where=total > 0)

    def precision_at_recall(self, recall: float) -> float:
        """Return the precision at the highest threshold with at least this recall (at most 1)."""
        return float(self.precision[np.argmax(self.recall >= recall)])

    def thinned(self, num_points: int) -> Curve:
        """Keep about this many thresholds, spread evenly over recall, including both ends."""
        spread = np.linspace(self.recall[0], 1.0, num_points)
        kept = np.unique(np.append(np.searchsorted(self.recall, spread), len(self.recall) - 1))
        return Curve(self.thresholds[kept], self.precision[kept], self.recall[kept])


def average_precision(is_right: Booleans, scores: Floats) -> Statistic:
    """Make the statistic "average precision of a ranking", with ties accepted together; nan if nothing is right.

    Args:
        is_right: ``[items]``, at least one of them true.
        scores: ``[items]``.

    Example:
        >>> measure = average_precision(np.array([True, False, True]), np.array([0.9, 0.5, 0.5]))
        >>> measure(np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]])).round(3).tolist()
        [0.833, 1.0]
    """
    order = np.argsort(-scores, kind="stable")
    is_right = is_right[order]
    rank = np.append(0, np.diff(scores[order]) != 0).cumsum()  # equal for equal scores
    # Only ranks with a right item add to the average; the items between two such ranks are counted together.
    ranks, right_starts = np.unique(rank[is_right], return_index=True)
    starts = np.append(0, np.searchsorted(rank, ranks[:-1], side="right"))
    accepted, right = order[: np.searchsorted(rank, ranks[-1], side="right")], order[is_right]

    def measured(weights: Floats) -> Floats:
        num_accepted = np.add.reduceat(weights[:, accepted], starts, axis=1).cumsum(axis=1)
        num_right = np.add.reduceat(weights[:, right], right_starts, axis=1)
        precision = num_right.cumsum(axis=1) / np.maximum(num_accepted, 1)
        total = num_right.sum(axis=1)
        return np.where(total, (num_right * precision).sum(axis=1) / np.maximum(total, 1), np.nan)

    return measured


def generalized_average_precision(gains: Floats, scores: Floats) -> float:
    """Compute average precision with graded gains (GAP; Kishida 2005): 1 if items are ordered by their gains.

    It is the mean gain down to rank i, summed over the ranks with a positive gain, divided by the same sum for the
    gains in descending order. Ties are averaged over all their orders, so that equal scores for all items give the
    expected value of a random order.

    Args:
        gains: ``[items]``, non-negative, at least one of them positive.
        scores: ``[items]``, higher for better.

    Raises:
        ValueError: if no gain is positive.

    Example:
        >>> round(generalized_average_precision(np.array([3.0, 0.0, 1.0]), np.array([0.1, 0.9, 0.5])), 3)
        0.367
    """
    if not (gains > 0).any():
        raise ValueError("nothing is to be gained")
    ideal = np.sort(gains[gains > 0])[::-1]
    best = float((ideal.cumsum() / np.arange(1, len(ideal) + 1)).sum())
    found, before, gained = 0.0, 0, 0.0
    for score in np.unique(scores)[::-1]:
        tied = gains[scores == score]
        num, total, right = len(tied), float(tied.sum()), tied[tied > 0]
        shares = 1 / np.arange(before + 1, before + num + 1)
        # Over all orders of a tie, each item is equally often at the j-th place, after j - 1 of the others.
        others = (total - right) / max(num - 1, 1)
        found += float((shares.sum() * (gained + right) + (np.arange(num) * shares).sum() * others).sum()) / num
        before, gained = before + num, gained + total
    return found / best


@dataclass(frozen=True)
class Verdicts:
    """Counts of right and of accepted items.

    A ratio with denominator zero (the precision if nothing is accepted) is nan.
    """

    num_right: int
    num_accepted: int
    num_right_accepted: int

    @classmethod
    def of(cls, is_right: Booleans, is_accepted: Booleans) -> Verdicts:
        """Count the items."""
        return cls(int(is_right.sum()), int(is_accepted.sum()), int((is_right & is_accepted).sum()))

    @property
    def precision(self) -> float:
        """Share of accepted items that are right."""
        return _ratio(self.num_right_accepted, self.num_accepted)

    @property
    def recall(self) -> float:
        """Share of right items that are accepted."""
        return _ratio(self.num_right_accepted, self.num_right)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return _ratio(2 * self.num_right_accepted, self.num_accepted + self.num_right)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
