"""Vectors of all substitutes of a word from one forward pass: their tokens are appended to the word's sentence.

Reading each substitute in the sentence would cost one forward pass of the sentence per substitute. Here the sentence is
read unchanged; a substitute's tokens have the word's positions and attend to the sentence without the word, and the
sentence does not attend to them, so only their own tokens add cost. The difference is that the rest of the sentence has
seen the word, not the substitute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from trueneg.arithmetic import reading_dtype
from trueneg.errors import ModelError
from trueneg.models.backbone import first_position, max_length, pair_mask
from trueneg.models.reading import Span, TextEncoder, by_budget

MAX_PIECES = 64
"""Maximum number of substitutes' tokens that are appended to one row."""

_TEXT, _WORD, _PADDING = 0, -1, -2
"""Groups of tokens; the tokens of a row's substitutes are in groups 1, 2, …"""


@dataclass(frozen=True, eq=False)
class Row:
    """A text, its word, and substitutes for the word, which are read together.

    Attributes:
        number: Index of the word among all words.
        first: Index of the row's first substitute among those of the word.
        input_ids: Token ids of the text.
        is_word: bool ``[text]``: the word's tokens.
        pieces: Token ids of each substitute.
    """

    number: int
    first: int
    input_ids: list[int]
    is_word: Tensor
    pieces: list[list[int]]

    @property
    def length(self) -> int:
        """Number of tokens in the row: those of the text and of all substitutes."""
        return len(self.input_ids) + sum(map(len, self.pieces))


@torch.no_grad()
def substitute_vectors(
    encoder: TextEncoder, spans: Sequence[Span], substitutes: Sequence[Sequence[str]]
) -> list[NDArray[np.float32]]:
    """Vectors of words in their texts and of substitutes for them, centered as the encoder's ``center`` says.

    A word's own vectors are those of ``TextEncoder.vectors``, as are those of a substitute that equals the word.

    Args:
        encoder: An encoder for which ``check_together`` has passed.
        spans: Texts and words.
        substitutes: Substitutes of each word.

    Returns:
        For each word float32 ``[1 + substitutes, layers, hidden]``, its own first; zeros for those without tokens.
    """
    shape = len(encoder.layers), int(encoder.model.config.hidden_size)
    found = [np.zeros((1 + len(words), *shape), np.float32) for words in substitutes]
    for batch in row_batches(encoder, spans, substitutes):
        for row, read in zip(batch, read_rows(encoder, batch, reading_dtype(encoder.model.device)), strict=True):
            vectors = read.cpu().numpy()
            found[row.number][0] = vectors[0]
            found[row.number][1 + row.first : row.first + len(vectors)] = vectors[1:]
    return found


def row_batches(
    encoder: TextEncoder, spans: Sequence[Span], substitutes: Sequence[Sequence[str]]
) -> Iterator[list[Row]]:
    """Yield batches of rows of similar length; a word with many substitutes has several rows."""
    parts, device = list(_parts(encoder, spans, substitutes)), encoder.model.device
    for chosen, read in encoder.reader.batches([spans[number] for number, _, _ in parts], device):
        texts = read.attention_mask.sum(1).tolist()
        rows = [
            Row(number, first, read.input_ids[line, :length].tolist(), read.is_word[line, :length], pieces)
            for line, ((number, first, pieces), length) in enumerate(
                zip((parts[at] for at in chosen.tolist()), texts, strict=True)
            )
        ]
        lengths = np.array([row.length for row in rows])
        for lines in by_budget(np.argsort(lengths, kind="stable"), lengths, device):
            yield [rows[line] for line in lines.tolist()]


def check_together(encoder: TextEncoder) -> None:
    """Check on dummy input that an encoder respects pairwise attention masks and position ids.

    Raises:
        ModelError: if the text sees its substitutes, or the word as its own substitute gets other vectors.
    """
    model = encoder.model
    size = int(model.config.vocab_size)
    ids = [token % size for token in range(size - 3, size - 9, -1)]
    is_word = torch.zeros(len(ids), dtype=torch.bool)
    is_word[2:4] = True
    try:
        with torch.no_grad():
            groups = _groups(is_word, [ids[:1], ids[2:4]])
            states = torch.stack(_states(model, [ids], [groups], [[ids[0], *ids[2:4]]]))[:, 0]
            alone = model(input_ids=torch.tensor([ids], device=model.device), output_hidden_states=True)
            expected = torch.stack(alone.hidden_states)[:, 0]
        is_sound = torch.allclose(states[:, : len(ids)], expected, atol=1e-4) and torch.allclose(
            states[:, len(ids) + 1 :], expected[:, 2:4], atol=1e-4
        )
    except (TypeError, ValueError, RuntimeError, AttributeError):
        is_sound = False
    if not is_sound:
        raise ModelError(
            f"'{encoder.name}' cannot read substitutes together: '{model.config.model_type}' does not let itself be "
            "told what a token sees and where it stands: take reading=apart"
        )


def _parts(
    encoder: TextEncoder, spans: Sequence[Span], substitutes: Sequence[Sequence[str]]
) -> Iterator[tuple[int, int, list[list[int]]]]:
    """Rows to read: the word's number, the number of the row's first substitute, and the substitutes' tokens."""

    @cache
    def pieces_of(text: str) -> list[int]:
        ids = encoder.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return [int(token) for token in ids][:MAX_PIECES]

    for number, ((text, start, _), words) in enumerate(zip(spans, substitutes, strict=True)):
        space = " " if text[:start][-1:].isspace() else ""
        first, row = 0, list[list[int]]()
        for at, word in enumerate(words):
            pieces = pieces_of(f"{space}{word}")
            if row and sum(map(len, row)) + len(pieces) > MAX_PIECES:
                yield number, first, row
                first, row = at, []
            row.append(pieces)
        yield number, first, row


def _groups(is_word: Tensor, pieces: Sequence[Sequence[int]]) -> Tensor:
    """The group of each token of a row: the text, its word, then the substitutes, int64 ``[length]``."""
    appended = [number + 1 for number, part in enumerate(pieces) for _ in part]
    return torch.cat([torch.where(is_word, _WORD, _TEXT), torch.tensor(appended, dtype=torch.int64)])


def read_rows(encoder: TextEncoder, rows: Sequence[Row], dtype: torch.dtype = torch.float32) -> Iterator[Tensor]:
    """Vectors of one batch of rows, with gradients.

    Args:
        encoder: An encoder for which ``check_together`` has passed.
        rows: A batch of ``row_batches``.
        dtype: Dtype in which the encoder computes.

    Yields:
        For each row float32 ``[1 + substitutes, layers, hidden]``, the word's own first; zeros for those without
        tokens.
    """
    groups = [_groups(row.is_word, row.pieces) for row in rows]
    appended = [[token for part in row.pieces for token in part] for row in rows]
    with torch.autocast(encoder.model.device.type, dtype, enabled=dtype != torch.float32):
        states = _states(encoder.model, [row.input_ids for row in rows], groups, appended)
    layers = torch.stack([states[layer].float() for layer in encoder.layers])
    for line, (group, row) in enumerate(zip(groups, rows, strict=True)):
        numbers = torch.tensor([_WORD, *range(1, len(row.pieces) + 1)])
        own = (group == numbers.unsqueeze(1)).float()
        if encoder.pooling == "first":
            own = own * (own.cumsum(1) == 1)
        is_seen = own.any(1, keepdim=True) & bool((group == _WORD).any())
        weights = own / own.sum(1, keepdim=True).clamp(min=1)
        if encoder.center:
            is_rest = (group == _TEXT).float()
            weights = weights - is_rest / is_rest.sum().clamp(min=1)
        weights = (weights * is_seen).to(layers.device)
        yield torch.einsum("st,lth->slh", weights, layers[:, line, : len(group)])


def _states(
    model: PreTrainedModel, texts: Sequence[list[int]], groups: Sequence[Tensor], appended: Sequence[list[int]]
) -> tuple[Tensor, ...]:
    """Hidden states of every layer, ``[rows, length, hidden]``: of the text, then of the appended tokens."""
    pad = model.config.pad_token_id
    width = max(len(group) for group in groups)
    ids = torch.full((len(texts), width), pad if isinstance(pad, int) else 0)
    group = torch.full_like(ids, _PADDING)
    position = torch.zeros_like(ids)
    for line, (text, part, pieces) in enumerate(zip(texts, groups, appended, strict=True)):
        ids[line, : len(part)] = torch.tensor([*text, *pieces])
        group[line, : len(part)] = part
        at_word = (part == _WORD).nonzero()
        first = int(at_word[0]) if len(at_word) else 0
        # The index of a token within its substitute.
        number = torch.arange(len(part)) - torch.searchsorted(part[len(text) :].contiguous(), part) - len(text)
        column = torch.arange(len(part))
        position[line, : len(part)] = torch.where(part > 0, first + number, column)
    position = position.clamp(max=max_length(model) - 1) + first_position(model)
    ids, group, position = (tensor.to(model.device) for tensor in (ids, group, position))
    query, key = group.unsqueeze(2), group.unsqueeze(1)
    of_text = (key == _TEXT) | (key == _WORD)
    sees = torch.where(query > 0, (key == _TEXT) | (key == query), of_text) & (query != _PADDING)
    sees |= (query == _PADDING) & (key == _PADDING)
    mask = pair_mask(model, sees.unsqueeze(1), position)
    with _relative_to(model, position):
        given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "position_ids": position}
        states: tuple[Tensor, ...] = model(**given, output_hidden_states=True).hidden_states
    return states


@contextmanager
def _relative_to(model: PreTrainedModel, position: Tensor) -> Iterator[None]:
    """Make MPNet's relative attention use position ids, instead of the order of tokens in the row."""
    if model.config.model_type != "mpnet":
        yield
        return
    encoder: Any = model.base_model.encoder

    def bias(*_: object, **__: object) -> Tensor:
        buckets = encoder.relative_position_bucket(position.unsqueeze(1) - position.unsqueeze(2))
        found: Tensor = encoder.relative_attention_bias(buckets).permute(0, 3, 1, 2)
        return found.contiguous()

    encoder.compute_position_bias = bias
    try:
        yield
    finally:
        del encoder.compute_position_bias
