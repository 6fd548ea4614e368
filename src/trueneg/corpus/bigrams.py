"""How often words, and pairs of neighbouring words, occur in a corpus."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueneg.corpus.store import Corpus
from trueneg.errors import CorpusError
from trueneg.files.arrays import ArrayFile
from trueneg.terminal.progress import ProgressCallback, no_progress

BOUNDARY = "<s>"
"""Marks the beginning and the end of a text; no word is written like it."""
MIN_COUNT = 2
"""Minimum count of a pair that is kept: half of all pairs occur once."""
_WORD = re.compile(r"\w+|[^\w\s]")
_FILE = ArrayFile("counts of bigrams", "1", CorpusError, "make it with 'trueneg detect bigrams'")
_DOCUMENTS = 1 << 12
"""Maximum number of documents decoded at once."""
_TOKENS = 1 << 20
"""Maximum number of tokens decoded at once, unless one document has more."""
_PAIRS = 1 << 22
"""Pairs counted at once; the document that exceeds it is counted with them."""
_SECOND = 32
"""Bits of a pair's second word."""


def words_of(text: str) -> list[str]:
    """Split text into words in lower case; every punctuation mark is a word of its own.

    Example:
        >>> words_of("It's well-known.")
        ['it', "'", 's', 'well', '-', 'known', '.']
    """
    return _WORD.findall(text.lower())


@dataclass(frozen=True, eq=False)
class Bigrams:
    """Counts of words and of pairs of neighbouring words.

    Attributes:
        words: Each once, in lower case.
        word_counts: int64 ``[words]``.
        pairs: The first word's number times 2^32 plus the second's, ascending, int64 ``[pairs]``.
        pair_counts: int64 ``[pairs]``.
        provenance: Where the counts come from.
    """

    words: tuple[str, ...]
    word_counts: NDArray[np.int64] = field(repr=False)
    pairs: NDArray[np.int64] = field(repr=False)
    pair_counts: NDArray[np.int64] = field(repr=False)
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = len(self.words)
        if self.word_counts.shape != (known,) or self.pairs.shape != self.pair_counts.shape or not self.pairs.size:
            raise CorpusError(f"{known} words, {self.word_counts.shape} counts, and {self.pairs.shape} pairs")
        if (np.diff(self.pairs) <= 0).any() or self.pairs[0] < 0 or int(self.pairs[-1] >> _SECOND) >= known:
            raise CorpusError("its pairs do not ascend, or are of unknown words")

    @cached_property
    def digest(self) -> str:
        """Digest of the words and counts: 16 hexadecimal digits."""
        found = hashlib.sha256("\n".join(self.words).encode())
        for counts in (self.word_counts, self.pairs, self.pair_counts):
            found.update(np.ascontiguousarray(counts).data)
        return found.hexdigest()[:16]

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def of_words(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Count words; 0 for an unknown one: int64 ``[n]``."""
        numbers = self._numbers(words)
        return np.where(numbers >= 0, self.word_counts[numbers], 0)

    def of_pairs(self, first: Sequence[str], second: Sequence[str]) -> NDArray[np.int64]:
        """Count pairs of neighbours; 0 for pairs that never occurred, or too rarely to be kept: int64 ``[n]``."""
        one, other = self._numbers(first), self._numbers(second)
        codes = (one << _SECOND) | other
        places = np.searchsorted(self.pairs, codes).clip(max=len(self.pairs) - 1)
        return np.where((one >= 0) & (other >= 0) & (self.pairs[places] == codes), self.pair_counts[places], 0)

    def _numbers(self, words: Sequence[str]) -> NDArray[np.int64]:
        return np.fromiter((self.index.get(word, -1) for word in words), np.int64, len(words))

    def save(self, path: str | Path) -> None:
        """Write them as safetensors, whole or not at all.

        Raises:
            CorpusError: if the file cannot be written.
        """
        words = np.frombuffer("\n".join(self.words).encode(), np.uint8)
        arrays: dict[str, NDArray[Any]] = {
            **{"words": words, "word_counts": self.word_counts},
            **{"pairs": self.pairs, "pair_counts": self.pair_counts},
        }
        _FILE.write(Path(path), arrays, dict(self.provenance))

    @classmethod
    def load(cls, path: str | Path) -> Bigrams:
        """Read what :meth:`save` wrote.

        Raises:
            CorpusError: if there is no such file, it holds something else, or it is damaged.
        """
        arrays, about = _FILE.read(Path(path), dict[str, str])
        try:
            words = tuple(arrays.pop("words").tobytes().decode().split("\n"))
            return cls(words, **arrays, provenance={**about, "bigrams": Path(path).name})
        except (KeyError, TypeError, ValueError, CorpusError) as error:
            raise _FILE.damaged(Path(path), error) from error


def count_bigrams(corpus: Corpus, *, min_count: int = MIN_COUNT, progress: ProgressCallback = no_progress) -> Bigrams:
    """Count the words of a corpus's documents, and the pairs of neighbouring words.

    Args:
        corpus: The corpus.
        min_count: Minimum count of a pair that is kept.
        progress: Called with the number of documents read so far, and of all documents.

    Raises:
        CorpusError: if no pair occurs so often.
    """
    index: dict[str, int] = {BOUNDARY: 0}
    pairs = counts = np.zeros(0, np.int64)
    word_counts = np.zeros(1, np.int64)
    for numbers in _chunks(corpus, index, progress):
        of_words = np.bincount(numbers[1:], minlength=len(index))
        word_counts = of_words + np.pad(word_counts, (0, len(of_words) - len(word_counts)))
        codes, times = np.unique((numbers[:-1] << _SECOND) | numbers[1:], return_counts=True)
        pairs, counts = _sum(np.concatenate([pairs, codes]), np.concatenate([counts, times]))
    is_kept = (counts >= min_count) & (pairs != 0)  # 0: one document's end and the next one's beginning
    if not is_kept.any():
        raise CorpusError(f"no pair of words occurs {min_count} times: give more text, or a smaller --min-count")
    about = {"corpus": corpus.info.fingerprint, "min_count": str(min_count)}
    return Bigrams(tuple(index), word_counts, pairs[is_kept], counts[is_kept], about)


def _chunks(corpus: Corpus, index: dict[str, int], progress: ProgressCallback) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of words, with a boundary at each end of every document."""
    tokenizer, total = corpus.load_tokenizer(), corpus.num_documents
    numbers = [0]
    for first, last in _blocks(corpus.offsets):
        ids = [corpus.document(number).tolist() for number in range(first, last)]
        for text in tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False):
            numbers += [index.setdefault(word, len(index)) for word in words_of(text)]
            numbers.append(0)
            if len(numbers) > _PAIRS:
                yield np.array(numbers, np.int64)
                numbers = [0]
        progress(last, total)
    if len(numbers) > 1:
        yield np.array(numbers, np.int64)


def _blocks(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the first document of each block that is decoded at once, and the one after its last."""
    first, total = 0, len(offsets) - 1
    while first < total:
        most = int(np.searchsorted(offsets, offsets[first] + _TOKENS, side="right")) - 1
        last = min(max(most, first + 1), first + _DOCUMENTS)
        yield first, last
        first = last


def _sum(codes: NDArray[np.int64], times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add up the counts of equal codes."""
    order = np.argsort(codes, kind="stable")
    codes, times = codes[order], times[order]
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    return codes[starts], np.add.reduceat(times, starts)
