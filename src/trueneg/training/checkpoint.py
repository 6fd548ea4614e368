"""Checkpoints: written atomically, verified when read, and never mistaken for another run's."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, load_model, save_file
from torch import nn
from torch.optim import Optimizer

from trueneg.config.codec import decode, differences
from trueneg.config.fields import names_where
from trueneg.config.options import TrainConfig
from trueneg.detectors.base import Detector
from trueneg.errors import CheckpointError, ConfigError, TruenegWarning
from trueneg.files.digests import checksum
from trueneg.files.records import parse_record, read_record
from trueneg.files.whole import follow_umask, remove_folder, replace_folder
from trueneg.models.reading import add_tensors
from trueneg.objectives.hard_tokens import HardTokens
from trueneg.objectives.smoothing import Smoothing
from trueneg.training.optimizer import load_optimizer_tensors, optimizer_tensors
from trueneg.training.weight_average import SUFFIX as AVERAGE
from trueneg.training.weight_average import WeightAverage
from trueneg.version import __version__

MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"


@dataclass(frozen=True)
class State:
    """What a checkpoint holds besides tensors. It needs no random or iterator state: both follow from ``step``."""

    step: int
    """Optimizer steps done."""
    config: dict[str, Any]
    data: str
    """Fingerprint of the training data: a corpus with its annotations and tags, or the rows of a task."""
    seconds: float = 0.0
    """Training time so far."""
    sums: dict[str, float] = field(default_factory=dict)
    """What the meter has accumulated since the last log record."""
    tables: str = ""
    """Output of ``tables_digest``; empty if there are no lookup tables, or if an older version did not record it."""
    loss_scale: dict[str, int | float] = field(default_factory=dict)
    """State of the gradient scaler; empty without float16."""
    micro_batch: int = 0
    """Examples in one process's micro-batch; 0 if an older version did not record it."""
    stage: str = ""
    """Name of the stage of the last step; empty for a run without stages."""
    version: str = __version__


@dataclass(frozen=True)
class _Saved(State):
    """Content of ``state.json``."""

    digests: dict[str, str] = field(kw_only=True)
    """Checksums of the other files."""
    digest: str = field(kw_only=True)
    """Digest of all fields except itself."""


_OLD_NAMES = {"corpus": "data"}
"""Names of fields in checkpoints of an earlier version, and their current names."""


def save_checkpoint(
    folder: Path,
    module: nn.Module,
    optimizer: Optimizer,
    state: State,
    keep: int,
    average: WeightAverage | None = None,
) -> Path:
    """Write a checkpoint into a new folder beside the others and drop the oldest beyond ``keep``.

    It is written under a temporary name, flushed to disk, and renamed last, so that a process killed at any moment
    leaves either all of it or none.

    Raises:
        CheckpointError: if the disk is full or not writable; earlier checkpoints are untouched.
    """
    final = folder / f"step-{state.step:09d}"
    unfinished = folder / f".unfinished-{state.step:09d}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob(".unfinished-*"):
            remove_folder(stale)
        unfinished.mkdir()
        save_weights(module, unfinished / MODEL)
        averaged = {} if average is None else average.tensors()
        save_file(optimizer_tensors(optimizer, module) | averaged, str(unfinished / OPTIMIZER))
        digests = {name: checksum(unfinished / name) for name in (MODEL, OPTIMIZER)}
        data = {**dataclasses.asdict(state), "digests": digests}
        (unfinished / STATE).write_text(json.dumps({**data, "digest": _digest_of(data)}, indent=2))
        follow_umask(unfinished)
        for path in unfinished.iterdir():
            _flush(path)
        if final.exists():
            remove_folder(final)
        unfinished.rename(final)
        _flush(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise CheckpointError(
            f"cannot save step {state.step} under '{folder}': {write_error(error)}; earlier checkpoints are "
            f"untouched: make room and continue with --resume"
        ) from error
    found = _checkpoints(folder)
    # Newer ones are damaged: the run fell back to an older one, and they must not displace whole ones.
    num_ahead = found.index(final)
    for dropped in found[:num_ahead] + found[num_ahead + keep :]:
        remove_folder(dropped)
    return final


def save_weights(module: nn.Module, path: Path) -> None:
    """Write a module's weights: shared ones once, and always the same bytes for the same weights.

    ``load_model`` of safetensors reads the file, like those of its ``save_model``, which records shared names in an
    order that differs between processes.
    """
    unique: dict[tuple[Any, ...], tuple[str, torch.Tensor]] = {}
    for name, tensor in sorted(module.state_dict().items()):
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) if tensor.numel() else (name,)
        unique.setdefault(place, (name, tensor.contiguous()))
    save_file(dict(unique.values()), str(path))


def write_error(error: Exception) -> str:
    """Say why something could not be written."""
    # safetensors wraps the system's error in one of its own, without the errno.
    return "the disk is full" if os.strerror(errno.ENOSPC) in str(error) else str(error)


def write_folder(path: Path, fill: Callable[[Path], object], remedy: str) -> None:
    """Replace a folder atomically (``files.whole.replace_folder``).

    Raises:
        CheckpointError: if it cannot be written, with the remedy.
    """
    try:
        replace_folder(path, fill)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"cannot write '{path}': {write_error(error)}; {remedy}") from error


def latest_checkpoint(folder: Path) -> tuple[Path, State] | None:
    """Find the newest whole checkpoint; None if there are no checkpoints.

    Damaged ones are skipped with a warning.

    Raises:
        CheckpointError: if all checkpoints are damaged.
    """
    found = _checkpoints(folder)
    for path in found:
        try:
            return path, _verified_state(path)
        except (OSError, CheckpointError) as error:
            warnings.warn(
                f"checkpoint '{path}' is torn ({error}): falling back to the one before it",
                TruenegWarning,
                stacklevel=2,
            )
    if found:
        raise CheckpointError(f"every checkpoint under '{folder}' is torn: start the run anew in another folder")
    return None


def kept_checkpoints(folder: Path) -> list[tuple[Path, State]]:
    """All whole checkpoints, the oldest first; damaged ones are skipped with a warning."""
    kept = []
    for path in reversed(_checkpoints(folder)):
        try:
            kept.append((path, _verified_state(path)))
        except (OSError, CheckpointError) as error:
            warnings.warn(f"checkpoint '{path}' is torn ({error}): it is left out", TruenegWarning, stacklevel=2)
    return kept


def tables_digest(module: nn.Module, *others: str) -> str:
    """Digest of the tables that a module looks up and does not learn: substitutes, prototypes, detectors' encoders.

    Checkpoints leave these out (they are non-persistent buffers, or covered by ``Detector.digest``). Another WordNet or
    another detector's file gives other tables, which would change the loss curve. A file's location does not count.

    Args:
        module: An objective that is not attached to a model yet: what it takes from the model is in checkpoints.
        others: Digests of further lookup tables.

    Returns:
        16 hexadecimal digits.

    Example:
        >>> tables_digest(nn.Linear(2, 2)) == tables_digest(nn.ReLU()) != tables_digest(nn.ReLU(), "another")
        True
    """
    kept = module.state_dict().keys()
    read = [part.digest() for part in module.modules() if isinstance(part, Detector | Smoothing | HardTokens)]
    digest = hashlib.sha256(json.dumps([*others, *filter(None, read)]).encode())
    add_tensors(digest, sorted((name, buffer) for name, buffer in module.named_buffers() if name not in kept))
    return digest.hexdigest()[:16]


def check_same_run(
    state: State,
    config: Any,
    where: Path,
    *,
    data: str,
    tables: str = "",
    micro_batch: int = 0,
    comparable: Callable[[Any], Any] = lambda config: config,
    parts: Callable[[Any], Mapping[str, Any]] = lambda config: {"": config},
) -> None:
    """Refuse to continue a run on other data, with options that would change its loss curve, or with other tables.

    Options that may change on resume (``trueneg list options``) leave the loss curve as it is, except for rounding and
    for the dropout masks, which depend on accumulation; where that matters, another micro-batch is refused.

    Args:
        state: State of the checkpoint.
        config: The configuration to resume with.
        where: The run's folder.
        data: Fingerprint of the data to resume with: a corpus's may end in ``+`` and those of its annotations or tags;
            those of a mixture are separated by commas. Empty at the start of a stage, which may read other data.
        tables: Output of ``tables_digest``.
        micro_batch: Rows in one process's micro-batch, for an objective that depends on them; else 0.
        comparable: Returns the part of a configuration to compare.
        parts: Splits a configuration into named parts: the stages that have begun.

    Raises:
        CheckpointError: naming what differs, with the remedy.
    """
    _check_data(state, data, where)
    try:
        saved = decode(type(config), state.config)
    except ConfigError as error:
        raise CheckpointError(f"'{where}' was written by trueneg {state.version}: {error}") from error
    free = names_where(type(config), lambda rule: rule.resume != "same")
    begun, wanted = parts(saved), parts(config)
    if gone := list(begun)[len(wanted) :]:
        raise CheckpointError(
            f"'{where}' has begun stage '{gone[0]}', which is not among the stages now: resume with it, or start a new "
            f"run with --from {where}"
        )
    for (name, before), (_, now) in zip(begun.items(), wanted.items(), strict=False):
        found = differences(comparable(before), comparable(now))
        if changed := [difference for difference in found if difference.split(":")[0] not in free]:
            of_stage = f" in stage '{name}', which has begun" if name else ""
            raise CheckpointError(
                f"'{where}' was trained with other options{of_stage} ({'; '.join(changed)}): resume without them, or "
                f"start a new run with --from {where}"
            )
    if tables and state.tables not in ("", tables):
        raise CheckpointError(
            f"'{where}' was trained with other tables (digest {state.tables}, here {tables}): WordNet, or a file or an "
            f"encoder that the detector reads, is not the same here. Give the same ones "
            f"(objective.correction.wordnet=FOLDER), or start a new run with --from {where}"
        )
    if micro_batch and state.micro_batch not in (0, micro_batch):
        _refuse_micro_batch(state, config.train, micro_batch, where)


def _check_data(state: State, data: str, where: Path) -> None:
    if not data or state.data == data:
        return
    then, now = ([part.partition("+")[0] for part in found.split(",")] for found in (state.data, data))
    other = "other annotations or tags" if then == now else "other data"
    if then != now and sorted(then) == sorted(now):
        other = "the same corpora in another order"
    raise CheckpointError(
        f"'{where}' was trained on {other} (fingerprint {state.data}, this one has {data}): give the same ones, "
        f"or start a new run with --from {where}"
    )


def _refuse_micro_batch(state: State, config: TrainConfig, micro_batch: int, where: Path) -> None:
    """Raise an error that names the accumulation that gives the same micro-batches, if there is one."""
    num_processes = config.batch_size // (micro_batch * config.accumulation)
    accumulation, rest = divmod(config.batch_size, num_processes * state.micro_batch)
    remedy = (
        f"no train.accumulation gives that on this many processes ({num_processes}): take another number of them"
        if rest
        else f"resume with train.accumulation={accumulation}"
    )
    raise CheckpointError(
        f"'{where}' was trained on {state.micro_batch} rows a micro-batch, here it has {micro_batch}, and its "
        f"objective depends on them (cline.negatives=random, cline.in_batch_negatives, correction.denominator=kept): "
        f"{remedy}, or start a new run with --from {where}"
    )


def load_checkpoint(
    path: Path,
    module: nn.Module,
    optimizer: Optimizer | None = None,
    average: WeightAverage | None = None,
    *,
    is_same_objective: bool = True,
) -> None:
    """Load a checkpoint's weights, optimizer state and averaged weights.

    Args:
        path: The checkpoint.
        module: A model with its objective.
        optimizer: Optimizer of the module's parameters.
        average: Average of the model's weights.
        is_same_objective: Whether the objective's own weights must match the checkpoint's; if not, those with the same
            names are loaded.

    Raises:
        CheckpointError: if its tensors do not match this model.
    """
    try:
        missing, unexpected = load_model(module, str(path / MODEL), strict=is_same_objective)
        if foreign := [name for name in [*missing, *unexpected] if not name.startswith("objective.")]:
            raise KeyError(min(foreign))
        if optimizer is not None:
            tensors = load_file(str(path / OPTIMIZER))
            averaged = {name: tensors.pop(name) for name in [*tensors] if name.endswith(AVERAGE)}
            if not is_same_objective:
                known = dict(module.named_parameters())
                tensors = {name: one for name, one in tensors.items() if name.rpartition("/")[0] in known}
            load_optimizer_tensors(optimizer, module, tensors)
            if average is not None:
                average.load(averaged)
    except (RuntimeError, KeyError) as error:
        first = str(error).strip().splitlines()[0]
        raise CheckpointError(f"checkpoint '{path}' belongs to another model: {first}") from error


def load_averaged_weights(path: Path, model: nn.Module) -> None:
    """Load the averaged weights of a checkpoint into a model.

    Raises:
        CheckpointError: if they belong to another model.
    """
    with safe_open(str(path / OPTIMIZER), framework="pt") as file:
        averaged = {name: file.get_tensor(name) for name in file.keys() if name.endswith(AVERAGE)}  # noqa: SIM118
    try:
        for name, parameter in model.named_parameters():
            if f"{name}{AVERAGE}" in averaged:
                parameter.data.copy_(averaged.pop(f"{name}{AVERAGE}"))
    except RuntimeError as error:
        raise CheckpointError(f"checkpoint '{path}' belongs to another model: {error}") from error
    if averaged:
        raise CheckpointError(f"checkpoint '{path}' belongs to another model: {min(averaged)}")


def load_model_weights(path: Path, model: nn.Module) -> None:
    """Load a checkpoint's weights into a model, without those of its objective.

    Raises:
        CheckpointError: if its tensors do not match this model.
    """
    missing, unexpected = load_model(nn.ModuleDict({"model": model}), str(path / MODEL), strict=False)
    foreign = [*missing, *(name for name in unexpected if not name.startswith("objective."))]
    if foreign:
        raise CheckpointError(f"checkpoint '{path}' belongs to another model: {min(foreign)}")


def _checkpoints(folder: Path) -> list[Path]:
    """All checkpoints in a folder, the newest first."""
    return sorted(folder.glob("step-*"), reverse=True)


def _verified_state(path: Path) -> State:
    remedy = "take another checkpoint"
    content = read_record(dict[str, Any], path / STATE, CheckpointError, remedy)
    renamed = {_OLD_NAMES.get(name, name): value for name, value in content.items()}
    saved = parse_record(_Saved, json.dumps(renamed), f"'{path / STATE}'", CheckpointError, remedy)
    del content["digest"]
    if saved.digest != _digest_of(content):
        raise CheckpointError(f"{STATE} is damaged")
    for name in (MODEL, OPTIMIZER):
        if checksum(path / name) != saved.digests.get(name):
            raise CheckpointError(f"{name} is damaged")
    return State(**{field.name: getattr(saved, field.name) for field in dataclasses.fields(State)})


def _digest_of(data: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
