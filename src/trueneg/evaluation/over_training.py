"""A run's model as it was at each checkpoint that is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from safetensors.torch import load_model
from torch import nn
from transformers import PreTrainedTokenizerFast

from trueneg.config import PretrainConfig
from trueneg.decoding import load_config
from trueneg.errors import CheckpointError, ConfigError
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.electra import ElectraPair
from trueneg.models.loading import load_electra, load_masked_lm
from trueneg.training.checkpoint import MODEL, kept_checkpoints
from trueneg.training.folder import CHECKPOINTS, CONFIG, METRICS


@dataclass(frozen=True)
class Moment:
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


def moments_of(run: str) -> list[Moment]:
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
    return [Moment(Path(run), path, state.step, config) for path, state in kept]


def load_moment(moment: Moment, tokenizer: PreTrainedTokenizerFast) -> MaskedLanguageModel:
    """Load the masked language model of a checkpoint: an ELECTRA run's generator.

    Raises:
        CheckpointError: if its tensors are not those of the run's model.
        ModelError: if the run has no ``hf/``.
    """
    # The exported folder has the shapes of every checkpoint, and what a run continued may be gone.
    source = replace(moment.config.model, start_from=str(moment.run), generator_from="")
    is_pair = moment.config.objective.name == "electra"
    model = load_electra(source, tokenizer) if is_pair else load_masked_lm(source, tokenizer)
    missing, unexpected = load_model(nn.ModuleDict({"model": model}), str(moment.path / MODEL), strict=False)
    foreign = [*missing, *(name for name in unexpected if not name.startswith("objective."))]
    if foreign:
        raise CheckpointError(f"checkpoint '{moment.path}' belongs to another model: {sorted(foreign)[0]}")
    return model.generator if isinstance(model, ElectraPair) else model
