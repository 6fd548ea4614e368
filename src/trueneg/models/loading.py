"""From a configuration to a model: random weights of given sizes, or a checkpoint to continue."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from trueneg.config import ModelConfig
from trueneg.errors import ModelError, TruenegWarning
from trueneg.models.backbone import MaskedLanguageModel, embedding_table
from trueneg.models.electra import Discriminator, ElectraPair
from trueneg.models.heads import ReplacedTokenHead
from trueneg.tokenizer import fingerprint, load_tokenizer, special_ids

REPLACED_TOKEN_HEAD = "replaced_token_head.safetensors"
"""Beside a discriminator whose architecture has no such head of its own."""


def load_masked_lm(config: ModelConfig, tokenizer: PreTrainedTokenizerFast) -> MaskedLanguageModel:
    """Make or load an encoder with its masked-LM head.

    Args:
        config: Sizes, or the checkpoint to continue. The ``hf/`` of an ELECTRA run means its generator here.
        tokenizer: What the corpus was made with.

    Raises:
        ModelError: if the checkpoint cannot be loaded or its vocabulary is not the tokenizer's.
    """
    if not config.start_from:
        return MaskedLanguageModel(_from_nothing(AutoModelForMaskedLM, hf_config(config, tokenizer), config))
    source = resolve_checkpoint(config.start_from)
    generator = Path(source) / "generator"
    if generator.is_dir():
        source = str(generator)
    return MaskedLanguageModel(_continued(AutoModelForMaskedLM, source, config, tokenizer))


def load_electra(config: ModelConfig, tokenizer: PreTrainedTokenizerFast) -> ElectraPair:
    """Make or load a generator and a discriminator with shared embeddings.

    From a checkpoint, the discriminator is that checkpoint; the generator is ``generator_from``, else the
    ``generator/`` beside it, else a new one of the configured share of its size (which learns from nothing,
    and a warning says so). An architecture without an embedding projection cannot have a narrower generator
    that shares its embeddings, so its generator keeps the width.

    Raises:
        ModelError: as ``load_masked_lm``.
    """
    if not config.start_from:
        discriminator_config = hf_config(config, tokenizer)
        generator_config = _generator_config(discriminator_config, config)
        generator = _from_nothing(AutoModelForMaskedLM, generator_config, config)
        return ElectraPair(MaskedLanguageModel(generator), _new_discriminator(discriminator_config, config))
    source = resolve_checkpoint(config.start_from)
    discriminator = _continued_discriminator(source, config, tokenizer)
    beside = Path(source) / "generator"
    generator_source = resolve_checkpoint(config.generator_from) if config.generator_from else str(beside)
    if config.generator_from or beside.is_dir():
        generator = _continued(AutoModelForMaskedLM, generator_source, config, tokenizer)
    else:
        warnings.warn(
            f"'{config.start_from}' has no generator: a new one starts from random weights over the shared "
            f"embeddings (model.generator_from names a masked-LM checkpoint to use instead)",
            TruenegWarning,
            stacklevel=2,
        )
        generator_config = _generator_config(discriminator.model.config, config)
        generator = _from_nothing(AutoModelForMaskedLM, generator_config, config)
    return ElectraPair(MaskedLanguageModel(generator), discriminator)


def resolve_checkpoint(source: str) -> str:
    """Turn a run folder, a Hugging Face folder or a hub name into what ``from_pretrained`` takes.

    Raises:
        ModelError: for a run folder that holds no finished model yet, or a folder that is neither.
    """
    path = Path(source)
    if (path / "hf" / "config.json").is_file():
        return str(path / "hf")
    if (path / "config.json").is_file() and (path / "checkpoints").is_dir():
        raise ModelError(f"'{source}' is a run without a model: finish it, or run  trueneg export {source}")
    if path.is_dir() and not (path / "config.json").is_file():
        raise ModelError(f"'{source}' holds no model: a run folder or a Hugging Face folder is wanted")
    if not path.exists() and (source.startswith((".", "/", "~")) or source.count("/") > 1):
        raise ModelError(f"there is no checkpoint at '{source}'")
    return source


def hf_config(config: ModelConfig, tokenizer: PreTrainedTokenizerFast) -> PretrainedConfig:
    """Hugging Face's configuration of an architecture, with our sizes and the tokenizer's vocabulary.

    Raises:
        ModelError: for an architecture that transformers does not know.
    """
    ids = special_ids(tokenizer)
    sizes: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.intermediate_size,
        "max_position_embeddings": config.max_positions,
        "pad_token_id": ids["pad"],
        "bos_token_id": ids["start"],
        "eos_token_id": ids["end"],
        "cls_token_id": ids["start"],
        "sep_token_id": ids["end"],
    }
    if config.architecture == "electra":
        sizes["embedding_size"] = config.embedding_size
    if config.architecture == "modernbert":
        for part in ("embedding", "mlp", "attention"):
            sizes[f"{part}_dropout"] = config.dropout
    else:
        sizes["hidden_dropout_prob"] = sizes["attention_probs_dropout_prob"] = config.dropout
    if config.architecture == "deberta-v2":
        # As DeBERTa-v3 was trained: relative positions only, in logarithmic buckets.
        sizes |= {
            "relative_attention": True,
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "type_vocab_size": 0,
        }
    if config.architecture in ("roberta", "xlm-roberta", "camembert"):
        # These count positions from after the padding id, so they need that many more.
        sizes["max_position_embeddings"] = config.max_positions + (ids["pad"] or 0) + 1
        sizes["type_vocab_size"] = 1
    try:
        return AutoConfig.for_model(config.architecture, **sizes)
    except (ValueError, KeyError) as error:
        raise ModelError(
            f"transformers knows no architecture '{config.architecture}': one of bert, roberta, electra, "
            f"deberta-v2, modernbert, or any other model_type with a masked-LM head"
        ) from error


def _generator_config(discriminator: PretrainedConfig, config: ModelConfig) -> PretrainedConfig:
    generator: PretrainedConfig = type(discriminator).from_dict(discriminator.to_dict())
    generator.num_hidden_layers = max(1, round(discriminator.num_hidden_layers * config.generator_depth))
    if hasattr(generator, "layer_types"):
        generator.layer_types = generator.layer_types[: generator.num_hidden_layers]
    if hasattr(discriminator, "embedding_size"):
        heads = max(1, round(discriminator.num_attention_heads * config.generator_width))
        hidden = round(discriminator.hidden_size * config.generator_width)
        if hidden % heads:
            raise ModelError(
                f"model.generator_width={config.generator_width} gives a generator of {hidden} hidden units, "
                f"which {heads} heads do not divide: choose another share"
            )
        generator.num_attention_heads, generator.hidden_size = heads, hidden
        # ELECTRA's code sets the feed-forward size to four times the hidden size.
        generator.intermediate_size = round(discriminator.intermediate_size * config.generator_width)
    return generator


def _from_nothing(kind: Any, config: PretrainedConfig, ours: ModelConfig) -> PreTrainedModel:
    try:
        model: PreTrainedModel = kind.from_config(config, attn_implementation=_attention(config, ours))
    except (ValueError, TypeError) as error:
        raise ModelError(f"cannot make a '{config.model_type}' of these sizes: {error}") from error
    return model


def _new_discriminator(config: PretrainedConfig, ours: ModelConfig) -> Discriminator:
    if config.model_type == "electra":
        model = _from_nothing(AutoModelForPreTraining, config, ours)
        return Discriminator(model, cast(nn.Module, model.discriminator_predictions))
    model = _from_nothing(AutoModel, config, ours)
    return Discriminator(model, ReplacedTokenHead(config.hidden_size))


def _continued_discriminator(
    source: str, config: ModelConfig, tokenizer: PreTrainedTokenizerFast
) -> Discriminator:
    if _config_of(source).model_type == "electra":
        model = _continued(AutoModelForPreTraining, source, config, tokenizer)
        return Discriminator(model, cast(nn.Module, model.discriminator_predictions))
    model = _continued(AutoModel, source, config, tokenizer)
    head = ReplacedTokenHead(model.config.hidden_size)
    saved = Path(source) / REPLACED_TOKEN_HEAD
    if saved.is_file():
        from safetensors.torch import load_file

        head.load_state_dict(load_file(saved))
    return Discriminator(model, head)


def _config_of(source: str) -> PretrainedConfig:
    try:
        return cast(PretrainedConfig, AutoConfig.from_pretrained(source))
    except (OSError, ValueError, KeyError, json.JSONDecodeError) as error:
        raise ModelError(f"cannot load '{source}': {_first_line(error)}") from error


def _continued(kind: Any, source: str, config: ModelConfig, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """Load a checkpoint, say which weights it lacks, and make its vocabulary the tokenizer's."""
    hf = _config_of(source)
    extra = {"add_pooling_layer": False} if kind is AutoModel and _has_pooler_option(hf) else {}
    try:
        with _quiet_transformers():
            model, report = kind.from_pretrained(
                source,
                output_loading_info=True,
                attn_implementation=_attention(hf, config),
                dtype=torch.float32,
                use_safetensors=True,
                **extra,
            )
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"cannot load '{source}': {_first_line(error)}") from error
    missing = sorted(report["missing_keys"])
    if missing:
        named = ", ".join(missing[:4]) + (" …" if len(missing) > 4 else "")
        warnings.warn(
            f"'{source}' lacks {len(missing)} weights of {type(model).__name__}; these start at random: {named}",
            TruenegWarning,
            stacklevel=2,
        )
    _fit_vocabulary(model, source, config, tokenizer)
    loaded: PreTrainedModel = model
    return loaded


def _has_pooler_option(config: PretrainedConfig) -> bool:
    return config.model_type in ("bert", "roberta", "xlm-roberta", "camembert")


def _attention(hf: PretrainedConfig, config: ModelConfig) -> str:
    """DeBERTa's relative positions have no fused attention in transformers."""
    return "eager" if hf.model_type in ("deberta", "deberta-v2") else config.attention


def _fit_vocabulary(
    model: PreTrainedModel, source: str, config: ModelConfig, tokenizer: PreTrainedTokenizerFast
) -> None:
    """Check that the checkpoint speaks the corpus's tokenizer; extend its vocabulary where allowed."""
    vocab_size = embedding_table(model).shape[0]
    own = _own_tokenizer(source)
    if own is not None and fingerprint(own) == fingerprint(tokenizer):
        return
    if own is None:
        if len(tokenizer) > vocab_size:
            raise ModelError(
                f"the corpus's tokenizer has {len(tokenizer):,} entries and '{source}' only {vocab_size:,}: "
                f"build the corpus with the checkpoint's own tokenizer"
            )
        warnings.warn(
            f"'{source}' carries no tokenizer to compare with the corpus's: make sure it is the same",
            TruenegWarning,
            stacklevel=3,
        )
        return
    theirs, ours = own.get_vocab(), tokenizer.get_vocab()
    if theirs == ours:
        return  # the same entries under other rules, such as a maximal length
    is_extended = all(ours.get(token) == index for token, index in theirs.items())
    if not is_extended:
        raise ModelError(
            f"the corpus was built with another tokenizer than that of '{source}': build it again with "
            f"--tokenizer {source}"
        )
    added = {index: token for token, index in ours.items() if token not in theirs}
    if not config.extend_vocabulary:
        raise ModelError(
            f"the corpus's tokenizer has {len(added):,} entries that '{source}' lacks: continue with "
            f"--extend-vocabulary, or build the corpus with --tokenizer {source}"
        )
    extend_embeddings(model, own, added)


@torch.no_grad()
def extend_embeddings(model: PreTrainedModel, own: PreTrainedTokenizerFast, added: dict[int, str]) -> None:
    """Give a model rows for new vocabulary entries, each the mean of the rows of its old pieces.

    Args:
        model: Changed in place, its output layer too.
        own: The tokenizer that the model was trained with.
        added: New id to the entry's text.

    Source: averaging is what Hewitt (2021) shows to keep the old distribution bounded; random rows do not.
    """
    old_size = embedding_table(model).shape[0]
    model.resize_token_embeddings(max(old_size, max(added) + 1), mean_resizing=False)
    tables = [embedding_table(model)]
    output = model.get_output_embeddings()
    if output is not None:
        if output.weight is not tables[0]:
            tables.append(output.weight)
        if getattr(output, "bias", None) is not None:
            tables.append(output.bias)
    for index, token in added.items():
        pieces = own(token, add_special_tokens=False)["input_ids"] or [own.unk_token_id]
        for table in tables:
            table[index] = table[pieces].mean(0)


def _own_tokenizer(source: str) -> PreTrainedTokenizerFast | None:
    is_local = Path(source).is_dir()
    if is_local and not (Path(source) / "tokenizer.json").is_file() and not (Path(source) / "vocab.txt").is_file():
        return None
    return load_tokenizer(source)


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Silence the loading report; what matters in it is said by us."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    had_bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if had_bars:
            logging.enable_progress_bar()


def count_parameters(module: nn.Module) -> int:
    """Trainable numbers, shared ones once."""
    return sum(parameter.numel() for parameter in module.parameters())
