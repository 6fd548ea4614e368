"""Make the model, the objective and its reader from a configuration."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.options import PretrainConfig
from trueneg.corpus.rows import NumberedRows
from trueneg.corruption.keyed import mixed_seed
from trueneg.corruption.rows import ReadRows
from trueneg.errors import ModelError, TruenegWarning
from trueneg.models.backbone import check_length, check_packing
from trueneg.models.fused import fuse
from trueneg.models.loading import checkpoint_gradients
from trueneg.objectives import objective_kind
from trueneg.objectives.base import Objective
from trueneg.objectives.hard_tokens import HardTokens
from trueneg.objectives.smoothing import Smoothing
from trueneg.training.distributed import choose_device
from trueneg.training.folder import HUGGING_FACE


def build(config: PretrainConfig, tokenizer: PreTrainedTokenizerFast) -> tuple[nn.Module, Objective[Any, Any]]:
    """Make the model and the objective that a configuration describes; weights are initialized from the seed."""
    torch.manual_seed(mixed_seed(config.train.seed))
    kind = objective_kind(config.objective.name)
    kind.options(config.objective)
    model = kind.make_model(config, tokenizer)
    encoders = kind.encoders(model)
    for encoder in encoders:
        if config.corpus.is_packed:
            check_packing(encoder)
        if config.train.gradient_checkpointing:
            checkpoint_gradients(encoder.model)
        fuse(encoder.model, config.model, is_gpu=choose_device(config.train.device).type == "cuda")
    check_length(encoders[0].model, config.corpus.length, "corpus.length", config.model.start_from)
    objective = kind.make_objective(config.objective, tokenizer, encoders[0].embeddings.shape[0])
    readers = [part.frozen for part in objective.modules() if isinstance(part, Smoothing | HardTokens)]
    for reader in itertools.chain.from_iterable(readers):
        check_length(reader.model, config.corpus.length, "corpus.length", reader.model.name_or_path or "")
        if config.corpus.is_packed:
            check_packing(reader)
    return model, objective


def build_again(
    config: PretrainConfig, folder: Path, tokenizer: PreTrainedTokenizerFast
) -> tuple[nn.Module, Objective[Any, Any]]:
    """Make the model and the objective into which a checkpoint of this run is loaded.

    The continued checkpoint may no longer exist, so the run's own ``hf/``, with the same shapes, is used if it exists.
    """
    saved = folder / HUGGING_FACE
    if not (config.model.start_from and saved.is_dir()):
        return build(config, tokenizer)
    try:
        return build(
            replace(config, model=replace(config.model, start_from=str(saved), generator_from="", part="generator")),
            tokenizer,
        )
    except ModelError as error:
        warnings.warn(f"{error}; it is written anew", TruenegWarning, stacklevel=2)
        return build(config, tokenizer)


def reader_of(config: PretrainConfig, rows: NumberedRows, tokenizer: PreTrainedTokenizerFast) -> ReadRows:
    """Make the reader that turns rows of a corpus into the objective's input.

    Args:
        config: The run's.
        rows: Of the training split.
        tokenizer: The corpus's.
    """
    return objective_kind(config.objective.name).make_reader(config, rows, tokenizer)
