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
    """Base class of frozen dataclasses of tensors, mappings of tensors, and other such dataclasses."""

    def to(self, device: torch.device | str) -> Self:
        """Copy to a device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """Copy to pinned memory, which a GPU reads asynchronously."""
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
    """Substitutes that annotations list for each token.

    Shapes: ``[batch, length, width]``, the best first; none for special tokens.
    """

    tokens: Tensor
    """int32."""
    credit: Tensor
    """uint8, in steps of 1/255; 0 for unused entries."""


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
    """int64: keys of the rows' random draws (``keyed.example_keys``)."""
    is_full: bool = False
    """No row has padding or more than one piece, so attention needs no mask. Like ``is_packed``, the same for all
    batches of a run, because the compiled step depends on it."""
    is_packed: bool = False
    """Some row may have more than one piece, so attention must not cross their borders."""
    substitutes: Substitutes | None = None
    """For an annotated corpus."""
    starts: Tensor | None = None
    """int32 ``[most pieces + 1]``: where pieces begin (``piece_starts``); None if not computed."""


@dataclass(frozen=True)
class MaskedRows:
    """Rows with some tokens masked.

    Shapes: ``input_ids`` ``[batch, length]``; the rest ``[batch, slots]``.
    """

    rows: Rows
    """The uncorrupted rows."""
    input_ids: Tensor
    """int64: the model's input."""
    positions: Tensor
    """int64: the column of each slot, distinct within a row, ascending in rows without empty slots."""
    gold: Tensor
    """int64: the original token there."""
    is_masked: Tensor
    """bool: the slot is in use."""
    is_whole_word: Tensor
    """bool: gold is a word by itself."""
    draws: Tensor
    """float32 in [0, 1): uniform numbers for sampled predictions."""


def read_rows(index: NumberedRows, numbers: np.ndarray, seed: int, positions: np.ndarray) -> Rows:
    """Read rows of a corpus as tensors.

    Args:
        index: The corpus's rows.
        numbers: Row numbers, int64 ``[batch]``.
        seed: Seed of the random draws on these rows.
        positions: Positions of the examples in the training order, int64 ``[batch]``, which together with the seed
            determine their draws.
    """
    return rows_of(index.read(numbers), index, seed, positions)


def rows_of(batch: RowBatch, index: NumberedRows, seed: int, positions: np.ndarray) -> Rows:
    """Convert rows that were read to tensors: see ``read_rows``."""
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
    """Offsets of the pieces in a batch's flattened rows, with padding as a piece of its own: int32.

    The rest is filled with the total length, up to a size that is the same for all batches of as many rows. One batch
    in a billion has more pieces; its size suffices for any batch.

    Args:
        segments: Segments of the rows, ``[batch, length]``.
        index: The index that they were read from.
    """
    begins = np.ones(segments.shape, dtype=bool)
    begins[:, 1:] = segments[:, 1:] != segments[:, :-1]
    places = np.flatnonzero(begins)
    usual, most = index.max_pieces(len(segments))
    starts = np.full((usual if len(places) <= usual else most) + 1, segments.size, dtype=np.int32)
    starts[: len(places)] = places
    return torch.from_numpy(starts)


class ReadRows(Protocol):
    """A function that reads rows of a corpus as an objective's input: ``read_rows``, or one based on it."""

    def __call__(self, index: NumberedRows, numbers: np.ndarray, seed: int, positions: np.ndarray) -> Any:
        """Read rows: see ``read_rows``."""
