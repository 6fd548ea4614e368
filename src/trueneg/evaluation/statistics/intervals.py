"""Confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from trueneg.errors import ConfigError


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval.

    Example:
        >>> str(Interval(0.123, 0.101, 0.145, 5))
        '+0.123 [+0.101, +0.145]'
        >>> f"{Interval(0.123, 0.101, 0.145, 5):+.2f}"
        '+0.12 [+0.10, +0.14]'
    """

    estimate: float
    low: float
    high: float
    num: int
    """Seeds, examples, groups or tasks behind the estimate."""

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the interval."""
        return self.low > 0 or self.high < 0

    @property
    def is_point(self) -> bool:
        """Whether its width is zero up to rounding, as for equal values, which have no spread."""
        return self.high - self.low <= 1e-9 * max(1.0, abs(self.estimate))

    def __format__(self, spec: str) -> str:
        """Format each of the three numbers; by default with signs, as for differences."""
        estimate, low, high = (format(number, spec or "+.3f") for number in (self.estimate, self.low, self.high))
        return f"{estimate} [{low}, {high}]"

    def __str__(self) -> str:
        """Return the default format."""
        return format(self)


def t_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Compute the interval of a mean by Student's t, for a handful of runs.

    Args:
        values: One value per run, ``[n]``; for a paired comparison, the differences.
        confidence: Confidence level.

    Raises:
        ConfigError: for fewer than two values: a single run has no spread.

    Example:
        >>> str(t_interval([0.1, 0.2, 0.3]))
        '+0.200 [-0.048, +0.448]'
    """
    numbers = np.asarray(values, dtype=np.float64)
    if (num := numbers.size) < 2:
        raise ConfigError("an interval over runs needs at least two of them: use more seeds")
    mean = float(numbers.mean())
    half = float(scipy.stats.t.ppf((1 + confidence) / 2, num - 1) * numbers.std(ddof=1)) / math.sqrt(num)
    return Interval(mean, mean - half, mean + half, num)


def t_test(values: ArrayLike) -> float:
    """Compute the two-sided p-value of a zero mean by Student's t-test; 1 for equal values, which have no spread.

    With few examples, equally good systems often differ by the same amount with every seed.

    Args:
        values: One value per run, ``[n]``, two or more.

    Example:
        >>> round(t_test([0.1, 0.2, 0.3]), 3), t_test([0.25, 0.25])
        (0.074, 1.0)
    """
    return 1.0 if t_interval(values).is_point else float(scipy.stats.ttest_1samp(np.asarray(values), 0.0).pvalue)


def percentiles(samples: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Compute both ends of a percentile interval; samples without a value (nan) are ignored.

    Example:
        >>> percentiles([0.0, 1.0, 2.0, 3.0, 4.0, float("nan")], confidence=0.5)
        (1.0, 3.0)
    """
    found = np.asarray(samples, dtype=np.float64)
    if np.isnan(found).all():
        return float("nan"), float("nan")
    tail = (1 - confidence) / 2
    low, high = np.nanquantile(found, [tail, 1 - tail])
    return float(low), float(high)
