"""Averages over tasks: differences between two systems, also as shares of the errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import scipy

from trueneg.evaluation.statistics.intervals import Interval
from trueneg.evaluation.statistics.significance import Difference, Scores, probability, variance_sources
from trueneg.evaluation.statistics.two_sources import Source, half_width, sum_of

_NO_BOUND = 1e3
"""How far above the estimated ratio an interval's end is searched for; beyond that it is infinite."""


@dataclass(frozen=True)
class Pair:
    """Two systems' scores on one task."""

    left: Scores
    """The baseline's scores."""
    right: Scores
    """The other system's scores, on the same bootstrap samples."""
    num_groups: int
    """Number of examples, or groups, in a sample."""
    is_paired: bool
    """Whether both have the same seeds, in the same order."""


@dataclass(frozen=True)
class MeanDifference:
    """Difference of the means over tasks, and its uncertainty."""

    interval: Interval
    """``num`` is the number of tasks."""
    p: float
    has_seeds: bool
    """Whether every task has several seeds: else it holds for these models only, not for training methods."""


def mean_difference(parts: Sequence[Difference], confidence: float = 0.95) -> MeanDifference:
    """Combine the differences of several tasks: the difference of means over tasks of means over seeds.

    Tasks are independent: they share no examples, and equal seeds on two tasks are unrelated. So variances add up,
    V = sum(V_t) / T^2, those of seeds and those of examples each with Welch and Satterthwaite's degrees of freedom,
    V^2 / sum((V_t / T^2)^2 / f_t); the interval is that of ``significance.difference``.

    Means, not medians over seeds: the standard error of a median cannot be estimated from a few seeds.

    Args:
        parts: One difference per task.
        confidence: Confidence level.

    Example:
        >>> from trueneg.evaluation.statistics.two_sources import Source
        >>> one = Difference(Interval(0.02, 0, 0.04, 100), 0.05, Source(1e-4, 9.0), None, None, None)
        >>> str(mean_difference([one, one, one, one]).interval)
        '+0.020 [+0.010, +0.030]'
    """
    num = len(parts)
    estimate = sum(part.interval.estimate for part in parts) / num
    examples = _of_mean([part.examples for part in parts], num)
    seeds = _of_mean([part.seeds for part in parts if part.seeds], num)
    half = half_width(confidence, examples, seeds)
    better, worse = (
        sum(part.interval.num for part in parts if sign * part.interval.estimate > 0) for sign in (1.0, -1.0)
    )
    p = probability(estimate, examples, seeds, better, worse)
    interval = Interval(estimate, estimate - half, estimate + half, num)
    return MeanDifference(interval, p, all(part.seeds is not None for part in parts))


def _of_mean(sources: Sequence[Source], num: int) -> Source:
    return sum_of([Source(source.variance / num**2, source.degrees) for source in sources])


def error_reduction(
    pairs: Sequence[Pair], *, less_is_better: bool = False, confidence: float = 0.95
) -> Interval | None:
    """Estimate the share by which the baseline's errors are reduced: (e_left - e_right) / e_left, of means over tasks.

    The error is 1 minus the score, as in footnote 10 of "Pre-training on True Negatives"; for a metric where less is
    better, it is the score itself. The interval is Fieller's: all ratios r for which e_right - r e_left does not differ
    from zero by the interval of ``mean_difference``. Where the baseline's errors are not clearly above zero, these may
    be two ranges: the interval is the one with the estimate, extended to r = 1 if the other has that. So it excludes
    zero if and only if the difference's does.

    Args:
        pairs: One per task; a single one for a task's own.
        less_is_better: Whether the scores are already errors.
        confidence: Confidence level.

    Returns:
        The interval; None if the baseline makes no errors. An end is infinite where the data do not bound it; the upper
        end is at most 1 (no errors left).

    Example:
        >>> import numpy as np
        >>> def reduced(*figures):
        ...     scores = [Scores(np.array([x]), np.full((4, 1), x)) for x in figures]
        ...     return round(error_reduction([Pair(*scores, 100, True)]).estimate, 3)
        >>> reduced(0.8285, 0.8345)  # means of Zhang et al. 2023, Table 3: BERT-base and HC; footnote 10 has 3.6 %
        0.035
        >>> reduced(0.846625, 0.8505)  # BERT-large and HC; footnote 10 has 2.3 %
        0.025
    """
    lefts = [_errors(pair.left, less_is_better) for pair in pairs]
    rights = [_errors(pair.right, less_is_better) for pair in pairs]
    total = sum(float(side.by_seed.mean()) for side in lefts)
    if total <= 0:
        return None
    ratio = sum(float(side.by_seed.mean()) for side in rights) / total

    def doubt(r: float) -> float:
        """Return how far inside the interval around e_right - r e_left zero is; negative if it is outside."""
        parts = [
            variance_sources(
                Scores(r * left.by_seed, r * left.resampled), right, pair.num_groups, is_paired=pair.is_paired
            )
            for left, right, pair in zip(lefts, rights, pairs, strict=True)
        ]
        width = half_width(confidence, *(_of_mean(of_kind, len(pairs)) for of_kind in zip(*parts, strict=True)))
        return width - abs(ratio - r) * total / len(pairs)

    is_apart = doubt(1.0) < 0
    inside = (ratio, ratio if is_apart else 1.0)
    low = _end(doubt, min(inside), 1.0 if is_apart and ratio > 1 else 0.0)
    high = _end(doubt, max(inside), 1.0 if is_apart and ratio < 1 else _above(doubt, max(inside)))
    num = pairs[0].num_groups if len(pairs) == 1 else len(pairs)
    return Interval(1 - ratio, 1 - high, 1 - low, num)


def _above(doubt: Callable[[float], float], inside: float) -> float:
    """Find a point above an interval from a point inside; infinity if there is none near."""
    steps = (0.1 * 2**k for k in itertools.count())
    above = next(step for step in steps if step > _NO_BOUND or doubt(inside + step) < 0)
    return math.inf if above > _NO_BOUND else inside + above


def _end(doubt: Callable[[float], float], inside: float, outside: float) -> float:
    """Find the end of an interval between a point inside and one outside; the latter if infinite, or inside, too."""
    if math.isinf(outside) or doubt(outside) >= 0:
        return outside
    if doubt(inside) <= 0:  # no variance at all: the interval is a point
        return inside
    return float(scipy.optimize.brentq(doubt, inside, outside, xtol=1e-6))


def _errors(scores: Scores, less_is_better: bool) -> Scores:
    return scores if less_is_better else Scores(1 - scores.by_seed, 1 - scores.resampled)
