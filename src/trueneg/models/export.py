"""Export of a trained model to a folder that stock ``transformers`` loads."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save_file
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from trueneg.files.whole import follow_umask
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.disentangled import whole_tables
from trueneg.models.electra import Discriminator, ElectraPair
from trueneg.models.heads import LinearHead, ReplacedTokenHead
from trueneg.models.loading import REPLACED_TOKEN_HEAD, SEMANTIC_HEADS, semantic_heads
from trueneg.models.semantic import SemanticEncoder
from trueneg.models.transformers_logging import quiet_transformers
from trueneg.tokenizer import save_tokenizer


def save_hugging_face(model: nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path, card: str = "") -> Path:
    """Write a folder that stock ``transformers`` loads, with the tokenizer in it.

    A masked-LM model is written with its head; CLINE's other heads go to a separate file, which ``load_semantic``
    reads. Of an ELECTRA pair, the discriminator is written, and the generator to ``generator/``, each complete with its
    embeddings (E_G + E_delta for a discriminator whose embeddings were disentangled). A ``LinearHead`` is written as
    the equivalent head of two layers.

    Args:
        model: A ``MaskedLanguageModel``, a ``SemanticEncoder``, an ``ElectraPair`` or a model of transformers.
        tokenizer: The corpus's tokenizer.
        folder: Folder to write to; created if necessary.
        card: Text of the model card, ``README.md``.
    """
    if isinstance(model, ElectraPair):
        _save_discriminator(model.discriminator, tokenizer, folder)
        _save(model.generator.model, tokenizer, folder / "generator")
    elif isinstance(model, MaskedLanguageModel):
        _save(model.model, tokenizer, folder)
        if isinstance(model, SemanticEncoder):
            _save_heads(semantic_heads(model), folder / SEMANTIC_HEADS)
    elif isinstance(model, PreTrainedModel) and isinstance(head := getattr(model, "classifier", None), LinearHead):
        model.classifier = head.as_two_layers(model.config)
        try:
            _save(model, tokenizer, folder)
        finally:
            model.classifier = head
    elif isinstance(model, PreTrainedModel):
        _save(model, tokenizer, folder)
    else:
        raise TypeError(f"no export for {type(model).__name__}")
    if card:
        (folder / "README.md").write_text(card, encoding="utf-8")
    follow_umask(folder)
    return folder


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with quiet_transformers(), whole_tables(model):
        model.save_pretrained(folder)
        save_tokenizer(tokenizer, folder)


def _save_discriminator(discriminator: Discriminator, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    _save(discriminator.model, tokenizer, folder)
    if isinstance(discriminator.head, ReplacedTokenHead):
        _save_heads(discriminator.head, folder / REPLACED_TOKEN_HEAD)


def _save_heads(heads: nn.Module, path: Path) -> None:
    tensors = heads.state_dict()
    if tensors:
        save_file(tensors, path)
