"""The training loop around the step: it logs, evaluates, saves, and stops on request."""

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
from trueneg.training.compilation import is_of_compiler, root_cause_line
from trueneg.training.distributed import PATIENCE, Votes
from trueneg.training.folder import CHECKPOINTS
from trueneg.training.log import Display, MetricsFile, Tracker
from trueneg.training.speed import Waiting, Workload
from trueneg.training.step import Run, train_step

SECONDS_BETWEEN_VOTES, MOST_STEPS_BETWEEN_VOTES = 1.0, 10
"""How often several processes agree on whether to stop: rarely, but soon enough for launchers, which do not wait long.
The result takes effect at the next vote, at the same step on all processes."""
IS_OLD = 2
"""Index of the vote on whether to save."""

SMALL_LOGITS_MB = 64
"""Value of ``objective.max_logits_mb`` to suggest where memory is short."""

LEARNED = ("loss", "gold_loss", "accuracy", "corrected", "triplet_accuracy")
SPEED = ("tokens_per_second", "positions_per_second", "mfu", "padding", "data_wait")
"""Metrics that a line of progress shows: those of learning and those of speed."""


@dataclass(frozen=True)
class Ending:
    """How one call of ``Loop.train`` ended."""

    reason: Literal["finished", "time", "interrupted"]
    step: int
    seconds: float
    """Training time of the whole run, evaluations and saves included."""
    held_out: Mapping[str, float]
    """Metrics of its last evaluation, with their ``step``; empty if there was none."""
    begun: float
    """When this command began to train, by ``time.monotonic``."""


@dataclass
class _Clock:
    """Times at which the loop last did something, in seconds of ``time.monotonic``."""

    logged_step: int
    started: float
    logged_at: float
    saved_at: float
    seconds_apart: float = 0.0
    """Time spent in evaluations and saves since the last record."""
    vote_every: int = 1
    """Number of steps between votes on whether to stop."""
    has_warned: bool = False
    held_out: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the last evaluation."""
    waiting: Waiting = field(default_factory=Waiting)
    """Time spent waiting for data since the last record."""


@dataclass
class Loop:
    """A run with its batches and its folder."""

    run: Run
    config: Any
    """The run's whole configuration, which is saved in checkpoints."""
    batches: BatchLoader[Any]
    evaluate: Callable[[], Mapping[str, float]] | None
    """Returns metrics on held-out data, called by all processes; None for no evaluation."""
    data_fingerprint: str
    folder: Path
    display: Display
    on_save: Callable[[], None]
    """Called by the process that writes, after each checkpoint."""
    on_keep: Callable[[], None] = lambda: None
    """Called by the process that writes, at the steps of ``kept``."""
    kept: Mapping[int, float] = field(default_factory=dict)
    """Steps at which the model is kept, each mapped to the share of the run that is done by then."""
    stage: str = ""
    """Name of the stage that is trained; empty for a run without stages."""
    begun: float | None = None
    """When this command began to train, by ``time.monotonic``, if it did so in an earlier stage."""
    metrics: MetricsFile | None = None
    """None on processes that do not write."""
    tracker: Tracker | None = None
    seconds_before: float = 0.0
    tables: str = ""
    """Digest of the lookup tables: ``checkpoint.tables_digest``."""
    workload: Workload | None = None
    """Cost of a position; None to not report MFU."""
    _clock: _Clock = field(init=False)
    _votes: Votes = field(init=False)

    def train(self) -> Ending:
        """Train until the last step of the run or stage, the time limit, Ctrl-C, SIGTERM or SIGHUP; always save.

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
                if run.step == began + 1:  # compilation is done by now
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
                # The vote of a stage's last step would only be answered at the next step.
                if run.step < config.steps and any(run.processes.any_of([is_stopped()], run.device)):
                    reason = "interrupted"
        run.processes.wait_at_most(PATIENCE)
        return Ending(reason, run.step, self._seconds(), self._clock.held_out, self.begun)

    def measure(self, evaluate: Callable[[], Mapping[str, float]]) -> None:
        """Evaluate before the first step; this does not count as training time."""
        with self._explaining():
            readings = evaluate()
        self._write({"step": self.run.step, "kind": "eval", **readings})
        self.display.show(_shown(self.run.step, readings, LEARNED), "held out")

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn errors of memory and of the compiler into ones that say what to do."""
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if is_of_compiler(error):
                raise ConfigError(
                    f"the step could not be compiled ({root_cause_line(error)}): train.compile=false trains without"
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
        """Whether something that is done every ``every`` steps, and at the end of a run or stage, is due now."""
        step = self.run.step
        return step == self.run.steps.stop or (every > 0 and step % every == 0)

    def _agree(self, is_stopped: Callable[[], bool]) -> list[bool]:
        """Whether, on any process, a stop was requested, the time is up, or the last checkpoint is too old.

        With several processes this is the result of the previous vote, so it comes ``vote_every`` steps late.
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
        # A task's own metrics are few: all are shown.
        shown = LEARNED if "loss" in readings else tuple(readings)
        self.display.show(_shown(self.run.step, readings, shown), "held out")
        self._clock.seconds_apart += time.monotonic() - started

    def _log(self, norm: torch.Tensor) -> None:
        run = self.run
        # One transfer, so the device is waited for only once.
        beside = {"gradient_norm": norm, "first_bad_step": run.agreed_first_bad_step()}
        beside |= {"loss_scale": run.loss_scale()} if run.scaler.is_enabled() else {}
        readings = run.meter.read(run.processes, run.objective.weights, beside)
        self._refuse_divergence(int(readings.pop("first_bad_step")))
        told = {name: readings.pop(name) for name in ("gradient_norm", "loss_scale") if name in readings}
        readings |= self._speed()
        # A gradient that overflows in float16 has no finite norm, and its step is skipped.
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
        """Speed since the last record, over the time spent on steps."""
        run, clock, now = self.run, self._clock, time.monotonic()
        num_steps = run.step - clock.logged_step
        num_full = self.batches.num_full_steps(clock.logged_step, run.step)
        seconds = max(now - clock.logged_at - clock.seconds_apart, 1e-9)
        clock.logged_at, clock.logged_step, clock.seconds_apart = now, run.step, 0.0
        mean = run.processes.all_sum({"seconds": torch.tensor(seconds / num_steps, device=run.device)})["seconds"]
        # With steps of a second or more every step votes; with steps of milliseconds, every tenth.
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
        self._refuse_divergence(int(self.run.agreed_first_bad_step().item()))

    def _refuse_divergence(self, bad: int) -> None:
        """Raise an error if some step was not finite; ``bad`` is the first one, from 0, or -1."""
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
    """Advice on how to use less memory, with numbers; options that do not change the loss curve come first.

    Example:
        >>> print(_memory_advice(TrainConfig(batch_size=256, gradient_checkpointing=True), 256, 1))
        train.batch_size=256 in micro-batches of 256: set train.accumulation=2 for micro-batches of 128, then \
continue with --resume
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
    return f"{rows}: {', or '.join(ways)}, then continue with --resume"


def _shown(step: int, readings: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    return {"step": step, **{name: readings[name] for name in names if name in readings}}


def _learning_rate(run: Run) -> float:
    group = run.optimizer.param_groups[0]
    return float(group["lr"] / group["lr_scale"])


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C, SIGTERM or SIGHUP was received; a second Ctrl-C stops at once.

    Python lets only the main thread receive signals: elsewhere this warns, and the function always returns False.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        warnings.warn(
            "training runs outside the main thread (as under Ray Train), where Ctrl-C and SIGTERM cannot be received "
            "and save nothing: train.save_minutes bounds what is lost, and --resume continues",
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
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup ignores it
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, receive) for number in numbers}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
