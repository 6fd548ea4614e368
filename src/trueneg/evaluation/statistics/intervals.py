"""How sure a number is: intervals over seeds, and over clusters of examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trueneg.errors import ConfigError


@dataclass(frozen=True)
class Interval:
    """An estimate, and what it may as well be.

    Example:
        >>> str(Interval(0.123, 0.101, 0.145, 5))
        '+0.123 [+0.101, +0.145]'
    """

    estimate: float
    low: float
    high: float
    num: int
    """Seeds, or clusters, that it rests on."""

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        """With signs, as differences are written."""
        return f"{self.estimate:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def t_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Interval of a mean by Student's t, for a handful of runs.

    Args:
        values: One a run, ``[n]``; for a paired comparison, the differences.
        confidence: Chance that such intervals cover the mean.

    Raises:
        ConfigError: for less than two values: one run says nothing of another.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if (num := numbers.size) < 2:
        raise ConfigError("an interval over runs needs two at least: use more seeds")
    mean = float(numbers.mean())
    half = t_quantile((1 + confidence) / 2, num - 1) * float(numbers.std(ddof=1)) / math.sqrt(num)
    return Interval(mean, mean - half, mean + half, num)


def t_quantile(probability: float, degrees: float) -> float:
    """Quantile of Student's t at ``probability`` in [0.5, 1), for any degrees of freedom from one on.

    Example:
        >>> round(t_quantile(0.975, 4), 4)
        2.7764
    """
    low, high = 0.0, 1.0
    while (1 + t_inside(high, degrees)) / 2 < probability:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + t_inside(middle, degrees)) / 2 < probability else (low, middle)
    return high


def t_inside(t: float, degrees: float) -> float:
    """Chance that Student's t, of any degrees of freedom from one on, lies between ``-t`` and ``t``.

    With t = sqrt(degrees) tan(angle) its density is that of cos(angle) ** (degrees - 1), smooth and within bounds
    (Abramowitz and Stegun 26.7.1), which Gauss and Legendre's rule integrates:
    to rounding for whole degrees, of a quantile to four digits at least for others.

    Example:
        >>> round(t_inside(2.7764, 4), 4)
        0.95
    """
    degrees = min(degrees, 1e12)
    last = min(math.pi / 2, 40 / math.sqrt(degrees))  # beyond, nothing is left

    def integral(angle: float) -> float:
        versed = 2 * np.sin((_NODES + 1) * angle / 4) ** 2  # 1 - cos(angle), to full precision
        return angle * float(_WEIGHTS @ np.exp((degrees - 1) * np.log1p(-versed)))

    return min(1.0, integral(min(math.atan(t / math.sqrt(degrees)), last)) / integral(last))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(120)


def cluster_bootstrap(
    statistic: Callable[[NDArray[np.int64]], float],
    num_clusters: int,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of any statistic, resampling whole clusters (targets, documents, questions).

    Args:
        statistic: Of the clusters whose numbers it is given, int64 ``[num_clusters]``, some of them repeatedly.
        num_clusters: How many there are.
        confidence: Of the interval.
        resamples: Times that clusters are drawn.
        seed: Of the draws.

    Example: a mean over examples, each a cluster.
        >>> values = np.arange(100.0)
        >>> interval = cluster_bootstrap(lambda chosen: values[chosen].mean(), 100)
        >>> interval.low < interval.estimate == 49.5 < interval.high
        True
    """
    if num_clusters < 1 or resamples < 1:
        raise ConfigError("a bootstrap needs at least one cluster and one resample")
    random = np.random.default_rng(seed)
    found = [statistic(random.integers(num_clusters, size=num_clusters)) for _ in range(resamples)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    return Interval(float(statistic(np.arange(num_clusters))), float(low), float(high), num_clusters)


def paired_bootstrap(
    left: ArrayLike, right: ArrayLike, clusters: Sequence[Any] | None = None, **options: Any
) -> Interval:
    """Interval of the mean of ``left - right`` over the same examples.

    Args:
        left: A number an example, ``[n]``.
        right: The other system's, in the same order.
        clusters: What each example belongs to; by default each is its own.
        options: Of ``cluster_bootstrap``.

    Raises:
        ConfigError: if the lengths differ.
    """
    differences = np.asarray(left, dtype=np.float64) - np.asarray(right, dtype=np.float64)
    names = np.arange(len(differences)) if clusters is None else np.asarray(clusters)
    _, number = np.unique(names, return_inverse=True)
    sums, sizes = np.bincount(number, differences), np.bincount(number)
    return cluster_bootstrap(lambda chosen: float(sums[chosen].sum() / sizes[chosen].sum()), len(sums), **options)


def area_under_curve(scores: ArrayLike, labels: ArrayLike) -> float:
    """Chance that a positive scores above a negative, ties counting half: the area under the ROC curve.

    Raises:
        ConfigError: where there are no positives, or no negatives.

    Example:
        >>> area_under_curve([0.1, 0.4, 0.4, 0.8], [False, False, True, True])
        0.875
    """
    values, is_positive = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=bool)
    num_positive = int(is_positive.sum())
    num_negative = len(values) - num_positive
    if not num_positive or not num_negative:
        raise ConfigError("a curve needs examples of both kinds: measure on more of them")
    _, number, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[number]
    return float((ranks[is_positive].sum() - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative))
