"""Averages over tasks against Welch's test, Fieller's theorem by its quadratic, and what intervals promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from test_significance import certain, effects

from trueneg.evaluation.statistics.averages import MeanDifference, Pair, error_reduction, mean_difference
from trueneg.evaluation.statistics.significance import Scores, difference

Floats = NDArray[np.float64]
LEFT = ([0.80, 0.83, 0.81, 0.84], [0.61, 0.60, 0.64])
RIGHT = ([0.84, 0.85, 0.86, 0.85], [0.62, 0.66, 0.65])


def averaged(pairs: list[Pair]) -> MeanDifference:
    return mean_difference([difference(p.left, p.right, p.num_groups, is_paired=p.is_paired) for p in pairs])


def test_two_tasks_are_welchs_test_of_one_against_minus_the_other() -> None:
    """The mean of two independent means is half the difference of one and minus the other."""
    found = averaged([Pair(certain(a), certain(b), 10_000, True) for a, b in zip(LEFT, RIGHT, strict=True)])
    gains = [np.subtract(b, a) for a, b in zip(LEFT, RIGHT, strict=True)]
    expected = stats.ttest_ind(gains[0], -gains[1], equal_var=False)
    low, high = expected.confidence_interval()
    assert found.interval.estimate == pytest.approx((gains[0].mean() + gains[1].mean()) / 2)
    assert (found.interval.low, found.interval.high) == pytest.approx((low / 2, high / 2))
    assert found.p == pytest.approx(expected.pvalue)
    assert found.has_seeds and found.interval.num == 2


def test_one_task_is_its_own_difference() -> None:
    own = difference(certain(LEFT[0]), certain(RIGHT[0]), 100, is_paired=False)
    found = mean_difference([own])
    assert found.p == pytest.approx(own.p)
    assert (found.interval.low, found.interval.high) == pytest.approx((own.interval.low, own.interval.high))


def test_tasks_that_are_the_same_leave_nothing_open_and_one_seed_is_said() -> None:
    pair = Pair(certain([0.5]), certain([0.5]), 100, True)
    found = averaged([pair, pair])
    assert (found.p, found.interval.estimate, found.has_seeds) == (1.0, 0.0, False)
    share = error_reduction([pair])
    assert share is not None and (share.estimate, share.low, share.high) == pytest.approx((0, 0, 0), abs=1e-5)
    better = averaged([Pair(certain([0.5]), certain([0.6]), 100, True)] * 2)
    assert (better.p, better.interval.low) == (pytest.approx(2 * 0.5**200), pytest.approx(0.1))  # the sign test's p
    worse = Pair(certain([0.5]), certain([0.2]), 8, True)
    mixed = averaged([Pair(certain([0.5]), certain([0.6]), 2, True), worse])
    assert mixed.p == pytest.approx(stats.binomtest(2, 10).pvalue), "two groups for it, eight against it"


def measured(values: Floats, draw: int, samples: int = 100) -> Scores:
    """Figures of values ``[examples, seeds]``."""
    num = len(values)
    weights = np.random.default_rng(draw).multinomial(num, np.full(num, 1 / num), size=samples) / num
    return Scores(values.mean(axis=0), weights @ values)


def world(draw: int, seeds: int, gain: float) -> list[Pair]:
    """Four tasks of unlike sizes and doubts; errors of the baseline are 0.5 on average."""
    pairs = []
    for task, (num, of_seed, of_example) in enumerate(
        ((30, 0.02, 0.3), (60, 0.1, 0.2), (80, 0.0, 0.4), (40, 0.05, 0.1))
    ):
        of = 1000 * draw + 10 * task
        shared = 0.5 + effects(num, seeds, 0, 0.1, 0.05, of)
        left = shared + effects(num, seeds, of_seed, 0, 0.1, of + 1)
        right = shared + gain + effects(num, seeds, of_seed, of_example, 0.1, of + 2)
        pairs.append(Pair(measured(left, of), measured(right, of), num, True))
    return pairs


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_intervals_of_averages_cover_what_they_promise(seeds: int) -> None:
    found = [averaged(world(draw, seeds, 0.1)).interval for draw in range(150)]
    assert 0.89 <= np.mean([one.low < 0.1 < one.high for one in found]) <= 0.995
    widths = np.mean([one.high - one.low for one in found])
    spread = np.std([one.estimate for one in found], ddof=1)
    assert widths < 2 * {2: 7.0, 3: 3.5, 5: 2.6}[seeds] * spread, "and are not so wide for nothing"


def test_half_the_variance_would_be_seen() -> None:
    """The test of coverage can fail."""
    found = [averaged(world(draw, 3, 0.1)).interval for draw in range(150)]
    halved = [abs(one.estimate - 0.1) < (one.high - one.low) / 2 / np.sqrt(2) for one in found]
    assert np.mean(halved) < 0.89


def test_taking_tasks_for_a_sample_is_another_question() -> None:
    """A t-test over four tasks' differences asks about other tasks, and is wider."""
    widths = []
    for draw in range(150):
        gains = [float((p.right.by_seed - p.left.by_seed).mean()) for p in world(draw, 5, 0.1)]
        low, high = stats.t.interval(0.95, 3, np.mean(gains), stats.sem(gains))
        widths.append(high - low)
    ours = [averaged(world(draw, 5, 0.1)).interval for draw in range(150)]
    assert np.mean(widths) > 1.2 * np.mean([one.high - one.low for one in ours])


def fieller(left: list[float], right: list[float]) -> list[float]:
    """Both ends of the ratio of errors of paired seeds: roots of Fieller's quadratic."""
    a, b = 1 - np.array(left), 1 - np.array(right)
    t2 = stats.t.ppf(0.975, len(a) - 1) ** 2 / len(a)
    (vb, vab), (_, va) = np.cov(b, a)
    roots = np.roots([a.mean() ** 2 - t2 * va, -2 * (a.mean() * b.mean() - t2 * vab), b.mean() ** 2 - t2 * vb])
    return sorted(float(root.real) for root in roots)


@pytest.mark.parametrize("task", [0, 1])
def test_the_share_of_errors_has_fiellers_interval(task: int) -> None:
    found = error_reduction([Pair(certain(LEFT[task]), certain(RIGHT[task]), 10**6, True)])
    assert found is not None
    low, high = fieller(LEFT[task], RIGHT[task])
    assert found.estimate == pytest.approx(1 - (1 - np.mean(RIGHT[task])) / (1 - np.mean(LEFT[task])))
    assert (found.low, found.high) == pytest.approx((1 - high, 1 - low), abs=1e-4)


def test_errors_of_figures_of_which_less_is_better_are_the_figures() -> None:
    flipped = [[1 - x for x in side] for side in (LEFT[0], RIGHT[0])]
    ours = error_reduction([Pair(certain(LEFT[0]), certain(RIGHT[0]), 100, True)])
    theirs = error_reduction([Pair(certain(flipped[0]), certain(flipped[1]), 100, True)], less_is_better=True)
    assert ours is not None and theirs is not None
    assert (ours.estimate, ours.low, ours.high) == pytest.approx((theirs.estimate, theirs.low, theirs.high))


def drawn(by_seed: list[float], noise: float, draw: int, samples: int = 200) -> Scores:
    """Figures that vary by so much with the examples, all seeds alike."""
    shift = np.random.default_rng(draw).normal(0, noise, size=(samples, 1))
    return Scores(np.array(by_seed), np.array(by_seed) + shift)


def test_a_baseline_of_uncertain_errors_leaves_a_difference_beyond_doubt() -> None:
    """Two seeds of dissimilar figures, both better by as much: the ratios are two ranges, and 1 is between them."""
    pair = Pair(drawn([0.896, 0.683], 0.01, 0), drawn([0.926, 0.713], 0.01, 0), 2000, True)
    found = error_reduction([pair])
    assert found is not None
    assert (found.estimate, found.high) == (pytest.approx(0.03 / 0.2105), 1.0)
    assert 0 < found.low < found.estimate
    turned = error_reduction([Pair(pair.right, pair.left, 2000, True)])
    assert turned is not None and -math.inf == turned.low < turned.estimate < turned.high < 0


def test_the_share_excludes_zero_where_the_difference_does_whatever_the_baseline() -> None:
    excluded = []
    for draw in range(300):
        random = np.random.default_rng(draw)
        num_seeds, spread = int(random.integers(1, 4)), 10 ** random.uniform(-3, -0.5)
        left = np.clip(random.uniform(0.5, 0.98) + spread * random.normal(size=num_seeds), 0, 0.999)
        right = np.clip(
            left + random.normal(0, 0.05) + 10 ** random.uniform(-4, -1.5) * random.normal(size=num_seeds), 0, 1
        )
        pairs = [Pair(drawn([*left], 0.01, 2 * draw), drawn([*right], 0.01, 2 * draw + draw % 2), 500, draw % 3 > 0)]
        found = error_reduction(pairs)
        assert found is not None and found.low <= found.estimate <= found.high
        assert found.excludes_zero == averaged(pairs).interval.excludes_zero
        excluded.append(found.excludes_zero)
    assert 0.2 < np.mean(excluded) < 0.8


def test_ends_that_nothing_bounds_and_a_baseline_without_errors() -> None:
    assert error_reduction([Pair(certain([1.0, 1.0]), certain([0.9, 0.8]), 100, True)]) is None
    noisy = error_reduction([Pair(certain([0.999, 0.9, 1.0]), certain([0.7, 0.9, 0.8]), 100, True)])
    assert noisy is not None and noisy.low == -math.inf
    gone = error_reduction([Pair(certain([0.90, 0.91, 0.92]), certain([0.999, 1.0, 1.0]), 100, True)])
    assert gone is not None and gone.high == 1.0, "no more than all errors"


def test_the_share_excludes_zero_where_the_difference_does_and_covers_what_it_promises() -> None:
    covered = []
    for draw in range(40):
        pairs = world(draw, 3, 0.1)
        found = error_reduction(pairs)
        assert found is not None
        assert found.excludes_zero == averaged(pairs).interval.excludes_zero
        covered.append(found.low < 0.2 < found.high)  # a gain of 0.1 with errors of 0.5
    assert 0.9 <= np.mean(covered) <= 1.0
