"""Intervals and the bootstrap against scipy's, against a loop, and against what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from trueneg.errors import ConfigError
from trueneg.evaluation.statistics import bootstrap
from trueneg.evaluation.statistics.bootstrap import Bootstrap, groups_of, ratio
from trueneg.evaluation.statistics.intervals import Interval, percentiles, t_interval
from trueneg.tasks.metrics import METRICS

Columns = dict[str, NDArray[Any]]


def mean_interval(values: Any, groups: Any, **options: Any) -> Interval:
    return Bootstrap(groups, **options).of(ratio(values, np.ones(len(values))))


def test_single_examples_are_scipys() -> None:
    values = np.random.default_rng(1).exponential(size=300)
    ours = mean_interval(values, range(300), num_resamples=4000)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=4000, method="percentile", rng=2).confidence_interval
    assert ours.estimate == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), rel=0.02)


def test_groups_are_those_of_a_loop() -> None:
    """The same draws, made into examples one by one."""
    values, groups = np.random.default_rng(2).normal(size=90), np.repeat(np.arange(30), 3)
    random = np.random.default_rng(5)
    means = []
    for _ in range(400):
        chosen = np.concatenate([np.flatnonzero(groups == group) for group in random.integers(30, size=30)])
        means.append(values[chosen].mean())
    ours = mean_interval(values, groups, num_resamples=400, seed=5)
    assert (ours.low, ours.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))
    assert Bootstrap(groups, 400, 5).samples(ratio(values, np.ones(90))) == pytest.approx(means)


def test_repeating_an_example_within_its_group_adds_nothing() -> None:
    values = np.random.default_rng(3).normal(size=60)
    once = mean_interval(values, range(60))
    tenfold = mean_interval(np.repeat(values, 10), np.repeat(np.arange(60), 10))
    as_if_independent = mean_interval(np.repeat(values, 10), range(600))
    assert (tenfold.low, tenfold.high, tenfold.num) == pytest.approx((once.low, once.high, 60))
    assert as_if_independent.high - as_if_independent.low < 0.5 * (once.high - once.low)


def test_samples_follow_from_the_seed_and_not_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(30.0)
    first, same, other = (mean_interval(values, range(30), seed=seed, num_resamples=200) for seed in (1, 1, 2))
    assert first == same != other
    monkeypatch.setattr(bootstrap, "_MAX_WEIGHTS", 100)
    assert mean_interval(values, range(30), seed=1, num_resamples=200) == first


def test_a_part_is_measured_on_the_same_samples() -> None:
    values, groups = np.random.default_rng(4).normal(size=60), np.arange(60) % 6
    whole = Bootstrap(groups, num_resamples=50)
    chosen = groups < 2
    masked = whole.samples(ratio(values * chosen, chosen))
    assert whole.part(chosen).samples(ratio(values[chosen], np.ones(20))) == pytest.approx(masked, nan_ok=True)
    assert np.isnan(masked).any(), "some samples have none of the part"


def test_an_interval_covers_what_it_says() -> None:
    """The share in a known world is in its 90 % interval about nine times in ten."""
    generator, hits = np.random.default_rng(0), 0
    for seed in range(100):
        parts = generator.random(200) < 0.3
        statistic = ratio(parts, np.ones(200))
        interval = Bootstrap(np.repeat(np.arange(40), 5), 300, seed).of(statistic, confidence=0.9)
        hits += interval.low <= 0.3 <= interval.high
    assert 80 <= hits <= 97


@pytest.mark.parametrize("groups, num", [([], 1), ([1, 2], 0)])
def test_nothing_cannot_be_resampled(groups: list[int], num: int) -> None:
    with pytest.raises(ConfigError, match="at least one"):
        Bootstrap(groups, num)


def labelled(num: int, shares: list[float], seed: int = 0) -> list[Columns]:
    random = np.random.default_rng(seed)
    gold = random.integers(0, 2, num)
    return [{"gold": gold, "predicted": np.where(random.random(num) < share, gold, 1 - gold)} for share in shares]


def test_samples_of_accuracy_spread_as_a_binomial() -> None:
    systems = labelled(500, [0.8, 0.9])
    drawn = Bootstrap.over(systems[0]).measure(METRICS["accuracy"], systems)
    assert drawn.shape == (10_000, 2)
    right = np.stack([system["gold"] == system["predicted"] for system in systems])
    assert drawn.mean(axis=0) == pytest.approx(right.mean(axis=1), abs=1e-3)
    assert np.cov(drawn.T) == pytest.approx(np.cov(right, ddof=0) / 500, rel=0.05, abs=1e-6)


@pytest.mark.parametrize("name", ["accuracy", "f1", "matthews"])
def test_examples_drawn_by_kind_or_one_by_one_spread_alike(name: str) -> None:
    metric, systems = METRICS[name], labelled(400, [0.7, 0.8])
    by_kind = Bootstrap(range(400)).measure(metric, systems).std(axis=0)
    one_by_one = Bootstrap(range(400)).samples(lambda weights: metric.weighted(systems[0], weights))
    assert one_by_one.std() == pytest.approx(by_kind[0], rel=0.05)
    twice = [{column: np.repeat(values, 2) for column, values in system.items()} for system in systems]
    twice = [system | {"group": np.repeat(np.arange(400), 2)} for system in twice]
    of_pairs = Bootstrap.over(twice[0]).measure(metric, twice)
    assert of_pairs.std(axis=0) == pytest.approx(by_kind, rel=0.05)  # a copy is no second example


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_samples_of_correlations_spread_as_recomputed_ones(name: str) -> None:
    random = np.random.default_rng(5)
    gold = random.normal(size=60)
    system = {"gold": gold, "predicted": gold + random.normal(size=60)}
    drawn = Bootstrap.over(system, num_resamples=4000).measure(METRICS[name], [system, system])
    assert (drawn[:, 0] == drawn[:, 1]).all()  # the same samples for every system
    statistic = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}[name]
    chosen = [random.integers(60, size=60) for _ in range(1500)]
    naive = [statistic(system["gold"][rows], system["predicted"][rows]).statistic for rows in chosen]
    assert drawn[:, 0].std() == pytest.approx(np.std(naive), rel=0.1)


def test_a_comparison_needs_two_examples() -> None:
    with pytest.raises(ConfigError, match="two examples or groups"):
        Bootstrap(["a"] * 4).measure(METRICS["accuracy"], labelled(4, [0.5]))


@pytest.mark.parametrize("num", [2, 3, 5, 20])
def test_an_interval_over_seeds_is_scipys(num: int) -> None:
    values = np.random.default_rng(num).normal(3, 2, num)
    ours = t_interval(values, confidence=0.9)
    low, high = stats.t.interval(0.9, num - 1, loc=values.mean(), scale=stats.sem(values))
    assert (ours.estimate, ours.low, ours.high, ours.num) == pytest.approx((values.mean(), low, high, num))


def test_one_seed_has_no_interval() -> None:
    with pytest.raises(ConfigError, match="more seeds"):
        t_interval([4.0])


@pytest.mark.parametrize("low, high, excludes", [(0.1, 2.0, True), (-2.0, -0.1, True), (-0.1, 0.3, False)])
def test_zero_is_in_an_interval_or_not(low: float, high: float, excludes: bool) -> None:
    assert Interval((low + high) / 2, low, high, 5).excludes_zero == excludes


def test_samples_without_a_value_are_left_out() -> None:
    assert percentiles([np.nan, 1.0, 1.0]) == (1.0, 1.0)
    assert np.isnan(percentiles([np.nan])).all()
    assert percentiles(np.arange(1001.0)) == pytest.approx((25, 975))


def test_groups_are_those_of_the_first_system_that_has_some() -> None:
    without, grouped = labelled(4, [0.5])[0], {"group": np.array(["a", "a", "b", "c"])}
    assert groups_of([without, grouped]).tolist() == ["a", "a", "b", "c"]
    assert groups_of([without, without]).tolist() == [0, 1, 2, 3]
