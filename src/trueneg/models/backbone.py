"""Any Hugging Face encoder, taken apart: embed, encode, and logits at the rows that need them.

Stock masked-LM heads compute logits for every token; only masked ones are needed, which are a seventh of them
and the most expensive part of a small model.
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
    """The encoder within a Hugging Face model that may have a head.

    Args:
        model: A model whose ``base_model`` takes ``input_ids`` and ``attention_mask``.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.uses_kernel = False
        """Whether boundaries of documents are given to torch's kernel, where it runs: see ``attend_by_documents``."""

    @property
    def attends_by_documents(self) -> bool:
        """Whether attention is by document boundaries, without dropout, whatever computes it."""
        return bool(self.model.config._attn_implementation == documents.NAME)

    @property
    def embeddings(self) -> Tensor:
        """Token embeddings, ``[vocab, width]``."""
        return embedding_table(self.model)

    @property
    def vocab_size(self) -> int:
        """Entries of the vocabulary."""
        return cast(nn.Embedding, self.model.get_input_embeddings()).weight.shape[0]

    def encode(self, input_ids: Tensor, rows: Layout, layer: int | None = None) -> Tensor:
        """Contextual vectors of ``input_ids`` ``[batch, length]``: ``[batch, length, hidden]``.

        ``rows`` says where padding is and where documents end; its own tokens are not looked at. Of the last layer,
        or of the hidden states numbered ``layer``: 0 is the embeddings.
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
    """An encoder and its masked-LM head, the head applied to chosen rows only.

    The head is what the model holds beside its base model, applied in order; that this is the model's own
    function is checked once on made-up input, so an architecture with an unusual head is refused rather than
    trained wrongly. ``UNUSUAL_HEADS`` is where such a one is taught.

    Raises:
        ModelError: if the head is not what the model itself computes.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model)
        # Within a tuple it is no submodule: its parameters are the model's, and are listed once.
        self._bare = (_without(model, model.get_output_embeddings()),)
        self.has_linear_head: bool
        """Whether the head ends in a product with a table, and ``head_parts`` can be asked for."""
        self._check_head()

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits over the vocabulary for rows of hidden states: ``[*, hidden]`` to ``[*, vocab]``."""
        return _head(self.model, hidden)

    def head_parts(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Take the head apart before its last product, whose logits are ``linear(*parts)``: see ``has_linear_head``.

        Under autocast all are of its type, as the product takes them.

        Args:
            hidden: ``[*, hidden]``.

        Returns:
            Rows ``[*, width]``; the table ``[vocab, width]``; its bias ``[vocab]``, where there is one.
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
        # The checked ids are ordinary ones: RoBERTa derives positions from which tokens are padding.
        ids = torch.arange(self.vocab_size - 1, max(self.vocab_size - 7, 0), -1, device=self.embeddings.device)
        with eval_mode(self.model):
            output = self.model(input_ids=ids.unsqueeze(0), return_dict=True)
            hidden = self.model.base_model(input_ids=ids.unsqueeze(0), return_dict=True).last_hidden_state
            try:
                ours = self.logits(hidden)
                is_same = torch.allclose(ours.float(), output.logits.float(), atol=1e-4)
            except (TypeError, ValueError, RuntimeError):
                is_same = False
            self.has_linear_head = is_same and self._is_linear(hidden, ours)
        if not is_same:
            raise ModelError(
                f"the masked-LM head of '{self.model.config.model_type}' is an unusual one: add it to "
                f"UNUSUAL_HEADS in trueneg/models/backbone.py"
            )

    def _is_linear(self, hidden: Tensor, logits: Tensor) -> bool:
        """Whether ``head_parts`` gives the logits that the head itself gives."""
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
    """Copy a module without one of its parts, wherever in it: ``Identity`` in its place, all else is shared."""
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
"""The architecture with a mask for each kind of layer, and what it calls them."""
_FUSED = ("sdpa", documents.NAME)
"""Attention that takes a boolean mask."""

UNUSUAL_HEADS = {"distilbert": _distilbert_head, "deberta": _deberta_head, "deberta-v2": _deberta_head}
"""Heads that are not the modules beside the base model in order, by ``model_type``."""


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
    """Positions, where the model would not count them as we do."""
    first = first_position(model)
    if rows.is_packed:
        return {"position_ids": segment_positions(rows.segments) + first}
    if first:
        # RoBERTa counts the tokens that are not padding, and a generator may draw the padding token within a text.
        column = torch.arange(rows.segments.shape[1], device=rows.segments.device)
        return {"position_ids": (column + first).expand_as(rows.segments)}
    return {}


def _attention_arguments(model: PreTrainedModel, rows: Layout, uses_kernel: bool) -> dict[str, Any]:
    config = model.config
    # Without a mask DeBERTa looks for padding in the ids, which makes a GPU wait, and then makes the same mask.
    has_windows = config.model_type == _WINDOWED
    if rows.is_full and config.model_type not in _DEBERTA and not has_windows:
        return {}
    if uses_kernel and (boundaries := documents.arguments(model, rows)) is not None:
        return boundaries | ({"attention_mask": dict.fromkeys(_WINDOWS)} if has_windows else {})
    if rows.is_full and has_windows:
        return {}
    if not rows.is_packed and config._attn_implementation not in _FUSED:
        return {"attention_mask": (rows.segments > 0).to(torch.int64)}
    if rows.is_packed:
        may_attend = _is_same_segment(rows.segments).unsqueeze(1)
    else:
        # In the form that attention takes: of a mask of tokens transformers asks whether it hides any, and waits. One
        # row for all queries: expanded, it would be written out as a mask of pairs.
        may_attend = (rows.segments > 0)[:, None, None, :]
    if not has_windows:
        return {"attention_mask": _as_attention_mask(model, may_attend)}
    # Distances within a piece equal the row's, so the window needs no restart.
    column = torch.arange(rows.segments.shape[1], device=rows.segments.device)
    return {"attention_mask": pair_mask(model, may_attend, column.unsqueeze(0))}


def pair_mask(model: PreTrainedModel, may_attend: Tensor, positions: Tensor) -> Any:
    """What a model takes as ``attention_mask`` to have tokens see others: for ModernBERT one a kind of layer.

    Args:
        model: Who attends.
        may_attend: Bool ``[batch, 1, length, length]``, or ``[batch, 1, 1, length]`` for the same for all.
        positions: Where tokens stand, int64 ``[batch, length]`` or ``[1, length]``.
    """
    if model.config.model_type != _WINDOWED:
        return _as_attention_mask(model, may_attend)
    distance = (positions.unsqueeze(2) - positions.unsqueeze(1)).abs().unsqueeze(1)
    is_near = distance <= model.config.local_attention // 2
    masks = dict(zip(_WINDOWS, (may_attend, may_attend & is_near), strict=True))
    return {kind: _as_attention_mask(model, mask) for kind, mask in masks.items()}


def _is_same_segment(segments: Tensor) -> Tensor:
    """Whether two tokens are of one piece, bool ``[batch, length, length]``.

    Padding is a piece by itself, so no row of the attention is empty.
    """
    return segments[:, :, None] == segments[:, None, :]


def _encode_packed_deberta(
    model: PreTrainedModel, rows: Layout, given: dict[str, Tensor], options: dict[str, bool]
) -> Any:
    """DeBERTa's encoder takes a mask of pairs, which its embeddings do not; its positions are relative anyway."""
    base: Any = model.base_model
    if getattr(base.encoder, "conv", None) is not None:
        raise ModelError("this DeBERTa's convolution reaches into neighbouring documents: leave --pack out")
    embedded = base.embeddings(**given, mask=rows.segments > 0)
    return base.encoder(embedded, _is_same_segment(rows.segments), **options)


def _as_attention_mask(model: PreTrainedModel, may_attend: Tensor) -> Tensor:
    """A boolean mask for fused attention; for the eager one, what is added to its scores."""
    if model.config._attn_implementation in _FUSED:
        return may_attend
    dtype = next(model.parameters()).dtype
    return torch.where(may_attend, 0.0, torch.finfo(dtype).min).to(dtype)


def first_position(model: PreTrainedModel) -> int:
    """The position of a text's first token: RoBERTa and its kin count positions from after the padding id."""
    padding = getattr(_position_table(model), "padding_idx", None)
    return 0 if padding is None else padding + 1


def _position_table(model: PreTrainedModel) -> nn.Module | None:
    return getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)


def max_length(model: PreTrainedModel) -> int:
    """Tokens that the model has positions for; unlimited where positions are relative."""
    table = _position_table(model)
    if isinstance(table, nn.Embedding):
        return table.num_embeddings - first_position(model)
    if model.config.model_type in _DEBERTA:
        return sys.maxsize
    return int(getattr(model.config, "max_position_embeddings", sys.maxsize))


def check_length(model: PreTrainedModel, length: int, option: str, checkpoint: str = "") -> None:
    """Refuse rows that a model has no positions for.

    Args:
        model: Who is to read them.
        length: Tokens of a row.
        option: Which sets the length.
        checkpoint: What the model came from; empty for one made anew.

    Raises:
        ConfigError: naming the longest that is possible.
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
    """Make sure that documents in one row do not see each other, by encoding two made-up ones.

    Not every architecture can be told where documents end: a convolution, for one, looks past any mask.

    Raises:
        ModelError: if a document's vectors depend on its neighbour, or on where in the row it stands.
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
    """Make an encoder attend by document boundaries, where rows have them, and without dropout in attention.

    Where torch's kernel runs, it is compared once with the mask of pairs, answer and gradient; elsewhere the mask
    stays, which computes the same.

    Args:
        encoder: Its model is changed.
        device: Where it will be trained.
        dtype: What it is trained in, by autocast.
        is_asked: Attend so also where the kernel should run and fails, then under the mask.

    Returns:
        Why it cannot, in a few words, and then it attends as before, unless it is asked to; empty if it can.
    """
    model = encoder.model
    before = model.config._attn_implementation
    if before not in _FUSED:
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
"""Of the kernel's answer from the mask's, by its norm: bfloat16 rounds to 0.004, and a dozen layers add up."""


def _difference_from_mask(encoder: Encoder) -> str:
    """What is wrong with answer or gradient of the kernel, on made-up documents and padding; empty if nothing is."""
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
