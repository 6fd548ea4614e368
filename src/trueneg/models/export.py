"""From a trained model to folders that other libraries load: transformers, sentence-transformers, ONNX."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerFast

from trueneg.errors import MissingExtraError, ModelError
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.electra import Discriminator, ElectraPair
from trueneg.models.heads import ReplacedTokenHead
from trueneg.models.loading import REPLACED_TOKEN_HEAD, resolve_checkpoint
from trueneg.tokenizer import load_tokenizer


def save_hugging_face(model: nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path, card: str = "") -> Path:
    """Write a folder that stock ``transformers`` loads, with the tokenizer in it.

    A masked-LM model is written with its head. Of an ELECTRA pair the discriminator is written, and the generator
    in ``generator/``, each by itself, its embeddings in it.

    Args:
        model: A ``MaskedLanguageModel`` or an ``ElectraPair``.
        tokenizer: The corpus's.
        folder: Made if it is not there.
        card: Text of the model card, ``README.md``.
    """
    if isinstance(model, ElectraPair):
        _save_discriminator(model.discriminator, tokenizer, folder)
        _save(model.generator.model, tokenizer, folder / "generator")
    elif isinstance(model, MaskedLanguageModel):
        _save(model.model, tokenizer, folder)
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
    tokenizer = load_tokenizer(path)
    encoder = AutoModel.from_pretrained(path, use_safetensors=True)
    _save(encoder, tokenizer, out)
    kind = "sentence_transformers.sentence_transformer.modules"
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{kind}.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{kind}.Pooling"},
    ]
    pooling = {
        "word_embedding_dimension": encoder.config.hidden_size,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False,
    }
    longest = getattr(encoder.config, "max_position_embeddings", 512)
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
    model = _load_for_onnx(path).eval()
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(out)
    model.config.save_pretrained(out)
    ids = torch.arange(12).remainder(len(tokenizer)).reshape(2, 6)
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    program = torch.onnx.export(
        _Plain(model),
        (ids, mask),
        dynamo=True,
        verbose=False,
        input_names=["input_ids", "attention_mask"],
        output_names=["output"],
        dynamic_shapes={"input_ids": axes, "attention_mask": axes},
    )
    assert program is not None
    target = out / "model.onnx"
    program.save(str(target))
    onnx.checker.check_model(str(target))
    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    got = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0]
    with torch.no_grad():
        wanted = _Plain(model)(ids, mask)
    is_text = mask.bool()
    if not torch.allclose(torch.from_numpy(got)[is_text], wanted[is_text], atol=1e-3):
        raise ModelError(f"the ONNX model of '{source}' does not give the model's own numbers: nothing to rely on")
    return target


EXPORTS: Mapping[str, Callable[[str, Path], Path]] = {
    "sentence-transformers": export_sentence_transformers,
    "onnx": export_onnx,
}
"""Formats made from a Hugging Face folder; ``hf`` itself is what a run writes."""


class _Plain(nn.Module):
    """A model as a function of two tensors."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        output = self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)
        result: torch.Tensor = output.logits if hasattr(output, "logits") else output.last_hidden_state
        return result


def _load_for_onnx(path: str) -> PreTrainedModel:
    config = json.loads((Path(path) / "config.json").read_text()) if Path(path).is_dir() else {}
    has_head = any("ForMaskedLM" in name for name in config.get("architectures") or [])
    kind: Any = AutoModelForMaskedLM if has_head else AutoModel
    model: PreTrainedModel = kind.from_pretrained(path, attn_implementation="eager", use_safetensors=True)
    return model


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _save_discriminator(discriminator: Discriminator, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    _save(discriminator.model, tokenizer, folder)
    if isinstance(discriminator.head, ReplacedTokenHead):
        from safetensors.torch import save_file

        save_file(discriminator.head.state_dict(), folder / REPLACED_TOKEN_HEAD)


def _write_json(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2) + "\n")
