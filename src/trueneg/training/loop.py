"""The loop around the step: logs, evaluates, saves, and stops well."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal

import torch

from trueneg.config import PretrainConfig
from trueneg.corpus.rows import RowIndex
from trueneg.errors import DivergedError, TruenegWarning
from trueneg.training.checkpoint import new_state, save_checkpoint
from trueneg.training.data import TrainingOrder, held_out_batches
from trueneg.training.log import Display, MetricsFile, Tracker
from trueneg.training.metrics import Meter
from trueneg.training.step import Run, train_step

VOTE_EVERY = 10
"""Steps between two agreements among processes on whether to stop."""

SHOWN = ("loss", "gold_loss", "accuracy", "corrected", "tokens_per_second")


@dataclass(frozen=True)
class Ending:
    """How a stretch of training ended."""

    reason: Literal["finished", "time", "interrupted"]
    step: int
    seconds: float
    """Training time of the whole run, evaluations and saves included."""


@dataclass
class Loop:
    """A run with its training order and its folder."""

    run: Run
    config: PretrainConfig
    order: TrainingOrder
    held_out: RowIndex | None
    corpus_fingerprint: str
    folder: Path
    display: Display
    on_save: Callable[[], None]
    """Called by the process that writes, after each checkpoint."""
    metrics: MetricsFile | None = None
    """None on processes that do not write."""
    tracker: Tracker | None = None
    seconds_before: float = 0.0
    _has_warned: bool = False

    def train(self) -> Ending:
        """Train to the last step, the time limit, Ctrl-C or SIGTERM; save in every case.

        Raises:
            DivergedError: if the loss or its gradient is not finite. The last checkpoint is kept.
        """
        run, config = self.run, self.config.train
        self._started = time.monotonic()
        self._logged_at, self._logged_step = self._started, run.step
        reason: Literal["finished", "time", "interrupted"] = "finished"
        pin_memory = run.device.type == "cuda"
        with _stop_signals() as is_stopped, self._closing():
            for micro_batches in self.order.from_step(run.step, config.steps, pin_memory):
                norm = train_step(run, micro_batches)
                self.display.advance(run.step)
                is_last = run.step == config.steps
                if run.device.type == "cpu":
                    self._check_finite()
                if is_last or run.step % config.log_every == 0:
                    self._log(norm)
                if self.held_out is not None and self._is_due(config.eval_every):
                    self._write({"step": run.step, "kind": "eval", **self.evaluate()})
                wish = None if is_last else self._wish_to_stop(is_stopped)
                if wish is not None or self._is_due(config.save_every):
                    self._save()
                if wish is not None:
                    reason = wish
                    break
        return Ending(reason, run.step, self._seconds())

    @contextmanager
    def _closing(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self.metrics is not None:
                self.metrics.close()
            if self.tracker is not None:
                self.tracker.close()

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Readings over the held-out rows, masked alike every time; dropout is off."""
        run = self.run
        assert self.held_out is not None
        meter, share = Meter(), max(1, self.config.train.batch_size // run.processes.world_size)
        run.module.train(False)
        for rows in held_out_batches(self.held_out, self.config.corpus.eval_rows, share, run.processes):
            batch = run.objective.corrupt(rows.to(run.device))
            counts = run.objective.counts(batch)
            with run.autocast():
                _, outcome = run.module(batch, counts)
            meter.add(outcome, counts)
        run.module.train(True)
        return meter.read(run.processes, run.objective.weights)

    def _is_due(self, every: int) -> bool:
        """Whether something that happens every so many steps, and at the end, happens now."""
        step = self.run.step
        return step == self.config.train.steps or (every > 0 and step % every == 0)

    def _wish_to_stop(self, is_stopped: Callable[[], bool]) -> Literal["time", "interrupted"] | None:
        run, limit = self.run, self.config.train.max_minutes
        if run.processes.world_size > 1 and run.step % VOTE_EVERY:
            return None
        if run.processes.any_true(is_stopped(), run.device):
            return "interrupted"
        is_over = bool(limit) and time.monotonic() - self._started > limit * 60
        return "time" if run.processes.any_true(is_over, run.device) else None

    def _log(self, norm: torch.Tensor) -> None:
        run, config = self.run, self.config
        self._check_finite()
        readings = run.meter.read(run.processes, run.objective.weights)
        now = time.monotonic()
        tokens = (run.step - self._logged_step) * config.train.batch_size * config.corpus.length
        readings["tokens_per_second"] = tokens / max(now - self._logged_at, 1e-9)
        self._logged_at, self._logged_step = now, run.step
        readings |= {"gradient_norm": float(norm), "learning_rate": _learning_rate(run)}
        readings |= run.objective.monitor(run.module.model)
        self._warn_of_collapse(readings)
        self._write({"step": run.step, "kind": "train", "seconds": round(self._seconds(), 3), **readings})
        if run.processes.is_main:
            self.display.show({"step": run.step, **{name: readings[name] for name in SHOWN if name in readings}})

    def _write(self, record: dict[str, float | int | str]) -> None:
        if self.metrics is not None:
            self.metrics.write(record)
        if self.tracker is not None:
            kind = record["kind"]
            values = {f"{kind}/{name}": value for name, value in record.items() if isinstance(value, float)}
            self.tracker.log(values, int(record["step"]))

    def _save(self) -> None:
        self._check_finite()
        run = self.run
        sums = run.meter.gather(run.processes)
        if run.processes.is_main:
            state = new_state(run.step, self.config, self.corpus_fingerprint, self._seconds(), sums)
            save_checkpoint(self.folder / "checkpoints", run.module, run.optimizer, state, self.config.train.keep)
            self.on_save()
        run.processes.barrier()

    def _check_finite(self) -> None:
        bad = int(self.run.first_bad_step.item())
        if bad >= 0:
            raise DivergedError(
                f"the loss or its gradient was not finite at step {bad + 1}; the last checkpoint under "
                f"'{self.folder}' is kept: continue from it in a new run (--from) with a lower "
                f"optimizer.learning_rate, or with train.precision=fp32"
            )

    def _warn_of_collapse(self, readings: dict[str, float]) -> None:
        threshold = self.config.objective.regularization.collapse_threshold
        cosine = readings.get("embedding_cosine")
        if cosine is not None and cosine > threshold and self.run.processes.is_main and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"step {self.run.step}: embeddings are collapsing (mean pairwise cosine {cosine:.2f}, above "
                f"{threshold}): lower objective.regularization.weight or set its stop_gradient",
                TruenegWarning,
                stacklevel=2,
            )

    def _seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self._started


def _learning_rate(run: Run) -> float:
    group = run.optimizer.param_groups[0]
    return float(group["lr"] / group["lr_scale"])


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C and SIGTERM into a question; a second Ctrl-C stops at once."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def receive(number: int, frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
