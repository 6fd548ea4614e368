"""The best spans of a context by the logits of their start and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trueneg.tasks.squad_windows import NULL, Windows

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

_ROWS_AT_ONCE = 128  # What is searched at a time, some 6 MB, stays near the processor.


@dataclass(frozen=True)
class Spans:
    """The best spans of each example, best first; among equal ones the first, then the shorter."""

    scores: Floats
    """Sum of both logits, ``[examples, num_best]``; -inf where there are no more."""
    characters: NDArray[np.int32]
    """First character, and the one behind the last, ``[examples, num_best, 2]``."""


def best_spans(windows: Windows, outputs: Sequence[Floats], *, num_best: int, max_length: int) -> Spans:
    """Search all spans that lie in the context, are no longer than allowed and start where they have most context.

    BERT's code pairs the ``num_best`` best starts of a row with its ``num_best`` best ends and then leaves out what
    is no span; here no span is missed.

    Args:
        windows: Of examples, with offsets.
        outputs: Logits of being start and end, ``[tokens of the row, 2]`` for each row.
        num_best: Number of spans of each example.
        max_length: Maximum number of tokens of a span.
    """
    logits = np.concatenate([np.zeros((0, 2), np.float32), *outputs])
    is_context = windows.offsets[:, 0] >= 0
    start = np.where(windows.has_most_context, logits[:, 0], -np.inf).astype(np.float32)
    end = np.where(is_context, logits[:, 1], -np.inf).astype(np.float32)
    lengths, firsts = windows.features.lengths, windows.features.starts
    found: list[_Found] = []
    for row in range(0, len(lengths), _ROWS_AT_ONCE):
        some = slice(row, min(row + _ROWS_AT_ONCE, len(lengths)))
        column = np.arange(lengths[some].max())
        is_text = column < lengths[some, None]
        place = np.where(is_text, firsts[some, None] + column, 0)
        start_of, end_of = (np.where(is_text, values[place], np.float32(-np.inf)) for values in (start, end))
        scores, first, last = _best_of_rows(start_of, end_of, num_best, max_length)
        is_span = scores > -np.inf
        example = np.broadcast_to(windows.example[some, None], scores.shape)
        token = firsts[some, None]
        found.append((example[is_span], scores[is_span], (token + first)[is_span], (token + last)[is_span]))
    return _best_of_examples(windows, found, num_best)


def null_scores(windows: Windows, outputs: Sequence[Floats]) -> Floats:
    """Score "no answer", ``[examples]``, by the window that is surest of having one (as BERT's code)."""
    scores = np.full(_num_examples(windows), np.inf, np.float32)
    np.minimum.at(scores, windows.example, np.array([row[NULL].sum() for row in outputs], np.float32))
    return scores


_Found = tuple[Numbers, Floats, Numbers, Numbers]
"""Of spans: the number of its example, its score, first and last token among all rows', ``[spans]`` each."""


def _num_examples(windows: Windows) -> int:
    return int(windows.example.max(initial=-1)) + 1


def _best_of_rows(start: Floats, end: Floats, num_best: int, max_length: int) -> tuple[Floats, Numbers, Numbers]:
    """Find scores, first and last columns of the best spans of each row, ``[rows, at most num_best]``.

    The best so many spans have the best so many starts, each with its best end: all others need not be sorted.
    """
    rows = np.arange(len(start))[:, None]
    beyond = np.pad(end, ((0, 0), (0, max_length - 1)), constant_values=-np.inf)
    ends = np.lib.stride_tricks.sliding_window_view(beyond, max_length, axis=1)  # [rows, length, max_length]
    best_starts = _best(start + ends.max(-1), num_best)
    scores = (start[rows, best_starts][..., None] + ends[rows, best_starts]).reshape(len(start), -1)
    best = _best(scores, num_best)
    first = best_starts[rows, best // max_length]
    return scores[rows, best], first, first + best % max_length


def _best(scores: Floats, num_best: int) -> Numbers:
    """Find the columns of the best scores of each row; the first among equal ones."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :num_best]


def _best_of_examples(windows: Windows, found: Sequence[_Found], num_best: int) -> Spans:
    """Merge the spans found in the windows of each example."""
    shape = (_num_examples(windows), num_best)
    spans = Spans(np.full(shape, -np.inf, np.float32), np.zeros((*shape, 2), np.int32))
    if not found:
        return spans
    example, scores, first, last = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((last, first, -scores, example))
    rank = np.arange(len(order)) - np.searchsorted(example[order], example[order])
    order, rank = order[rank < num_best], rank[rank < num_best]
    spans.scores[example[order], rank] = scores[order]
    spans.characters[example[order], rank] = np.stack(
        [windows.offsets[first[order], 0], windows.offsets[last[order], 1]], axis=-1
    )
    return spans
