"""Rows of any length are padded to the longest of their batch, and to nothing more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueneg.training.features import NO_TARGET, Features

ROWS = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=8)


@given(ROWS, st.data())
def test_a_batch_is_its_rows_and_padding(rows: list[list[int]], data: st.DataObject) -> None:
    tags = [[value % 3 for value in row] for row in rows]
    features = Features.of(
        rows,
        [[0] * len(row) for row in rows],
        row_targets={"label": np.arange(len(rows))},
        token_targets={"tags": tags},
    )
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=5))
    batch = features.batch(np.array(chosen), pad_id=0)
    width = max(len(rows[number]) for number in chosen)
    assert batch.input_ids.tolist() == [rows[n] + [0] * (width - len(rows[n])) for n in chosen]
    assert batch.attention_mask.tolist() == [[1] * len(rows[n]) + [0] * (width - len(rows[n])) for n in chosen]
    assert batch.targets["tags"].tolist() == [tags[n] + [NO_TARGET] * (width - len(rows[n])) for n in chosen]
    assert batch.targets["label"].tolist() == chosen
    assert batch.token_type_ids is not None and batch.token_type_ids.shape == batch.input_ids.shape
    assert batch.is_counted.all()


def test_rows_that_do_not_count_are_the_last_ones() -> None:
    features = Features.of([[1, 2], [3], [4]])
    batch = features.batch(np.array([2, 0, 1]), pad_id=7, num_counted=1)
    assert batch.is_counted.tolist() == [True, False, False]
    assert batch.input_ids.tolist() == [[4, 7], [1, 2], [3, 7]]
    assert batch.token_type_ids is None
    assert "token_type_ids" not in batch.inputs()


def test_a_model_that_knows_types_is_given_them() -> None:
    batch = Features.of([[1, 2]], [[0, 1]]).batch(np.array([0]), pad_id=0)
    assert batch.inputs()["token_type_ids"].tolist() == [[0, 1]]
    assert batch.to("cpu").inputs().keys() == batch.inputs().keys()


@pytest.mark.parametrize("num", [0, 1])
def test_features_may_be_few(num: int) -> None:
    features = Features.of([[1]] * num, token_targets={"tags": [[1]] * num})
    assert len(features) == num == features.lengths.sum()
