"""Models from a configuration: random weights of given sizes, or a checkpoint to continue."""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from transformers import (
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.utils.hub import cached_file

from trueneg.config.options import ModelConfig
from trueneg.errors import ModelError, TruenegWarning
from trueneg.files.records import read_record
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.configurations import generator_config, hf_config, set_dropout, set_rope
from trueneg.models.electra import Discriminator, ElectraPair
from trueneg.models.heads import ReplacedTokenHead
from trueneg.models.semantic import SemanticEncoder
from trueneg.models.transformers_logging import quiet_transformers
from trueneg.models.vocabulary import fit_vocabulary
from trueneg.tokenizer import hub_answers, load_tokenizer

REPLACED_TOKEN_HEAD = "replaced_token_head.safetensors"
"""File beside a discriminator whose architecture has no such head of its own."""

SEMANTIC_HEADS = "semantic_heads.safetensors"
"""File beside CLINE's encoder: the heads that ``SemanticEncoder`` adds to a masked language model."""

_REFUSALS = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RuntimeError,
    AssertionError,  # torch raises it for a padding token outside the vocabulary
    SafetensorError,
    StrictDataclassError,
    pickle.UnpicklingError,
    EOFError,
)
"""Errors that transformers raises for files and sizes that it cannot use."""

_PICKLE_REMEDY = (
    "if you trust it, let AutoModelForMaskedLM.from_pretrained(...).save_pretrained(FOLDER) make safetensors of it"
)


def masked_lm_of_shapes(config: ModelConfig, folder: Path) -> PreTrainedModel:
    """Make a masked language model with random weights, from the ``config.json`` in a folder.

    Raises:
        ModelError: if it is missing.
    """
    return model_from_config(AutoModelForMaskedLM, config_of(str(folder)), config)


def electra_of_shapes(config: ModelConfig, folder: Path) -> ElectraPair:
    """Make an ELECTRA pair with random weights, from ``config.json`` and ``generator/config.json`` in a folder.

    Raises:
        ModelError: if they are missing.
    """
    generator = masked_lm_of_shapes(config, folder / "generator")
    discriminator = _new_discriminator(config_of(str(folder)), config)
    return ElectraPair(MaskedLanguageModel(generator), discriminator, config.embedding_sharing, is_new=True)


def load_masked_lm(config: ModelConfig, tokenizer: PreTrainedTokenizerFast) -> MaskedLanguageModel:
    """Make or load an encoder with its masked-LM head.

    Args:
        config: Sizes, or the checkpoint to continue. For the ``hf/`` of an ELECTRA run, its generator is loaded, unless
            ``part`` chooses the discriminator.
        tokenizer: The corpus's tokenizer.

    Raises:
        ModelError: if the checkpoint cannot be loaded or its vocabulary does not match the tokenizer's.
    """
    if not config.start_from:
        return MaskedLanguageModel(model_from_config(AutoModelForMaskedLM, hf_config(config, tokenizer), config))
    source = _masked_lm_source(config)
    return MaskedLanguageModel(_continued(AutoModelForMaskedLM, source, config, tokenizer))


def load_trained_masked_lm(checkpoint: str, tokenizer: PreTrainedTokenizerFast) -> MaskedLanguageModel:
    """Load a masked language model for its predictions.

    Args:
        checkpoint: A run, a folder or a hub name.
        tokenizer: The tokenizer of the text.

    Raises:
        ModelError: as ``load_masked_lm``, and if weights are missing, which would be random.
    """
    config = ModelConfig(start_from=checkpoint)
    source = _masked_lm_source(config)
    return MaskedLanguageModel(_continued(AutoModelForMaskedLM, source, config, tokenizer, is_whole=True))


def load_semantic(
    config: ModelConfig, tokenizer: PreTrainedTokenizerFast, num_classes: int, has_pooler: bool
) -> SemanticEncoder:
    """Make or load an encoder for CLINE: that of ``load_masked_lm``, with a replaced-token head and a pooler.

    When continuing a checkpoint, these two are loaded from beside it if they exist there in the right shapes, else they
    are new, with a warning. The loss weights that CLINE learned for its terms belong to the objective, and start anew.

    Raises:
        ModelError: as ``load_masked_lm``.
    """
    model = SemanticEncoder(load_masked_lm(config, tokenizer).model, num_classes, has_pooler)
    if config.start_from:
        _continue_heads(semantic_heads(model), Path(_masked_lm_source(config)))
    return model


def semantic_heads(model: SemanticEncoder) -> nn.ModuleDict:
    """Heads that an encoder for CLINE has besides the masked language model, by name."""
    heads = {"replaced_head": model.replaced_head, "pooler": model.pooler}
    return nn.ModuleDict({name: head for name, head in heads.items() if head is not None})


def load_electra(config: ModelConfig, tokenizer: PreTrainedTokenizerFast) -> ElectraPair:
    """Make or load a generator and a discriminator, which share embeddings as ``embedding_sharing`` says.

    When continuing a checkpoint, the discriminator is that checkpoint; the generator is ``generator_from``, else the
    ``generator/`` beside it, else a new one of the configured relative size (with random weights, and a warning). An
    architecture without an embedding projection cannot have a narrower generator that shares its embeddings, so its
    generator keeps the width.

    Raises:
        ModelError: as ``load_masked_lm``.
    """
    if not config.start_from:
        discriminator_config = hf_config(config, tokenizer)
        smaller = generator_config(discriminator_config, config)
        generator = model_from_config(AutoModelForMaskedLM, smaller, config)
        discriminator = _new_discriminator(discriminator_config, config)
        return ElectraPair(MaskedLanguageModel(generator), discriminator, config.embedding_sharing, is_new=True)
    source = resolve_checkpoint(config.start_from)
    discriminator = _continued_discriminator(source, config, tokenizer)
    beside = Path(source) / "generator"
    generator_source = resolve_checkpoint(config.generator_from) if config.generator_from else str(beside)
    is_new = not (config.generator_from or beside.is_dir())
    if not is_new:
        generator = _continued(AutoModelForMaskedLM, generator_source, config, tokenizer)
    else:
        over = "" if config.embedding_sharing == "none" else " over the shared embeddings"
        warnings.warn(
            f"'{config.start_from}' has no generator: a new one starts from random weights{over} (model.generator_from "
            f"names a masked-LM checkpoint to use instead)",
            TruenegWarning,
            stacklevel=2,
        )
        smaller = generator_config(discriminator.model.config, config)
        generator = model_from_config(AutoModelForMaskedLM, smaller, config)
    return ElectraPair(MaskedLanguageModel(generator), discriminator, config.embedding_sharing, is_new=is_new)


def resolve_checkpoint(source: str) -> str:
    """Turn a run folder, a Hugging Face folder or a hub name into a path or name that ``from_pretrained`` takes.

    Raises:
        ModelError: for a run folder without a finished model, a folder that is neither, or a path that does not exist.
    """
    path = Path(source)
    if (path / "hf" / "config.json").is_file():
        return str(path / "hf")
    if (path / "config.json").is_file() and (path / "checkpoints").is_dir():
        raise ModelError(f"'{source}' is a run without a model: finish it, or run  trueneg export {source}")
    if path.is_file() or (path.is_dir() and not (path / "config.json").is_file()):
        raise ModelError(f"'{source}' holds no model: give a run folder or a Hugging Face folder")
    if not path.exists() and (source.startswith((".", "/", "~")) or source.count("/") > 1):
        raise ModelError(f"there is no checkpoint at '{source}'")
    return source


def check_checkpoint(source: str) -> None:
    """Check that a run, a folder or a hub name has a configuration, weights and a tokenizer; load no weights.

    For a hub name, configuration and tokenizer are read, from the cache if the hub cannot be reached.

    Raises:
        ModelError: naming what is missing.
    """
    source = resolve_checkpoint(source)
    _check_weights(source, config_of(source), is_cached=not hub_answers(source))
    load_tokenizer(source)


def config_of(source: str) -> PretrainedConfig:
    """Read a checkpoint's configuration.

    Raises:
        ModelError: if it cannot be read.
    """
    try:
        is_cached = not hub_answers(source)
        return cast(
            PretrainedConfig, AutoConfig.from_pretrained(source, trust_remote_code=False, local_files_only=is_cached)
        )
    except _REFUSALS as error:
        raise ModelError(_cannot_load(source, error)) from error


def from_pretrained(
    kind: Any, source: str, hf: PretrainedConfig, attention: str, options: Mapping[str, Any]
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Call ``kind.from_pretrained`` without pickle, remote code or log output.

    Args:
        kind: An auto class of transformers.
        source: A Hugging Face folder or a hub name.
        hf: Its configuration.
        attention: ``sdpa`` or ``eager``.
        options: Further arguments of ``from_pretrained``.

    Returns:
        The model in float32, and transformers' report on missing and unexpected weights.

    Raises:
        ModelError: if it cannot be loaded.
    """
    is_cached = not hub_answers(source)
    _check_weights(source, hf, is_cached=is_cached)
    try:
        with quiet_transformers():
            loaded: tuple[PreTrainedModel, dict[str, Any]] = kind.from_pretrained(
                source,
                config=hf,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                attn_implementation=attention,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=is_cached,
                **options,
            )
    except _REFUSALS as error:
        raise ModelError(_cannot_load(source, error)) from error
    mismatched = [key for key, *_ in loaded[1]["mismatched_keys"]]
    if mismatched:
        raise ModelError(f"the weights in '{source}' have other shapes than its config.json: {_named(mismatched)}")
    return loaded


def without_pooler(hf: PretrainedConfig) -> dict[str, Any]:
    """The option that omits the pooler of ``AutoModel``, if there is one: no objective here trains it."""
    kind = cast(type[PreTrainedModel], MODEL_MAPPING[type(hf)])
    has_option = "add_pooling_layer" in inspect.signature(kind).parameters
    return {"add_pooling_layer": False} if has_option else {}


def model_from_config(kind: Any, hf: PretrainedConfig, config: ModelConfig, **options: Any) -> PreTrainedModel:
    """A model with random weights for a configuration, drawn from torch's random state.

    Args:
        kind: An auto class of transformers.
        hf: The configuration.
        config: Chooses the attention implementation.
        options: Further arguments of ``from_config``.

    Raises:
        ModelError: if transformers cannot make it of these sizes, or has no such head for the architecture.
    """
    try:
        model: PreTrainedModel = kind.from_config(hf, attn_implementation=attention_of(hf, config), **options)
    except _REFUSALS as error:
        raise ModelError(f"cannot make a '{hf.model_type}' of these sizes: {_first_line(error)}") from error
    return model


def _new_discriminator(hf: PretrainedConfig, config: ModelConfig) -> Discriminator:
    if hf.model_type == "electra":
        model = model_from_config(AutoModelForPreTraining, hf, config)
        return Discriminator(model, cast(nn.Module, model.discriminator_predictions))
    model = model_from_config(AutoModel, hf, config, **without_pooler(hf))
    return Discriminator(model, ReplacedTokenHead(hf.hidden_size))


def _continued_discriminator(source: str, config: ModelConfig, tokenizer: PreTrainedTokenizerFast) -> Discriminator:
    hf = config_of(source)
    if hf.model_type == "electra":
        model = _continued(AutoModelForPreTraining, source, config, tokenizer)
        return Discriminator(model, cast(nn.Module, model.discriminator_predictions))
    model = _continued(AutoModel, source, config, tokenizer, **without_pooler(hf))
    head = ReplacedTokenHead(model.config.hidden_size)
    saved = Path(source) / REPLACED_TOKEN_HEAD
    if saved.is_file():
        try:
            head.load_state_dict(load_file(saved))
        except _REFUSALS as error:
            raise ModelError(f"cannot load '{saved}': {_first_line(error)}") from error
    else:
        warnings.warn(
            f"'{source}' has no head for replaced tokens: a new one starts from random weights",
            TruenegWarning,
            stacklevel=3,
        )
    return Discriminator(model, head)


def _masked_lm_source(config: ModelConfig) -> str:
    """Path or name of a masked language model: the generator of an ELECTRA run, unless ``part`` says otherwise."""
    source = resolve_checkpoint(config.start_from)
    generator = Path(source) / "generator"
    if config.part == "discriminator":
        if not generator.is_dir():
            raise ModelError(
                f"model.part=discriminator: '{config.start_from}' has no generator beside it, so there is nothing to "
                f"choose: leave it out"
            )
        return source
    return str(generator) if generator.is_dir() else source


def _continue_heads(heads: nn.ModuleDict, source: Path) -> None:
    """Load the heads beside a checkpoint whose shapes fit; warn about those that start anew."""
    path, saved, new = source / SEMANTIC_HEADS, {}, []
    if path.is_file():
        try:
            saved = load_file(path)
        except _REFUSALS as error:
            raise ModelError(f"cannot load '{path}': {_first_line(error)}") from error
    for name, head in heads.items():
        found = {key.removeprefix(f"{name}."): value for key, value in saved.items() if key.startswith(f"{name}.")}
        if {key: value.shape for key, value in found.items()} == {k: v.shape for k, v in head.state_dict().items()}:
            head.load_state_dict(found)
        else:
            new.append({"replaced_head": "head over replaced tokens"}.get(name, name))
    if new:
        warnings.warn(
            f"'{source}' has no {' and no '.join(new)} of this objective.cline.variant: what is missing starts from "
            f"random weights",
            TruenegWarning,
            stacklevel=3,
        )


def _continued(
    kind: Any,
    source: str,
    config: ModelConfig,
    tokenizer: PreTrainedTokenizerFast,
    *,
    is_whole: bool = False,
    **options: Any,
) -> PreTrainedModel:
    """Load a checkpoint, warn about missing weights (or refuse them), and fit its vocabulary to the tokenizer."""
    hf = config_of(source)
    set_dropout(hf, config.dropout)
    set_rope(hf, config)
    attention = attention_of(hf, config)
    model, report = from_pretrained(kind, source, hf, attention, options)
    if kind is AutoModelForMaskedLM and any(key.startswith("lm_predictions.") for key in report["unexpected_keys"]):
        # DeBERTa's original head; by default, transformers expects a different one of its own.
        hf.legacy = False
        model, report = from_pretrained(kind, source, hf, attention, options)
    if report["missing_keys"]:
        lacks = (
            f"'{source}' lacks {len(report['missing_keys'])} weights of {type(model).__name__}; "
            f"these start at random: {_named(report['missing_keys'])}"
        )
        if is_whole:
            raise ModelError(
                f"'{config.start_from}' has no masked-LM head, so it predicts nothing: name a masked language model; "
                f"of an ELECTRA pair, the run or its generator ({lacks})"
            )
        warnings.warn(lacks, TruenegWarning, stacklevel=3)
    fit_vocabulary(model, source, tokenizer, config.extend_vocabulary)
    return model


def _check_weights(source: str, hf: PretrainedConfig, *, is_cached: bool) -> None:
    """Refuse a checkpoint without weights, or with pickled ones, which can execute arbitrary code."""
    folder = Path(source)
    if getattr(hf, "transformers_weights", None):
        raise ModelError(f"'{source}': its config.json names another file of weights: only model.safetensors is read")
    if _find_file(source, "adapter_config.json", is_cached):
        raise ModelError(f"'{source}' holds an adapter of PEFT: merge it (merge_and_unload) and save the whole model")
    if index := _find_file(source, "model.safetensors.index.json", is_cached):
        record = read_record(_WeightsIndex, index, ModelError, "fetch or export it again")
        for name in record.weight_map.values():
            if not name.endswith(".safetensors") or name != Path(name).name:
                raise ModelError(f"'{index}' names '{name}': weights are read from .safetensors files beside it only")
    if not folder.is_dir() or any(folder.glob("model*.safetensors")):
        return
    if any(folder.glob("pytorch_model*.bin")):
        raise ModelError(f"'{source}' has pickled weights only, which are never loaded: {_PICKLE_REMEDY}")
    raise ModelError(f"'{source}' holds no model.safetensors: fetch or export it again")


@dataclass(frozen=True)
class _WeightsIndex:
    """The file that holds each weight, of several files."""

    weight_map: dict[str, str]
    metadata: dict[str, Any] = field(default_factory=dict)


def _find_file(source: str, name: str, is_cached: bool) -> Path | None:
    """A file of a checkpoint, of the hub's cache alone if ``is_cached``; None if it does not exist."""
    if Path(source).is_dir():
        found: str | None = str(Path(source) / name)
    else:
        found = cached_file(
            source,
            name,
            local_files_only=is_cached,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    return Path(found) if found and Path(found).is_file() else None


def attention_of(hf: PretrainedConfig, config: ModelConfig) -> str:
    """The configured attention, if transformers has it: DeBERTa and MPNet have no fused one."""
    kind = cast(type[PreTrainedModel], MODEL_MAPPING[type(hf)])
    return "eager" if config.attention == "eager" or not kind._supports_sdpa else "sdpa"


def _named(keys: Iterable[str]) -> str:
    names = sorted(keys)
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")


def _cannot_load(source: str, error: Exception) -> str:
    line = _first_line(error)
    if Path(source).is_dir():
        return f"cannot load '{source}': {line}"
    remedy = f" ({_PICKLE_REMEDY})" if "safetensors" in line else ""
    return f"'{source}' is no folder here, and the Hugging Face hub does not give it: {line}{remedy}"


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def checkpoint_gradients(model: PreTrainedModel) -> None:
    """Enable gradient checkpointing: layers are recomputed in the backward pass instead of keeping their activations.

    Raises:
        ModelError: for an architecture that does not support it.
    """
    # Renamed in transformers 5.20 or so; the old name warns there.
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    try:
        enable({"use_reentrant": False})
    except ValueError as error:
        raise ModelError(f"train.gradient_checkpointing: {error}") from error
    for module in model.modules():
        # The key-value cache is only for generation; transformers warns about it in every forward pass, and the warning
        # breaks the graph of a compiled step.
        config: Any = getattr(module, "config", None)
        if hasattr(config, "use_cache"):
            config.use_cache = False


def count_parameters(module: nn.Module) -> int:
    """Count a module's parameters, shared ones once."""
    return sum(parameter.numel() for parameter in module.parameters())


def objective_of(source: str) -> str:
    """The objective that a checkpoint is most likely continued with: ``electra`` for a discriminator, else ``mlm``."""
    path = resolve_checkpoint(source)
    if (Path(path) / REPLACED_TOKEN_HEAD).is_file():
        return "electra"
    architectures = config_of(path).architectures or []
    return "electra" if any("ForPreTraining" in name and "Electra" in name for name in architectures) else "mlm"
