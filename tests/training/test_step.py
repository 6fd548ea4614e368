"""What a run holds on to."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import tiny
from trueneg.config.options import OptimizerConfig, TrainConfig
from trueneg.objectives.mlm import MaskedLM
from trueneg.training.distributed import Processes
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
