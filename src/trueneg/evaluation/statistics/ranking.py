"""How well scores rank what is right above what is wrong: precision, recall, average precision, and their intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MOST_NUMBERS = 1 << 18  # that a step of the bootstrap holds at a time: 2 MiB stay in a processor's cache


@dataclass(frozen=True, eq=False)
class Curve:
    """Precision and recall at every threshold that makes a difference, the highest first.

    Items of equal score are accepted together, so that no order among them is made up.
    """

    thresholds: Floats
    precision: Floats
    recall: Floats

    @classmethod
    def of(cls, is_right: Booleans, scores: Floats) -> Curve:
        """Read the curve off scores.

        Args:
            is_right: ``[items]``, at least one of them true.
            scores: ``[items]``, higher for better.

        Raises:
            ValueError: if nothing is right.
        """
        if not is_right.any():
            raise ValueError("there is no recall where nothing is right")
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
        """Harmonic mean of precision and recall at each threshold; 0 where both are."""
        total = self.precision + self.recall
        return np.divide(2 * self.precision * self.recall, total, out=np.zeros_like(total), where=total > 0)

    def precision_at_recall(self, recall: float) -> float:
        """Precision at the highest threshold that reaches a recall of at most 1."""
        return float(self.precision[np.argmax(self.recall >= recall)])

    def thinned(self, num_points: int) -> Curve:
        """The curve at so many thresholds, evenly spread over recall, its ends among them."""
        wanted = np.linspace(self.recall[0], 1.0, num_points)
        kept = np.unique(np.append(np.searchsorted(self.recall, wanted), len(self.recall) - 1))
        return Curve(self.thresholds[kept], self.precision[kept], self.recall[kept])


def average_precision(is_right: Booleans, scores: Floats) -> float:
    """Average precision of a ranking, items of equal score taken together.

    Args:
        is_right: ``[items]``, at least one of them true.
        scores: ``[items]``.

    Example:
        >>> average_precision(np.array([True, False, True]), np.array([0.9, 0.5, 0.5])).__round__(3)
        0.833
    """
    return Curve.of(is_right, scores).average_precision


@dataclass(frozen=True)
class Verdicts:
    """What accepting some items gets right.

    A ratio without a denominator (the precision of accepting nothing) is nan.
    """

    num_right: int
    num_accepted: int
    num_right_accepted: int

    @classmethod
    def of(cls, is_right: Booleans, is_accepted: Booleans) -> Verdicts:
        """Count."""
        return cls(int(is_right.sum()), int(is_accepted.sum()), int((is_right & is_accepted).sum()))

    @property
    def precision(self) -> float:
        """Share of what is accepted that is right."""
        return _ratio(self.num_right_accepted, self.num_accepted)

    @property
    def recall(self) -> float:
        """Share of what is right that is accepted."""
        return _ratio(self.num_right_accepted, self.num_right)

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        return _ratio(2 * self.num_right_accepted, self.num_accepted + self.num_right)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


@dataclass(frozen=True, eq=False)
class Resamples:
    """Draws of groups with replacement: how often each draw has each group.

    Whole groups are drawn because their items are not independent (the substitutes of one target). Everything
    read off the same draws is paired: the difference of two rankings is that of each draw.
    """

    counts: Integers
    """``[draws, groups]``."""

    @classmethod
    def draw(cls, num_groups: int, num_draws: int = 1000, seed: int = 0) -> Resamples:
        """Draw as many groups as there are, ``num_draws`` times."""
        generator = np.random.default_rng(seed)
        return cls(generator.multinomial(num_groups, np.full(num_groups, 1 / num_groups), size=num_draws))

    def average_precision(self, is_right: Booleans, scores: Floats, groups: Integers) -> Floats:
        """Average precision in each draw, ``[draws]``; nan in one with nothing right.

        Args:
            is_right: ``[items]``, at least one of them true.
            scores: ``[items]``.
            groups: ``[items]``, the group of each.
        """
        order = np.argsort(-scores, kind="stable")
        groups, is_right = groups[order], is_right[order]
        rank = np.append(0, np.diff(scores[order]) != 0).cumsum()  # of equal scores, the same
        # Only ranks with something right add to the average; the items between two of them are counted together.
        ranks, right_starts = np.unique(rank[is_right], return_index=True)
        starts = np.append(0, np.searchsorted(rank, ranks[:-1], side="right"))
        accepted, right = groups[: np.searchsorted(rank, ranks[-1], side="right")], groups[is_right]
        num_at_once = max(1, _MOST_NUMBERS // len(accepted))
        found = []
        for first in range(0, len(self.counts), num_at_once):
            counts = self.counts[first : first + num_at_once]
            num_accepted = np.add.reduceat(counts[:, accepted], starts, axis=1).cumsum(axis=1)
            num_right = np.add.reduceat(counts[:, right], right_starts, axis=1)
            precision = num_right.cumsum(axis=1) / np.maximum(num_accepted, 1)
            total = num_right.sum(axis=1)
            found.append(np.where(total, (num_right * precision).sum(axis=1) / np.maximum(total, 1), np.nan))
        return np.concatenate(found)

    def ratio(self, parts: Floats, wholes: Floats, groups: Integers) -> Floats:
        """Sum of parts over sum of wholes in each draw, ``[draws]``; nan where there is no whole.

        Args:
            parts: ``[items]``.
            wholes: ``[items]``.
            groups: ``[items]``, the group of each.
        """
        num_groups = self.counts.shape[1]
        part, whole = (self.counts @ np.bincount(groups, x, minlength=num_groups) for x in (parts, wholes))
        return np.asarray(np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0), np.float64)


def interval(draws: Floats, coverage: float = 0.95) -> tuple[float, float]:
    """The percentile interval of draws; those without a value (nan) are left out.

    Example:
        >>> interval(np.arange(5.0), coverage=0.5)
        (1.0, 3.0)
    """
    if np.isnan(draws).all():
        return float("nan"), float("nan")
    low, high = np.nanquantile(draws, [(1 - coverage) / 2, (1 + coverage) / 2])
    return float(low), float(high)
