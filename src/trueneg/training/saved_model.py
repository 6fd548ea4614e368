"""A run's model at a checkpoint, even if its ``hf/``, its corpus or the checkpoint that it continued is gone."""

from __future__ import annotations

from pathlib import Path

from torch import nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.options import PretrainConfig
from trueneg.objectives import objective_kind
from trueneg.tokenizer import load_tokenizer
from trueneg.training.checkpoint import load_averaged_weights, load_model_weights
from trueneg.training.folder import HUGGING_FACE, ORIGIN


def saved_model(run: Path, config: PretrainConfig, path: Path) -> nn.Module:
    """Load the model of a checkpoint: for a run with ``train.ema``, the averaged weights, as in its ``hf/``.

    Args:
        run: The run's folder.
        config: The run's configuration.
        path: The checkpoint's folder.

    Raises:
        CheckpointError: if its tensors do not match the run's model.
        ModelError: for a run of an earlier version without ``hf/``, if the checkpoint that it continued is gone.
    """
    shapes = _place(run, "config.json")
    kind = objective_kind(config.objective.name)
    model = kind.model_of_shapes(config, shapes) if shapes else kind.make_model(config, saved_tokenizer(run, config))
    load_model_weights(path, model)
    if config.train.ema:
        load_averaged_weights(path, model)
    return model


def saved_tokenizer(run: Path, config: PretrainConfig) -> PreTrainedTokenizerFast:
    """Load the tokenizer of a run.

    Raises:
        ModelError: for a run of an earlier version without ``hf/``, if its corpus is gone.
    """
    return load_tokenizer(_place(run, "tokenizer.json") or Path(config.corpus.sources[0].path) / "tokenizer")


def _place(run: Path, name: str) -> Path | None:
    return next((run / kept for kept in (ORIGIN, HUGGING_FACE) if (run / kept / name).is_file()), None)
