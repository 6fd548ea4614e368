"""What a run says of itself before it trains."""

from __future__ import annotations

import warnings
from pathlib import Path

from trueneg.config.options import PretrainConfig
from trueneg.config.stages import Stage
from trueneg.corpus.rows import NumberedRows
from trueneg.errors import TruenegWarning
from trueneg.models.loading import count_parameters
from trueneg.models.origin import read_origin
from trueneg.runs.exporting import RECIPE
from trueneg.training.folder import ORIGIN
from trueneg.training.step import Run

MUCH_WARMUP = 0.25
"""Share of a run's steps above which a note about its warm-up is shown."""


def introduction(stage: Stage, config: PretrainConfig, run: Run, rows: NumberedRows, is_resumed: bool) -> str:
    """The line of what is trained, on how much, with what."""
    train, steps = config.train, len(stage.steps)
    tokens = train.batch_size * config.corpus.length
    doing = f"continuing at step {run.step}" if is_resumed else "training"
    return (
        f"{f'stage {stage.name!r}, ' if stage.name else ''}{doing}: {config.objective.name}, "
        f"{count_parameters(run.module.model):,} parameters, {len(rows):,} rows ({rows.mean_fill:.0%} full), "
        f"{steps:,} steps of {tokens:,} tokens ({stage.num_rows / len(rows):.1f} epochs), "
        f"{run.device.type} x {run.processes.world_size}, {train.precision}{', compiled' if run.is_compiled else ''}"
    )


def warmup_note(stage: Stage) -> str:
    """Note on a warm-up that takes a large share of the steps: presets' are made for their own lengths."""
    warmup, steps = stage.config.optimizer.warmup_steps, len(stage.steps)
    if warmup <= MUCH_WARMUP * steps:
        return ""
    flag = f"--set stages.{stage.name}.warmup_steps=" if stage.name else "--warmup "
    end = "and never reaches its peak" if warmup >= steps else f"which is {warmup / steps:.0%} of the run"
    return (
        f"note: the learning rate warms up over {warmup:,} of {steps:,} steps, {end}: a tenth would be "
        f"{flag}{max(1, steps // 10)} (optimizer.warmup_steps)"
    )


def warn_of_sentence_encoder(config: PretrainConfig, folder: Path) -> None:
    """Warn that what is continued loses its sentence vectors."""
    if read_origin(folder / ORIGIN, config.model.start_from).is_sentence_encoder:
        warnings.warn(
            f"'{config.model.start_from}' is a sentence encoder: continued with the objective {config.objective.name} "
            f"its vectors lose what they know of sentences (STS-B 86.7 before, 66.5 after the demo's 240 steps). A "
            f"recipe that keeps them: {RECIPE}; what is left:  "
            f"trueneg evaluate encoder {folder} --task sts --data GLUE",
            TruenegWarning,
            stacklevel=3,
        )
