"""From a trained model to folders that other libraries load: transformers, sentence-transformers, ONNX."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerFast

from trueneg.errors import ConfigError, MissingExtraError, ModelError, unknown_name
from trueneg.models.backbone import MaskedLanguageModel, max_length
from trueneg.models.electra import Discriminator, ElectraPair
from trueneg.models.heads import ReplacedTokenHead
from trueneg.models.loading import (
    REPLACED_TOKEN_HEAD,
    SEMANTIC_HEADS,
    config_of,
    from_pretrained,
    resolve_checkpoint,
    semantic_heads,
    without_pooler,
)
from trueneg.models.quiet import quiet_exporter, quiet_transformers
from trueneg.models.semantic import SemanticEncoder
from trueneg.tokenizer import load_tokenizer, save_tokenizer


def save_hugging_face(model: nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path, card: str = "") -> Path:
    """Write a folder that stock ``transformers`` loads, with the tokenizer in it.

    A masked-LM model is written with its head; what CLINE has beside that lies in a file of its own, from which
    ``load_semantic`` goes on. Of an ELECTRA pair the discriminator is written, and the generator in ``generator/``,
    each by itself, its embeddings in it.

    Args:
        model: A ``MaskedLanguageModel``, a ``SemanticEncoder`` or an ``ElectraPair``.
        tokenizer: The corpus's.
        folder: Made if it is not there.
        card: Text of the model card, ``README.md``.
    """
    if isinstance(model, ElectraPair):
        _save_discriminator(model.discriminator, tokenizer, folder)
        _save(model.generator.model, tokenizer, folder / "generator")
    elif isinstance(model, MaskedLanguageModel):
        _save(model.model, tokenizer, folder)
        if isinstance(model, SemanticEncoder):
            _save_heads(semantic_heads(model), folder / SEMANTIC_HEADS)
    else:
        raise TypeError(f"no export for {type(model).__name__}")
    if card:
        (folder / "README.md").write_text(card)
    return folder


def export_sentence_transformers(source: str, out: Path) -> Path:
    """Write a folder that ``SentenceTransformer(folder)`` loads: the encoder and mean pooling.

    The vectors are those of the pre-trained encoder; nothing has been trained to make them similar yet.

    Args:
        source: A run folder, a Hugging Face folder or a hub name.
        out: Where to write.
    """
    path = resolve_checkpoint(source)
    encoder = _load(AutoModel, path, **without_pooler(config_of(path)))
    _save(encoder, load_tokenizer(path), out)
    # The names and keys that every release of sentence-transformers reads; newer ones write others.
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    pooling = {"word_embedding_dimension": encoder.config.hidden_size, "pooling_mode_mean_tokens": True}
    longest = min(max_length(encoder), encoder.config.max_position_embeddings)
    _write_json(out / "modules.json", modules)
    _write_json(out / "1_Pooling" / "config.json", pooling)
    _write_json(out / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False})
    return out


def export_onnx(source: str, out: Path) -> Path:
    """Write ``model.onnx`` with free batch and length, and the tokenizer beside it.

    The masked-LM logits where the checkpoint has such a head, else the encoder's hidden states.

    Raises:
        MissingExtraError: if ``onnx`` and ``onnxscript`` are not installed.
        ModelError: if what was exported does not give the model's own numbers.
    """
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  torch's exporter writes through it
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", "exporting to ONNX") from error
    path = resolve_checkpoint(source)
    tokenizer = load_tokenizer(path)
    model = _load_for_onnx(path)
    function = _Plain(model).eval()
    out.mkdir(parents=True, exist_ok=True)
    save_tokenizer(tokenizer, out)
    model.config.save_pretrained(out)
    target = out / "model.onnx"
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    with quiet_exporter():
        program = torch.onnx.export(
            function,
            _padded_text(2, 6, model),
            dynamo=True,
            verbose=False,
            input_names=["input_ids", "attention_mask"],
            output_names=["output"],
            dynamic_shapes={"input_ids": axes, "attention_mask": axes},
        )
    assert program is not None
    program.save(str(target))
    onnx.checker.check_model(str(target))
    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    # Another batch and length than those it was made with, or a constant that was frozen in would not be seen.
    ids, mask = _padded_text(3, 9, model)
    got = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0]
    with torch.no_grad():
        wanted = function(ids, mask)
    is_text = mask.bool()
    if not torch.allclose(torch.from_numpy(got)[is_text], wanted[is_text], atol=1e-3):
        raise ModelError(f"the ONNX model of '{source}' does not give the model's own numbers: nothing to rely on")
    return target


def export_hugging_face(source: str, out: Path) -> Path:
    """Copy a run's ``hf/``, which every checkpoint renews, to where it is wanted."""
    path = Path(resolve_checkpoint(source))
    if not path.is_dir():
        raise ModelError(f"'{source}' is a hub name: it is in Hugging Face's format already")
    shutil.copytree(path, out, dirs_exist_ok=True)
    return out


EXPORTS: Mapping[str, Callable[[str, Path], Path]] = {
    "hf": export_hugging_face,
    "sentence-transformers": export_sentence_transformers,
    "onnx": export_onnx,
}


def export(checkpoint: str, format: str = "hf", out: str | Path | None = None) -> Path:
    """Write a checkpoint as another library loads it.

    Args:
        checkpoint: A run folder, a Hugging Face folder or a hub name.
        format: ``hf``, ``sentence-transformers`` or ``onnx``.
        out: An empty or new folder; by default one named like the format within the checkpoint's folder (a run's
            ``hf`` is there already, and is returned).

    Raises:
        ConfigError: for an unknown format, a folder that holds something, or a hub name without ``out``.
        ModelError: if the checkpoint cannot be used.
        MissingExtraError: if the format needs a package that is not installed.
    """
    if format not in EXPORTS:
        raise ConfigError(unknown_name("format", format, EXPORTS))
    if format == "hf" and out is None:
        path = Path(resolve_checkpoint(checkpoint))
        if not path.is_dir():
            raise ModelError(f"no checkpoint at '{checkpoint}': a run folder or a Hugging Face folder is wanted")
        return path
    if out is None and not Path(checkpoint).is_dir():
        # A folder of that name would be taken for the checkpoint from then on.
        raise ConfigError(f"'{checkpoint}' is no folder that an export could be written into: give --out")
    target = Path(out) if out is not None else Path(checkpoint) / format
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"'{target}' is not empty: give another --out")
    return EXPORTS[format](checkpoint, target)


class _Plain(nn.Module):
    """A model as a function of two tensors."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        output = self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)
        result: torch.Tensor = output.logits if hasattr(output, "logits") else output.last_hidden_state
        return result


def _padded_text(batch: int, length: int, model: PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor]:
    """Made-up ids and their mask, the last row padded."""
    last = model.config.vocab_size - 1
    ids = last - torch.arange(batch * length).remainder(min(last, 5)).reshape(batch, length)
    mask = torch.ones_like(ids)
    mask[-1, length // 2 :] = 0
    return ids.masked_fill(mask == 0, model.config.pad_token_id or 0), mask


def _load_for_onnx(path: str) -> PreTrainedModel:
    config = config_of(path)
    has_head = any("ForMaskedLM" in name for name in config.architectures or [])
    return _load(AutoModelForMaskedLM, path) if has_head else _load(AutoModel, path, **without_pooler(config))


def _load(kind: Any, path: str, **options: Any) -> PreTrainedModel:
    model, _ = from_pretrained(kind, path, config_of(path), "eager", options)
    return model


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with quiet_transformers():
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


def _write_json(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2) + "\n")
