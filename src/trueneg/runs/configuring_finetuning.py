"""The configuration of a fine-tuning run: from a preset or another run, with settings on top, and its checks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoModel, PreTrainedConfig

from trueneg.config.codec import full_name, load_config, override
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.finetune_presets import LONG_TEXTS, finetune_preset
from trueneg.config.validation import Needs, check_options_apply, refuse_idle, validate
from trueneg.errors import ConfigError, TruenegWarning
from trueneg.models.backbone import max_length
from trueneg.models.loading import config_of, resolve_checkpoint
from trueneg.models.task_model import has_two_layers
from trueneg.registry import load_plugins, loaded_plugins
from trueneg.tasks import task_class
from trueneg.training.folder import CONFIG

LEAST_NOISE = 1e-3
"""Minimum noise of SMART in bf16. Cosine of its direction with that in float64: 0.999 at 1e-2, 0.89 at this, none at
1e-5."""


def configure_finetuning(
    start_from: str = "",
    task: str = "",
    *,
    preset: str = "",
    config: str | Path | None = None,
    settings: Sequence[str] = (),
) -> FinetuneConfig:
    """Assemble a fine-tuning run's configuration.

    Args:
        start_from: A run folder, a Hugging Face folder or a hub name.
        task: ``glue/mrpc``, ``squad``, …; see ``trueneg.tasks``.
        preset: One of ``finetune_presets``; by default the one for the encoder's architecture.
        config: A ``config.json`` or a run's folder to start from, instead of a preset.
        settings: ``key=value``, applied last.

    Raises:
        ConfigError: if there is no checkpoint or no task, or an option is unknown or has no effect.
    """
    if config is not None:
        if preset:
            raise ConfigError(f"--config has all settings: leave --preset {preset} out")
        path = Path(config)
        base = load_config(FinetuneConfig, path / CONFIG if path.is_dir() else path)
        base = replace(base, start_from=start_from or base.start_from)
        base = replace(base, task=replace(base.task, name=task or base.task.name))
    elif not start_from or not task:
        raise ConfigError("nothing to fine-tune: give a checkpoint and a --task (trueneg list tasks)")
    else:
        encoder = config_of(resolve_checkpoint(start_from))
        load_plugins(override(FinetuneConfig(), settings).plugins)  # the task may come from a plugin
        family = task_class(task).preset_family
        base = finetune_preset(preset, task, encoder.model_type, encoder.hidden_size, family)
        base = replace(base, start_from=start_from)
        given = {full_name(base, setting.partition("=")[0].strip()) for setting in settings}
        if task in LONG_TEXTS and "task.length" not in given:
            base = _as_long_as_possible(base, encoder)
    chosen = override(base, settings)
    load_plugins(chosen.plugins)
    chosen = replace(chosen, plugins=loaded_plugins())
    task_class(chosen.task.name)
    check_options_apply(chosen, settings)
    refuse_idle(chosen, settings, _NEEDS)
    return chosen


def _as_long_as_possible(config: FinetuneConfig, encoder: PreTrainedConfig) -> FinetuneConfig:
    """Lower a preset's length for long texts to the encoder's number of positions, with a warning."""
    with torch.device("meta"):
        longest = max_length(AutoModel.from_config(encoder))
    if longest >= config.task.length:
        return config
    warnings.warn(
        f"{config.task.name} has long texts, and '{config.start_from}' only {longest} positions: they are cut there",
        TruenegWarning,
        stacklevel=3,
    )
    return replace(config, task=replace(config.task, length=longest))


def _has_two_layers(config: FinetuneConfig) -> bool:
    encoder = config_of(resolve_checkpoint(config.start_from))
    return has_two_layers(encoder.model_type, task_class(config.task.name).auto_class)


_NEEDS: Needs = (
    (
        ("train.keep_at", "train.keep_every", "train.ema", "train.batch_warmup_"),
        lambda config: False,
        "in fine-tuning: leave it out",
    ),
    (("head",), _has_two_layers, "unless an ELECTRA classifies texts, as other heads are one layer: leave it out"),
)


def check_finetuning(config: FinetuneConfig) -> None:
    """Check the configuration before anything is loaded."""
    validate(config)
    if config.train.cuda_graphs:
        raise ConfigError(
            "train.cuda_graphs: batches of fine-tuning differ in length, and are not recorded: leave it out"
        )
    if reason := refused_precisions(config).get(config.train.precision):
        raise ConfigError(reason)
    if config.adversarial and config.train.compile is True:
        raise ConfigError(f"adversarial={config.adversarial}: its step is not compiled: leave train.compile=false")


def refused_precisions(config: FinetuneConfig) -> dict[str, str]:
    """Precisions in which a run would not compute what its configuration says, and why."""
    refused = {}
    if config.adversarial:
        refused["fp16"] = (
            f"adversarial={config.adversarial}: perturbations are lost in float16, which scales the loss: use "
            f"train.precision=bf16 or fp32"
        )
    if config.adversarial == "smart" and config.smart.noise < LEAST_NOISE:
        refused["bf16"] = f"smart.noise={config.smart.noise}: bf16 rounds it away: use smart.noise=0.01"
    return refused
