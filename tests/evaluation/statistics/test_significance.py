"""Tests and intervals against scipy, against figures worked out by hand, and against what they promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from trueneg.errors import ConfigError
from trueneg.evaluation.statistics.significance import Difference, Scores, difference, holm, sign_test, stochastic_order
from trueneg.evaluation.statistics.two_sources import Source, half_width

Floats = NDArray[np.float64]


@given(better=st.integers(0, 60), worse=st.integers(0, 60), same=st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_signs_are_scipys_binomial(better: int, worse: int, same: int) -> None:
    found = sign_test([0.5] * better + [-2] * worse + [0] * same)
    expected = stats.binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert (found.num_better, found.num_worse) == (better, worse)
    assert found.p == pytest.approx(expected, rel=1e-9)


def test_signs_of_groups() -> None:
    found = sign_test([1, 1, -1, -1, 0, 1], groups=["a", "a", "a", "b", "c", "b"])
    assert (found.num_better, found.num_worse, found.p) == (1, 0, 1.0)  # a is better, b and c are even


def test_rounding_is_no_sign() -> None:
    assert sign_test([0.1 + 0.2 - 0.3, 1]).num_better == 1


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_nan_among_p_values_hides_no_other() -> None:
    nan = float("nan")
    for place in range(3):
        p_values = [0.001, 0.002]
        p_values.insert(place, nan)
        adjusted = holm(p_values)
        assert math.isnan(adjusted.pop(place))
        assert adjusted == [0.002, 0.002]  # R: p.adjust(c(NA, 0.001, 0.002), "holm")


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_never_helps(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    by_p = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [adjusted[n] for n in by_p] == sorted(adjusted)


@pytest.mark.parametrize("sizes", [(5, 5), (2, 3), (4, 7)])
def test_the_share_of_violations_is_that_of_quantile_functions(sizes: tuple[int, int]) -> None:
    noise = np.random.default_rng(sum(sizes)).normal(0, 0.1, size=sum(sizes))
    left, right = np.linspace(-3, 3, sizes[0]) + noise[: sizes[0]], np.linspace(-1, 2, sizes[1]) + noise[sizes[0] :]
    at = (np.arange(28_000) + 0.5) / 28_000
    gaps = np.quantile(right, at, method="inverted_cdf") - np.quantile(left, at, method="inverted_cdf")
    expected = (gaps**2)[gaps < 0].sum() / (gaps**2).sum()
    assert 0 < expected < 1
    assert stochastic_order(left, right, confidence=0.5) == pytest.approx(expected, abs=1e-3)
    assert stochastic_order(left, right) > expected  # a bound


def test_stochastic_order_of_clear_cases() -> None:
    low, high = [0.1, 0.2, 0.3, 0.25, 0.15], [0.5, 0.6, 0.7, 0.65, 0.55]
    assert stochastic_order(low, high) == 0
    assert stochastic_order(high, low) == 1
    assert stochastic_order([0.5, 0.5], [0.5, 0.5]) == 0.5
    with pytest.raises(ConfigError, match="more seeds"):
        stochastic_order([0.1], [0.2, 0.3])


def certain(by_seed: list[float]) -> Scores:
    """A system of which examples leave nothing open."""
    return Scores(np.array(by_seed), np.tile(by_seed, (50, 1)))


LEFT, RIGHT = [0.80, 0.83, 0.81, 0.84], [0.84, 0.85, 0.86, 0.85]


def test_seeds_alone_are_the_paired_t_test() -> None:
    found = difference(certain(LEFT), certain(RIGHT), 1000, is_paired=True)
    expected = stats.ttest_rel(RIGHT, LEFT)
    low, high = expected.confidence_interval()
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    assert found.seeds is not None and found.seeds.degrees == pytest.approx(3)
    assert found.examples.variance == 0


def test_unpaired_seeds_alone_are_welchs_t_test() -> None:
    found = difference(certain(LEFT[:3]), certain(RIGHT), 1000, is_paired=False)
    expected = stats.ttest_ind(RIGHT, LEFT[:3], equal_var=False)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-6)
    assert found.seeds is not None and found.seeds.degrees == pytest.approx(expected.df)


def from_values(left: Floats, right: Floats, samples: int = 4000, seed: int = 0, **options: Any) -> Difference:
    """The difference of means of values ``[examples, seeds]``."""
    num = len(left)
    weights = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), size=samples) / num
    sides = (Scores(values.mean(axis=0), weights @ values) for values in (left, right))
    return difference(*sides, num, **{"is_paired": True, **options})


def test_one_seed_speaks_of_examples_only() -> None:
    random = np.random.default_rng(3)
    left, right = random.normal(size=(200, 1)), random.normal(0.1, 1, size=(200, 1))
    found = from_values(left, right, samples=20_000)
    expected = stats.ttest_rel(right[:, 0], left[:, 0]).confidence_interval()
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(expected), rel=0.03, abs=0.003)
    assert found.seeds is found.seeds_needed is found.examples_needed is None


def test_what_seeds_do_to_examples_is_counted_once() -> None:
    """Where all variation is of seeds on examples, it is that of as many independent examples."""
    values = np.random.default_rng(4).normal(size=(400, 8))
    found = from_values(np.zeros_like(values), values)
    assert found.seeds is not None
    total = found.seeds.variance + found.examples.variance
    assert total == pytest.approx(
        max(values.mean(axis=0).var(ddof=1) / 8, values.mean(axis=1).var(ddof=1) / 400), rel=0.05
    )
    assert total < 1.6 / (400 * 8)  # the sum of both is 2 / (400 * 8), on average


def test_systems_that_do_the_same() -> None:
    found = difference(certain(LEFT), certain(LEFT), 100, is_paired=True)
    assert (found.p, found.seeds_needed, found.examples_needed) == (1.0, None, None)
    assert not found.interval.excludes_zero


@pytest.mark.parametrize("num", [2, 3, 8])
@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("is_paired", [True, False])
def test_where_nothing_varies_groups_are_counted(num: int, seeds: int, is_paired: bool) -> None:
    """All wrong against all right: resampling cannot tell 3 examples from 3,000."""
    found = difference(certain([0.0] * seeds), certain([1.0] * seeds), num, is_paired=is_paired)
    assert found.interval.is_point and found.p == pytest.approx(sign_test([1] * num).p) == 2 * 0.5**num
    third = difference(certain([0.1 + 0.2] * seeds), certain([0.3] * seeds), num, is_paired=is_paired)
    assert third.p == 1.0, "equal up to rounding"


def effects(num: int, seeds: int, of_seed: float, of_example: float, of_both: float, draw: int) -> Floats:
    random = np.random.default_rng(draw)
    shared = of_seed * random.normal(size=(1, seeds)) + of_example * random.normal(size=(num, 1))
    values: Floats = shared + of_both * random.normal(size=(num, seeds))
    return values


@pytest.mark.parametrize(
    "of_seed, of_example, of_both", [(0.0, 0.5, 0.0), (0.0, 0.0, 0.5), (0.05, 0.4, 0.4), (0.2, 0.2, 0.2)]
)
@pytest.mark.parametrize("is_paired", [True, False])
def test_intervals_cover_what_they_promise(of_seed: float, of_example: float, of_both: float, is_paired: bool) -> None:
    covered = [
        not from_values(
            np.zeros((60, 5)) if is_paired else effects(60, 5, of_seed, 0, of_both, 2 * draw + 1),
            effects(60, 5, of_seed, of_example, of_both, 2 * draw),
            samples=100,
            seed=draw,
            is_paired=is_paired,
        ).interval.excludes_zero
        for draw in range(120)
    ]
    assert 0.90 <= np.mean(covered) <= 0.995


def test_seeds_alone_and_examples_alone_promise_too_much() -> None:
    """The test above can fail: either part by itself covers far less where the other one is the larger."""
    by_seeds, by_examples = [], []
    for draw in range(200):
        by_seeds.append(stats.ttest_1samp(effects(60, 5, 0.0, 0.5, 0.3, draw).mean(axis=0), 0).pvalue > 0.05)
        values = effects(60, 5, 0.2, 0.2, 0.2, draw)
        found = from_values(np.zeros_like(values), values, samples=150, seed=draw)
        deviation = values.mean(axis=1).std(ddof=1) / math.sqrt(60)
        by_examples.append(abs(found.interval.estimate) < 2 * deviation)
    assert np.mean(by_seeds) < 0.8
    assert np.mean(by_examples) < 0.8


def needed(estimate: float, seed_variance: float, num: int = 1000) -> Difference:
    """A paired difference of four seeds to which examples add a variance of 1e-4 that is the same for all seeds."""
    by_seed = estimate + math.sqrt(seed_variance) * np.array([-1, 1, -1, 1]) * math.sqrt(3) / 2
    shift = 0.01 * np.resize([-1, 1], 4000) * math.sqrt((num - 1) / num)
    zero = Scores(np.zeros(4), np.zeros((4000, 4)))
    return difference(zero, Scores(by_seed, by_seed + shift[:, None]), num, is_paired=True)


@pytest.mark.parametrize("estimate, seed_variance", [(0.03, 0.002), (0.025, 0.01), (0.05, 0.0005)])
def test_so_many_seeds_are_needed_and_no_fewer(estimate: float, seed_variance: float) -> None:
    found = needed(estimate, seed_variance)
    assert found.seeds_needed is not None

    def excludes_zero(seeds: int) -> bool:
        return estimate > half_width(0.95, Source(1e-4, 999), Source(seed_variance / seeds, seeds - 1))

    assert excludes_zero(found.seeds_needed)
    assert found.seeds_needed == 2 or not excludes_zero(found.seeds_needed - 1)
    assert found.interval.excludes_zero == (found.seeds_needed <= 4)


def test_examples_may_be_too_few_for_any_number_of_seeds() -> None:
    found = needed(0.01, 0.0001)
    assert found.seeds_needed is None
    assert found.examples_needed == pytest.approx(1000 * 1.962**2, rel=0.01)  # the limit is 1.962 * 0.01


@given(scale=st.floats(0.1, 10))
@settings(max_examples=20, deadline=None)
def test_the_unit_does_not_matter(scale: float) -> None:
    values = effects(50, 4, 0.1, 0.3, 0.3, 1) + 0.1
    one, other = (from_values(np.zeros_like(values), factor * values, samples=200) for factor in (1.0, scale))
    assert other.p == pytest.approx(one.p)
    assert other.interval.high == pytest.approx(scale * one.interval.high)
    assert other.seeds_needed == one.seeds_needed
