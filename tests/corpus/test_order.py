from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trueneg.corpus.permutation import permute, rows_at

KEYS = st.integers(min_value=-(1 << 70), max_value=1 << 70)


@given(size=st.integers(1, 3000), key=KEYS)
def test_every_index_has_one_place(size: int, key: int) -> None:
    assert np.array_equal(np.sort(permute(np.arange(size), size, key)), np.arange(size))


@given(size=st.integers(1, 1 << 62), key=KEYS, data=st.data())
def test_places_of_huge_sizes_are_distinct_and_inside(size: int, key: int, data: st.DataObject) -> None:
    index = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=20, unique=True)), dtype=np.int64)
    places = permute(index, size, key)
    assert len(set(places.tolist())) == len(index)
    assert all(0 <= place < size for place in places.tolist())


@given(size=st.integers(1, 500), key=KEYS, data=st.data())
def test_a_place_depends_on_its_index_alone(size: int, key: int, data: st.DataObject) -> None:
    index = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=12)))
    together = permute(index.reshape(1, -1), size, key)
    assert together.shape == (1, len(index))
    assert together[0].tolist() == [int(permute(np.array([i]), size, key)[0]) for i in index]


@pytest.mark.parametrize("size", [2, 3, 7, 50, 100, 257])
def test_over_keys_every_place_is_as_likely(size: int) -> None:
    keys = np.arange(400 * size)
    for index in {0, size // 2, size - 1}:
        places = permute(np.full(len(keys), index), size, keys)
        assert stats.chisquare(np.bincount(places, minlength=size)).pvalue > 1e-4


@pytest.mark.parametrize("size", [4, 11, 60])
def test_over_keys_every_difference_of_neighbours_is_as_likely(size: int) -> None:
    keys = np.arange(1000 * size)
    here, there = (permute(np.full(len(keys), index), size, keys) for index in (1, 2))
    differences = np.bincount((there - here) % size, minlength=size)
    assert differences[0] == 0
    assert stats.chisquare(differences[1:]).pvalue > 1e-4


def test_small_permutations_all_occur_equally() -> None:
    keys = np.arange(24_000)
    places = np.stack([permute(np.full(len(keys), index), 4, keys) for index in range(4)], axis=1)
    orders, counts = np.unique(places, axis=0, return_counts=True)
    assert len(orders) == 24
    assert stats.chisquare(counts).pvalue > 1e-4


def test_within_one_key_neighbours_part() -> None:
    size = 100_000
    places = permute(np.arange(size), size, key=3)
    differences = (np.diff(places) % size) * 50 // size
    assert stats.chisquare(np.bincount(differences, minlength=50)).pvalue > 1e-4
    assert abs(np.corrcoef(places[:-1], places[1:])[0, 1]) < 0.02


@pytest.mark.parametrize(("index", "size"), [([0], 0), ([5], 5), ([-1], 5)])
def test_nonsense_is_refused(index: list[int], size: int) -> None:
    with pytest.raises(ValueError, match=r"size|index"):
        permute(np.array(index), size, key=0)


@given(num_rows=st.integers(1, 200), seed=KEYS)
def test_every_epoch_holds_every_row_once(num_rows: int, seed: int) -> None:
    rows = rows_at(seed, np.arange(3 * num_rows), num_rows).reshape(3, num_rows)
    assert np.array_equal(np.sort(rows, axis=1), np.tile(np.arange(num_rows), (3, 1)))


def test_epochs_and_seeds_differ() -> None:
    orders = [rows_at(seed, np.arange(300), 100).reshape(3, 100)[epoch] for seed in (0, 1, 2) for epoch in range(3)]
    agreements = [np.mean(a == b) for i, a in enumerate(orders) for b in orders[:i]]
    assert max(agreements) < 0.1


def test_a_position_stands_alone() -> None:
    positions = np.array([[10**12, 5], [0, 10**12 + 1]])
    rows = rows_at(7, positions, 1000)
    assert rows.shape == (2, 2)
    assert rows[0, 0] == rows_at(7, np.array([10**12]), 1000)[0]
