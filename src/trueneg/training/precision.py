"""The precision that a run trains in, which ``train.precision=auto`` chooses by the device."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

import torch

from trueneg.arithmetic import has_bfloat16, is_bfloat16_faster
from trueneg.config.codec import load_config
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.options import PretrainConfig, TrainConfig
from trueneg.errors import ConfigError
from trueneg.hardware import WITH_STREAMS, name_of
from trueneg.training.distributed import Processes
from trueneg.training.folder import CONFIG

Config = TypeVar("Config", PretrainConfig, FinetuneConfig)


def resolve_precision(config: TrainConfig, device: torch.device) -> TrainConfig:
    """Replace ``auto`` by the best precision for the device; other values stay as they are.

    That is ``bf16`` where it is faster than float32, else ``fp16`` on a GPU of NVIDIA, AMD or Intel, all of which
    support it, else ``fp32``.

    Raises:
        ConfigError: if ``bf16`` is requested explicitly on a GPU without it.
    """
    is_gpu = device.type in WITH_STREAMS
    if config.precision == "auto":
        return replace(config, precision="bf16" if is_bfloat16_faster(device) else "fp16" if is_gpu else "fp32")
    if config.precision == "bf16" and is_gpu and not has_bfloat16(device):
        raise ConfigError(
            f"train.precision=bf16: {name_of(device)} has no bfloat16: use train.precision=fp16, or auto, which takes "
            f"bf16 where it is faster"
        )
    return config


def resolve_run_precision(
    config: Config, device: torch.device, folder: Path, refused: Collection[str] = ()
) -> tuple[Config, str]:
    """Resolve a run's precision: as recorded in its folder if the run has begun before, else by the device.

    If the device's best precision is among those ``refused``, ``fp32`` is used.

    Returns:
        The configuration, and a line to print; empty if the precision was not ``auto``.

    Raises:
        ConfigError: if the folder's ``config.json`` is damaged.
    """
    train = config.train
    if train.precision != "auto":
        return replace(config, train=resolve_precision(train, device)), ""
    saved = folder / CONFIG
    recorded = load_config(type(config), saved).train.precision if saved.is_file() else "auto"
    if recorded != "auto":
        # The loss curve continues as it began, even on another machine.
        settled = resolve_precision(replace(train, precision=recorded), device)
        return replace(config, train=settled), f"precision: {recorded}, as the run began"
    settled = resolve_precision(train, device)
    place = "this CPU" if device.type == "cpu" else "this GPU"
    if settled.precision in refused:
        reason = f"since what is trained does not work in {settled.precision}"
        settled = replace(settled, precision="fp32")
    elif settled.precision == "bf16":
        reason = f"which is faster than float32 on {place}"
    else:
        reason = f"since bfloat16 is not known to be faster on {place}"
    return replace(config, train=settled), f"precision: {settled.precision}, {reason} (train.precision=auto)"


def agree_on_precision(config: Config, note: str, processes: Processes, device: torch.device) -> tuple[Config, str]:
    """Make all processes train in the same precision, as on a CPU each has measured for itself which one is faster.

    If any process chose ``fp32``, all use it, else ``fp16`` likewise.

    Args:
        config: The configuration of this process, with its precision resolved.
        note: The line to print about it.
        processes: The processes of the run; all must call this.
        device: Device of the tensors that they exchange.

    Returns:
        The configuration, and the line to print.
    """
    own = config.train.precision
    cautious: tuple[Literal["fp32", "fp16"], ...] = ("fp32", "fp16")
    votes = processes.any_of([own == name for name in cautious], device)
    chosen = next((name for name, is_chosen in zip(cautious, votes, strict=True) if is_chosen), own)
    if chosen == own:
        return config, note
    settled = replace(config, train=replace(config.train, precision=chosen))
    return settled, f"precision: {chosen}, since another process chose it (train.precision=auto)"
