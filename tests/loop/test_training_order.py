"""Which rows a step sees: a function of the step, shared out among processes and micro-batches without loss."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.config.options import TrainConfig
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corruption.rows import Rows
from trueneg.errors import ConfigError
from trueneg.training.batches import CorpusBatches, held_out_batches
from trueneg.training.distributed import Processes

WORLDS = [(1, 1), (2, 1), (1, 4), (2, 2), (4, 2), (8, 1)]


@pytest.fixture(scope="module")
def index(corpus: Path) -> RowIndex:
    return RowIndex(Corpus.open(corpus), 24)


@pytest.fixture(scope="module")
def held_out(corpus: Path) -> RowIndex:
    return RowIndex(Corpus.open(corpus, "valid"), 24)


def orders(index: RowIndex, world_size: int, accumulation: int, batch_size: int = 8) -> list[CorpusBatches]:
    config = TrainConfig(batch_size=batch_size, accumulation=accumulation, seed=3)
    return [CorpusBatches(index, config, Processes(rank, world_size)) for rank in range(world_size)]


def step_of(per_process: list[CorpusBatches], step: int) -> list[Rows]:
    return [rows for order in per_process for rows in order.micro_batches(step)]


@pytest.mark.parametrize(("world_size", "accumulation"), WORLDS)
def test_a_step_has_the_same_rows_and_draws_however_it_is_shared(
    world_size: int, accumulation: int, index: RowIndex
) -> None:
    for step in (0, 1, 17, 100_000):
        (whole,) = step_of(orders(index, 1, 1), step)
        parts = step_of(orders(index, world_size, accumulation), step)
        assert len(parts) == world_size * accumulation
        for name in ("input_ids", "segments", "is_special", "is_word_start", "is_whole_word", "keys"):
            assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(whole, name)), name


@pytest.mark.parametrize(("world_size", "accumulation"), WORLDS)
def test_an_epoch_has_every_row_once(
    world_size: int, accumulation: int, index: RowIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    read = index.read
    monkeypatch.setattr(index, "read", lambda numbers: seen.extend(numbers.tolist()) or read(numbers))
    per_process = orders(index, world_size, accumulation)
    num_epochs, step = 3, 0
    while len(seen) < num_epochs * len(index):
        step_of(per_process, step)
        step += 1
    epochs = [seen[start : start + len(index)] for start in range(0, num_epochs * len(index), len(index))]
    assert all(sorted(epoch) == list(range(len(index))) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_whether_rows_are_full_is_the_same_for_all_batches_of_a_run(corpus: Path, index: RowIndex) -> None:
    (one_by_one,) = orders(index, 1, 1, batch_size=1)
    batches = [rows for step in range(100) for rows in one_by_one.micro_batches(step)]
    has_padding = {bool((rows.segments == 0).any()) for rows in batches}
    assert has_padding == {True, False}, "a batch without padding is what this is about"
    assert {(rows.is_full, rows.is_packed) for rows in batches} == {(False, False)}
    kinds = {"full": RowIndex(Corpus.open(corpus), 3), "packed": RowIndex(Corpus.open(corpus), 24, pack=True)}
    flags = {
        kind: (rows.is_full, rows.is_packed) for kind, of in kinds.items() for rows in step_of(orders(of, 1, 1), 0)
    }
    assert flags == {"full": (True, False), "packed": (False, True)}


def boundaries(rows: Rows) -> list[int]:
    """Where pieces and padding begin and the last one ends, token by token."""
    flat = [(line, piece) for line, pieces in enumerate(rows.segments.tolist()) for piece in pieces]
    return [*(at for at, one in enumerate(flat) if at == 0 or one != flat[at - 1]), len(flat)]


@pytest.mark.parametrize("pack", [False, True])
def test_boundaries_are_those_of_the_rows_in_a_size_that_stays(corpus: Corpus, pack: bool) -> None:
    rows = RowIndex(Corpus.open(corpus), 40, pack=pack)
    batches = [
        rows for order in orders(rows, 2, 2, batch_size=32) for step in range(20) for rows in order.micro_batches(step)
    ]
    for batch in batches:
        assert batch.starts is not None and batch.starts.dtype == torch.int32
        expected = boundaries(batch)
        assert batch.starts[: len(expected)].tolist() == expected
        assert set(batch.starts[len(expected) :].tolist()) <= {8 * 40}
    assert len({len(batch.starts) for batch in batches if batch.starts is not None}) == 1


def test_a_batch_of_more_pieces_than_usual_has_the_size_that_always_suffices(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = RowIndex(Corpus.open(corpus), 64, pack=True)
    monkeypatch.setattr(rows, "max_pieces", lambda num_rows: (3, 7 * num_rows))
    (batch,) = step_of(orders(rows, 1, 1), 0)
    assert batch.starts is not None and len(batch.starts) == 7 * 8 + 1
    assert batch.starts.unique().tolist() == boundaries(batch)


def test_no_two_examples_have_the_same_key(index: RowIndex) -> None:
    (order,) = orders(index, 1, 1)
    keys = torch.cat([rows.keys for step in range(200) for rows in order.micro_batches(step)])
    assert len(keys.unique()) == len(keys)


def test_reading_ahead_changes_nothing_wherever_it_begins(index: RowIndex) -> None:
    (order,) = orders(index, 1, 2)
    ahead = list(order.from_step(5, 9))
    assert len(ahead) == 4
    for step, micro_batches in zip(range(5, 9), ahead, strict=True):
        for rows, alone in zip(micro_batches, order.micro_batches(step), strict=True):
            assert torch.equal(rows.input_ids, alone.input_ids) and torch.equal(rows.keys, alone.keys)
    assert list(order.from_step(9, 9)) == []


@pytest.mark.parametrize(
    ("batch_size", "world_size", "accumulation", "multiple"), [(8, 3, 1, 3), (8, 2, 3, 6), (0, 1, 1, 1), (4, 8, 1, 8)]
)
def test_a_batch_that_does_not_divide_is_refused_with_what_would(
    batch_size: int, world_size: int, accumulation: int, multiple: int, index: RowIndex
) -> None:
    with pytest.raises(ConfigError, match=f"train.batch_size={batch_size} .* use a multiple of {multiple}"):
        orders(index, world_size, accumulation, batch_size)


@pytest.mark.parametrize("accumulation", [0, -1])
def test_no_micro_batch_at_all_is_refused(accumulation: int, index: RowIndex) -> None:
    with pytest.raises(ConfigError, match="accumulation"):
        orders(index, 1, accumulation)


@settings(max_examples=30, deadline=None)
@given(num_rows=st.integers(1, 60), batch_size=st.integers(1, 9), world_size=st.integers(1, 5))
def test_held_out_rows_are_read_once_by_one_process(
    held_out: RowIndex, num_rows: int, batch_size: int, world_size: int
) -> None:
    shares = [
        list(held_out_batches(held_out, num_rows, batch_size, Processes(r, world_size))) for r in range(world_size)
    ]
    wanted = min(num_rows, len(held_out))
    read = Counter(tuple(row) for share in shares for rows in share for row in rows.input_ids.tolist())
    there = Counter(tuple(row) for row in held_out.read(np.arange(len(held_out))).input_ids.tolist())
    assert read.total() == wanted
    assert read <= there, "a row was read twice"
    assert all(len(rows.keys) <= batch_size for share in shares for rows in share)
    assert all(shares) or wanted < world_size, "a process without rows would wait for the others for ever"
