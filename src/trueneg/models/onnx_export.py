"""Export of a checkpoint to an ONNX graph, with the head that was trained, under names that other libraries expect."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from trueneg.errors import ConfigError, MissingExtraError, ModelError, unknown_name
from trueneg.models.heads import ReplacedTokenHead
from trueneg.models.loading import (
    REPLACED_TOKEN_HEAD,
    config_of,
    from_pretrained,
    resolve_checkpoint,
    without_pooler,
)
from trueneg.models.origin import modules_folder
from trueneg.models.sentence_modules import SentenceHead, copy_modules, is_sentence_encoder
from trueneg.models.transformers_logging import quiet_exporter
from trueneg.tokenizer import load_tokenizer, save_tokenizer

HEADS = ("auto", "task", "mlm", "discriminator", "encoder", "sentence")
"""Heads that a graph can have: ``auto`` is whichever of the others was trained."""

TOLERANCE = 1e-3
"""Largest accepted difference of a graph's outputs from the model's, absolute and relative, in float32."""

_TASK = re.compile(r"For(SequenceClassification|TokenClassification|QuestionAnswering)$")
_MASKED_LM = re.compile(r"For(MaskedLM|PreTraining)$")


@dataclass(frozen=True)
class Graph:
    """An ONNX graph that was written."""

    path: Path
    head: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def export_onnx(source: str, out: Path, head: str = "auto") -> Graph:
    """Write ``model.onnx`` with dynamic batch size and length, its configuration and its tokenizer.

    ========================  ============================================  ====================================
    head                      of                                            outputs
    ========================  ============================================  ====================================
    task                      a fine-tuned model                            ``logits``; for questions and answers
                                                                            ``start_logits``, ``end_logits``
    mlm                       a masked-LM model; an ELECTRA run's generator ``logits``
    discriminator             an ELECTRA run                                ``logits``: above 0 for "replaced"
    encoder                   any                                           ``last_hidden_state``
    sentence                  any: pooled as its modules say, or the mean   ``token_embeddings``,
                                                                            ``sentence_embedding``
    ========================  ============================================  ====================================

    ``token_type_ids`` is an input if the model has several types and its tokenizer returns them.

    Raises:
        ConfigError: for an unknown head.
        MissingExtraError: if ``onnx``, ``onnxscript`` and ``onnxruntime`` are not installed.
        ModelError: if the checkpoint has no such head, or if the graph's outputs differ from the model's.
    """
    if head not in HEADS:
        raise ConfigError(unknown_name("head", head, HEADS))
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  torch's exporter writes through it
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", "exporting to ONNX") from error
    path = resolve_checkpoint(source)
    chosen = trained_head(path) if head == "auto" else head
    tokenizer = load_tokenizer(path)
    function = _Function(*_load(path, chosen)).eval()
    inputs = ("input_ids", "attention_mask", *(["token_type_ids"] if _has_types(function.model, tokenizer) else []))
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.model_input_names = list(inputs)
    save_tokenizer(tokenizer, out)
    _save_config(function, out)
    if chosen == "sentence":
        copy_modules(modules_folder(path), out)
    target = out / "model.onnx"
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    try:
        with quiet_exporter():
            program = torch.onnx.export(
                function,
                _made_up_text(2, 6, function.model, inputs),
                dynamo=True,
                verbose=False,
                input_names=list(inputs),
                output_names=list(function.outputs),
                dynamic_shapes=dict.fromkeys(inputs, axes),
            )
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).strip().partition("\n")[0]
        kind = type(function.model).__name__
        raise ModelError(f"torch makes no graph of '{source}' ({kind}): {reason}: choose another --head") from error
    assert program is not None
    program.save(str(target))
    onnx.checker.check_model(str(target))
    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    # Another batch size and length than in the export, to detect dimensions that became constants.
    _check_numbers(session, function, _made_up_text(3, 9, function.model, inputs), inputs, source)
    return Graph(target, chosen, inputs, function.outputs)


def trained_head(path: str) -> str:
    """The head, of ``HEADS``, that a checkpoint was trained with.

    Raises:
        ModelError: if it has a head that cannot be exported here.
    """
    names = config_of(path).architectures or [""]
    if _TASK.search(names[0]):
        return "task"
    if (Path(path) / REPLACED_TOKEN_HEAD).is_file() or names[0] == "ElectraForPreTraining":
        return "discriminator"
    if _MASKED_LM.search(names[0]):
        return "mlm"
    if re.search(r"For[A-Z]\w+$", names[0]):
        raise ModelError(f"'{path}' is a {names[0]}, whose head has no graph here: choose --head encoder")
    return "sentence" if is_sentence_encoder(modules_folder(path)) else "encoder"


class _Function(nn.Module):
    """A model and the head over it as a function of two or three tensors."""

    def __init__(self, model: PreTrainedModel, head: nn.Module | None, outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.head, self.outputs = model, head, outputs

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        output = self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=True, **types)
        if isinstance(self.head, SentenceHead):
            hidden = output.last_hidden_state
            return hidden, self.head(hidden, attention_mask)
        if self.head is not None:
            return (self.head(output.last_hidden_state),)
        return tuple(getattr(output, name) for name in self.outputs)


def _load(path: str, head: str) -> tuple[PreTrainedModel, nn.Module | None, tuple[str, ...]]:
    hf = config_of(path)
    if head == "task":
        name = (hf.architectures or [""])[0]
        if not (found := _TASK.search(name)):
            raise ModelError(
                f"'{path}' was not fine-tuned for a task ({name or 'no architecture'}): choose another --head"
            )
        is_span = found[1] == "QuestionAnswering"
        outputs = ("start_logits", "end_logits") if is_span else ("logits",)
        return _whole(f"AutoModelFor{found[1]}", path, hf), None, outputs
    if head == "mlm":
        generator = Path(path) / "generator"
        place = str(generator) if generator.is_dir() else path
        return _whole("AutoModelForMaskedLM", place, config_of(place)), None, ("logits",)
    if head == "discriminator" and hf.model_type == "electra":
        return _whole("AutoModelForPreTraining", path, hf), None, ("logits",)
    encoder = _whole("AutoModel", path, hf, **without_pooler(hf))
    if head == "discriminator":
        return encoder, _replaced_token_head(Path(path), hf), ("logits",)
    if head == "sentence":
        return encoder, SentenceHead(modules_folder(path)), ("token_embeddings", "sentence_embedding")
    return encoder, None, ("last_hidden_state",)


def _whole(kind: str, path: str, hf: PretrainedConfig, **options: Any) -> PreTrainedModel:
    """Load a model, all of whose weights must be in the checkpoint."""
    model, report = from_pretrained(getattr(transformers, kind), path, hf, "eager", options)
    if missing := sorted(report["missing_keys"]):
        raise ModelError(f"'{path}' has no such head or encoder ({missing[0]} is missing): choose another --head")
    return model


def _replaced_token_head(folder: Path, hf: PretrainedConfig) -> nn.Module:
    head, path = ReplacedTokenHead(hf.hidden_size), folder / REPLACED_TOKEN_HEAD
    if not path.is_file():
        raise ModelError(f"'{folder}' has no head over replaced tokens: choose another --head")
    try:
        head.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(f"cannot load '{path}': {str(error).splitlines()[0]}") from error
    return head


def _save_config(function: _Function, out: Path) -> None:
    """Save the configuration with the class of transformers that gives the same outputs; none if the head is ours."""
    config = function.model.config
    is_ours = isinstance(function.head, ReplacedTokenHead)
    config.architectures = None if is_ours else [type(function.model).__name__]
    config.save_pretrained(out)


def _has_types(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> bool:
    return (
        getattr(model.config, "type_vocab_size", 0) > 1
        and "token_type_ids" in inspect.signature(model.forward).parameters
        and "token_type_ids" in tokenizer.model_input_names
    )


def _made_up_text(batch: int, length: int, model: PreTrainedModel, inputs: Sequence[str]) -> tuple[Tensor, ...]:
    """Dummy ids, an attention mask with the last row padded, and token types, if needed, with two texts in a row."""
    last = model.config.vocab_size - 1
    ids = last - torch.arange(batch * length).remainder(min(last, 5)).reshape(batch, length)
    mask = torch.ones_like(ids)
    mask[-1, length // 2 :] = 0
    types = (torch.arange(length) >= length // 3).long().expand(batch, -1) * mask
    return (ids.masked_fill(mask == 0, model.config.pad_token_id or 0), mask, types)[: len(inputs)]


def _check_numbers(
    session: Any, function: _Function, given: tuple[Tensor, ...], inputs: Sequence[str], source: str
) -> None:
    found = session.run(list(function.outputs), {name: x.numpy() for name, x in zip(inputs, given, strict=True)})
    with torch.no_grad():
        wanted = function(*given)
    is_text = given[1].bool()
    for ours, theirs in zip(found, wanted, strict=True):
        graph = torch.from_numpy(ours)
        if graph.shape[:2] == is_text.shape and graph.shape == theirs.shape:
            graph, theirs = graph[is_text], theirs[is_text]
        if graph.shape != theirs.shape or not torch.allclose(graph, theirs, atol=TOLERANCE, rtol=TOLERANCE):
            raise ModelError(f"the ONNX model of '{source}' does not give the model's own numbers: nothing to rely on")
