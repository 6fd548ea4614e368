"""What a run holds on to."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import tiny
from trueneg.config.options import OptimizerConfig, TrainConfig
from trueneg.hardware import seed_draws
from trueneg.objectives.mlm import MaskedLM
from trueneg.training.distributed import Processes, Votes
from trueneg.training.step import Run, train_step


@pytest.fixture
def group_of_one() -> Iterator[None]:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_leaving_lets_the_data_parallel_wrapper_go(group_of_one: None) -> None:
    """One that outlives its group deadlocks at times, when the interpreter frees it."""
    model, objective = tiny.make_masked_lm(), MaskedLM(tiny.make_masking())
    run = Run.new(model, objective, OptimizerConfig(), TrainConfig(), torch.device("cpu"), Processes(0, world_size=2))
    rows = tiny.make_rows([[14], [9]], 16)
    train_step(run, [rows])
    assert isinstance(run.forward, DistributedDataParallel)
    wrapper = weakref.ref(run.forward)
    run.leave()
    assert wrapper() is None
    train_step(run, [rows])
    assert run.step == 2


def test_draws_are_those_of_torch_manual_seed() -> None:
    dropout, ones = nn.Dropout(0.5), torch.ones(64)
    for seed in (0, 7, 2**63 - 1):
        torch.manual_seed(seed)
        wanted = dropout(ones), torch.rand(3), torch.initial_seed()
        torch.manual_seed(1)
        seed_draws(seed, torch.device("cpu"))
        for ours, theirs in zip((dropout(ones), torch.rand(3)), wanted[:2], strict=True):
            assert torch.equal(ours, theirs)
        assert torch.initial_seed() == wanted[2]


def test_a_vote_is_answered_when_the_next_one_is_cast(group_of_one: None) -> None:
    votes = Votes(Processes(0, world_size=2), torch.device("cpu"))
    assert votes.cast([True, False]) == [False, False]
    assert votes.cast([False, True]) == [True, False]
    votes.forget(1)
    assert votes.cast([False, True]) == [False, False]
    assert votes.cast([False, False]) == [False, True]
    assert votes.cast([True, True]) == [False, False]


def test_who_is_alone_has_the_answer_at_once() -> None:
    votes = Votes(Processes(), torch.device("cpu"))
    assert votes.cast([True, False]) == [True, False]
    assert votes.cast([False, False]) == [False, False]
