"""Views of rows: the same text with some words replaced, by ones that keep its meaning or ones that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import torch
from torch import Tensor

from trueneg.corruption.masking import Rows

KEPT, SYNONYM, ANTONYM = range(3)
"""Labels of a view's tokens: as in the original; of a word put in its place that should keep the meaning (a synonym,
a hypernym, another inflection); of one that should not (an antonym, a random word)."""


class Layout(Protocol):
    """What an encoder must know of rows besides their tokens."""

    @property
    def segments(self) -> Tensor:
        """int64 ``[rows, length]``: 0 at padding, else the document piece's number within its row, from 1."""

    @property
    def is_full(self) -> bool:
        """No row has padding or more than one piece."""

    @property
    def is_packed(self) -> bool:
        """Some row may have more than one piece."""


@dataclass(frozen=True)
class View:
    """Rows with some words replaced. Shapes: ``[rows, length]``."""

    input_ids: Tensor
    """int64."""
    segments: Tensor
    """int64, as of ``Rows``; where words got longer a row's end is cut, where they got shorter it is padded."""
    labels: Tensor
    """int64: ``KEPT``, ``SYNONYM`` or ``ANTONYM``; an article that agrees with a word put after it is kept."""
    is_candidate: Tensor
    """bool: a token of a word that might have been replaced, or was."""
    is_full: bool = False
    is_packed: bool = False
    source: Tensor | None = None
    """int64: the column of the original that a token comes from, or whose word it replaces; -1 at padding. Who judges
    replacements needs it."""
    num_cut: Tensor | None = None
    """int64 ``[rows]``: tokens that did not fit any more."""

    def _map(self, function: Callable[[Tensor], Tensor]) -> Self:
        return replace(
            self,
            input_ids=function(self.input_ids),
            segments=function(self.segments),
            labels=function(self.labels),
            is_candidate=function(self.is_candidate),
            source=None if self.source is None else function(self.source),
            num_cut=None if self.num_cut is None else function(self.num_cut),
        )


@dataclass(frozen=True)
class Views:
    """Rows, and both views of them."""

    rows: Rows
    synonym: View
    antonym: View

    def to(self, device: torch.device | str) -> Self:
        """Copy to a device."""
        move = lambda tensor: tensor.to(device, non_blocking=True)  # noqa: E731
        return type(self)(self.rows.to(device), self.synonym._map(move), self.antonym._map(move))

    def pin_memory(self) -> Self:
        """Copy to memory that a GPU reads without waiting."""
        pin = Tensor.pin_memory
        return type(self)(self.rows.pin_memory(), self.synonym._map(pin), self.antonym._map(pin))


@dataclass(frozen=True)
class Stack:
    """Batches of rows of one length, one below the other: a ``Layout``."""

    segments: Tensor
    is_full: bool
    is_packed: bool

    @classmethod
    def of(cls, layouts: Sequence[Layout]) -> Self:
        """Stack batches."""
        return cls(
            torch.cat([layout.segments for layout in layouts]),
            all(layout.is_full for layout in layouts),
            any(layout.is_packed for layout in layouts),
        )
