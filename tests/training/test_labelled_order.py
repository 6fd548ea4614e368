"""Every epoch sees every row once, in batches of like lengths, however it is cut and wherever it starts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trueneg.config.options import TrainConfig
from trueneg.errors import ConfigError
from trueneg.training.batches import LabelledBatches
from trueneg.training.distributed import Processes
from trueneg.training.features import Features

LENGTHS = np.random.default_rng(0).integers(1, 60, 530)


def features() -> Features:
    """Row ``i`` consists of the token ``i``."""
    return Features.of([[number] * length for number, length in enumerate(LENGTHS)])


def order(
    window: int = 16, batch_size: int = 8, rank: int = 0, world: int = 1, accumulation: int = 1
) -> LabelledBatches:
    config = TrainConfig(batch_size=batch_size, accumulation=accumulation, seed=3)
    return LabelledBatches(features(), -1, window, config, Processes(rank, world))


def seen(order: LabelledBatches, step: int) -> list[int]:
    return [
        int(row[0])
        for batch in order.micro_batches(step)
        for row, is_counted in zip(batch.input_ids, batch.is_counted, strict=True)
        if is_counted
    ]


@pytest.mark.parametrize("window", [1, 16, 1000])
@pytest.mark.parametrize("batch_size", [1, 8, 32, 600])
def test_an_epoch_has_every_row_once_and_the_next_another_order(window: int, batch_size: int) -> None:
    subject = order(window, batch_size)
    steps = subject.steps_per_epoch
    first, second = ([seen(subject, e * steps + s) for s in range(steps)] for e in range(2))
    for epoch in (first, second):
        assert sorted(row for batch in epoch for row in batch) == list(range(len(LENGTHS)))
        assert sorted({len(batch) for batch in epoch})[-1] == min(batch_size, len(LENGTHS))
        assert sum(len(batch) < batch_size for batch in epoch) <= 1
    assert first != second


def test_batches_of_like_lengths_have_hardly_any_padding() -> None:
    def padded_share(window: int) -> float:
        subject = order(window)
        batches = [b for step in range(subject.steps_per_epoch) for b in subject.micro_batches(step)]
        return 1 - sum(int(b.attention_mask.sum()) for b in batches) / sum(b.input_ids.numel() for b in batches)

    assert padded_share(1) > 0.35
    assert padded_share(16) < 0.1


def test_which_rows_meet_changes_from_epoch_to_epoch() -> None:
    subject = order()
    steps = subject.steps_per_epoch
    first, second = ({frozenset(seen(subject, e * steps + s)) for s in range(steps)} for e in range(2))
    assert len(first & second) < steps / 10


def test_short_batches_do_not_come_in_the_order_of_lengths() -> None:
    subject = order()
    longest = [max(LENGTHS[seen(subject, step)]) for step in range(subject.steps_per_epoch)]
    assert longest != sorted(longest) and longest[::-1] != sorted(longest)


def test_a_step_is_the_same_whatever_was_read_before() -> None:
    walked = order()
    before = [seen(walked, step) for step in range(150)]
    assert [seen(order(), step) for step in (149, 70, 3)] == [before[149], before[70], before[3]]
    assert [[int(b.input_ids[0, 0]) for b in step] for step in order().from_step(148, 150)] == [
        [before[148][0]],
        [before[149][0]],
    ]


@pytest.mark.parametrize(("world", "accumulation"), [(2, 1), (1, 4), (2, 2), (4, 2)])
def test_processes_and_micro_batches_share_a_step(world: int, accumulation: int) -> None:
    whole = order()
    shares = [order(rank=rank, world=world, accumulation=accumulation) for rank in range(world)]
    for step in range(whole.steps_per_epoch + 1):
        assert [row for share in shares for row in seen(share, step)] == seen(whole, step)
        for share in shares:
            batches = share.micro_batches(step)
            assert len(batches) == accumulation, "every process takes part in every micro-batch"
            assert all(len(batch.input_ids) for batch in batches)


def test_a_batch_that_does_not_divide_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"batch_size=8 does not divide among 3 processes"):
        order(world=3)


def test_tokens_of_a_step_are_those_of_an_epoch_on_average() -> None:
    subject = order()
    batches = [b for step in range(subject.steps_per_epoch) for b in subject.micro_batches(step)]
    total = int(torch.stack([b.attention_mask.sum() for b in batches]).sum())
    assert subject.tokens_per_step == pytest.approx(total / subject.steps_per_epoch)
