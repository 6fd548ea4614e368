"""Views of rows: the same text with some words replaced, by ones that keep its meaning or ones that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from trueneg.corruption.rows import Batch, Rows

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

    @property
    def starts(self) -> Tensor | None:
        """int32 ``[most pieces + 1]``: where pieces begin in the rows as one line; None where nobody looked.

        Padding is a piece by itself; after the last one the line's end stands again and again.
        """


@dataclass(frozen=True)
class View(Batch):
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
    """Never of views that are made: words that get shorter leave padding."""
    is_packed: bool = False
    source: Tensor | None = None
    """int64: the column of the original that a token comes from, or whose word it replaces; -1 at padding. Who judges
    replacements needs it."""
    num_cut: Tensor | None = None
    """int64 ``[rows]``: tokens that did not fit any more."""
    starts: Tensor | None = None
    """int32: see ``Layout``."""


@dataclass(frozen=True)
class Views(Batch):
    """Rows, and both views of them."""

    rows: Rows
    synonym: View
    antonym: View


@dataclass(frozen=True)
class Stack:
    """Batches of rows of one length, one below the other: a ``Layout``."""

    segments: Tensor
    is_full: bool
    is_packed: bool
    starts: Tensor | None

    @classmethod
    def of(cls, layouts: Sequence[Layout]) -> Self:
        """Stack batches."""
        return cls(
            torch.cat([layout.segments for layout in layouts]),
            all(layout.is_full for layout in layouts),
            any(layout.is_packed for layout in layouts),
            _stacked_starts(layouts),
        )


def _stacked_starts(layouts: Sequence[Layout]) -> Tensor | None:
    """Where pieces begin in all batches as one line; an end that is repeated is an empty piece, wherever it stands."""
    begun, found = 0, []
    for layout in layouts:
        if layout.starts is None:
            return None
        found.append(layout.starts + begun)
        begun += layout.segments.numel()
    return torch.cat(found)
