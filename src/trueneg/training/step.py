"""One optimizer step."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from trueneg.config.options import OptimizerConfig, TrainConfig
from trueneg.corruption.keyed import mixed_seed
from trueneg.corruption.rows import Rows
from trueneg.hardware import autocast, seed_draws
from trueneg.objectives.base import Objective, Outcome, Sums, TrainingModule
from trueneg.training.checkpoint import State, load_checkpoint
from trueneg.training.compilation import compiled, is_to_be_compiled
from trueneg.training.distributed import Processes
from trueneg.training.metrics import Meter
from trueneg.training.optimizer import learning_rate_share, make_optimizer, set_learning_rate
from trueneg.training.precision import resolve_precision
from trueneg.training.weight_average import WeightAverage

Prepare = Callable[[Any], tuple[Any, Sums]]
Pass = Callable[[float, bool], tuple[Tensor, Outcome]]
"""One pass of a micro-batch: see ``GradientPasses``."""


class GradientPasses(Protocol):
    """Several forward and backward passes over a micro-batch, instead of one."""

    def __call__(self, run: Run, batch: Any, take_pass: Pass) -> tuple[Tensor, Outcome]:
        """Add a micro-batch's gradients to the parameters'.

        Args:
            run: The run, with its model and step.
            batch: The model's input.
            take_pass: Runs one forward and backward pass, with the same random state each time. Takes the weight of its
                loss and whether it is the last pass of this micro-batch; returns the loss and its sums.

        Returns:
            Loss and sums to report.
        """

    def readings(self) -> dict[str, float]:
        """Metrics of the last step, for the log."""


@dataclass
class Run:
    """Everything that a training step changes or needs."""

    module: TrainingModule[Any]
    optimizer: Optimizer
    optimizer_config: OptimizerConfig
    config: TrainConfig
    device: torch.device
    processes: Processes = field(default_factory=Processes)
    step: int = 0
    """Optimizer steps done."""
    meter: Meter = field(default_factory=Meter)
    passes: GradientPasses | None = None
    """None for one pass."""
    frozen: Sequence[nn.Parameter] = ()
    """Parameters that are not updated during the first ``frozen_steps`` steps."""
    frozen_steps: int = 0
    steps: range = range(0)
    """Steps that the learning-rate schedule covers: those of a stage; by default all of the run."""

    def __post_init__(self) -> None:
        self.steps = self.steps or range(self.config.steps)
        self.config = resolve_precision(self.config, self.device)
        # transformers loads checkpoints in evaluation mode, where dropout is off.
        self.module.train()
        self.is_compiled = is_to_be_compiled(self.config, self.device, self.processes.world_size)
        forward: nn.Module = self.module
        objective = self.objective
        self.prepare: Prepare = lambda rows: _prepared(objective, rows)
        """Turns rows into the model's input and its counts."""
        if self.is_compiled:
            forward = compiled(forward, self.config)
            # No CUDA graph here: all micro-batches of a step are prepared before the first one is used.
            self.prepare = compiled(self.prepare, replace(self.config, cuda_graphs=False))
        if self.processes.world_size > 1:
            forward = _data_parallel(forward, self.device, self._is_static, self.objective.alternates)
        self.forward = forward
        self.parameters = list(self.module.parameters())
        """Listed once: walking the modules takes longer than launching a kernel for each."""
        self.average = WeightAverage(self.module.model, self.config.ema) if self.config.ema else None
        """The weights to export, if the run averages its weights."""
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.config.precision == "fp16")
        """Scales losses so that gradients do not underflow in float16, and skips steps whose gradients overflow."""
        self.first_bad_step = torch.tensor(-1, device=self.device)
        """The first step whose loss or gradient was not finite; -1 if there was none. Read rarely, since reading
        waits for the device."""

    def agreed_first_bad_step(self) -> Tensor:
        """``first_bad_step`` of any process; called by all.

        Their losses are their own. Unless gradients are scaled, one that is not finite makes the common gradient so,
        and the processes agree already.
        """
        return self.processes.max_of(self.first_bad_step) if self.scaler.is_enabled() else self.first_bad_step

    @classmethod
    def new(
        cls,
        model: nn.Module,
        objective: Objective[Any, Any],
        optimizer_config: OptimizerConfig,
        config: TrainConfig,
        device: torch.device,
        processes: Processes | None = None,
        passes: GradientPasses | None = None,
        frozen: Sequence[nn.Parameter] = (),
        frozen_steps: int = 0,
        steps: range = range(0),
    ) -> Run:
        """Put a model and its objective on a device, with a fresh optimizer."""
        module = TrainingModule(model, objective).to(device)
        return cls(
            module,
            make_optimizer(module, optimizer_config),
            optimizer_config,
            config,
            device,
            processes or Processes(),
            passes=passes,
            frozen=frozen,
            frozen_steps=frozen_steps,
            steps=steps,
        )

    def restore(self, checkpoint: Path, state: State) -> None:
        """Continue from a checkpoint; the sums that its meter had accumulated go to the main process.

        At the first step of a stage the objective may differ from the checkpoint's: then those of its weights that the
        new objective also has are loaded.

        Raises:
            CheckpointError: if its tensors do not match this model.
        """
        load_checkpoint(
            checkpoint,
            self.module,
            self.optimizer,
            self.average,
            is_same_objective=state.step > self.steps.start,
        )
        self.step = state.step
        if state.loss_scale and self.scaler.is_enabled():
            self.scaler.load_state_dict(dict(state.loss_scale))
        if self.processes.is_main:
            self.meter = Meter(state.sums, self.device)

    def leave(self) -> None:
        """Drop the data-parallel wrapper, before the process group is destroyed.

        A wrapper that outlives its process group deadlocks torch 2.13 with gloo: its destructor joins a thread of the
        group while holding the GIL, which that thread may be waiting for.
        """
        if self.processes.world_size > 1:
            self.forward = self.module
            gc.collect()

    @property
    def keeps_gradients(self) -> bool:
        """Whether gradients are set to 0 after a step, rather than to None.

        A backward pass in a CUDA graph returns gradients in the graph's own memory, which the next micro-batch
        overwrites: so they are copied once, and later gradients are added to the copies.
        """
        return self.config.cuda_graphs and self.is_compiled and self.config.accumulation > 1

    @property
    def _is_static(self) -> bool:
        """Whether all backward passes are alike: each synchronises gradients, of the same parameters."""
        is_one = self.config.accumulation == 1 and self.passes is None and not self.objective.alternates
        return is_one and not self.is_compiled

    @property
    def objective(self) -> Objective[Any, Any]:
        """The objective to minimise."""
        return self.module.objective

    def exported(self) -> AbstractContextManager[None]:
        """Context in which the model has the weights to export: the averaged ones, if there are any."""
        return nullcontext() if self.average is None else self.average.in_place()

    def loss_scale(self) -> Tensor:
        """Factor of losses before the backward pass: 1 except in float16."""
        return self.scaler.scale(torch.ones((), device=self.device))

    def autocast(self) -> AbstractContextManager[Any]:
        """Mixed precision, if configured."""
        return autocast(self.device, self.config.precision)


def train_step(run: Run, micro_batches: Sequence[Rows]) -> Tensor:
    """Take one optimizer step over this process's micro-batches.

    Each term is a sum over all micro-batches of all processes, divided by its count over all of them, so the step is
    the same however it is split. Random state is set from (seed, step, rank, micro-batch), so a process that has just
    started repeats a step identically.

    Returns:
        The gradient's norm before clipping, float32 scalar.
    """
    objective = run.objective
    with run.autocast():  # models may read the rows that are corrupted
        prepared = [run.prepare(rows.to(run.device)) for rows in micro_batches]
    batches, local_counts = [batch for batch, _ in prepared], [counts for _, counts in prepared]
    counts = run.processes.all_sum(*local_counts)
    share = learning_rate_share(run.optimizer_config, run.step - run.steps.start, len(run.steps))
    set_learning_rate(run.optimizer, run.optimizer_config.learning_rate * share)
    norms, given = list[Tensor](), batches
    while given:
        norm, outcomes = _update(run, given, counts, local_counts, number_of_update=len(norms))
        norms.append(norm)
        given = [outcome.then for outcome in outcomes if outcome.then is not None]
    objective.after_step(run.module.model)
    run.step += 1
    if run.average is not None:
        run.average.update(run.step)
    return norms[0] if len(norms) == 1 else torch.stack(norms).norm()


def _update(
    run: Run, batches: Sequence[Any], counts: Sums, local_counts: Sequence[Sums], number_of_update: int
) -> tuple[Tensor, list[Outcome]]:
    """Update the parameters that these batches give a gradient; a step has one update, unless its objective alternates.

    Returns:
        The gradient's norm before clipping, and the outcome of each batch.
    """
    is_finite = torch.ones((), dtype=torch.bool, device=run.device)
    without_gradient = [one for one in run.parameters if one.grad is None] if run.keeps_gradients else []
    outcomes = []
    for number, batch in enumerate(batches):
        place = (number, number_of_update) if number_of_update else (number,)
        take_pass = partial(_take_pass, run, batch, counts, place, number == len(batches) - 1)
        loss, outcome = take_pass(1.0, True) if run.passes is None else run.passes(run, batch, take_pass)
        run.meter.add(outcome, local_counts[number])
        outcomes.append(outcome)
        is_finite = is_finite & loss.isfinite()
        for parameter in without_gradient if number == 0 else ():
            parameter.grad = None if parameter.grad is None else parameter.grad.clone()
    if run.step < run.frozen_steps:
        # AdamW skips parameters without a gradient: no weight decay, no moments. They have one until here because
        # data-parallel training waits for the gradient of every parameter.
        for parameter in run.frozen:
            parameter.grad = None
    run.scaler.unscale_(run.optimizer)
    max_norm = run.optimizer_config.max_grad_norm or float("inf")
    norm = nn.utils.clip_grad_norm_(run.parameters, max_norm)
    # Gradients that overflow may just be too large for float16: then the step is skipped, and the scale halved.
    is_finite = is_finite & (norm.isfinite() | (run.loss_scale() > 1) if run.scaler.is_enabled() else norm.isfinite())
    is_first_bad = ~is_finite & (run.first_bad_step < 0)
    run.first_bad_step = torch.where(is_first_bad, run.step, run.first_bad_step)
    run.scaler.step(run.optimizer)
    run.scaler.update()
    run.optimizer.zero_grad(set_to_none=not run.keeps_gradients)
    return norm, outcomes


def _prepared(objective: Objective[Any, Any], rows: Any) -> tuple[Any, Sums]:
    batch = objective.corrupt(rows)
    return batch, objective.counts(batch)


def _data_parallel(module: nn.Module, device: torch.device, is_static: bool, alternates: bool) -> nn.Module:
    """Synchronise gradients during the backward pass; if the objective alternates, only of the parameters in use.

    Dynamo splits a compiled module at the wrapper's buckets, so that the last layers' gradients are sent while the
    first layers' are computed.
    """
    ids = None if device.index is None else [device.index]
    with warnings.catch_warnings():
        # Newer torch renames the option; buffers here are constant tables, the same in every process.
        warnings.simplefilter("ignore", FutureWarning)
        return DistributedDataParallel(
            module,
            device_ids=ids,
            broadcast_buffers=False,
            gradient_as_bucket_view=True,
            static_graph=is_static,
            find_unused_parameters=alternates,
        )


def _take_pass(
    run: Run, batch: Any, counts: Sums, place: tuple[int, ...], is_last_batch: bool, share: float, is_last: bool
) -> tuple[Tensor, Outcome]:
    seed_draws(mixed_seed(run.config.seed, run.step, run.processes.rank, *place), run.device)
    # Gradients are not synchronised until the last pass of the last micro-batch.
    forward, sends = run.forward, is_last_batch and is_last
    with forward.no_sync() if isinstance(forward, DistributedDataParallel) and not sends else nullcontext():
        if run.config.cuda_graphs and run.is_compiled:
            torch.compiler.cudagraph_mark_step_begin()
        with run.autocast():
            loss, outcome = forward(batch, counts)
        # Data-parallel training averages gradients; the sum over the whole step is needed.
        run.scaler.scale(loss * (run.processes.world_size * share)).backward()
    return loss.detach(), outcome
