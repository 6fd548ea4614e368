"""A checkpoint's encoder with a new head for a task, and loading of fine-tuned models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers
from transformers import AutoModel, PretrainedConfig, PreTrainedModel
from transformers.models.electra.modeling_electra import ElectraClassificationHead

from trueneg.config.options import ModelConfig
from trueneg.errors import ModelError
from trueneg.models.configurations import set_dropout
from trueneg.models.heads import LinearHead
from trueneg.models.loading import (
    attention_of,
    config_of,
    from_pretrained,
    model_from_config,
    resolve_checkpoint,
    without_pooler,
)


def load_for_task(
    auto_class: str,
    source: str,
    num_outputs: int,
    labels: Sequence[str] = (),
    *,
    dropout: float = -1.0,
    attention: str = "sdpa",
    head: str = "transformers",
) -> PreTrainedModel:
    """Load a checkpoint's encoder with a new head: transformers' own, or one linear layer where that is different.

    The weights of the head, and of a pooler that the checkpoint lacks, come from torch's random state. A head of the
    checkpoint is not used, so that a model fine-tuned on one task starts the next like any other.

    Args:
        auto_class: Name of an auto class of transformers: ``AutoModelForSequenceClassification``, …
        source: A run folder, a Hugging Face folder or a hub name.
        num_outputs: Number of the head's outputs per row or token.
        labels: Names of the outputs, if they are classes.
        dropout: Dropout of every layer; negative for the checkpoint's own.
        attention: ``sdpa`` or ``eager``; eager is used if the architecture has no other.
        head: ``transformers``, or ``linear`` for one layer (``LinearHead``).

    Raises:
        ModelError: if the encoder cannot be loaded, its architecture has no such head, or ``linear`` does not apply.
    """
    path = resolve_checkpoint(source)
    hf = config_of(path)
    set_dropout(hf, dropout, of_head=True)
    _set_labels(hf, num_outputs, labels)
    wanted = ModelConfig(attention="eager" if attention == "eager" else "sdpa")
    model = model_from_config(getattr(transformers, auto_class), hf, wanted)
    has_pooler = any(name.startswith("pooler.") for name, _ in model.base_model.named_parameters())
    options = {} if has_pooler else without_pooler(hf)
    encoder, report = from_pretrained(AutoModel, path, hf, attention_of(hf, wanted), options)
    lacking = sorted(key for key in report["missing_keys"] if "pooler." not in key)
    if lacking:
        raise ModelError(f"'{source}' lacks weights of its encoder ({lacking[0]}, …): fetch or export it again")
    _copy_weights(encoder, model.base_model, is_pooler_new=bool(report["missing_keys"]))
    if head == "linear":
        model.classifier = _linear_head(model, source)
    return model


def has_two_layers(model_type: str, auto_class: str) -> bool:
    """Whether transformers' head has two layers where the architecture's authors use one (``LinearHead``)."""
    return model_type == "electra" and auto_class == "AutoModelForSequenceClassification"


def _linear_head(model: Any, source: str) -> LinearHead:
    if not isinstance(getattr(model, "classifier", None), ElectraClassificationHead):
        raise ModelError(
            f"head=linear: '{source}' ({model.config.model_type}) has no other head for this task than transformers' "
            f"own: leave it out"
        )
    if 2 * model.config.num_labels > model.config.hidden_size:
        raise ModelError(
            f"head=linear: {model.config.num_labels} labels need hidden states of {2 * model.config.num_labels} to be "
            f"saved, and '{source}' has {model.config.hidden_size}: leave it out"
        )
    return LinearHead(model.classifier)


def load_finetuned(auto_class: str, source: str, labels: Sequence[str], attention: str = "sdpa") -> PreTrainedModel:
    """Load a model that was fine-tuned for a task.

    Raises:
        ModelError: if it has no such head, or other labels.
    """
    path = resolve_checkpoint(source)
    hf = config_of(path)
    wanted = ModelConfig(attention="eager" if attention == "eager" else "sdpa")
    model, report = from_pretrained(getattr(transformers, auto_class), path, hf, attention_of(hf, wanted), {})
    if report["missing_keys"]:
        raise ModelError(f"'{source}' was not fine-tuned for this: it lacks {min(report['missing_keys'])}")
    found = _labels_of(model.config)
    if labels and found != list(labels):
        raise ModelError(f"'{source}' answers with {', '.join(found)}, the task wants {', '.join(labels)}")
    return model


def labels_of(source: str) -> list[str]:
    """Names of a fine-tuned model's classes, in order; transformers' default names if none were set."""
    return _labels_of(config_of(resolve_checkpoint(source)))


def _labels_of(hf: PretrainedConfig) -> list[str]:
    names: dict[int, str] = getattr(hf, "id2label", None) or {}
    return [names[number] for number in sorted(names)]


def _set_labels(hf: PretrainedConfig, num_outputs: int, labels: Sequence[str]) -> None:
    hf.num_labels = num_outputs
    if labels:
        hf.id2label = dict(enumerate(labels))
        hf.label2id = {label: number for number, label in enumerate(labels)}


@torch.no_grad()
def _copy_weights(source: PreTrainedModel, target: Any, is_pooler_new: bool) -> None:
    weights = source.state_dict()
    if is_pooler_new:
        weights = {name: value for name, value in weights.items() if not name.startswith("pooler.")}
    target.load_state_dict(weights, strict=not is_pooler_new)
