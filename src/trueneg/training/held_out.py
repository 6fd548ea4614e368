"""A run's readings on rows that it does not train on."""

from __future__ import annotations

import torch

from trueneg.corpus.rows import RowIndex
from trueneg.corruption.rows import ReadRows, read_rows
from trueneg.models.modes import eval_mode
from trueneg.training.data import held_out_batches
from trueneg.training.metrics import Meter
from trueneg.training.step import Run


@torch.no_grad()
def held_out_readings(run: Run, rows: RowIndex, num_rows: int, read: ReadRows = read_rows) -> dict[str, float]:
    """Readings over at most ``num_rows`` rows, corrupted alike every time; dropout is off.

    Of an objective that depends on the rows of a micro-batch they depend on them too.
    """
    # As much at once as in training, whose memory is there.
    parts = run.processes.world_size * run.config.accumulation
    meter, share = Meter(), max(1, run.config.batch_size // parts)
    with eval_mode(run.module):
        for given in held_out_batches(rows, num_rows, share, run.processes, read):
            batch = run.objective.corrupt(given.to(run.device))
            counts = run.objective.counts(batch)
            with run.autocast():
                _, outcome = run.module(batch, counts)
            meter.add(outcome, counts)
    return meter.read(run.processes, run.objective.weights)
