"""Two processes, compiled or not: the losses of one, and gradients that are sent while the backward pass goes on."""

from __future__ import annotations

import json
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import tiny
from forks import FORKS
from trueneg.config.options import OptimizerConfig, TrainConfig
from trueneg.corruption.rows import Rows
from trueneg.objectives.mlm import MaskedLM
from trueneg.training.distributed import Processes, join_processes
from trueneg.training.step import Run, train_step

SIZES = {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 1}
"""Of a model whose gradients fill the first bucket, which is of 1 MB, and more."""


def rows_of(step: int) -> Rows:
    return tiny.make_rows([[14], [9], [4], [11]], 16, seed=step)


def train(processes: Processes, settings: dict[str, Any]) -> dict[str, Any]:
    """Three steps of this process's share: readings, and what the backward pass was made of."""
    config = TrainConfig(batch_size=4, **settings)
    model = tiny.make_masked_lm(**SIZES)
    run = Run.new(model, MaskedLM(tiny.make_masking()), OptimizerConfig(), config, torch.device("cpu"), processes)
    told: dict[str, Any] = {"losses": []}
    parts = processes.world_size * config.accumulation
    first = processes.rank * config.accumulation
    for step in range(3):
        whole = torch.arange(4).chunk(parts)
        own = [tiny.select(rows_of(step), numbers.tolist()) for numbers in whole[first : first + config.accumulation]]
        told["norm"] = float(train_step(run, own))
        told["losses"].append(run.meter.read(processes, {})["loss"])
    if isinstance(run.forward, DistributedDataParallel):
        batch, counts = run.prepare(rows_of(0))
        told["backwards"] = num_compiled_backwards(run.forward(batch, counts)[0])
        told["logging"] = {
            name: bool(value)
            for name, value in run.forward._get_ddp_logging_data().items()
            if name in ("static_graph", "gradient_as_bucket_view")
        }
    run.leave()
    return told


def num_compiled_backwards(loss: torch.Tensor) -> int:
    """Parts that a compiled backward pass is cut into: each gives its gradients when it is done."""
    nodes, left = set(), [loss.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            left += [following for following, _ in node.next_functions]
    return sum("CompiledFunction" in type(node).__name__ for node in nodes)


def work(environment: dict[str, str], settings: dict[str, Any], out: Path) -> None:
    """What one process does."""
    os.environ |= environment
    torch.set_num_threads(1)
    torch.compile = partial(torch.compile, backend="aot_eager")  # type: ignore[assignment]
    with join_processes("cpu") as processes:
        out.with_suffix(f".{processes.rank}").write_text(json.dumps(train(processes, settings)))


def of_two(settings: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        FORKS.Process(target=work, args=(group | {"RANK": rank, "LOCAL_RANK": rank}, settings, folder / "told"))
        for rank in ("0", "1")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
    return [json.loads((folder / f"told.{rank}").read_text()) for rank in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("is_compiled", "accumulation"), [(False, 1), (True, 1), (True, 2)])
def test_two_processes_have_the_losses_of_one(is_compiled: bool, accumulation: int, tmp_path: Path) -> None:
    alone = train(Processes(), {"compile": False})
    for told in of_two({"compile": is_compiled, "accumulation": accumulation}, tmp_path):
        assert told["losses"] == pytest.approx(alone["losses"], rel=2e-5)
        assert told["norm"] == pytest.approx(alone["norm"], rel=2e-4)
        # With the wrapper outside of one compiled part, no gradient would be there before all are.
        assert told["backwards"] >= 2 if is_compiled else told["backwards"] == 0
        assert told["logging"].pop("gradient_as_bucket_view")
        assert told["logging"] == ({} if is_compiled else {"static_graph": True})


@pytest.mark.slow
def test_dynamo_cuts_at_the_buckets_and_would_not_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count sees the difference."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    found = {}
    for is_cut in (True, False):
        torch.compiler.reset()
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
        try:
            with torch._dynamo.config.patch(optimize_ddp=is_cut):
                found[is_cut] = train(Processes(0, world_size=2), {"compile": True})["backwards"]
        finally:
            distributed.destroy_process_group()
    assert found[False] == 1 < found[True]
