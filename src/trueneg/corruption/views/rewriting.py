"""Rebuild rows with some words replaced by words of any number of pieces: numpy, no loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueneg.corpus.rows import expand

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Words:
    """The words of a batch of rows, row by row, without those cut by the row's ends."""

    line: Ints
    """Row of each word, ``[words]``."""
    start: Ints
    """Column of its first token."""
    size: Ints
    """Its number of tokens."""

    def where(self, is_chosen: Bools) -> Words:
        """The chosen words, in order."""
        return Words(self.line[is_chosen], self.start[is_chosen], self.size[is_chosen])


def words_of(is_word_start: Bools, is_special: Bools, is_cut: Bools | None = None) -> Words:
    """Find the words of rows.

    A word goes from its start to the next start or special token. Tokens before a row's first start belong to a word
    that began before the row.

    Args:
        is_word_start: ``[rows, length]``.
        is_special: Start, end and padding tokens, ``[rows, length]``.
        is_cut: Last tokens of rows whose word may continue in the next row, ``[rows, length]``; by default none.
    """
    length = is_word_start.shape[1]
    line, start = np.nonzero(is_word_start & ~is_special)
    is_bound = np.concatenate([is_word_start | is_special, np.ones((len(is_word_start), 1), dtype=bool)], axis=1)
    bound_line, bound = np.nonzero(is_bound)
    places = bound_line * (length + 1) + bound
    end = places[np.searchsorted(places, line * (length + 1) + start, side="right")] - line * (length + 1)
    words = Words(line, start, end - start)
    if is_cut is None:
        return words
    return words.where(~is_cut[line, end - 1])


def tokens_of(words: Words, shape: tuple[int, ...]) -> Bools:
    """Which tokens belong to words, bool of ``shape``: ``[rows, length]``."""
    change = np.zeros((shape[0], shape[1] + 1), dtype=np.int64)
    np.add.at(change, (words.line, words.start), 1)
    np.add.at(change, (words.line, words.start + words.size), -1)
    is_inside: Bools = np.cumsum(change, axis=1)[:, :-1] > 0
    return is_inside


def hashes_of(pieces: NDArray[np.integer[Any]], starts: Ints, sizes: Ints) -> NDArray[np.uint64]:
    """Hash of each sequence of pieces, ``[sequences]``; collisions are rare.

    Args:
        pieces: Token ids end to end.
        starts: Where each sequence begins in ``pieces``.
        sizes: Its length, at least 1.
    """
    number, within = expand(sizes)
    tokens = pieces[starts[number] + within].astype(np.uint64) + np.uint64(1)
    with np.errstate(over="ignore"):
        mixed = _mixed(tokens + (within.astype(np.uint64) << np.uint64(40)))
        sums = np.add.reduceat(mixed, np.cumsum(sizes) - sizes) if len(starts) else np.zeros(0, np.uint64)
        return _mixed(sums + sizes.astype(np.uint64) * _FACTOR)


def choose_by_share(line: Ints, size: Ints, order: NDArray[np.floating], wanted: Ints) -> Bools:
    """Choose words in a given order until they have the wanted number of tokens in each row.

    The word that reaches the number is chosen if that comes closer to it than leaving it out.

    Args:
        line: Row of each word, ``[words]``.
        size: Its number of tokens.
        order: Words with smaller values come first within a row; 0 or more.
        wanted: Tokens wanted in each row, ``[rows]``.
    """
    if not len(line):
        return np.zeros(0, dtype=bool)
    spread = float(order.max()) + 1.0
    place = np.argsort(line * spread + order, kind="stable")
    rows, sizes = np.take(line, place), np.take(size, place)
    total = np.cumsum(sizes)
    of_row = np.bincount(line, size, minlength=len(wanted)).astype(np.int64)
    before = total - sizes - np.take(np.cumsum(of_row) - of_row, rows)
    is_chosen = np.zeros(len(line), dtype=bool)
    is_chosen[place] = before + sizes / 2 <= np.take(wanted, rows)
    return is_chosen


@dataclass(frozen=True)
class Rewritten:
    """Rows with some words replaced. Shapes: ``[rows, length]``."""

    input_ids: Ints
    segments: NDArray[np.int32]
    source: Ints
    """Column that each token comes from, or whose word it replaces; -1 at padding."""
    is_replaced: Bools
    num_cut: Ints
    """Number of tokens cut at the row's end, ``[rows]``."""


def rewrite(
    input_ids: Ints,
    segments: NDArray[np.int32],
    words: Words,
    pieces: NDArray[np.int32],
    piece_starts: Ints,
    piece_sizes: Ints,
    pad_id: int,
) -> Rewritten:
    """Replace words by other pieces.

    A row that gets too long loses tokens before its last special token, as in any truncation.

    Args:
        input_ids: ``[rows, length]``.
        segments: 0 at padding, ``[rows, length]``.
        words: The words to replace.
        pieces: Token ids end to end.
        piece_starts: Where each word's new pieces begin, ``[words]``.
        piece_sizes: How many there are, at least 1.
        pad_id: The tokenizer's padding token.
    """
    num_rows, length = input_ids.shape
    width = (segments > 0).astype(np.int64)
    width[tokens_of(words, input_ids.shape)] = 0
    width[words.line, words.start] = piece_sizes
    word_at = np.full((num_rows, length), -1, dtype=np.int64)
    word_at[words.line, words.start] = np.arange(len(words.line))

    totals = width.sum(axis=1)
    # Indices are into the flattened array of all rows.
    source, within = expand(width.ravel())
    is_new = np.take(word_at, source) >= 0
    values = np.take(input_ids, source)
    new = np.flatnonzero(is_new)
    word = np.take(word_at, np.take(source, new))
    values[new] = np.take(pieces, np.take(piece_starts, word) + np.take(within, new))
    line = np.repeat(np.arange(num_rows), totals)
    first = np.arange(num_rows) * length
    target = np.arange(len(source)) + np.take(first - (np.cumsum(totals) - totals), line)
    num_cut = np.zeros(num_rows, dtype=np.int64)
    if totals.max(initial=0) > length:
        # The last token of a row is its end token, which stays.
        ends = np.cumsum(totals[totals > 0]) - 1
        is_kept = target - np.take(first, line) < np.take(np.where(totals > length, length - 1, length), line)
        is_kept[ends] = True
        target[ends] = np.minimum(target[ends], np.take(first, line[ends]) + length - 1)
        num_cut = np.bincount(line[~is_kept], minlength=num_rows)
        source, values, is_new, line, target = (array[is_kept] for array in (source, values, is_new, line, target))

    found = Rewritten(
        np.full((num_rows, length), pad_id, dtype=np.int64),
        np.zeros((num_rows, length), dtype=np.int32),
        np.full((num_rows, length), -1, dtype=np.int64),
        np.zeros((num_rows, length), dtype=bool),
        num_cut,
    )
    found.input_ids.ravel()[target] = values
    found.segments.ravel()[target] = np.take(segments, source)
    found.source.ravel()[target] = source - np.take(first, line)
    found.is_replaced.ravel()[target] = is_new
    return found


def _mixed(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
