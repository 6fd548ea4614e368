"""Stages of a run: assembled from a file and settings, checked before training, and compared on resume."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.batch_sizes import check_rows, rows_of_step
from trueneg.config.codec import full_name
from trueneg.config.options import PretrainConfig, StageConfig
from trueneg.config.stages import (
    Stage,
    check_names,
    check_stages,
    naming,
    read_stages,
    stages_of,
    with_settings,
    with_stages,
    with_total,
)
from trueneg.corpus.mixture import check_epochs, open_corpora
from trueneg.detectors.specification import check_forms_apply
from trueneg.errors import CheckpointError, ConfigError
from trueneg.models.backbone import check_length, check_packing
from trueneg.models.configurations import set_rope
from trueneg.objectives import objective_kind
from trueneg.reporting.tables import Column, Table
from trueneg.tokenizer import fingerprint
from trueneg.training.batches import rows_of
from trueneg.training.distributed import Processes

PREFIX = "stages."


def apart(settings: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate the settings of a run from those of its stages, ``stages.NAME.KEY=VALUE``."""
    of_stages = [setting for setting in settings if setting.strip().startswith(PREFIX)]
    return [setting for setting in settings if setting not in of_stages], of_stages


def staged(
    config: PretrainConfig,
    stages: str | Path | Sequence[StageConfig] | None,
    settings: Sequence[str],
    of_stages: Sequence[str],
) -> PretrainConfig:
    """Add stages to a configuration.

    Args:
        config: With ``settings`` applied, and the stages of its preset.
        stages: A file of stages, or stages, which replace the preset's.
        settings: Settings of the run.
        of_stages: Settings ``stages.NAME.KEY=VALUE``.

    Raises:
        ConfigError: for invalid stages, and for a setting that every stage overrides.
    """
    wanted = config.train.steps
    if isinstance(stages, str | Path):
        stages = read_stages(Path(stages), config)
    config = with_stages(config, config.stages if stages is None else stages)
    check_names(config)
    config = with_settings(config, of_stages)
    if not config.stages:
        return config
    names = {full_name(config, setting.partition("=")[0].strip()) for setting in settings}
    if "train.steps" in names:
        config = with_total(config, wanted)
    check_stages(config)
    for stage, given in zip(stages_of(config), config.stages, strict=True):
        with naming(stage):
            check_forms_apply(stage.config, given.settings)
    everywhere = set.intersection(*({one.partition("=")[0] for one in stage.settings} for stage in config.stages))
    if idle := min(names & everywhere, default=""):
        first = config.stages[0].name
        raise ConfigError(
            f"{idle} does nothing, as every stage sets it: change it there (--set stages.{first}.{idle}=VALUE)"
        )
    return config


def begun_stages(config: PretrainConfig, step: int) -> Mapping[str, Any]:
    """Stages in which at least one step was taken, by name, each as the configuration of a separate run.

    Args:
        config: The run's.
        step: Number of steps done.
    """
    return {
        stage.name: replace(stage.config, stages=(), train=replace(stage.config.train, steps=len(stage.steps)))
        for stage in stages_of(config)
        if stage.steps.start < step
    }


def check_places(before: PretrainConfig, now: PretrainConfig, where: Path) -> None:
    """Refuse to resume if a stage would begin at another row than planned: its corpus moved without the run's.

    Args:
        before: Configuration in the run's checkpoint.
        now: Configuration to resume with.
        where: The run's folder.

    Raises:
        CheckpointError: naming the stage.
    """
    for old, new in zip(stages_of(before), stages_of(now), strict=False):
        if (old.name, old.steps) != (new.name, new.steps):
            return  # later stages may change
        if old.place != new.place and old.config.corpus.length == new.config.corpus.length:
            raise CheckpointError(
                f"'{where}': stage '{new.name}' would begin at row {new.place:,} of its corpus, and was to begin at "
                f"row {old.place:,}, behind what other stages read of it: name the same folder in all stages that read "
                f"it (--set corpus.path=FOLDER --set stages.{new.name}.corpus.path=FOLDER)"
            )


def check_ahead(
    stages: Sequence[Stage],
    model: nn.Module,
    tokenizer: PreTrainedTokenizerFast,
    processes: Processes,
    *,
    verify: bool = True,
) -> None:
    """Find errors in later stages before earlier ones are trained.

    Args:
        stages: Stages to check.
        model: Of the run.
        tokenizer: Of the first stage's corpus.
        processes: Those that share a step.
        verify: Compare files of corpora with their checksums.

    Raises:
        TruenegError: naming the stage.
    """
    for stage in stages:
        config = stage.config
        kind = objective_kind(config.objective.name)
        with naming(stage):
            encoders = kind.encoders(model)
            encoder = encoders[0]
            if config.corpus.is_packed:
                for one in encoders:
                    check_packing(one)
            set_rope(copy.copy(encoder.model.config), config.model)
            check_length(encoder.model, config.corpus.length, "corpus.length", config.model.start_from)
            check_rows(config.train, len(stage.steps), processes.world_size)
            kind.check(config, rows_of_step(config.train, 0) // (processes.world_size * config.train.accumulation))
            corpora = open_corpora(config.corpus, verify=verify)
            corpora[0].check_tokenizer(fingerprint(tokenizer))
            rows = rows_of(config, corpora)
            check_epochs(rows.epochs(stage.place + stage.num_rows), len(stage.steps), config.corpus.max_epochs)
            kind.make_objective(config.objective, tokenizer, encoder.vocab_size)


def stage_table(stages: Sequence[Mapping[str, Any]]) -> Table:
    """Make a table of what ``describe_stages`` yields."""
    shown = {"stage": "stage", "steps": "steps", "tokens": "tokens", "rows": "rows a step", "length": "length"}
    shown |= {"masked": "masked", "learning_rate": "learning rate", "schedule": "schedule", "corpus": "corpus"}
    texts = ("stage", "schedule", "corpus")
    columns = [Column(title, _grouped, is_number=name not in texts) for name, title in shown.items()]
    return Table(columns, [[stage[name] for name in shown] for stage in stages])


def _grouped(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
