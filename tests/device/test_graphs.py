"""A compiled step is one graph of its module and one of its corruption, whatever it trains, however full rows are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from steps import CASES, READING_ALONG, ROWS, Step, electra
from torch._dynamo.utils import counters

import tiny
from trueneg.config.options import OptimizerConfig, TrainConfig
from trueneg.corruption.rows import Rows
from trueneg.training.step import Run, train_step

DIFFERENTIATED = {
    "mlm / full",
    "electra / packed",
    "cline / padded",
    "checkpointing",
    "lexical / drop",
    "electra in chunks",
}
"""Cases of which the backward pass is traced, too (``aot_eager``); of the others Dynamo's part is looked at."""


def in_chunks() -> Step:
    return electra(max_logits_mb=0.002)


OF_ONE_GRAPH = {name: case for name, case in CASES.items() if name not in READING_ALONG}
WATCHED = {**OF_ONE_GRAPH, "electra in chunks": (in_chunks, "packed")}


def batches(rows: str) -> list[Rows]:
    """Two of one run: where some rows are not full, one batch may be, and is told to be like the others."""
    first = tiny.make_rows(ROWS[rows], 16)
    other = tiny.make_rows(ROWS["full" if rows == "padded" else rows], 16, seed=1)
    return [first, replace(other, is_full=first.is_full, is_packed=first.is_packed)]


@pytest.mark.parametrize("case", WATCHED)
def test_one_graph_of_each(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (make, rows), backend = WATCHED[case], "aot_eager" if case in DIFFERENTIATED else "eager"
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend, fullgraph=True))
    losses = {}
    for is_compiled in (False, True):
        torch.compiler.reset()
        step = make()
        run = Run.new(
            step.model, step.objective, OptimizerConfig(), TrainConfig(compile=is_compiled), torch.device("cpu")
        )
        counters.clear()
        for given in batches(rows):
            train_step(run, [step.given(given)])
        losses[is_compiled] = run.meter.read(run.processes, run.objective.weights)
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == 2
    assert losses[True] == pytest.approx(losses[False], rel=1e-4, abs=1e-5)
