"""Rows that rise at the beginning of a run, against sums taken step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueneg.config.batch_sizes import check_rows, rows_before, rows_of_step, steps_for
from trueneg.config.options import TrainConfig
from trueneg.errors import ConfigError


@st.composite
def rising(draw: st.DrawFn) -> TrainConfig:
    first, by, rises = draw(st.integers(1, 9)), draw(st.integers(0, 5)), draw(st.integers(0, 12))
    size = first + (by or first) * rises
    steps = draw(st.integers(0, 40))
    return TrainConfig(batch_size=size, batch_warmup_steps=steps, batch_warmup_from=first, batch_warmup_by=by)


@given(rising(), st.integers(0, 60))
def test_rows_before_a_step_are_those_of_all_steps_before_it(train: TrainConfig, step: int) -> None:
    sizes = np.array([rows_of_step(train, one) for one in range(70)])
    assert rows_before(train, step) == sizes[:step].sum()
    assert (np.diff(sizes) >= 0).all()
    assert (sizes[train.batch_warmup_steps :] == train.batch_size).all()
    if train.batch_warmup_steps:
        assert sizes[0] == train.batch_warmup_from
    wanted = int(sizes[:step].sum())
    assert steps_for(train, wanted) == step
    assert steps_for(train, wanted + 1) == step + 1


def test_as_many_steps_at_each_size() -> None:
    """As ModernBERT's: tokens at a size are in proportion to it."""
    train = TrainConfig(batch_size=48, batch_warmup_steps=100, batch_warmup_from=8, batch_warmup_by=8)
    sizes, counts = np.unique([rows_of_step(train, step) for step in range(100)], return_counts=True)
    assert sizes.tolist() == [8, 16, 24, 32, 40]
    assert counts.tolist() == [20] * 5


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (TrainConfig(batch_size=8, batch_warmup_steps=2, batch_warmup_from=9), "batch_warmup_from=9 is more than"),
        (TrainConfig(batch_size=8, batch_warmup_steps=2, batch_warmup_from=3), "in steps of 3 rows: set .* of 5"),
        (TrainConfig(batch_size=8, batch_warmup_steps=11, batch_warmup_from=2), "more than the 10 steps"),
        (TrainConfig(batch_size=8, batch_warmup_steps=2, batch_warmup_from=1), "from=1 does not divide among 2"),
        (
            TrainConfig(batch_size=8, batch_warmup_steps=2, batch_warmup_from=2, batch_warmup_by=3),
            "by=3 does not divide among 2",
        ),
        (TrainConfig(batch_size=9), "train.batch_size=9 does not divide among 2 processes"),
    ],
)
def test_rows_that_do_not_fit_are_refused(train: TrainConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_rows(train, 10, num_processes=2)
