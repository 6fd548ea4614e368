"""A run's model as it was at each checkpoint that is kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trueneg.config.codec import load_config
from trueneg.config.options import PretrainConfig
from trueneg.errors import CheckpointError, ConfigError
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.objectives import objective_kind
from trueneg.training.checkpoint import kept_checkpoints
from trueneg.training.folder import CHECKPOINTS, CONFIG, METRICS
from trueneg.training.saved_model import saved_model


@dataclass(frozen=True)
class CheckpointRef:
    """A checkpoint of a run."""

    run: Path
    path: Path
    step: int
    config: PretrainConfig

    @property
    def fraction(self) -> float:
        """Share of the run's steps that were done."""
        return self.step / self.config.train.steps


def run_config(checkpoint: str) -> PretrainConfig | None:
    """The configuration of a run's folder; None for what is no run."""
    folder = Path(checkpoint)
    is_run = (folder / METRICS).is_file()
    return load_config(PretrainConfig, folder / CONFIG) if is_run else None


def checkpoints_of(run: str) -> list[CheckpointRef]:
    """A run's checkpoints, the oldest first. How many are kept is the run's ``train.keep``.

    Raises:
        ConfigError: if it is no run.
        CheckpointError: if it has no whole checkpoint.
    """
    config = run_config(run)
    if config is None:
        raise ConfigError(f"'{run}' is no run, so it has no course of training: name a run's folder")
    kept = kept_checkpoints(Path(run) / CHECKPOINTS)
    if not kept:
        raise CheckpointError(f"'{run}' has no whole checkpoint: continue it with --resume")
    return [CheckpointRef(Path(run), path, state.step, config) for path, state in kept]


def load_moment(moment: CheckpointRef) -> MaskedLanguageModel:
    """Load the masked language model of a checkpoint: an ELECTRA run's generator.

    Raises:
        CheckpointError: if its tensors are not those of the run's model.
        ModelError: as ``saved_model``.
    """
    model = saved_model(moment.run, moment.config, moment.path)
    return objective_kind(moment.config.objective.name).masked_lm(model)
