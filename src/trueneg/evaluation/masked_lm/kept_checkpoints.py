"""Checkpoints and models that a run kept during training, to be evaluated one after another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import load_config
from trueneg.config.options import ModelConfig, PretrainConfig
from trueneg.errors import CheckpointError, ConfigError
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.loading import load_masked_lm, resolve_checkpoint
from trueneg.models.vocabulary import fit_vocabulary
from trueneg.objectives import objective_kind
from trueneg.training.checkpoint import kept_checkpoints
from trueneg.training.folder import CHECKPOINTS, CONFIG, METRICS, kept_models
from trueneg.training.saved_model import saved_model


@dataclass(frozen=True)
class CheckpointRef:
    """A checkpoint of a run, or a model that ``train.keep_at`` kept."""

    run: Path
    path: Path
    step: int
    config: PretrainConfig
    is_model: bool = False
    """Whether ``path`` is a Hugging Face folder."""

    @property
    def fraction(self) -> float:
        """Share of the run's steps done by then."""
        return self.step / self.config.train.steps


def run_config(checkpoint: str) -> PretrainConfig | None:
    """Load the configuration of a run's folder; None if the folder holds no run."""
    folder = Path(checkpoint)
    is_run = (folder / METRICS).is_file()
    return load_config(PretrainConfig, folder / CONFIG) if is_run else None


def checkpoints_of(run: str) -> list[CheckpointRef]:
    """List a run's checkpoints and the models it kept, oldest first: see ``train.keep`` and ``train.keep_at``.

    Raises:
        ConfigError: if the folder holds no run.
        CheckpointError: if the run has no complete checkpoint.
    """
    config = run_config(run)
    if config is None:
        raise ConfigError(f"'{run}' is not a run, so it has no checkpoints: name a run's folder")
    models = {step: CheckpointRef(Path(run), path, step, config, True) for step, path in kept_models(Path(run)).items()}
    saved = [
        CheckpointRef(Path(run), path, state.step, config)
        for path, state in kept_checkpoints(Path(run) / CHECKPOINTS)
        if state.step not in models
    ]
    if not (saved or models):
        raise CheckpointError(f"'{run}' has no complete checkpoint: continue it with --resume")
    return sorted([*saved, *models.values()], key=lambda ref: ref.step)


def load_checkpoint(checkpoint: CheckpointRef, tokenizer: PreTrainedTokenizerFast) -> MaskedLanguageModel:
    """Load the masked language model of a checkpoint; of an ELECTRA run, the generator.

    Args:
        checkpoint: The checkpoint.
        tokenizer: Tokenizer of the text that it will read.

    Raises:
        CheckpointError: if its tensors are not those of the run's model.
        ModelError: if it was trained with another tokenizer; see ``saved_model``.
    """
    if checkpoint.is_model:
        return load_masked_lm(ModelConfig(start_from=str(checkpoint.path)), tokenizer)
    saved = saved_model(checkpoint.run, checkpoint.config, checkpoint.path)
    model = objective_kind(checkpoint.config.objective.name).masked_lm(saved)
    fit_vocabulary(model.model, resolve_checkpoint(str(checkpoint.run)), tokenizer)
    return model
