"""The checkpoints that a run has kept, and the model of each."""

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
        """Share of the run's steps done by then."""
        return self.step / self.config.train.steps


def run_config(checkpoint: str) -> PretrainConfig | None:
    """Load the configuration of a run's folder; None if it is not one."""
    folder = Path(checkpoint)
    is_run = (folder / METRICS).is_file()
    return load_config(PretrainConfig, folder / CONFIG) if is_run else None


def checkpoints_of(run: str) -> list[CheckpointRef]:
    """List a run's checkpoints, oldest first. How many there are follows from its ``train.keep``.

    Raises:
        ConfigError: if the folder holds no run.
        CheckpointError: if the run has no complete checkpoint.
    """
    config = run_config(run)
    if config is None:
        raise ConfigError(f"'{run}' is not a run, so it has no checkpoints: name a run's folder")
    kept = kept_checkpoints(Path(run) / CHECKPOINTS)
    if not kept:
        raise CheckpointError(f"'{run}' has no complete checkpoint: continue it with --resume")
    return [CheckpointRef(Path(run), path, state.step, config) for path, state in kept]


def load_checkpoint(checkpoint: CheckpointRef) -> MaskedLanguageModel:
    """Load the masked language model of a checkpoint; of an ELECTRA run, the generator.

    Raises:
        CheckpointError: if its tensors are not those of the run's model.
        ModelError: see ``saved_model``.
    """
    model = saved_model(checkpoint.run, checkpoint.config, checkpoint.path)
    return objective_kind(checkpoint.config.objective.name).masked_lm(model)
