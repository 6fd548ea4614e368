"""Nearest neighbours of words: a table from a file, or computed from word vectors."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueneg.errors import LexiconError
from trueneg.files.records import parse_json
from trueneg.lexicon.vectors import Vectors


@dataclass(frozen=True, eq=False)
class NeighbourTable:
    """Words and their neighbours, nearest first; those of word ``i`` are entries ``starts[i]`` to ``starts[i + 1]``.

    Lists of pairs would take 15 times the memory: 294 MB, not 20, for TextFooler's 65,000 words of 50 neighbours.

    Attributes:
        words: Words that have or are neighbours, each once.
        starts: int64 ``[words + 1]``.
        neighbours: Indices of words, int32 ``[entries]``.
        cosines: Of each entry, float16 ``[entries]``, three digits; None if the table has none.
        provenance: Source of the table.
    """

    words: tuple[str, ...]
    starts: NDArray[np.int64]
    neighbours: NDArray[np.int32] = field(repr=False)
    cosines: NDArray[np.float16] | None = field(repr=False)
    provenance: Mapping[str, str]

    @classmethod
    def of(
        cls,
        entries: Mapping[str, Iterable[str]],
        cosines: Mapping[str, Iterable[float]] | None = None,
        provenance: Mapping[str, str] | None = None,
    ) -> NeighbourTable:
        """Make a table from lists, nearest first.

        Example:
            >>> table = NeighbourTable.of({"film": ["movie", "reel"]}, {"film": [0.9, 0.4]})
            >>> table.near("film"), table.near("Film", min_cosine=0.5), table.near("reel")
            (['movie', 'reel'], ['movie'], [])
        """
        lists = {word: list(near) for word, near in entries.items()}
        number = {word: n for n, word in enumerate(dict.fromkeys(chain(lists, *lists.values())))}
        starts = np.zeros(len(number) + 1, dtype=np.int64)
        np.cumsum([len(lists.get(word, ())) for word in number], out=starts[1:])
        return cls(
            tuple(number),
            starts,
            np.fromiter((number[near] for near in chain(*lists.values())), np.int32, int(starts[-1])),
            None if cosines is None else np.array(list(chain(*(cosines[word] for word in lists))), dtype=np.float16),
            dict(provenance or {}),
        )

    def __len__(self) -> int:
        """Number of words that have neighbours."""
        return int((np.diff(self.starts) > 0).sum())

    @cached_property
    def index(self) -> dict[str, int]:
        """Index of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def near(self, word: str, num: int = 50, min_cosine: float = -1.0) -> list[str]:
        """The neighbours of a word, nearest first; those of its lower-case form if it has none as written.

        Args:
            word: Any word; one that is not in the table has no neighbours.
            num: Maximum number.
            min_cosine: Minimum cosine. A table without cosines is assumed to hold only near ones.
        """
        known = (self.index[form] for form in (word, word.lower()) if form in self.index)
        number = next((number for number in known if self.starts[number] < self.starts[number + 1]), None)
        if number is None:
            return []
        entries = slice(int(self.starts[number]), min(int(self.starts[number + 1]), int(self.starts[number]) + num))
        near = self.neighbours[entries]
        if self.cosines is not None:
            near = near[self.cosines[entries] >= min_cosine]
        return [self.words[other] for other in near.tolist()]


def load_neighbours(path: str | Path) -> NeighbourTable:
    """Read a table written as JSON: ``{"film": ["movie", …], …}``, nearest first, or ``[["movie", 0.9], …]``.

    Raises:
        LexiconError: if the file is missing or invalid, naming the first invalid word.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LexiconError(f"cannot read neighbours from '{path}': {error.strerror or error}") from error
    table: Any = parse_json(content, f"'{path}'", LexiconError, "give a table of neighbours, or word vectors")
    if not isinstance(table, dict) or not table:
        raise LexiconError(f"'{path}' is no table of neighbours: it should read {{word: [neighbour, …], …}}")
    has_cosines = any(isinstance(entry, list) for near in table.values() if isinstance(near, list) for entry in near)
    words: dict[str, list[str]] = {}
    cosines: dict[str, list[float]] = {}
    for word, near in table.items():
        try:
            # A string is iterable, too: its letters would pass for words, or a pair of them for a word and its cosine.
            pairs = [(entry[0], float(entry[1])) if has_cosines else (entry, 0.0) for entry in [*near]]
        except (TypeError, ValueError, IndexError, KeyError, OverflowError):
            pairs = [(None, 0.0)]
        is_right = all(isinstance(other, str) and math.isfinite(cosine) for other, cosine in pairs)
        if not isinstance(near, list) or not is_right:
            expected = "[neighbour, cosine] pairs" if has_cosines else "neighbours"
            raise LexiconError(f"'{path}', entry '{word}': must be a list of {expected}, got {json.dumps(near)[:60]}")
        words[word], cosines[word] = [other for other, _ in pairs], [cosine for _, cosine in pairs]
    provenance = {"neighbours": path.name, "sha256": hashlib.sha256(content).hexdigest(), "num_words": str(len(words))}
    return NeighbourTable.of(words, cosines if has_cosines else None, provenance)


def neighbours_by_vectors(
    vectors: Vectors, words: Iterable[str] | None = None, *, num: int = 50, min_cosine: float = 0.5
) -> NeighbourTable:
    """Find neighbours by cosine: exact, and without holding all similarities in memory.

    Args:
        vectors: Counter-fitted ones for TextFooler: others have antonyms as neighbours.
        words: Words to find neighbours of, such as those of the texts to attack; by default all.
        num: Maximum number for each word.
        min_cosine: Minimum cosine.

    Example:
        >>> near = Vectors.of(["big", "large", "cold"], np.array([[3.0, 4], [4, 3], [-1, 0]]), {})
        >>> neighbours_by_vectors(near).near("big")
        ['large']
    """
    if words is None:
        rows = np.arange(len(vectors))
    else:
        rows = np.array(sorted({row for word in words if (row := vectors.find(word)) is not None}), dtype=np.int64)
    found, cosines = vectors.nearest(rows, num)
    is_near = cosines >= min_cosine
    of = [vectors.words[row] for row in rows.tolist()]
    return NeighbourTable.of(
        {
            word: [vectors.words[row] for row in line[near].tolist()]
            for word, line, near in zip(of, found, is_near, strict=True)
        },
        {word: line[near].tolist() for word, line, near in zip(of, cosines, is_near, strict=True)},
        {**vectors.provenance, "num_neighbours": str(num), "min_cosine": str(min_cosine)},
    )
