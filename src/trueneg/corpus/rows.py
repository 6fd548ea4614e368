"""A corpus as numbered rows of model input: any row is read in time that does not depend on its number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from trueneg.corpus.annotations import Annotations
from trueneg.corpus.permutation import rows_at
from trueneg.corpus.store import Corpus, CorpusInfo
from trueneg.corpus.tags import Tags
from trueneg.errors import CorpusError

_BLOCK = 1 << 14  # documents packed at once: as Python integers they take ten times the memory
_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowBatch:
    """Rows of a corpus, each one or several times ``[CLS] piece [SEP]``, then padding.

    Attributes:
        input_ids: int64 [n, length].
        segments: int32 [n, length]: 1, 2, … for the pieces of documents within a row, specials included, in
            order; 0 for padding.
        is_word_start: bool [n, length]: whether a word of the text begins here.
        is_whole_word: bool [n, length]: whether the token is a whole word, judged in the corpus and not in the row,
            so a word cut off by the row's end does not count.
        is_special: bool [n, length]: start, end and padding tokens.
        substitutes: int32 [n, length, width]: the substitutes that annotations list for each token, best first;
            None without annotations.
        credits: uint8 [n, length, width]: their credit in 255ths, padded with 0; None without annotations.
        tags: uint8 [n, length]: the number in ``PENN`` of the tag of the word that a token belongs to, 0 for none
            and for special tokens; None without tags.
    """

    input_ids: _Int64s
    segments: npt.NDArray[np.int32]
    is_word_start: npt.NDArray[np.bool_]
    is_whole_word: npt.NDArray[np.bool_]
    is_special: npt.NDArray[np.bool_]
    substitutes: npt.NDArray[np.int32] | None = None
    credits: npt.NDArray[np.uint8] | None = None
    tags: npt.NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class _Layout:
    """Where each document is placed: a first part at (row, column), then one full row after another.

    Attributes:
        row: the row of the document's first token, int64 [num_documents], ascending.
        column: the column of its start token in that row, int64 [num_documents].
        length: its tokens in that row, int64 [num_documents].
        last_row: the row of its last token, int64 [num_documents].
    """

    row: _Int64s
    column: _Int64s
    length: _Int64s
    last_row: _Int64s


class NumberedRows(Protocol):
    """Numbered rows to train on: those of a corpus (``RowIndex``), or of several (``mixture.MixedRows``)."""

    def __len__(self) -> int:
        """Number of rows."""

    @property
    def length(self) -> int:
        """Row length in tokens."""

    @property
    def is_packed(self) -> bool:
        """Whether rows have several documents."""

    @property
    def is_full(self) -> bool:
        """Whether every row is one piece without padding."""

    @property
    def mean_fill(self) -> float:
        """Mean share of a row that is not padding, over the training order."""

    @property
    def tags(self) -> Tags | None:
        """Tags that are read with the rows."""

    @property
    def fingerprint(self) -> str:
        """A fingerprint that identifies these rows."""

    def max_pieces(self, num_rows: int) -> tuple[int, int]:
        """Maximum number of pieces in nearly every batch of rows, and in any batch."""

    def at(self, seed: int, positions: npt.NDArray[np.integer[Any]]) -> _Int64s:
        """Rows at positions of the training order."""

    def read(self, indices: npt.NDArray[np.integer[Any]]) -> RowBatch:
        """Read rows, in the given order."""

    def progress(self, position: int) -> dict[str, float]:
        """Values to log about the rows before a position."""

    def epochs(self, position: int) -> dict[str, float]:
        """Number of times each source is read before a position."""


class RowIndex:
    """Numbered rows of a fixed length over a corpus.

    Without ``pack`` a row is ``[CLS] chunk [SEP]`` of one document, whose last chunk may be shorter.
    With ``pack`` a row continues with the next document, in reading order, if at least ``min_piece`` of
    its tokens, or all of them, still fit. Either way every token is in exactly one row.

    Args:
        corpus: an open corpus.
        length: row length in tokens, including special tokens and padding.
        pack: fill rows with several documents.
        min_piece: minimum number of tokens from the beginning of a longer document to fill up a row with.
        annotations: annotations of the same split of the same corpus, read with the rows.
        tags: tags opened for the same corpus, read with the rows.
        lists_nothing: without annotations, return empty lists, for a mixture with corpora that have annotations.

    Raises:
        CorpusError: if the corpus does not fill one row, or the annotations or tags belong to another corpus.

    Example::

        rows = RowIndex(Corpus.open("corpus"), length=128)
        batch = rows.read(rows_at(seed=0, positions=np.arange(32), num_rows=len(rows)))
    """

    def __init__(
        self,
        corpus: Corpus,
        length: int,
        *,
        pack: bool = False,
        min_piece: int = 8,
        annotations: Annotations | None = None,
        tags: Tags | None = None,
        lists_nothing: bool = False,
    ) -> None:
        if length < 3:
            raise CorpusError(f"rows of {length} tokens hold no text: the length must be at least 3")
        if corpus.num_tokens + 2 < length:
            raise CorpusError(
                f"the split '{corpus.split}' of '{corpus.path}' has {corpus.num_tokens:,} tokens, which do "
                f"not fill one row of {length} with two special tokens: give more text or a smaller length"
            )
        if annotations is not None:
            annotations.check(corpus)
        if tags is not None:
            tags.check(corpus)
        self.corpus = corpus
        self.annotations = annotations
        self.tags = tags
        self.lists_nothing = lists_nothing
        self.length = length
        self.is_packed = pack
        sizes = np.diff(corpus.offsets)
        self._layout = _packed(sizes, length, min_piece) if pack else _one_document_a_row(sizes, length)
        self._num_rows = int(self._layout.last_row[-1]) + 1
        num_pieces = int((self._layout.last_row - self._layout.row + 1).sum())
        self._num_filled = corpus.num_tokens + 2 * num_pieces

    def __len__(self) -> int:
        """Number of rows, which is also the number of rows in an epoch."""
        return self._num_rows

    @property
    def mean_fill(self) -> float:
        """Mean share of a row that is not padding."""
        return self._num_filled / (len(self) * self.length)

    @property
    def is_full(self) -> bool:
        """Whether every row is one piece without padding, so that attention needs no mask.

        This is about all rows, not those of a batch: a training step is compiled for one case or the other.
        """
        return not self.is_packed and self._num_filled == len(self) * self.length

    def max_pieces(self, num_rows: int) -> tuple[int, int]:
        """Maximum number of pieces in a batch of rows, counting each row's padding as one.

        Args:
            num_rows: Rows of the batch.

        Returns:
            That of nearly every batch of randomly drawn rows (the mean plus eight standard deviations), and of any.
        """
        return max_pieces(num_rows, *self.pieces_per_row)

    @cached_property
    def pieces_per_row(self) -> tuple[float, float, int]:
        """Mean, standard deviation and maximum of the number of pieces per row."""
        if not self.is_packed:
            return 1.0, 0.0, 1
        begun = np.bincount(self._layout.row, minlength=len(self) + 1)
        begun -= np.bincount(self._layout.last_row + 1, minlength=len(self) + 1)
        num_pieces = np.cumsum(begun, out=begun)[:-1]
        return float(num_pieces.mean()), float(num_pieces.std()), int(num_pieces.max())

    @property
    def fingerprint(self) -> str:
        """Fingerprints of the corpus and of its annotations and tags."""
        beside = [extra.info.fingerprint for extra in (self.annotations, self.tags) if extra is not None]
        return "+".join([self.corpus.info.fingerprint, *beside])

    def at(self, seed: int, positions: npt.NDArray[np.integer[Any]]) -> _Int64s:
        """Rows at positions of the training order, an endless stream of epochs: ``permutation.rows_at``."""
        return rows_at(seed, positions, len(self))

    def progress(self, position: int) -> dict[str, float]:
        """Values to log about the rows before a position: none."""
        return {}

    def epochs(self, position: int) -> dict[str, float]:
        """Number of times the corpus is read before a position."""
        return {str(self.corpus.path): position / len(self)}

    def read(self, indices: npt.NDArray[np.integer[Any]]) -> RowBatch:
        """Read rows, in the given order.

        Args:
            indices: row numbers in [0, len(self)), [n].

        Raises:
            IndexError: if a number is out of range.
        """
        rows: _Int64s = np.asarray(indices, dtype=np.int64)
        if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < len(self):
            raise IndexError(f"a row number must be in [0, {len(self)})")
        special, width = self.corpus.info.special_ids, self.length - 1
        line, column, place, size = self._pieces(rows)
        first = np.searchsorted(line, np.arange(len(rows)))
        last = np.append(first[1:], len(line))[: len(rows)] - 1
        end = column + size + 1  # the column of the piece's end token
        columns = np.arange(self.length)

        segments = np.zeros((len(rows), self.length), dtype=np.int32)
        segments[line, column] = 1
        np.cumsum(segments, axis=1, out=segments)
        is_padding = columns > end[last, None]
        segments[is_padding] = 0
        is_special = is_padding.copy()
        is_special[line, column] = is_special[line, end] = True

        # A row's tokens are contiguous in the corpus; only the special tokens of its pieces separate them. One
        # token more than fits into a row shows whether the last word continues after the cut.
        tokens, begins = self.corpus.windows(place[first], width)
        if tokens.size and (largest := int(tokens.max())) >= self.corpus.info.vocab_size:
            raise CorpusError(
                f"the corpus '{self.corpus.path}' is damaged (the id {largest} is outside its vocabulary of "
                f"{self.corpus.info.vocab_size:,}): see which file with 'trueneg corpus info {self.corpus.path} "
                f"--verify', then copy or build the corpus again"
            )
        source = np.clip(columns + 1 - 2 * segments, 0, width - 2) + width * np.arange(len(rows))[:, None]
        ids = np.take(tokens, source)
        ids[is_padding] = special["pad"]
        ids[line, column] = special["start"]
        ids[line, end] = special["end"]
        is_word_start = np.take(begins, source) & ~is_special
        ends_word = np.take(begins, source + 1)  # a document begins with a word, so its last token ends one
        listed: tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]] | tuple[()] = ()
        if self.annotations is not None:
            counts, numbers = self.annotations.places(place[first], width)
            counts = np.where(is_special, np.uint8(0), np.take(counts, source))
            listed = self.annotations.lists(counts, np.take(numbers, source))
        elif self.lists_nothing:
            listed = np.zeros((*ids.shape, 1), dtype=np.int32), np.zeros((*ids.shape, 1), dtype=np.uint8)
        batch = RowBatch(ids, segments, is_word_start, is_word_start & ends_word, is_special, *listed)
        if self.tags is None:
            return batch
        tags = np.take(self.tags.windows(place[first], width), source)
        return replace(batch, tags=np.where(is_special, np.uint8(0), tags))

    def _pieces(self, rows: _Int64s) -> tuple[_Int64s, ...]:
        """Every piece of the rows, in order: line in the batch, column, first token, size."""
        layout, offsets, capacity = self._layout, self.corpus.offsets, self.length - 2
        first = np.searchsorted(layout.last_row, rows, side="left")
        line, within = expand(np.searchsorted(layout.row, rows, side="right") - first)
        document = first[line] + within
        depth = rows[line] - layout.row[document]  # rows since the document's first
        begun = offsets[document] + np.where(depth > 0, layout.length[document] + (depth - 1) * capacity, 0)
        room = np.where(depth > 0, capacity, layout.length[document])
        column = np.where(depth > 0, 0, layout.column[document])
        size = np.minimum(room, offsets[document + 1] - begun)
        return line, column, begun, size


def describe(path: str | Path, length: int = 128) -> dict[str, Any]:
    """What ``trueneg corpus info`` shows: a corpus's counts, and how well rows of a length are filled.

    Returns:
        A JSON-ready dict; ``row_fill`` is the mean share of a row that is not padding, with and without
        packing; empty if the split does not fill a row. ``tags`` is None without tags.

    Raises:
        CorpusError: if the corpus cannot be opened.
    """
    info = CorpusInfo.read(path)
    splits = {}
    for name, split in info.splits.items():
        corpus = Corpus.open(path, name, verify=False)
        fits = corpus.num_tokens + 2 >= length
        rows = {kind: RowIndex(corpus, length, pack=kind == "packed") for kind in ("single", "packed") if fits}
        splits[name] = {
            "num_documents": split.num_documents,
            "num_tokens": split.num_tokens,
            "num_empty_documents": split.num_empty_documents,
            "num_unknown_tokens": split.num_unknown_tokens,
            "num_shards": len(split.shards),
            "num_rows": {kind: len(index) for kind, index in rows.items()},
            "row_fill": {kind: index.mean_fill for kind, index in rows.items()},
        }
    return {
        "path": str(path),
        "fingerprint": info.fingerprint,
        "tokenizer_fingerprint": info.tokenizer_fingerprint,
        "vocab_size": info.vocab_size,
        "dtype": info.dtype,
        "length": length,
        "splits": splits,
        "sources": [{"name": source.name, "num_bytes": source.num_bytes} for source in info.sources],
        "tags": describe_tags(path),
    }


def describe_tags(path: str | Path) -> dict[str, Any] | None:
    """The tagger of a corpus and the number of tagged words of each split, JSON-ready; None without tags.

    Raises:
        CorpusError: if the corpus or its tags cannot be opened.
    """
    tags = Tags.find(Corpus.open(path, verify=False))
    if tags is None:
        return None
    info = tags.info
    return {
        "tagger": info.tagger,
        "provenance": dict(info.provenance),
        "fingerprint": info.fingerprint,
        "num_words": {name: sum(shard.num_words for shard in shards) for name, shards in info.splits.items()},
    }


def max_pieces(num_rows: int, mean: float, deviation: float, most: int) -> tuple[int, int]:
    """Maximum number of pieces in a batch: see ``RowIndex.max_pieces``, and ``pieces_per_row`` for the last three."""
    usual = math.ceil(num_rows * (mean + 1) + 8 * deviation * math.sqrt(num_rows))
    return min(usual, num_rows * (most + 1)), num_rows * (most + 1)


def expand(counts: _Int64s) -> tuple[_Int64s, _Int64s]:
    """For each of sum(counts) items: the group it belongs to, and its number within the group."""
    group = np.repeat(np.arange(len(counts)), counts)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)


def _one_document_a_row(sizes: _Int64s, length: int) -> _Layout:
    rows = -(-sizes // (length - 2))
    ends = np.cumsum(rows)
    return _Layout(ends - rows, np.zeros_like(rows), np.minimum(sizes, length - 2), ends - 1)


def _packed(sizes: _Int64s, length: int, min_piece: int) -> _Layout:
    capacity = length - 2
    column = np.fromiter(_columns(sizes, capacity, min_piece), np.int64, len(sizes))
    num_more = (column + sizes - 1) // capacity
    last_row = np.cumsum(num_more + (column == 0)) - 1
    return _Layout(last_row - num_more, column, np.minimum(sizes, capacity - column), last_row)


def _columns(sizes: _Int64s, capacity: int, min_piece: int) -> Iterator[int]:
    """Column of each document's start token: computed one by one, as each depends on the one before."""
    column = 0
    for begin in range(0, len(sizes), _BLOCK):
        block = sizes[begin : begin + _BLOCK]
        furthest = capacity - np.minimum(block, min_piece)  # where enough of the document still fits
        for size, most in zip(block.tolist(), furthest.tolist(), strict=True):
            if column > most:
                column = 0
            yield column
            column = (column + size - 1) % capacity + 3  # its last row is full up to there, end token included
