"""The bootstrap: how metrics vary with the examples, which are drawn in whole groups."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trueneg.errors import ConfigError
from trueneg.evaluation.statistics.intervals import Interval, percentiles
from trueneg.tasks.metrics import Columns, Floats, Metric

Statistic: TypeAlias = Callable[[Floats], Floats]
"""Maps weights ``[samples, examples]``, how often each example was drawn, to ``[samples]`` or ``[samples, k]``."""

_MAX_WEIGHTS = 250_000
"""Weights in memory at a time, to fit a processor's cache."""


class Bootstrap:
    """Samples of examples, drawn with replacement in whole groups.

    Groups are drawn whole because their examples are not independent (the substitutes of one word, the questions about
    one passage). Everything measured in one call uses the same samples, and so is paired; two calls of ``measure`` may
    draw different samples.

    Args:
        groups: Group of each example, ``[examples]``; ``range(n)`` for independent examples.
        num_resamples: Number of samples to draw.
        seed: Seed of the draws.

    Raises:
        ConfigError: for no examples or no samples.

    Example:
        >>> values = np.arange(100.0)
        >>> interval = Bootstrap(range(100), num_resamples=2000).of(ratio(values, np.ones(100)))
        >>> interval.low < interval.estimate == 49.5 < interval.high
        True
    """

    def __init__(self, groups: ArrayLike, num_resamples: int = 10_000, seed: int = 0) -> None:
        self._group = np.unique(np.asarray(groups), return_inverse=True)[1]
        self.num_groups = int(self._group.max(initial=-1)) + 1
        self.num_resamples, self.seed = num_resamples, seed
        if self.num_groups < 1 or num_resamples < 1:
            raise ConfigError("a bootstrap needs at least one example and one resample")

    @classmethod
    def over(cls, columns: Columns, num_resamples: int = 10_000, seed: int = 0) -> Bootstrap:
        """Make a bootstrap over the column ``group`` of predictions; without it, over single ones."""
        return cls(groups_of([columns]), num_resamples, seed)

    def part(self, chosen: ArrayLike) -> Bootstrap:
        """Restrict the same samples to some of the examples, given by indices or a boolean mask."""
        found = copy.copy(self)
        found._group = self._group[np.asarray(chosen)]
        return found

    def of(self, statistic: Statistic, confidence: float = 0.95) -> Interval:
        """Compute a statistic on all examples, with a percentile interval."""
        estimate = float(statistic(np.ones((1, len(self._group))))[0])
        return Interval(estimate, *percentiles(self.samples(statistic), confidence), self.num_groups)

    def samples(self, statistic: Statistic) -> Floats:
        """Compute a statistic on every sample: ``[num_resamples]``, or ``[num_resamples, k]``."""
        return np.concatenate([statistic(weights) for weights in self._weights()])

    def measure(self, metric: Metric, systems: Sequence[Columns]) -> Floats:
        """Compute a metric of systems on every sample: ``[num_resamples, systems]``.

        Args:
            metric: Recomputed on each sample.
            systems: Predictions for the same examples in the same order.

        Raises:
            ConfigError: for fewer than two examples or groups.
        """
        if self.num_groups < 2:
            raise ConfigError("a bootstrap needs at least two examples or groups of them")
        weights = self._weights()
        first, sizes = _kinds([np.asarray(system[name]) for system in systems for name in metric.columns])
        if len(sizes) * 8 < len(self._group) == self.num_groups:
            # Examples with equal columns in all systems are drawn together: the count of each kind is multinomial.
            systems = [{name: np.asarray(system[name])[first] for name in metric.columns} for system in systems]
            weights = self._weights_of_kinds(sizes)
        return np.concatenate(
            [np.stack([metric.weighted(system, drawn) for system in systems], axis=1) for drawn in weights]
        )

    def _weights(self) -> Iterator[Floats]:
        """Yield how often each example is in each sample, ``[samples, examples]``, in chunks of samples."""
        random = np.random.default_rng(self.seed)
        for num in self._sizes(max(len(self._group), self.num_groups)):
            drawn = random.integers(self.num_groups, size=(num, self.num_groups))
            drawn += self.num_groups * np.arange(num)[:, None]
            counts = np.bincount(drawn.ravel(), minlength=num * self.num_groups).reshape(num, self.num_groups)
            yield counts.astype(np.float64)[:, self._group]

    def _weights_of_kinds(self, sizes: NDArray[np.int64]) -> Iterator[Floats]:
        random = np.random.default_rng(self.seed)
        for num in self._sizes(len(sizes)):
            yield random.multinomial(self.num_groups, sizes / self.num_groups, num).astype(np.float64)

    def _sizes(self, width: int) -> Iterator[int]:
        at_once = max(1, _MAX_WEIGHTS // width)
        for start in range(0, self.num_resamples, at_once):
            yield min(at_once, self.num_resamples - start)


def groups_of(systems: Sequence[Columns]) -> NDArray[Any]:
    """Return the group of each example: the column ``group`` of the first system that has it, else single examples.

    Results of earlier versions have no groups for pairs that share a text.

    Args:
        systems: Predictions for the same examples in the same order.
    """
    num = len(next(iter(systems[0].values()), ()))
    return next((columns["group"] for columns in systems if "group" in columns), np.arange(num))


def ratio(parts: ArrayLike, wholes: ArrayLike) -> Statistic:
    """Make the statistic "sum of parts over sum of wholes"; nan where the latter is zero.

    Args:
        parts: ``[examples]``.
        wholes: ``[examples]``; ones for a mean.
    """
    part, whole = (np.asarray(values, dtype=np.float64) for values in (parts, wholes))

    def measured(weights: Floats) -> Floats:
        total = weights @ whole
        share: Floats = np.divide(weights @ part, total, out=np.full(len(total), np.nan), where=total > 0)
        return share

    return measured


def _kinds(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group examples that are equal in all columns: the first example and the size of each kind."""
    rows = np.stack([np.unique(column, return_inverse=True)[1] for column in columns], axis=1)
    _, first, sizes = np.unique(rows, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)  # independent of the order of the systems
    return first[order], sizes[order]
