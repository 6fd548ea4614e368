"""Word vectors: GloVe's text, word2vec's text and binary files; and exact nearest neighbours among them."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from trueneg.errors import LexiconError
from trueneg.files.digests import checksum

_BLOCK = 1 << 24  # similarities held at once: 64 MB
_LONGEST_HEADER = 1000  # bytes


def vectors_digest(words: tuple[str, ...], matrix: NDArray[np.float32]) -> str:
    """Digest of words and their vectors: 16 hexadecimal digits."""
    digest = hashlib.sha256("\n".join(words).encode())
    digest.update(np.ascontiguousarray(matrix).data)
    return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Words and their vectors, normalized to unit length.

    Attributes:
        words: each once, in the order of the file, which is usually that of frequency.
        matrix: float32 [num_words, dimension]; rows of length 1, or 0 for zero vectors.
        provenance: the file they come from.
    """

    words: tuple[str, ...]
    matrix: NDArray[np.float32] = field(repr=False)
    provenance: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Collection[str], matrix: NDArray[np.floating], provenance: dict[str, str]) -> Vectors:
        """Normalize vectors to unit length."""
        matrix = np.asarray(matrix, dtype=np.float32)
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        return cls(tuple(words), matrix / np.maximum(lengths, np.finfo(np.float32).tiny), provenance)

    def __len__(self) -> int:
        """The number of words."""
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def find(self, word: str) -> int | None:
        """The row of a word as it is written, else in lower case; None if there is neither."""
        return self.index.get(word, self.index.get(word.lower()))

    def nearest(
        self, rows: NDArray[np.int64], num: int, among: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The exact nearest neighbours of words by cosine, nearest first, without the word itself.

        Args:
            rows: rows of the words, [n].
            num: number of neighbours; fewer if there are not that many words.
            among: the rows that may be neighbours; None for all.

        Returns:
            Rows int64 and cosines float32, [n, num]. Ties go to the word that comes first in the file.
        """
        pool = self._pool(among)
        num = min(num, len(pool) - int(np.isin(rows, pool).any()))
        found, cosines = np.empty((len(rows), num), np.int64), np.empty((len(rows), num), np.float32)
        if not num:
            return found, cosines
        for block, similarity in self._similarities(rows, pool):
            least = np.partition(similarity, -num, axis=1)[:, -num, None]
            is_above, is_least = similarity > least, similarity == least
            # Of the words tied with the last neighbour, only as many as there is room for.
            is_near = is_above | (is_least & (is_least.cumsum(1) <= num - is_above.sum(1, keepdims=True)))
            nearest = is_near.nonzero()[1].reshape(-1, num)
            cosine = np.take_along_axis(similarity, nearest, 1)
            order = np.argsort(-cosine, axis=1, kind="stable")
            found[block] = pool[np.take_along_axis(nearest, order, 1)]
            cosines[block] = np.take_along_axis(cosine, order, 1)
        return found, cosines

    def within(
        self, rows: NDArray[np.int64], least: float, among: NDArray[np.int64] | None = None
    ) -> list[NDArray[np.int64]]:
        """All words with at least a given cosine to each of some words, without the word itself. Exact.

        Args:
            rows: rows of the words, [n].
            least: the minimum cosine.
            among: the rows that may be found, ascending; None for all.

        Returns:
            For each word, rows int64, ascending.
        """
        pool = self._pool(among)
        return [pool[line >= least] for _, similarity in self._similarities(rows, pool) for line in similarity]

    def _pool(self, among: NDArray[np.int64] | None) -> NDArray[np.int64]:
        return np.arange(len(self)) if among is None else np.sort(np.asarray(among, np.int64))

    def _similarities(
        self, rows: NDArray[np.int64], pool: NDArray[np.int64]
    ) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Blocks of ``rows``, and their cosines to the pool, [block, pool]; -inf to the word itself."""
        candidates = np.ascontiguousarray(self.matrix[pool].T)
        size = max(1, _BLOCK // max(1, len(pool)))
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            similarity = self.matrix[block] @ candidates
            similarity[block[:, None] == pool] = -np.inf
            yield slice(start, start + len(block)), similarity


def load_vectors(path: str | Path) -> Vectors:
    r"""Read word vectors: GloVe text, word2vec text (a first line "words dimension") or word2vec binary.

    A word that comes twice keeps its first vector. Words with a vector of zeros, which is near to nothing, are left out
    and counted.

    Args:
        path: the file; ``.bin`` is word2vec's binary format.

    Raises:
        LexiconError: if the file is missing or has no words, a line of another dimension than the first, an invalid
            number, or another number of words than its header says: with the number of the line.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "tiny.txt")
        ...     _ = file.write_text("big 3 4\nlarge 6 8\ncold -1 0\n")
        ...     vectors = load_vectors(file)
        >>> rows, cosines = vectors.nearest(np.array([0]), num=1)
        >>> vectors.words[rows[0, 0]]
        'large'
    """
    path = Path(path)
    words: dict[str, None] = {}
    rows: list[NDArray[np.float32]] = []
    num_zeros = 0
    try:
        with path.open("rb") as file:
            for word, vector in (_binary if path.suffix == ".bin" else _text)(path, file):
                if not vector.any():
                    num_zeros += 1
                elif word not in words:
                    words[word] = None
                    rows.append(vector)
        digest = checksum(path)[:16]
    except OSError as error:
        raise LexiconError(f"cannot read word vectors from '{path}': {error.strerror or error}") from error
    if not rows:
        raise LexiconError(f"'{path}' holds no vectors: give a file of GloVe or word2vec vectors")
    provenance = {"vectors": path.name, "sha256": digest, "dimension": str(len(rows[0])), "num_words": str(len(rows))}
    if num_zeros:
        provenance["num_zeros"] = str(num_zeros)
    return Vectors.of(words, np.stack(rows), provenance)


def _text(path: Path, file: BinaryIO) -> Iterator[tuple[str, NDArray[np.float32]]]:
    dimension, promised, num = 0, None, 0
    for number, line in enumerate(file, 1):
        fields = line.rstrip(b" \r\n").split(b" ")
        if number == 1 and len(fields) == 2:
            promised, dimension = _header(path, fields)
            continue
        if not line.strip():
            continue
        if not dimension:
            dimension = len(fields) - 1
            if dimension < 1:
                raise LexiconError(f"'{path}', line {number}: expected a word and its numbers")
        if len(fields) < dimension + 1:
            raise LexiconError(
                f"'{path}', line {number}: {len(fields) - 1} numbers, not {dimension} as before it: the file is torn "
                f"or mixes dimensions; fetch it again"
            )
        # A few words of published files have spaces in them: the numbers are the last fields.
        word, numbers = b" ".join(fields[:-dimension]), b" ".join(fields[-dimension:])
        if len(fields) > dimension + 1 and _is_number(fields[-dimension - 1]):
            raise LexiconError(
                f"'{path}', line {number}: {len(fields) - 1} numbers, not {dimension} as before it: the file mixes "
                f"dimensions; fetch it again"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy's signal for an invalid number
            try:
                vector = np.fromstring(numbers, dtype=np.float32, sep=" ")
            except (DeprecationWarning, ValueError) as error:
                raise _no_numbers(path, number, numbers, dimension) from error
        if len(vector) != dimension:
            raise _no_numbers(path, number, numbers, dimension)
        num += 1
        yield word.decode("utf-8", "replace"), _finite(path, f"line {number}", vector)
    if promised is not None and promised != num:
        raise LexiconError(
            f"'{path}', line 1: the header says {promised:,} words, there are {num:,}: fetch the file again"
        )


def _binary(path: Path, file: BinaryIO) -> Iterator[tuple[str, NDArray[np.float32]]]:
    promised, dimension = _header(path, file.readline(_LONGEST_HEADER).split())
    if (size := path.stat().st_size) < 4 * dimension:
        raise LexiconError(
            f"'{path}', line 1: the header says {dimension:,} numbers a word, and the file has {size:,} bytes in all: "
            f"fetch the file again"
        )
    for number in range(1, promised + 1):
        word = bytearray()
        while (byte := file.read(1)) not in (b" ", b""):
            word += byte
        content = file.read(4 * dimension)
        if len(content) < 4 * dimension:
            raise LexiconError(f"'{path}': word {number:,} of {promised:,} is cut off: fetch the file again")
        where = f"word {number:,}"
        yield (
            bytes(word).lstrip(b"\n").decode("utf-8", "replace"),
            _finite(path, where, np.frombuffer(content, "<f4").copy()),
        )
    if file.read(2).strip(b"\n"):
        raise LexiconError(
            f"'{path}', line 1: the header says {promised:,} words of {dimension} numbers, and more follows: "
            f"fetch the file again"
        )


def _header(path: Path, fields: list[bytes]) -> tuple[int, int]:
    try:
        promised, dimension = (int(field) for field in fields)
    except ValueError as error:
        raise LexiconError(
            f"'{path}', line 1: expected the number of words and their dimension, got '{_excerpt(b' '.join(fields))}'"
        ) from error
    if promised < 1 or dimension < 1:
        raise LexiconError(f"'{path}', line 1: {promised} words of {dimension} numbers are no vectors")
    return promised, dimension


def _no_numbers(path: Path, line: int, numbers: bytes, dimension: int) -> LexiconError:
    return LexiconError(f"'{path}', line {line}: '{_excerpt(numbers)}' are not {dimension} numbers")


def _finite(path: Path, where: str, vector: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(vector).all():
        raise LexiconError(f"'{path}', {where}: a number is not finite")
    return vector


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _excerpt(content: bytes) -> str:
    text = content.decode("utf-8", "replace")
    return text if len(text) <= 40 else text[:40] + "…"
