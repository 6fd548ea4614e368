"""Mixtures of corpora, each with its share: the order of their rows is computed, never stored.

Each position of the training order goes to the first source or to the rest, each position of the rest to the second
source or to the remaining ones, and so on. Of p positions a source of share w gets floor(p w + 1/2), so every prefix of
the order has the requested shares, to within a row or two, however it is split into steps, micro-batches and processes.
The rows that a source contributes are its own endless stream of shuffled epochs (``permutation.rows_at``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from trueneg.config.options import CorpusConfig
from trueneg.corpus.permutation import rows_at, seed_of
from trueneg.corpus.rows import RowBatch, RowIndex, max_pieces
from trueneg.corpus.store import Corpus
from trueneg.corpus.tags import Tags
from trueneg.errors import ConfigError, CorpusError

LARGEST_TOTAL = 1 << 20
"""Largest sum of whole weights: their products with positions, up to 2^43 rows, fit into 64 bits."""

_Int64s = npt.NDArray[np.int64]


def whole_weights(weights: Sequence[Fraction]) -> tuple[int, ...]:
    """Whole numbers in the same proportions; rounded to a millionth if exact ones would be large.

    Raises:
        ConfigError: for a share below a millionth.

    Example:
        >>> whole_weights([Fraction("0.7"), Fraction("0.3")])
        (7, 3)
    """
    common = math.lcm(*(weight.denominator for weight in weights))
    whole = [int(weight * common) for weight in weights]
    divisor = math.gcd(*whole)
    whole = [weight // divisor for weight in whole]
    if (total := sum(whole)) > LARGEST_TOTAL:
        exact = [Fraction(weight * LARGEST_TOTAL, total) for weight in whole]
        whole = [int(weight) for weight in exact]
        order = sorted(range(len(exact)), key=lambda number: (whole[number] - exact[number], number))
        for number in order[: LARGEST_TOTAL - sum(whole)]:  # the largest remainders
            whole[number] += 1
        if min(whole) < 1:
            raise ConfigError(
                f"corpus.mixture: source {whole.index(0) + 1} has a share below one in {LARGEST_TOTAL:,}: give it a "
                f"larger weight, or leave it out"
            )
    return tuple(whole)


def weights_by_size(sizes: Sequence[int], temperature: float) -> list[Fraction]:
    """Weights proportional to size^temperature: 1 for proportional to size, 0 for all equal.

    Example:
        >>> [round(float(weight)) for weight in weights_by_size([100, 10_000], 0.5)]
        [10, 100]
    """
    if temperature == 1:
        return [Fraction(size) for size in sizes]
    return [Fraction(float(size) ** temperature) for size in sizes]


@dataclass(frozen=True)
class Shares:
    """Shares of an endless order of positions, in whole weights.

    Example:
        >>> Shares((2, 1)).at(np.arange(6))[0].tolist()
        [0, 1, 0, 0, 1, 0]
    """

    weights: tuple[int, ...]

    def at(self, positions: npt.NDArray[np.integer[Any]]) -> tuple[_Int64s, _Int64s]:
        """The source of each position.

        Args:
            positions: Non-negative integers, any shape.

        Returns:
            The source of each, and how many positions before it belong to that source, int64 of the same shape.
        """
        place = np.array(positions, dtype=np.int64)  # among those that no earlier source takes
        source = np.full(place.shape, len(self.weights) - 1, dtype=np.int64)
        number = np.empty_like(place)
        is_open, total = np.ones(place.shape, dtype=bool), sum(self.weights)
        for one, weight in enumerate(self.weights[:-1]):
            before = (place * weight + total // 2) // total
            is_here = is_open & (((place + 1) * weight + total // 2) // total > before)
            source[is_here], number[is_here] = one, before[is_here]
            is_open &= ~is_here
            place, total = place - before, total - weight
        number[is_open] = place[is_open]
        return source, number

    def before(self, position: int) -> tuple[int, ...]:
        """How many of the first ``position`` positions belong to each source.

        Example:
            >>> Shares((2, 1)).before(6)
            (4, 2)
        """
        counts, place, total = [], position, sum(self.weights)
        for weight in self.weights[:-1]:
            counts.append((place * weight + total // 2) // total)
            place, total = place - counts[-1], total - weight
        return (*counts, place)


def open_corpora(config: CorpusConfig, split: str = "train", *, verify: bool = True) -> tuple[Corpus, ...]:
    """Open a split of every corpus that a run reads: one, or those of a mixture.

    Raises:
        CorpusError: if one cannot be opened, two are the same, or they have different tokenizers.
    """
    corpora = tuple(Corpus.open(source.path, split, verify=verify) for source in config.sources)
    first, seen = corpora[0], dict[str, Corpus]()
    for corpus in corpora:
        check_alike(first, corpus)
        if (other := seen.setdefault(corpus.info.fingerprint, corpus)) is not corpus:
            raise CorpusError(
                f"corpus.mixture: '{other.path}' and '{corpus.path}' are the same corpus (fingerprint "
                f"{corpus.info.fingerprint}): name it once, with the sum of the weights"
            )
    return corpora


def check_alike(first: Corpus, other: Corpus) -> None:
    """Refuse a corpus with another tokenizer.

    Raises:
        CorpusError: naming both.
    """
    if first.info.tokenizer_fingerprint != other.info.tokenizer_fingerprint:
        raise CorpusError(
            f"'{first.path}' was built with the tokenizer {first.info.tokenizer_fingerprint}, '{other.path}' with "
            f"{other.info.tokenizer_fingerprint}: rows of one run have one: build both with the same --tokenizer"
        )


class MixedRows:
    """Numbered rows of several corpora with one tokenizer: those of the first, then those of the second, and so on.

    Implements ``rows.NumberedRows``, as ``RowIndex`` does.

    Args:
        sources: Rows of each corpus, of one length, all packed or none, all with lists of substitutes or none.
        names: Their names.
        weights: Weight of each in the training order; by default from their sizes (see ``temperature``).
        temperature: Exponent of the sizes, in rows, for the default weights.

    Example::

        rows = MixedRows([wiki, books], ["wiki", "books"], [Fraction(7, 10), Fraction(3, 10)])
        batch = rows.read(rows.at(seed=0, positions=np.arange(32)))
    """

    def __init__(
        self,
        sources: Sequence[RowIndex],
        names: Sequence[str],
        weights: Sequence[Fraction] = (),
        temperature: float = 1.0,
    ) -> None:
        self.sources, self.names = tuple(sources), tuple(names)
        self.shares = Shares(whole_weights(weights or weights_by_size([len(rows) for rows in sources], temperature)))
        self._ends = np.cumsum([len(rows) for rows in sources])

    def __len__(self) -> int:
        """Number of rows of all sources together."""
        return int(self._ends[-1])

    @property
    def length(self) -> int:
        """Row length in tokens."""
        return self.sources[0].length

    @property
    def is_packed(self) -> bool:
        """Whether rows have several documents."""
        return self.sources[0].is_packed

    @property
    def is_full(self) -> bool:
        """Whether every row is one piece without padding."""
        return all(rows.is_full for rows in self.sources)

    @property
    def tags(self) -> Tags | None:
        """None: methods that need tags read a single corpus."""
        return None

    @property
    def asked(self) -> tuple[float, ...]:
        """Requested share of each source in the rows of a run."""
        total = sum(self.shares.weights)
        return tuple(weight / total for weight in self.shares.weights)

    @property
    def mean_fill(self) -> float:
        """Mean share of a row that is not padding, over the training order."""
        return math.fsum(share * rows.mean_fill for share, rows in zip(self.asked, self.sources, strict=True))

    @property
    def fingerprint(self) -> str:
        """Fingerprints of the sources, in their order."""
        return ",".join(rows.fingerprint for rows in self.sources)

    def max_pieces(self, num_rows: int) -> tuple[int, int]:
        """Maximum number of pieces in a batch of rows; see ``RowIndex.max_pieces``."""
        means, deviations, most = zip(*(rows.pieces_per_row for rows in self.sources), strict=True)
        return max_pieces(num_rows, max(means), max(deviations), max(most))

    def at(self, seed: int, positions: npt.NDArray[np.integer[Any]]) -> _Int64s:
        """Rows at positions of the training order; see ``Shares`` and ``permutation.rows_at``."""
        source, number = self.shares.at(positions)
        rows = np.empty(source.shape, dtype=np.int64)
        for one, index in enumerate(self.sources):
            is_its = source == one
            rows[is_its] = rows_at(seed_of(seed, one), number[is_its], len(index)) + self._ends[one] - len(index)
        return rows

    def read(self, indices: npt.NDArray[np.integer[Any]]) -> RowBatch:
        """Read rows, in the given order.

        Raises:
            IndexError: if a number is out of range.
        """
        rows: _Int64s = np.asarray(indices, dtype=np.int64)
        if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < len(self):
            raise IndexError(f"a row number must be in [0, {len(self)})")
        source = np.searchsorted(self._ends, rows, side="right")
        parts = [
            index.read(rows[source == one] - (self._ends[one] - len(index))) for one, index in enumerate(self.sources)
        ]
        widths = [part.substitutes.shape[-1] for part in parts if part.substitutes is not None]
        parts = [_with_width(part, max(widths, default=0)) for part in parts]
        place = np.argsort(np.argsort(source, kind="stable"), kind="stable")
        return RowBatch(**{field.name: _joined(parts, field.name, place) for field in fields(RowBatch)})

    def progress(self, position: int) -> dict[str, float]:
        """Share of each source in the rows before a position, and how often it was read by then."""
        counts = self.shares.before(position)
        readings = {
            f"source/{name}/share": count / max(position, 1) for name, count in zip(self.names, counts, strict=True)
        }
        return readings | {f"source/{name}/epochs": value for name, value in self.epochs(position).items()}

    def epochs(self, position: int) -> dict[str, float]:
        """Number of times each source is read before a position."""
        counts = self.shares.before(position)
        return {name: n / len(rows) for name, n, rows in zip(self.names, counts, self.sources, strict=True)}


def _with_width(batch: RowBatch, width: int) -> RowBatch:
    """Pad the lists of substitutes to a width."""
    if batch.substitutes is None or batch.credits is None:
        return batch
    more = ((0, 0), (0, 0), (0, width - batch.substitutes.shape[-1]))
    return replace(batch, substitutes=np.pad(batch.substitutes, more), credits=np.pad(batch.credits, more))


def _joined(parts: Sequence[RowBatch], name: str, place: _Int64s) -> Any:
    """A field of all parts, concatenated and reordered; None if the parts lack it."""
    values = [getattr(part, name) for part in parts]
    return None if values[0] is None else np.concatenate(values)[place]


def check_epochs(epochs: Mapping[str, float], steps: int, most: float) -> None:
    """Refuse a run that reads a source more often than is allowed.

    Args:
        epochs: Number of times each source is read in the whole run.
        steps: Steps of the run.
        most: ``corpus.max_epochs``; 0 for no limit.

    Raises:
        ConfigError: naming the source, and the steps that keep within the limit.
    """
    name = max(epochs, key=lambda one: epochs[one])
    if most and epochs[name] > most:
        raise ConfigError(
            f"'{name}' would be read {epochs[name]:.2f} times in {steps:,} steps, which corpus.max_epochs={most:g} "
            f"does not allow: take at most {math.floor(steps * most / epochs[name]):,} steps, more of its text, or a "
            f"smaller weight"
        )


def describe_mixture(config: CorpusConfig) -> list[dict[str, Any]]:
    """What ``trueneg corpus info`` shows for a mixture: each corpus's rows, and its shares of rows and tokens.

    Returns:
        JSON-ready dicts; ``epochs`` is how often a source is read while as many rows are read as all have together.

    Raises:
        ConfigError: for an invalid mixture.
        CorpusError: if one cannot be opened, two are the same, or they have different tokenizers.
    """
    sources = [RowIndex(corpus, config.length, pack=config.is_packed) for corpus in open_corpora(config, verify=False)]
    weights = [source.weight for source in config.sources if source.weight is not None]
    mixed = MixedRows(sources, list(config.names.values()), weights, config.temperature)
    epochs = mixed.epochs(len(mixed))
    return [
        {
            "name": name,
            "path": str(rows.corpus.path),
            "fingerprint": rows.corpus.info.fingerprint,
            "num_tokens": rows.corpus.num_tokens,
            "num_rows": len(rows),
            "row_fill": rows.mean_fill,
            "share": share,
            "share_of_tokens": share * rows.mean_fill / mixed.mean_fill,
            "epochs": epochs[name],
        }
        for name, rows, share in zip(mixed.names, sources, mixed.asked, strict=True)
    ]
