from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from trueneg.errors import ConfigError
from trueneg.evaluation.statistics.intervals import (
    Interval,
    area_under_curve,
    cluster_bootstrap,
    paired_bootstrap,
    t_interval,
    t_quantile,
)


@pytest.mark.parametrize("degrees", [*range(1, 13), 29, 30, 100, 101])
@pytest.mark.parametrize("probability", [0.5, 0.6, 0.9, 0.975, 0.9995])
def test_quantiles_of_t_are_scipys(degrees: int, probability: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(stats.t.ppf(probability, degrees), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("num", [2, 3, 5, 20])
def test_an_interval_over_seeds_is_scipys(num: int) -> None:
    values = np.random.default_rng(num).normal(3, 2, num)
    ours = t_interval(values, confidence=0.9)
    low, high = stats.t.interval(0.9, num - 1, loc=values.mean(), scale=stats.sem(values))
    assert (ours.estimate, ours.low, ours.high, ours.num) == pytest.approx((values.mean(), low, high, num))


def test_one_seed_has_no_interval() -> None:
    with pytest.raises(ConfigError, match="more seeds"):
        t_interval([4.0])


def test_zero_is_in_an_interval_or_not() -> None:
    assert Interval(1.0, 0.1, 2.0, 5).excludes_zero
    assert Interval(-1.0, -2.0, -0.1, 5).excludes_zero
    assert not Interval(0.1, -0.1, 0.3, 5).excludes_zero


def test_a_bootstrap_of_single_examples_is_scipys() -> None:
    values = np.random.default_rng(1).exponential(size=300)
    ours = cluster_bootstrap(lambda chosen: float(values[chosen].mean()), len(values), resamples=4000)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=4000, method="percentile", rng=2).confidence_interval
    assert ours.estimate == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), rel=0.02)


def test_repeating_an_example_within_its_cluster_makes_nothing_surer() -> None:
    random = np.random.default_rng(3)
    left, right = random.normal(0.5, 1, 60), random.normal(0, 1, 60)
    once = paired_bootstrap(left, right, clusters=list(range(60)))
    tenfold = paired_bootstrap(np.repeat(left, 10), np.repeat(right, 10), clusters=list(np.repeat(range(60), 10)))
    as_if_independent = paired_bootstrap(np.repeat(left, 10), np.repeat(right, 10))
    assert (tenfold.low, tenfold.high, tenfold.num) == pytest.approx((once.low, once.high, 60))
    assert as_if_independent.high - as_if_independent.low < 0.5 * (once.high - once.low)


def test_what_all_examples_gain_is_certain() -> None:
    values = np.random.default_rng(4).normal(size=50)
    certain = paired_bootstrap(values + 0.25, values, clusters=["a", "b"] * 25)
    assert (certain.low, certain.high) == pytest.approx((0.25, 0.25))


def test_a_bootstrap_is_a_function_of_its_seed() -> None:
    values = np.arange(30.0)
    first, same, other = (paired_bootstrap(values, values[::-1], seed=seed, resamples=200) for seed in (1, 1, 2))
    assert first == same != other


def test_nothing_cannot_be_resampled() -> None:
    with pytest.raises(ConfigError, match="at least one cluster"):
        cluster_bootstrap(lambda chosen: 0.0, 0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=40))
def test_the_area_under_the_curve_is_scikit_learns(examples: list[tuple[int, bool]]) -> None:
    scores, labels = zip(*examples, strict=True)
    if len(set(labels)) == 2:
        assert area_under_curve(scores, labels) == pytest.approx(roc_auc_score(labels, scores))
    else:
        with pytest.raises(ConfigError, match="both kinds"):
            area_under_curve(scores, labels)
