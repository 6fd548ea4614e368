from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from trueneg.errors import ConfigError
from trueneg.evaluation.statistics.intervals import Interval, percentiles, t_interval


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
