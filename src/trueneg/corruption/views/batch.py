"""Views of rows: the same text with some words replaced by others that keep its meaning, or that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from trueneg.corruption.rows import Batch, Rows

KEPT, SYNONYM, ANTONYM = range(3)
"""Labels of a view's tokens: as in the original; of a replacement that should keep the meaning (a synonym, a hypernym,
another inflection); of one that should not (an antonym, a random word)."""


class Layout(Protocol):
    """What an encoder needs to know about rows besides their tokens."""

    @property
    def segments(self) -> Tensor:
        """int64 ``[rows, length]``: 0 at padding, else the document piece's number within its row, from 1."""

    @property
    def is_full(self) -> bool:
        """No row has padding or more than one piece."""

    @property
    def is_packed(self) -> bool:
        """Some row may have more than one piece."""

    @property
    def starts(self) -> Tensor | None:
        """int32 ``[most pieces + 1]``: offsets of the pieces in the flattened rows; None if not computed.

        Padding is a piece of its own; unused entries are the total length.
        """


@dataclass(frozen=True)
class View(Batch):
    """Rows with some words replaced. Shapes: ``[rows, length]``."""

    input_ids: Tensor
    """int64."""
    segments: Tensor
    """int64, as in ``Rows``; a row whose words got longer is cut at its end, one whose words got shorter is padded."""
    labels: Tensor
    """int64: ``KEPT``, ``SYNONYM`` or ``ANTONYM``; an article changed to agree with a replacement is ``KEPT``."""
    is_candidate: Tensor
    """bool: a token of a word that was or could have been replaced."""
    is_full: bool = False
    """Always False for generated views, because shorter words leave padding."""
    is_packed: bool = False
    source: Tensor | None = None
    """int64: the column of the original that a token comes from, or whose word it replaces; -1 at padding. A guard
    needs it."""
    num_cut: Tensor | None = None
    """int64 ``[rows]``: number of tokens cut at the row's end."""
    starts: Tensor | None = None
    """int32: see ``Layout``."""


@dataclass(frozen=True)
class Views(Batch):
    """Rows and both of their views."""

    rows: Rows
    synonym: View
    antonym: View


@dataclass(frozen=True)
class Stack:
    """Batches of rows of one length, concatenated: a ``Layout``."""

    segments: Tensor
    is_full: bool
    is_packed: bool
    starts: Tensor | None

    @classmethod
    def of(cls, layouts: Sequence[Layout]) -> Self:
        """Concatenate batches."""
        return cls(
            torch.cat([layout.segments for layout in layouts]),
            all(layout.is_full for layout in layouts),
            any(layout.is_packed for layout in layouts),
            _stacked_starts(layouts),
        )


def _stacked_starts(layouts: Sequence[Layout]) -> Tensor | None:
    """Offsets of the pieces in all batches, flattened; a repeated end is an empty piece, wherever it occurs."""
    begun, found = 0, []
    for layout in layouts:
        if layout.starts is None:
            return None
        found.append(layout.starts + begun)
        begun += layout.segments.numel()
    return torch.cat(found)
