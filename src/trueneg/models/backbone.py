"""Any Hugging Face encoder, split into parts: embeddings, encoder, and logits where they are needed.

Stock masked-LM heads compute logits for every token, the most expensive part of a small model; only those of masked
tokens, a seventh of them, are needed.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trueneg.corruption.rows import Rows
from trueneg.corruption.views.batch import Layout
from trueneg.errors import ConfigError, ModelError
from trueneg.models import documents
from trueneg.models.disentangled import DisentangledEmbedding
from trueneg.models.modes import eval_mode


class Encoder(nn.Module):
    """The encoder of a Hugging Face model, which may have a head.

    Args:
        model: A model whose ``base_model`` takes ``input_ids`` and ``attention_mask``.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.uses_kernel = False
        """Whether torch's varlen kernel is used, where it runs: see ``attend_by_documents``."""

    @property
    def attends_by_documents(self) -> bool:
        """Whether attention stops at document boundaries, without dropout, be it by the kernel or by a mask."""
        return bool(self.model.config._attn_implementation == documents.NAME)

    @property
    def embeddings(self) -> Tensor:
        """Token embeddings, ``[vocab, width]``."""
        return embedding_table(self.model)

    def follow(self, ids: Tensor) -> None:
        """Move to the device of what is read: a frozen model is no submodule of what it serves, nor moved with it."""
        if self.embeddings.device != ids.device:
            self.to(ids.device)

    @property
    def vocab_size(self) -> int:
        """Size of the vocabulary."""
        return cast(nn.Embedding, self.model.get_input_embeddings()).weight.shape[0]

    def encode(self, input_ids: Tensor, rows: Layout, layer: int | None = None) -> Tensor:
        """Contextual vectors of ``input_ids`` ``[batch, length]``: ``[batch, length, hidden]``.

        ``rows`` says where padding is and where documents end; its own tokens are ignored. Returns the hidden states of
        the last layer, or those numbered ``layer``, where 0 is the embeddings.
        """
        given = {"input_ids": input_ids} | _position_arguments(self.model, rows)
        options = {"output_hidden_states": layer is not None, "return_dict": True}
        if rows.is_packed and self.model.config.model_type in _DEBERTA:
            output = _encode_packed_deberta(self.model, rows, given, options)
        else:
            attention = _attention_arguments(self.model, rows, self.uses_kernel)
            output = self.model.base_model(**given, **attention, **options)
        hidden: Tensor = output.last_hidden_state if layer is None else output.hidden_states[layer]
        return hidden


class MaskedLanguageModel(Encoder):
    """An encoder and its masked-LM head, which is applied to chosen positions only.

    The head consists of the model's modules besides its base model, applied in order. That this computes the same as
    the model itself is checked once on dummy input, so an architecture with an unusual head is refused rather than
    trained wrongly; ``UNUSUAL_HEADS`` adds support for such heads.

    Raises:
        ModelError: if the head does not compute the same as the model itself.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model)
        # In a tuple it is not a submodule: its parameters are the model's, and must be listed once.
        self._bare = (_without(model, model.get_output_embeddings()),)
        self.has_linear_head: bool
        """Whether the head ends in a linear layer, so that ``head_parts`` can be called."""
        self._check_head()

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits over the vocabulary from hidden states: ``[*, hidden]`` to ``[*, vocab]``."""
        return _head(self.model, hidden)

    def head_parts(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Split off the head's last linear layer: the logits are ``linear(*parts)``. See ``has_linear_head``.

        Under autocast all parts have its dtype, as the linear layer needs them.

        Args:
            hidden: ``[*, hidden]``.

        Returns:
            The layer's input ``[*, width]``; its weight ``[vocab, width]``; its bias ``[vocab]``, if there is one.
        """
        model: Any = self.model
        parts: list[Any]
        if model.config.model_type in _DEBERTA and not model.config.legacy:
            head = model.lm_predictions.lm_head
            parts = [head.LayerNorm(head.transform_act_fn(head.dense(hidden))), self.embeddings, head.bias]
        else:
            last = model.get_output_embeddings()
            parts = [_head(self._bare[0], hidden), last.weight, last.bias]
        kind = hidden.device.type
        if torch.is_autocast_enabled(kind):
            parts = [None if part is None else part.to(torch.get_autocast_dtype(kind)) for part in parts]
        return parts[0], parts[1], parts[2]

    @torch.no_grad()
    def _check_head(self) -> None:
        is_same, cause = False, None
        try:
            # Ordinary ids, without padding: RoBERTa derives positions from which tokens are padding.
            ids = torch.arange(self.vocab_size - 1, max(self.vocab_size - 7, 0), -1, device=self.embeddings.device)
            with eval_mode(self.model):
                output = self.model(input_ids=ids.unsqueeze(0), return_dict=True)
                hidden = self.model.base_model(input_ids=ids.unsqueeze(0), return_dict=True).last_hidden_state
                ours = self.logits(hidden)
                is_same = torch.allclose(ours.float(), output.logits.float(), atol=1e-4)
                self.has_linear_head = is_same and self._is_linear(hidden, ours)
        except (TypeError, ValueError, RuntimeError, AttributeError) as error:
            cause = error
        if not is_same:
            raise ModelError(
                f"the masked-LM head of '{self.model.config.model_type}' is an unusual one: add it to "
                f"UNUSUAL_HEADS in trueneg/models/backbone.py"
            ) from cause

    def _is_linear(self, hidden: Tensor, logits: Tensor) -> bool:
        """Whether ``head_parts`` gives the same logits as the head itself."""
        try:
            before, weight, bias = self.head_parts(hidden)
            is_one_each = bias is None or bias.shape == weight.shape[:1]
            parted = nn.functional.linear(before, weight, bias)
        except (TypeError, ValueError, RuntimeError, AttributeError):
            return False
        return (
            is_one_each and parted.shape == logits.shape and torch.allclose(parted.float(), logits.float(), atol=1e-4)
        )


def _head(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    unusual = UNUSUAL_HEADS.get(model.config.model_type)
    if unusual is not None:
        logits: Tensor = unusual(model, hidden)
        return logits
    for module in _modules_beside_base(model):
        hidden = module(hidden)
    return hidden


def _without(module: Any, part: nn.Module | None) -> Any:
    """Copy a module with one of its parts, at any depth, replaced by ``Identity``; all else is shared."""
    if module is part:
        return nn.Identity()
    children = {name: child and _without(child, part) for name, child in module._modules.items()}
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    bare = copy.copy(module)
    bare._modules = children
    return bare


def _distilbert_head(model: Any, hidden: Tensor) -> Tensor:
    logits: Tensor = model.vocab_projector(model.vocab_layer_norm(model.activation(model.vocab_transform(hidden))))
    return logits


def _deberta_head(model: Any, hidden: Tensor) -> Tensor:
    logits: Tensor = (
        model.cls(hidden)
        if model.config.legacy
        else model.lm_predictions(hidden, model.base_model.embeddings.word_embeddings)
    )
    return logits


_DEBERTA = ("deberta", "deberta-v2")
_WINDOWED, _WINDOWS = "modernbert", ("full_attention", "sliding_attention")
"""The architecture that takes one mask per kind of layer, and its names of these kinds."""
_FUSED = ("sdpa", documents.NAME)
"""Attention implementations that take a boolean mask."""

UNUSUAL_HEADS = {"distilbert": _distilbert_head, "deberta": _deberta_head, "deberta-v2": _deberta_head}
"""Heads that are not simply the modules besides the base model in order, by ``model_type``."""


def embedding_table(model: PreTrainedModel) -> Tensor:
    """A model's input token embeddings, ``[vocab, width]``."""
    table = cast(nn.Embedding, model.get_input_embeddings())
    return table.table if isinstance(table, DisentangledEmbedding) else table.weight


def segment_positions(segments: Tensor) -> Tensor:
    """Position of each token within its document piece, from 0: int64 ``[batch, length]``.

    Example:
        >>> segment_positions(torch.tensor([[1, 1, 2, 2, 2, 0]])).tolist()
        [[0, 1, 0, 1, 2, 0]]
    """
    column = torch.arange(segments.shape[1], device=segments.device).expand_as(segments)
    starts = torch.ones_like(segments, dtype=torch.bool)
    starts[:, 1:] = segments[:, 1:] != segments[:, :-1]
    return column - torch.where(starts, column, 0).cummax(1).values


def _modules_beside_base(model: PreTrainedModel) -> list[nn.Module]:
    return [module for module in model.children() if module is not model.base_model]


def _position_arguments(model: PreTrainedModel, rows: Layout) -> dict[str, Tensor]:
    """Position ids, if the model's default ones would be different."""
    first = first_position(model)
    if rows.is_packed:
        return {"position_ids": segment_positions(rows.segments) + first}
    if first:
        # RoBERTa counts the tokens that are not padding, and a generator may sample the padding token within a text.
        column = torch.arange(rows.segments.shape[1], device=rows.segments.device)
        return {"position_ids": (column + first).expand_as(rows.segments)}
    return {}


def _attention_arguments(model: PreTrainedModel, rows: Layout, uses_kernel: bool) -> dict[str, Any]:
    config = model.config
    # Without a mask DeBERTa looks for padding in the ids, which synchronises the GPU, and then makes the same mask.
    has_windows = config.model_type == _WINDOWED
    if rows.is_full and config.model_type not in _DEBERTA and not has_windows:
        return {}
    if uses_kernel and (boundaries := documents.arguments(model, rows)) is not None:
        return boundaries | ({"attention_mask": dict.fromkeys(_WINDOWS)} if has_windows else {})
    if rows.is_full and has_windows:
        return {}
    if not rows.is_packed and (config._attn_implementation not in _FUSED or _has_other_windows(model)):
        return {"attention_mask": (rows.segments > 0).to(torch.int64)}
    if rows.is_packed:
        may_attend = _is_same_segment(rows.segments).unsqueeze(1)
    else:
        # Already in attention's own form: given a token mask, transformers checks whether it masks anything, which
        # synchronises. Broadcast over queries: expanded, it would be materialised as a pairwise mask.
        may_attend = (rows.segments > 0)[:, None, None, :]
    if not has_windows:
        _refuse_windows(model)
        return {"attention_mask": _as_attention_mask(model, may_attend)}
    # Distances within a piece are those within the row, so one window mask serves the whole row.
    column = torch.arange(rows.segments.shape[1], device=rows.segments.device)
    return {"attention_mask": pair_mask(model, may_attend, column.unsqueeze(0))}


def pair_mask(model: PreTrainedModel, may_attend: Tensor, positions: Tensor) -> Any:
    """A pairwise attention mask in the form that a model takes: for ModernBERT one per kind of layer.

    Args:
        model: The model.
        may_attend: Bool ``[batch, 1, length, length]``, or ``[batch, 1, 1, length]`` for the same mask for all queries.
        positions: Positions of tokens, int64 ``[batch, length]`` or ``[1, length]``.

    Raises:
        ModelError: for another architecture whose layers attend within windows.
    """
    _refuse_windows(model)
    if model.config.model_type != _WINDOWED:
        return _as_attention_mask(model, may_attend)
    distance = (positions.unsqueeze(2) - positions.unsqueeze(1)).abs().unsqueeze(1)
    is_near = distance <= model.config.local_attention // 2
    masks = dict(zip(_WINDOWS, (may_attend, may_attend & is_near), strict=True))
    return {kind: _as_attention_mask(model, mask) for kind, mask in masks.items()}


def _has_other_windows(model: PreTrainedModel) -> bool:
    """Whether some layers attend within a window and would take a pairwise mask instead of it, unlike ModernBERT's."""
    kinds = getattr(model.config, "layer_types", None) or ()
    return model.config.model_type != _WINDOWED and "sliding_attention" in kinds


def _refuse_windows(model: PreTrainedModel) -> None:
    if _has_other_windows(model):
        raise ModelError(
            f"'{model.config.model_type}' attends within windows, which a pairwise mask would undo: leave --pack or "
            "reading=together out"
        )


def _is_same_segment(segments: Tensor) -> Tensor:
    """Whether two tokens are of the same piece, bool ``[batch, length, length]``.

    Padding counts as a piece, so every query attends to something.
    """
    return segments[:, :, None] == segments[:, None, :]


def _encode_packed_deberta(
    model: PreTrainedModel, rows: Layout, given: dict[str, Tensor], options: dict[str, bool]
) -> Any:
    """Encode packed rows: DeBERTa's encoder takes a pairwise mask, its embeddings do not; positions are relative."""
    base: Any = model.base_model
    if getattr(base.encoder, "conv", None) is not None:
        raise ModelError("this DeBERTa's convolution reaches into neighbouring documents: leave --pack out")
    embedded = base.embeddings(**given, mask=rows.segments > 0)
    return base.encoder(embedded, _is_same_segment(rows.segments), **options)


def _as_attention_mask(model: PreTrainedModel, may_attend: Tensor) -> Tensor:
    """A boolean mask for fused attention; for eager attention, an additive one."""
    if model.config._attn_implementation in _FUSED:
        return may_attend
    dtype = next(model.parameters()).dtype
    return torch.where(may_attend, 0.0, torch.finfo(dtype).min).to(dtype)


def first_position(model: PreTrainedModel) -> int:
    """The position id of a text's first token: RoBERTa-like models count from one after the padding id."""
    padding = getattr(_position_table(model), "padding_idx", None)
    return 0 if padding is None else padding + 1


def _position_table(model: PreTrainedModel) -> nn.Module | None:
    return getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)


def max_length(model: PreTrainedModel) -> int:
    """Number of tokens that the model has positions for; unlimited where positions are relative."""
    table = _position_table(model)
    if table is not None:
        return int(cast(Tensor, table.weight).shape[0]) - first_position(model)
    if model.config.model_type in _DEBERTA:
        return sys.maxsize
    return int(getattr(model.config, "max_position_embeddings", sys.maxsize))


def check_length(model: PreTrainedModel, length: int, option: str, checkpoint: str = "") -> None:
    """Refuse rows that are longer than a model has positions for.

    Args:
        model: The model.
        length: Tokens in a row.
        option: The option that sets the length.
        checkpoint: The checkpoint of the model; empty for a new one.

    Raises:
        ConfigError: naming the longest possible length.
    """
    longest = max_length(model)
    if length > longest:
        whose = f"'{checkpoint}'" if checkpoint else "this model"
        other = "" if checkpoint else f", or model.max_positions={length}"
        raise ConfigError(
            f"{option}={length}: {whose} has only {longest} positions: set {option}={longest} (--length {longest}) or "
            f"less{other}"
        )


@torch.no_grad()
def check_packing(encoder: Encoder) -> None:
    """Check that documents in one row do not see each other, by encoding two dummy ones.

    Not every architecture can be told where documents end: a convolution, for example, looks past any mask.

    Raises:
        ModelError: if a document's vectors depend on its neighbour, or on its place in the row.
    """
    model = encoder.model
    ids = torch.arange(encoder.vocab_size - 1, max(encoder.vocab_size - 9, 0), -1, device=encoder.embeddings.device)
    segments = torch.ones_like(ids)
    segments[len(ids) // 2 :] = 2
    try:
        with eval_mode(model):
            together = encoder.encode(ids[None], _bare_rows(ids, segments, is_packed=True))[0]
            parts = (ids[segments == 1], ids[segments == 2])
            apart = [encoder.encode(part[None], _bare_rows(part, None))[0] for part in parts]
        is_same = torch.allclose(together.float(), torch.cat(apart).float(), atol=1e-4)
    except (TypeError, ValueError, RuntimeError, AttributeError):
        is_same = False
    if not is_same:
        raise ModelError(f"'{model.config.model_type}' cannot keep the documents of one row apart: leave --pack out")


def attend_by_documents(
    encoder: Encoder, device: torch.device, dtype: torch.dtype = torch.bfloat16, *, is_asked: bool = False
) -> str:
    """Make an encoder's attention stop at document boundaries, if rows have them, and use no dropout.

    Where torch's varlen kernel runs, its output and gradient are compared once with those of a pairwise mask; elsewhere
    the mask is used, which computes the same.

    Args:
        encoder: The encoder, whose model is changed.
        device: The training device.
        dtype: The autocast dtype in training.
        is_asked: Change the encoder even if the kernel should run but fails; it then uses the mask.

    Returns:
        Why this is impossible, in a few words; empty if it is possible. If not, the encoder keeps its attention, except
        as ``is_asked`` says.
    """
    model = encoder.model
    before = model.config._attn_implementation
    if before not in _FUSED or _has_other_windows(model):
        return f"'{model.config.model_type}' has no attention that can be exchanged"
    documents.register()
    model.set_attn_implementation(documents.NAME)
    if not encoder.attends_by_documents:
        return f"'{model.config.model_type}' has no attention that can be exchanged"
    reason, encoder.uses_kernel = "", True
    if documents.can_run(device, dtype):
        try:
            documents.kernel()
            cast(nn.Module, model).to(device)
            with torch.autocast(device.type, dtype, enabled=dtype in documents.HALF):
                reason = _difference_from_mask(encoder)
        except (ImportError, RuntimeError, TypeError, ValueError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    encoder.uses_kernel = not reason
    if reason and not is_asked:
        model.set_attn_implementation(before)
    return reason


MOST_DIFFERENCE = 0.05
"""Largest relative difference, by norm, of the kernel from the mask: bfloat16 rounds to 0.004, over a dozen layers."""


def _difference_from_mask(encoder: Encoder) -> str:
    """What is wrong with the kernel's output or gradient, on dummy documents and padding; empty if nothing is."""
    model, length = encoder.model, min(96, max_length(encoder.model))
    column = torch.arange(length, device=encoder.embeddings.device)
    segments = (column >= length // 3).long() + 1
    segments[column >= length - length // 8] = 0
    rows = _bare_rows(encoder.vocab_size - 1 - column % (encoder.vocab_size // 2), segments, is_packed=True)
    places = [0, length // 3, length - length // 8, length, length]
    rows = replace(rows, starts=torch.tensor(places, dtype=torch.int32, device=column.device))
    found = []
    with eval_mode(model):
        for given in (rows, replace(rows, starts=None)):
            hidden = encoder.encode(rows.input_ids, given)[rows.segments > 0].float()
            table = cast(nn.Embedding, model.get_input_embeddings()).weight
            (gradient,) = torch.autograd.grad(hidden.square().mean(), [table])
            found.append((hidden.detach(), gradient))
    for what, ours, theirs in zip(("answer", "gradient"), *found, strict=True):
        share = float((ours - theirs).norm() / theirs.norm())
        if not share <= MOST_DIFFERENCE:
            return f"the kernel's {what} is {share:.2g} of its norm from the mask's"
    return ""


def _bare_rows(ids: Tensor, segments: Tensor | None, is_packed: bool = False) -> Rows:
    no = torch.zeros_like(ids, dtype=torch.bool)[None]
    pieces = torch.ones_like(ids) if segments is None else segments
    return Rows(ids[None], pieces[None], no, no, no, ids[:1], is_full=not is_packed, is_packed=is_packed)
