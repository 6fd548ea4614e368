"""Estimates of a run's memory, by running its step on fake tensors, and of its time, by arithmetic."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import override
from trueneg.config.costs import num_readings
from trueneg.config.devices import GPUS, Gpu, find_gpu
from trueneg.config.options import PretrainConfig
from trueneg.config.stages import Stage, stages_of
from trueneg.config.validation import validate
from trueneg.corruption.keyed import example_keys
from trueneg.corruption.rows import Rows
from trueneg.corruption.views.batch import View, Views
from trueneg.errors import ConfigError, unknown_name
from trueneg.hardware import name_of, peak_memory
from trueneg.models.flops import training_flops
from trueneg.models.loading import count_parameters
from trueneg.objectives import objective_kind
from trueneg.objectives.base import Objective, TrainingModule
from trueneg.runs.building import build
from trueneg.runs.doctor import Finding, Level
from trueneg.terminal.progress import duration
from trueneg.training.distributed import choose_device
from trueneg.training.optimizer import make_optimizer
from trueneg.training.precision import resolve_precision
from trueneg.training.speed import Peak, peak_of, sheet_peak
from trueneg.training.step import Run, train_step

VOCABULARY = 30_522
"""Assumed vocabulary size, as BERT's."""

UTILISATION, FULL_WIDTH = 0.4, {"cpu": 256, "cuda": 768}
"""Share of the peak that a step is assumed to reach with a model of this width or more, proportionally less below; on
a CPU, the share of its measured rate of matrix products."""

LEAST_MORE, MOST_MORE = 0.1, 0.2
"""Measured excess of a process's memory on a CPU over the estimate: electra-mini and electra-small, bf16 and
float32."""

_ROLES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


@dataclass(frozen=True)
class Estimate:
    """Resources that a step of one process takes. Memory is in bytes."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    """All else at the peak: activations, logits, temporary tensors."""
    logits: float
    """Logits over the vocabulary at masked positions, in float32: a part of the activations, in several copies if the
    head is not computed in chunks."""
    flops: float
    """Operations of a step's matrix products."""
    micro_batch: int

    @property
    def memory(self) -> float:
        """Total at the peak."""
        return self.weights + self.gradients + self.optimizer + self.activations

    def seconds(self, device_type: str, rate: float, width: int) -> float:
        """Estimate a step's time on a device with this peak or measured rate."""
        return self.flops / (rate * UTILISATION * min(1.0, width / FULL_WIDTH[device_type]))

    def accumulation_within(self, limit: float, now: int) -> int | None:
        """Smallest ``train.accumulation`` whose micro-batches fit into ``limit`` bytes; None if one row does not."""
        room = limit - (self.memory - self.activations)
        fits = (now * cut for cut in range(1, self.micro_batch + 1) if self.micro_batch % cut == 0)
        return next((many for many in fits if self.activations * now / many <= room), None)


def estimate(config: PretrainConfig, *, on_gpu: bool = False, vocab_size: int = VOCABULARY) -> Estimate:
    """Estimate what a step takes, by running two steps on fake tensors and counting the bytes that are alive.

    Sizes are the configuration's, even if it continues a checkpoint. The memory of a detector, or of a model that
    finds hard tokens, is not counted.

    Args:
        config: The run's; no corpus is needed.
        on_gpu: Attention as on a GPU: without the matrix of all pairs, whatever the dropout.
        vocab_size: Size of the vocabulary.

    Example:
        >>> from trueneg.config.presets import preset
        >>> config = override(preset("electra-tiny"), ["train.precision=fp32"])
        >>> round(estimate(config, vocab_size=2000).weights / 1e6, 1)
        0.4
    """
    plain = ["train.compile=false", *(["model.dropout=0"] if on_gpu else [])]
    config = override(config, plain)
    smoothing = config.objective.smoothing
    is_of_another = smoothing.source.partition(":")[0] in ("average", "teacher")
    config = replace(
        config,
        model=replace(config.model, start_from="", generator_from="", frozen_steps=0),
        objective=replace(
            config.objective,
            # A forward pass of another model costs as much as one of the model itself.
            smoothing=replace(smoothing, source="self") if is_of_another else smoothing,
            correction=replace(config.objective.correction, detector=""),
            masking=replace(config.objective.masking, hard_for=""),
        ),
    )
    tokenizer = _tokenizer(vocab_size)
    model, objective = build(config, tokenizer)
    kind, length = objective_kind(config.objective.name), config.corpus.length
    flops = training_flops(kind.encoders(model), length, config.objective.masking.rate, num_readings(config))
    micro_batch = config.train.batch_size // config.train.accumulation
    given: Any = _rows(micro_batch, length, tokenizer)
    given = _with_views(given) if config.objective.name == "cline" else given
    num_micro_batches = min(2, config.train.accumulation)
    weights, optimizer, peak = _live_bytes(model, objective, config, [given] * num_micro_batches)
    if is_of_another:
        others = 4.0 * count_parameters(kind.encoders(model)[0])
        weights, peak = weights + others, peak + others
    logits = 4.0 * micro_batch * round(config.objective.masking.rate * (length - 2)) * vocab_size
    gradients = 4.0 * count_parameters(model)
    activations = max(0.0, peak - weights - gradients - optimizer)
    return Estimate(
        weights, gradients, optimizer, activations, logits, flops * length * config.train.batch_size, micro_batch
    )


def expect(config: PretrainConfig, on: str = "") -> tuple[Estimate, list[Finding]]:
    """Estimate whether a run fits, and how long it takes, on this device or on a named GPU.

    Args:
        config: The run's.
        on: A GPU's name, such as ``H100``; empty for this device.

    Returns:
        The estimate of the stage that needs most memory, and findings: memory of each stage, and total time.

    Raises:
        ConfigError: for an unknown GPU, or one without bfloat16 for a run that asks for it.
    """
    validate(config)
    device = choose_device("cpu" if on else config.train.device)
    if on:
        gpu = _named(on)
        if config.train.precision == "auto":
            config = override(config, [f"train.precision={'bf16' if gpu.bf16 else 'fp16'}"])
        if config.train.precision == "bf16" and not gpu.bf16:
            raise ConfigError(f"--on {on}: {gpu.name} has no bfloat16: add --set train.precision=fp16")
        place, limit, peak = gpu.name, gpu.memory, sheet_peak(gpu, config.train.precision)
    else:
        config = replace(config, train=resolve_precision(config.train, device))
        place = "this CPU" if device.type == "cpu" else name_of(device)
        limit, peak = peak_memory(device)[1], peak_of(device, config.train.precision)
    is_gpu = bool(on) or device.type != "cpu"
    found = [(stage, estimate(stage.config, on_gpu=is_gpu)) for stage in stages_of(config)]
    memory = [_memory(step, stage, place, limit) for stage, step in found]
    return max((step for _, step in found), key=lambda step: step.memory), [*memory, _time(found, peak, is_gpu)]


def _named(on: str) -> Gpu:
    gpu = find_gpu(on)
    if gpu is None:
        raise ConfigError(unknown_name("GPU of the table", on, GPUS))
    return gpu


def _memory(found: Estimate, stage: Stage, place: str, limit: float) -> Finding:
    train = stage.config.train
    name, prefix = (f"memory, {stage.name}", f"stages.{stage.name}.") if stage.name else ("memory", "")
    parts = {
        "weights": found.weights,
        "gradients": found.gradients,
        "optimizer": found.optimizer,
        "activations": found.activations,
    }
    listed = ", ".join(f"{name} {_gib(size)}" for name, size in parts.items())
    what = (
        f"about {_gib(found.memory)} of {_gib(limit)} GiB on {place}, micro-batches of {found.micro_batch}: {listed} "
        f"(a copy of the logits in float32 {_gib(found.logits)}); a process was measured to take {LEAST_MORE:.0%} to "
        f"{MOST_MORE:.0%} more"
    )
    room, now = limit / (1 + MOST_MORE), train.accumulation
    if found.memory <= room:
        return Finding(name, "ok", what)
    fitting = found.accumulation_within(room, now)
    ways = [] if fitting is None else [f"--set {prefix}train.accumulation={fitting}"]
    ways += [] if train.gradient_checkpointing else ["--set train.gradient_checkpointing=true"]
    level: Level = "warn" if found.memory <= limit else "bad"
    return Finding(name, level, what, " or ".join(ways) or "a smaller model, shorter rows, or another device")


def _time(found: Sequence[tuple[Stage, Estimate]], peak: Peak, is_gpu: bool) -> Finding:
    if not peak.flops:
        return Finding("time", "warn", f"cannot be told: {peak}", "trueneg bench")
    kind, width = "cuda" if is_gpu else "cpu", found[0][0].config.model.hidden_size
    total, said = 0.0, []
    for stage, step in found:
        train, seconds = stage.config.train, step.seconds(kind, peak.flops, width)
        total += stage.num_rows / train.batch_size * seconds
        rate = train.batch_size * stage.config.corpus.length / seconds
        said.append(
            f"{f'{stage.name} ' if stage.name else ''}{len(stage.steps):,} steps of {1000 * seconds:,.0f} ms, "
            f"{rate:,.0f} positions/s"
        )
    share = UTILISATION * min(1.0, width / FULL_WIDTH[kind])
    what = f"about {duration(total)} on one: {'; '.join(said)}, if {share:.0%} of {peak} are reached"
    return Finding("time", "ok", what, "" if not is_gpu else "nothing of it is measured: trueneg bench does")


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f}"


def _live_bytes(
    model: nn.Module, objective: Objective[Any, Any], config: PretrainConfig, given: list[Any]
) -> tuple[float, float, float]:
    """Bytes of weights, of optimizer state with averaged weights, and of all live tensors at the second step's peak."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        module = TrainingModule(model, objective)
        _forget_values(module)
        with _Live([*module.parameters(), *module.buffers()]) as live:
            weights = live.now
            optimizer = make_optimizer(module, config.optimizer)
            run = Run(module, optimizer, config.optimizer, config.train, torch.device("cpu"))
            # Scaling takes no memory, and may read whether gradients overflowed: fake tensors have no values.
            run.scaler = torch.amp.GradScaler("cpu", enabled=False)
            train_step(run, given)  # the optimizer makes its state
            live.peak = 0
            state = sum(
                value.nbytes for one in optimizer.state.values() for value in one.values() if isinstance(value, Tensor)
            )
            state += 0 if run.average is None else sum(one.nbytes for one in run.average.tensors().values())
            train_step(run, given)
            return weights, state, live.peak


def _forget_values(module: nn.Module) -> None:
    """Replace all parameters and buffers by tensors without values, keeping shared ones shared."""
    made: dict[int, Tensor] = {}

    def without_values(tensor: Tensor) -> Tensor:
        if id(tensor) not in made:
            empty = torch.empty(tensor.shape, dtype=tensor.dtype)
            is_parameter = isinstance(tensor, nn.Parameter)
            made[id(tensor)] = nn.Parameter(empty, tensor.requires_grad) if is_parameter else empty
        return made[id(tensor)]

    kept = [*module.parameters(), *module.buffers()]  # ids are unique only while these are alive
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, one in tensors.items():
                if one is not None:
                    tensors[name] = without_values(one)  # type: ignore[assignment]
    del kept


class _Live(TorchDispatchMode):
    """Count the bytes of live storages."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self.now = self.peak = 0
        for tensor in tensors:
            self._count(tensor)

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage in self._known:
            return
        self._known.add(storage)
        size = storage.nbytes()
        weakref.finalize(storage, self._free, size)
        self.now += size
        self.peak = max(self.peak, self.now)

    def _free(self, size: int) -> None:
        self.now -= size

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = function(*args, **(kwargs or {}))
        for one in tree_leaves(output):
            if isinstance(one, Tensor):
                self._count(one)
        return output


def _tokenizer(vocab_size: int) -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, models

    words = [*_ROLES.values(), *(f"word{number}" for number in range(vocab_size - len(_ROLES)))]
    backend = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **_ROLES)


def _rows(num: int, length: int, tokenizer: PreTrainedTokenizerFast) -> Rows:
    """Full rows of one word."""
    ids = torch.full((num, length), len(_ROLES))
    ids[:, 0], ids[:, -1] = int(tokenizer.cls_token_id), int(tokenizer.sep_token_id)
    is_special = ids < len(_ROLES)
    keys = example_keys(1, torch.arange(num))
    return Rows(ids, torch.ones_like(ids), is_special, ~is_special, ~is_special, keys, is_full=True)


def _with_views(rows: Rows) -> Views:
    """Views in which a word of each row is replaced."""
    labels = torch.zeros_like(rows.input_ids)
    labels[:, 1] = 1
    view = View(rows.input_ids, rows.segments, labels, labels > 0)
    return Views(rows, view, view)
