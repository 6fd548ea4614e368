"""Rows of a corpus on a device, before and after masking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trueneg.corpus.rows import NumberedRows, RowBatch
from trueneg.corruption.keyed import example_keys


class Batch:
    """Base of frozen dataclasses of tensors, of mappings of them, and of other such dataclasses."""

    def to(self, device: torch.device | str) -> Self:
        """Copy to a device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """Copy to memory that a GPU reads without waiting."""
        return self._map(lambda tensor: tensor.pin_memory())

    def _map(self, function: Callable[[Tensor], Tensor]) -> Self:
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return replace(self, **{name: _mapped(value, function) for name, value in values.items()})  # type: ignore[type-var]


def _mapped(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Batch):
        return value._map(function)
    if isinstance(value, Mapping):
        return {name: _mapped(part, function) for name, part in value.items()}
    return value


@dataclass(frozen=True)
class Substitutes(Batch):
    """What annotations list in the place of each token.

    Shapes: ``[batch, length, width]``, the best first; nothing at special tokens.
    """

    tokens: Tensor
    """int32."""
    credit: Tensor
    """uint8, in 255ths: 0 where there are no more."""


@dataclass(frozen=True)
class Rows(Batch):
    """A batch of uncorrupted rows, on one device.

    Shapes: all ``[batch, length]`` but ``keys`` ``[batch]``.
    """

    input_ids: Tensor
    """int64."""
    segments: Tensor
    """int64: 0 at padding, else the number of the document piece within its row, from 1."""
    is_special: Tensor
    """bool: start, end and padding tokens, which are never masked."""
    is_word_start: Tensor
    """bool."""
    is_whole_word: Tensor
    """bool: the token is a word by itself, not one of several pieces."""
    keys: Tensor
    """int64: what the row's random draws are functions of (``keyed.example_keys``)."""
    is_full: bool = False
    """No row has padding or more than one piece, so attention needs no mask. As ``is_packed``, the same for all batches
    of a run, for which a step is compiled."""
    is_packed: bool = False
    """Some row may have more than one piece, so attention must stop at their borders."""
    substitutes: Substitutes | None = None
    """Of an annotated corpus."""
    starts: Tensor | None = None
    """int32 ``[most pieces + 1]``: where pieces begin (``piece_starts``); None where nobody looked."""


@dataclass(frozen=True)
class MaskedRows:
    """Rows with some tokens hidden.

    Shapes: ``input_ids`` ``[batch, length]``; the rest ``[batch, slots]``.
    """

    rows: Rows
    """The uncorrupted rows."""
    input_ids: Tensor
    """int64: what the model sees."""
    positions: Tensor
    """int64: the column of each slot, distinct within a row, ascending in rows without empty slots."""
    gold: Tensor
    """int64: the original token there."""
    is_masked: Tensor
    """bool: the slot is in use."""
    is_whole_word: Tensor
    """bool: gold is a word by itself."""
    draws: Tensor
    """float32 in [0, 1): what a sampled prediction there is a function of."""


def read_rows(index: NumberedRows, numbers: np.ndarray, seed: int, positions: np.ndarray) -> Rows:
    """Read rows of a corpus as tensors.

    Args:
        index: The corpus's rows.
        numbers: Which rows, int64 ``[batch]``.
        seed: Of the random draws made on these rows.
        positions: Where the examples stand in the training order, int64 ``[batch]``: the other part of what
            their draws are functions of.
    """
    return rows_of(index.read(numbers), index, seed, positions)


def rows_of(batch: RowBatch, index: NumberedRows, seed: int, positions: np.ndarray) -> Rows:
    """Rows that were read, as tensors: see ``read_rows``."""
    substitutes = None
    if batch.substitutes is not None and batch.credits is not None:
        substitutes = Substitutes(torch.from_numpy(batch.substitutes), torch.from_numpy(batch.credits))
    return Rows(
        input_ids=torch.from_numpy(batch.input_ids),
        segments=torch.from_numpy(batch.segments.astype(np.int64)),
        is_special=torch.from_numpy(batch.is_special),
        is_word_start=torch.from_numpy(batch.is_word_start),
        is_whole_word=torch.from_numpy(batch.is_whole_word),
        keys=example_keys(seed, torch.from_numpy(positions)),
        is_full=index.is_full,
        is_packed=index.is_packed,
        substitutes=substitutes,
        starts=piece_starts(batch.segments, index),
    )


def piece_starts(segments: npt.NDArray[Any], index: NumberedRows) -> Tensor:
    """Where pieces begin in a batch's rows as one line, padding being a piece by itself: int32.

    Then the line's end again and again, up to a size that is the same for all batches of so many rows, but for one in a
    billion that has more pieces: it has the size that suffices for any.

    Args:
        segments: Of the rows, ``[batch, length]``.
        index: What they were read from.
    """
    begins = np.ones(segments.shape, dtype=bool)
    begins[:, 1:] = segments[:, 1:] != segments[:, :-1]
    places = np.flatnonzero(begins)
    usual, most = index.most_pieces(len(segments))
    starts = np.full((usual if len(places) <= usual else most) + 1, segments.size, dtype=np.int32)
    starts[: len(places)] = places
    return torch.from_numpy(starts)


class ReadRows(Protocol):
    """How rows of a corpus become what an objective is given: ``read_rows``, or something made of it."""

    def __call__(self, index: NumberedRows, numbers: np.ndarray, seed: int, positions: np.ndarray) -> Any:
        """Read rows: see ``read_rows``."""
