"""The loop around the step: it logs, evaluates, saves, and stops when it is told to."""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch

from trueneg.config.codec import encode
from trueneg.config.options import PretrainConfig, TrainConfig
from trueneg.errors import ConfigError, DivergedError, OutOfMemoryError, TruenegWarning, is_out_of_memory
from trueneg.hardware import pins_memory
from trueneg.training.batches import BatchLoader
from trueneg.training.checkpoint import State, save_checkpoint
from trueneg.training.compilation import is_of_compiler, said_by
from trueneg.training.distributed import PATIENCE, Votes
from trueneg.training.folder import CHECKPOINTS
from trueneg.training.log import Display, MetricsFile, Tracker
from trueneg.training.speed import Waiting, Workload
from trueneg.training.step import Run, train_step

SECONDS_BETWEEN_VOTES, MOST_STEPS_BETWEEN_VOTES = 1.0, 10
"""How often several processes agree on whether to stop: seldom, but a launcher's patience is short. What they agree on
happens at the vote after, by all at the same step."""
IS_OLD = 2
"""Place of the vote on whether to save."""

SMALL_LOGITS_MB = 64
"""Of logits, where memory is short: ``objective.max_logits_mb``."""

LEARNED = ("loss", "gold_loss", "accuracy", "corrected", "triplet_accuracy")
SPEED = ("tokens_per_second", "positions_per_second", "mfu", "padding", "data_wait")
"""Readings that a line shows, of what is learned and of how fast."""


@dataclass(frozen=True)
class Ending:
    """How a stretch of training ended."""

    reason: Literal["finished", "time", "interrupted"]
    step: int
    seconds: float
    """Training time of the whole run, evaluations and saves included."""
    held_out: Mapping[str, float]
    """Readings of the last evaluation of this stretch, with its ``step``; empty if there was none."""
    begun: float
    """When this command began to train, by ``time.monotonic``."""


@dataclass
class _Clock:
    """When the loop did what, in seconds of ``time.monotonic``."""

    logged_step: int
    started: float
    logged_at: float
    saved_at: float
    seconds_apart: float = 0.0
    """Since the last record, in evaluations and saves."""
    vote_every: int = 1
    """Steps after which processes agree on whether to stop."""
    has_warned: bool = False
    held_out: Mapping[str, float] = field(default_factory=dict)
    """Readings of the last evaluation."""
    waiting: Waiting = field(default_factory=Waiting)
    """For data, since the last record."""


@dataclass
class Loop:
    """A run with its batches and its folder."""

    run: Run
    config: Any
    """The run's whole configuration, which checkpoints keep."""
    batches: BatchLoader[Any]
    evaluate: Callable[[], Mapping[str, float]] | None
    """Readings on held-out data, called by all processes; None for no evaluation."""
    data_fingerprint: str
    folder: Path
    display: Display
    on_save: Callable[[], None]
    """Called by the process that writes, after each checkpoint."""
    on_keep: Callable[[], None] = lambda: None
    """Called by the process that writes, at the steps of ``kept``."""
    kept: Mapping[int, float] = field(default_factory=dict)
    """Steps at which the model is kept, each with its share of the run."""
    stage: str = ""
    """What is trained is a stage of this name; empty for a whole run."""
    begun: float | None = None
    """When this command began to train, by ``time.monotonic``, if it is in a later stage."""
    metrics: MetricsFile | None = None
    """None on processes that do not write."""
    tracker: Tracker | None = None
    seconds_before: float = 0.0
    tables: str = ""
    """What is looked up and not learned: ``checkpoint.tables_digest``."""
    workload: Workload | None = None
    """What a position costs; None to leave the share of the device's peak out."""
    _clock: _Clock = field(init=False)
    _votes: Votes = field(init=False)

    def train(self) -> Ending:
        """Train to the last step of the run or stage, the time limit, Ctrl-C, SIGTERM or SIGHUP; save in every case.

        Raises:
            DivergedError: if the loss or its gradient is not finite. The last checkpoint is kept.
            OutOfMemoryError: if the device has too little memory.
        """
        run, config, began = self.run, self._train, self.run.step
        now = time.monotonic()
        self._clock = _Clock(run.step, started=now, logged_at=now, saved_at=now)
        self.begun = now if self.begun is None else self.begun
        self._votes = Votes(run.processes, run.device)
        reason: Literal["finished", "time", "interrupted"] = "finished"
        pin_memory = pins_memory(run.device)
        with _stop_signals() as is_stopped, self._explaining():
            for micro_batches in self._clock.waiting.timed(
                self.batches.from_step(run.step, run.steps.stop, pin_memory)
            ):
                norm = train_step(run, micro_batches)
                if run.step == began + 1:  # what is compiled is compiled by now
                    run.processes.wait_at_most(config.timeout_seconds)
                self.display.advance(run.step)
                if run.device.type == "cpu":
                    self._check_finite()
                if self._is_due(config.log_every):
                    self._log(norm)
                if self.evaluate is not None and self._is_due(config.eval_every):
                    self._evaluate_and_write(self.evaluate)
                if run.step in self.kept:
                    self._keep(self.kept[run.step])
                is_interrupted, is_time_up, is_old = self._agree(is_stopped)
                is_last = run.step == config.steps
                if self._is_due(config.save_every) or is_interrupted or is_time_up or is_old:
                    self._save()
                if (is_interrupted or is_time_up) and not is_last:
                    reason = "interrupted" if is_interrupted else "time"
                    break
            else:
                # The vote of a stage's last step would be answered at a next one.
                if run.step < config.steps and any(run.processes.any_of([is_stopped()], run.device)):
                    reason = "interrupted"
        run.processes.wait_at_most(PATIENCE)
        return Ending(reason, run.step, self._seconds(), self._clock.held_out, self.begun)

    def measure(self, evaluate: Callable[[], Mapping[str, float]]) -> None:
        """Evaluate before the first step, which is no part of the time of training."""
        with self._explaining():
            readings = evaluate()
        self._write({"step": self.run.step, "kind": "eval", **readings})
        self.display.show(_shown(self.run.step, readings, LEARNED), "held out")

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Say what can be done where memory or the compiler fails."""
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if is_of_compiler(error):
                raise ConfigError(
                    f"the step could not be compiled ({said_by(error)}): train.compile=false trains without"
                ) from error
            if not is_out_of_memory(error):
                raise
            what = (str(error).strip() or type(error).__name__).splitlines()[0]
            chunk = self.config.objective.max_logits_mb if isinstance(self.config, PretrainConfig) else None
            raise OutOfMemoryError(
                f"out of memory on {self.run.device.type} at step {self.run.step + 1} ({what}): "
                f"{_memory_advice(self._train, self.batches.micro_batch, self.run.processes.world_size, chunk)}"
            ) from error

    @property
    def _train(self) -> TrainConfig:
        return self.run.config

    def _is_due(self, every: int) -> bool:
        """Whether something that happens every so many steps, and at the end of a run or stage, happens now."""
        step = self.run.step
        return step == self.run.steps.stop or (every > 0 and step % every == 0)

    def _agree(self, is_stopped: Callable[[], bool]) -> list[bool]:
        """Whether any process was told to stop, its time is up, or the last checkpoint is too old.

        Of several processes it is the answer to the vote before, so it comes a step, or ``vote_every``, later.
        """
        run, config, now = self.run, self._train, time.monotonic()
        if run.processes.world_size > 1 and run.step % self._clock.vote_every:
            return [False, False, False]
        begun = self._clock.started if self.begun is None else self.begun
        is_time_up = config.max_minutes > 0 and now - begun > config.max_minutes * 60
        is_old = config.save_minutes > 0 and now - self._clock.saved_at > config.save_minutes * 60
        return self._votes.cast([is_stopped(), is_time_up, is_old])

    def _evaluate_and_write(self, evaluate: Callable[[], Mapping[str, float]]) -> None:
        self._check_finite()
        started = time.monotonic()
        readings = evaluate()
        self._clock.held_out = {"step": self.run.step, **readings}
        self._write({"step": self.run.step, "kind": "eval", **readings})
        # A task's own metrics are few, and all of them matter.
        shown = LEARNED if "loss" in readings else tuple(readings)
        self.display.show(_shown(self.run.step, readings, shown), "held out")
        self._clock.seconds_apart += time.monotonic() - started

    def _log(self, norm: torch.Tensor) -> None:
        run = self.run
        # All that the device is waited for, in one transfer.
        beside = {"gradient_norm": norm, "first_bad_step": run.first_bad_step}
        beside |= {"loss_scale": run.loss_scale()} if run.scaler.is_enabled() else {}
        readings = run.meter.read(run.processes, run.objective.weights, beside)
        self._refuse_divergence(int(readings.pop("first_bad_step")))
        told = {name: readings.pop(name) for name in ("gradient_norm", "loss_scale") if name in readings}
        readings |= self._speed()
        # A gradient that overflows in float16 has no norm, and is no step.
        readings |= {name: value for name, value in told.items() if math.isfinite(value)}
        readings["learning_rate"] = _learning_rate(run)
        readings |= run.objective.expensive_metrics(run.module.model)
        readings |= {} if run.passes is None else run.passes.readings()
        readings |= self.batches.progress(run.step)
        self._raise_warning(run.objective.warning_for(readings))
        self._write({"step": run.step, "kind": "train", "seconds": round(self._seconds(), 3), **readings})
        if run.processes.is_main:
            self.display.show(_shown(run.step, readings, LEARNED + SPEED))

    def _speed(self) -> dict[str, float]:
        """Readings of the clock since the last record, of the time spent on steps."""
        run, clock, now = self.run, self._clock, time.monotonic()
        num_steps = run.step - clock.logged_step
        num_full = self.batches.num_full_steps(clock.logged_step, run.step)
        seconds = max(now - clock.logged_at - clock.seconds_apart, 1e-9)
        clock.logged_at, clock.logged_step, clock.seconds_apart = now, run.step, 0.0
        mean = run.processes.all_sum({"seconds": torch.tensor(seconds / num_steps, device=run.device)})["seconds"]
        # Steps of seconds are voted on each; of milliseconds, every tenth.
        step_seconds = float(mean) / run.processes.world_size
        self._clock.vote_every = max(1, min(MOST_STEPS_BETWEEN_VOTES, int(SECONDS_BETWEEN_VOTES / step_seconds)))
        tokens, positions = self.batches.tokens_per_step, self.batches.positions_per_step
        readings = {"tokens_per_second": num_full * tokens / seconds}
        if positions is not None:
            speed = num_full * positions / seconds
            readings |= {"positions_per_second": speed, "padding": 1 - tokens / positions}
            readings |= {} if self.workload is None else self.workload.mfu(speed, run.processes.world_size)
        left = (self._train.steps - run.step) * seconds / num_steps
        return readings | {"data_wait": min(1.0, clock.waiting.take() / seconds), "seconds_left": round(left, 1)}

    def _write(self, record: dict[str, float | int | str]) -> None:
        record |= {"stage": self.stage} if self.stage else {}
        if self.metrics is not None:
            self.metrics.write(record)
        if self.tracker is not None:
            kind = record["kind"]
            values = {f"{kind}/{name}": value for name, value in record.items() if isinstance(value, float)}
            self.tracker.log(values, int(record["step"]))

    def _keep(self, share: float) -> None:
        self._check_finite()
        started = time.monotonic()
        with self.run.processes.waiting_for_main(then=self._train.timeout_seconds):
            if self.run.processes.is_main:
                self.on_keep()
                self.display.say(f"kept the model of step {self.run.step:,} ({share:.4g} of the run)")
            self._write({"step": self.run.step, "kind": "kept", "share": share})
        self._clock.seconds_apart += time.monotonic() - started

    def _save(self) -> None:
        self._check_finite()
        run, started = self.run, time.monotonic()
        sums = run.meter.gather(run.processes)
        with run.processes.waiting_for_main(then=self._train.timeout_seconds):
            if run.processes.is_main:
                self._write_checkpoint(sums)
        self._votes.forget(IS_OLD)
        self._clock.saved_at = time.monotonic()
        self._clock.seconds_apart += self._clock.saved_at - started

    def _write_checkpoint(self, sums: dict[str, float]) -> None:
        run = self.run
        if self.metrics is not None:
            self.metrics.sync()
        state = State(
            run.step,
            encode(self.config),
            self.data_fingerprint,
            self._seconds(),
            sums,
            self.tables,
            run.scaler.state_dict(),
            self.batches.micro_batch,
            self.stage,
        )
        place, keep = self.folder / CHECKPOINTS, self._train.keep
        save_checkpoint(place, run.module, run.optimizer, state, keep, run.average)
        self.on_save()

    def _check_finite(self) -> None:
        self._refuse_divergence(int(self.run.first_bad_step.item()))

    def _refuse_divergence(self, bad: int) -> None:
        """Stop if there was a first step, from 0, that was not finite."""
        if bad >= 0:
            raise DivergedError(
                f"the loss or its gradient was not finite at step {bad + 1}; the last checkpoint under "
                f"'{self.folder}' is kept: continue from it in a new run (--from) with a lower "
                f"optimizer.learning_rate, or with train.precision=fp32"
            )

    def _raise_warning(self, warning: str) -> None:
        if warning and self.run.processes.is_main and not self._clock.has_warned:
            self._clock.has_warned = True
            warnings.warn(f"step {self.run.step}: {warning}", TruenegWarning, stacklevel=2)

    def _seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self._clock.started


def _memory_advice(config: TrainConfig, micro_batch: int, world_size: int, max_logits_mb: float | None = None) -> str:
    """Say what takes less memory, with numbers, what leaves the curve as it is first.

    Example:
        >>> print(_memory_advice(TrainConfig(batch_size=256, gradient_checkpointing=True), 256, 1))
        train.batch_size=256 in micro-batches of 256: set train.accumulation=2 for micro-batches of 128, then go on \
with --resume
    """
    rows = f"train.batch_size={config.batch_size} in micro-batches of {micro_batch}"
    more = config.accumulation * next((n for n in range(2, micro_batch + 1) if micro_batch % n == 0), 1)
    ways = []
    if micro_batch > 1:
        smaller = config.batch_size // (more * world_size)
        ways.append(f"set train.accumulation={more} for micro-batches of {smaller}")
    if not config.gradient_checkpointing:
        ways.append("train.gradient_checkpointing=true, which computes activations twice")
    if max_logits_mb is not None and not 0 < max_logits_mb <= SMALL_LOGITS_MB:
        ways.append(f"objective.max_logits_mb={SMALL_LOGITS_MB}, which makes logits in chunks")
    if not ways:
        ways.append("a row alone is too much: fewer tokens a row, a smaller model, or a machine with more memory")
    return f"{rows}: {', or '.join(ways)}, then go on with --resume"


def _shown(step: int, readings: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    return {"step": step, **{name: readings[name] for name in names if name in readings}}


def _learning_rate(run: Run) -> float:
    group = run.optimizer.param_groups[0]
    return float(group["lr"] / group["lr_scale"])


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C, SIGTERM and a closed terminal into a question; a second Ctrl-C stops at once.

    Python lets only the main thread receive signals: in another it warns, and nothing is asked.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        warnings.warn(
            "training runs outside the main thread (as under Ray Train), where Ctrl-C and SIGTERM cannot be received "
            "and save nothing: train.save_minutes bounds what is lost, and --resume goes on",
            TruenegWarning,
            stacklevel=2,
        )
        yield lambda: False
        return

    def receive(number: int, frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup leaves it
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, receive) for number in numbers}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
