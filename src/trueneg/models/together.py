"""All substitutes of a word read at once: one reading of its sentence, to which each substitute's pieces are appended.

Putting a substitute into the sentence costs a reading of the sentence. Here the sentence is read as it is; a
substitute's pieces stand at the word's positions and see the sentence without the word, and nothing sees them. So they
cost what their own tokens cost. The rest of the sentence has seen the word, not the substitute: that is the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from trueneg.errors import ModelError
from trueneg.models.backbone import first_position, max_length, pair_mask
from trueneg.models.reading import Span, TextEncoder, by_budget, weighted_sum

MAX_PIECES = 64
"""Pieces of substitutes that are appended to one row."""

_TEXT, _WORD, _PADDING = 0, -1, -2
"""Groups of tokens; the pieces of a row's substitutes are of groups 1, 2, …"""


@torch.no_grad()
def vectors_together(
    encoder: TextEncoder, spans: Sequence[Span], substitutes: Sequence[Sequence[str]]
) -> list[NDArray[np.float32]]:
    """Vectors of words in their texts and of what could stand in their places, each relative to the rest of its text.

    The word's own are those of ``TextEncoder.vectors``, and so are a substitute's that is the word itself.

    Args:
        encoder: One for which ``check_together`` has passed.
        spans: Texts and words.
        substitutes: Of each word.

    Returns:
        For each word float32 ``[1 + substitutes, layers, hidden]``, its own first; zeros for what is not seen.
    """
    shape = len(encoder.layers), int(encoder.model.config.hidden_size)
    found = [np.zeros((1 + len(words), *shape), np.float32) for words in substitutes]
    parts = list(_parts(encoder, spans, substitutes))
    for chosen, read in encoder.reader.batches([spans[number] for number, _, _ in parts]):
        rows = [parts[at] for at in chosen.tolist()]
        lengths = read.attention_mask.sum(1).numpy()
        totals = lengths + np.array([sum(map(len, pieces)) for _, _, pieces in rows])
        for line in by_budget(np.argsort(totals, kind="stable"), totals):
            texts = [read.input_ids[at, : lengths[at]].tolist() for at in line]
            is_word = [read.is_word[at, : lengths[at]] for at in line]
            pieces = [rows[at][2] for at in line.tolist()]
            for at, vectors in zip(line.tolist(), _read(encoder, texts, is_word, pieces), strict=True):
                number, first, _ = rows[at]
                found[number][0] = vectors[0]
                found[number][1 + first : first + len(vectors)] = vectors[1:]
            encoder.num_unseen += sum(not bool(part.any()) for part in is_word)
    return found


def check_together(encoder: TextEncoder) -> None:
    """Make sure that an encoder can be told what each token may see, and where it stands, by a made-up reading.

    Raises:
        ModelError: if the text sees its substitutes, or the word in its own place is not the word.
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
    """Rows to read: the word's number, the number of the row's first substitute, and the substitutes' pieces."""

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


def _read(
    encoder: TextEncoder,
    texts: Sequence[list[int]],
    is_word: Sequence[Tensor],
    pieces: Sequence[Sequence[Sequence[int]]],
) -> Iterator[NDArray[np.float32]]:
    """Vectors of one batch of rows: for each ``[1 + substitutes, layers, hidden]``."""
    device = encoder.model.device
    groups = [_groups(part, row) for part, row in zip(is_word, pieces, strict=True)]
    appended = [[token for part in row for token in part] for row in pieces]
    with torch.autocast(device.type, torch.bfloat16):
        states = _states(encoder.model, texts, groups, appended)
    layers = torch.stack([states[layer].float() for layer in encoder.layers])
    for line, (group, row) in enumerate(zip(groups, pieces, strict=True)):
        numbers = torch.tensor([_WORD, *range(1, len(row) + 1)])
        own = (group == numbers.unsqueeze(1)).float()
        if encoder.pooling == "first":
            own = own * (own.cumsum(1) == 1)
        is_seen = own.any(1, keepdim=True) & bool((group == _WORD).any())
        weights = own / own.sum(1, keepdim=True).clamp(min=1)
        if encoder.center:
            is_rest = (group == _TEXT).float()
            weights = weights - is_rest / is_rest.sum().clamp(min=1)
        weights = (weights * is_seen).to(device)
        yield (
            weighted_sum(layers[:, line : line + 1, : len(group)].expand(-1, len(weights), -1, -1), weights)
            .transpose(0, 1)
            .cpu()
            .numpy()
        )


def _states(
    model: PreTrainedModel, texts: Sequence[list[int]], groups: Sequence[Tensor], appended: Sequence[list[int]]
) -> tuple[Tensor, ...]:
    """Hidden states of every layer, ``[rows, length, hidden]``: of the text, then of what is appended to it."""
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
        # The number of a piece within its substitute.
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
    """Give MPNet's relative attention the positions of tokens, instead of their order in the row."""
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
