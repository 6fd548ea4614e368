"""Steps whose model a resumed run should have kept, but has already passed without keeping it."""

from __future__ import annotations

import warnings
from pathlib import Path

from trueneg.config.codec import decode
from trueneg.config.options import PretrainConfig
from trueneg.config.stages import steps_kept
from trueneg.config.validation import steps_to_keep
from trueneg.errors import CheckpointError, ConfigError, TruenegWarning
from trueneg.training.checkpoint import State
from trueneg.training.folder import kept_models


def refuse_other_steps_kept(config: PretrainConfig, state: State, folder: Path) -> None:
    """Refuse to resume a finished run with further steps to keep: it has passed them without keeping them.

    Args:
        config: The configuration to resume with.
        state: Of the run's last checkpoint.
        folder: The run's folder.

    Raises:
        CheckpointError: naming the steps and the remedy.
    """
    if state.step < config.train.steps:
        return
    try:
        asked = steps_kept(decode(PretrainConfig, state.config))
    except ConfigError:
        return  # reported when the two are compared
    if new := [step for step in _lost(config, state.step, folder) if step not in asked]:
        raise CheckpointError(
            f"{_option(config)}: '{folder}' has finished and kept no {_named(new)}, as it was not asked to: leave it "
            f"as it was, or train again with another --out"
        )


def warn_of_steps_not_kept(config: PretrainConfig, step: int, folder: Path) -> None:
    """Warn of steps that a resumed run has passed without keeping their models."""
    if lost := _lost(config, step, folder):
        warnings.warn(
            f"{_option(config)}: the run is at step {step:,} and did not keep {_named(lost)}: only a new run can",
            TruenegWarning,
            stacklevel=3,
        )


def _lost(config: PretrainConfig, step: int, folder: Path) -> list[int]:
    kept = kept_models(folder)
    return [number for number in steps_kept(config) if number <= step and number not in kept]


def _option(config: PretrainConfig) -> str:
    if not steps_to_keep(config.train):
        return "stages"
    return "train.keep_at" if config.train.keep_at.strip() else "train.keep_every"


def _named(steps: list[int]) -> str:
    return ", ".join(f"{step:,}" for step in steps)
