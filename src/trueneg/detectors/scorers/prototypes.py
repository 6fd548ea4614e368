"""Prototypes: average contextual vectors of words, so that one pass over a text scores every substitute.

Encoding the sentence with the substitute in it (``contextual``) costs a pass for every pair. A substitute's vector
there is much like its vector anywhere, so its average over a corpus will do: the text is encoded once, as it is, and
each word's vector is compared with the prototypes of all possible substitutes.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.corpus.permutation import rows_at
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.detectors.rowtext import TokenText, substitution_kinds
from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.detectors.specification import Leaf, Resources
from trueneg.errors import ModelError
from trueneg.files.arrays import ArrayFile
from trueneg.lexicon.vectors import vectors_digest
from trueneg.models.reading import WINDOW, Span, TextEncoder, WholeTextReader, unit_vectors
from trueneg.terminal.progress import ProgressCallback, no_progress

_FILE = ArrayFile("prototypes", "1", ModelError, "make it with 'trueneg detect prototypes'")
THRESHOLD = 0.62
"""5.8 % of WordNet's antonyms on SWORDS pass: see docs/detectors.md."""
MIN_COUNT = 5


@dataclass(frozen=True, eq=False)
class Prototypes:
    """The mean contextual vectors of words.

    Attributes:
        words: each once, cased as in the corpus's vocabulary.
        matrix: float32 [num_words, hidden], unit vectors.
        counts: how many occurrences each is the mean of, int64 [num_words].
        provenance: encoder, layer, corpus.
    """

    words: tuple[str, ...]
    matrix: NDArray[np.float32] = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)
    provenance: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @property
    def threshold(self) -> float:
        """The minimum cosine to accept: ``THRESHOLD``, or that of ``trueneg detect distil``."""
        return float(self.provenance.get("threshold", THRESHOLD))

    def find(self, word: str) -> int | None:
        """The row of a word as it is written, else in lower case; None if there is neither."""
        return self.index.get(word, self.index.get(word.lower()))

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or self.matrix.shape[0] != len(self.words) or self.counts.shape != (len(self.words),):
            raise ModelError(f"{len(self.words)} words, a matrix {self.matrix.shape} and counts {self.counts.shape}")
        if not np.isfinite(self.matrix).all():
            raise ModelError("a vector is not finite")

    def save(self, path: str | Path) -> None:
        """Write them as safetensors, atomically.

        Raises:
            ModelError: if the file cannot be written.
        """
        words = np.frombuffer("\n".join(self.words).encode(), np.uint8)
        arrays: dict[str, NDArray[Any]] = {
            "matrix": self.matrix.astype(np.float16),
            "counts": self.counts,
            "words": words,
        }
        _FILE.write(Path(path), arrays, dict(self.provenance))

    @classmethod
    def load(cls, path: str | Path) -> Prototypes:
        """Read what :meth:`save` wrote.

        Raises:
            ModelError: if the file is missing, contains no prototypes, or is damaged.
        """
        arrays, about = _FILE.read(Path(path), dict[str, str])
        try:
            matrix, words = arrays["matrix"], arrays["words"].tobytes().decode().split("\n")
            digest = hashlib.sha256(matrix.tobytes()).hexdigest()[:16]
            provenance = {**about, "prototypes": Path(path).name, "digest": digest}
            if not 0 < float(about.get("threshold", THRESHOLD)) < 1:
                raise ModelError(f"its threshold {about['threshold']} is not in (0, 1)")
            if not (about.get("encoder") and about.get("layer", "").isdecimal()):
                raise ModelError("it does not say of which encoder and layer it is")
            with np.errstate(invalid="ignore"):  # non-finite values are refused below
                vectors = unit_vectors(matrix.astype(np.float32))
            return cls(tuple(words), vectors, arrays["counts"], provenance)
        except (KeyError, ValueError, ModelError) as error:
            raise _FILE.damaged(Path(path), error) from error


class RowReader:
    """Reads rows of a corpus once and returns the vectors of words in them.

    Args:
        reader: Reads text; its encoder may have another tokenizer than the corpus.
        text: Converts the corpus's tokens to text.
    """

    def __init__(self, reader: WholeTextReader, text: TokenText) -> None:
        self.reader = reader
        self._text = text

    def __call__(
        self, input_ids: NDArray[np.int64], is_wanted: NDArray[np.bool_], segments: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """Vectors of the wanted tokens, in the order of ``is_wanted.nonzero()``: float32 ``[wanted, hidden]``.

        Args:
            input_ids: ``[rows, length]``.
            is_wanted: Tokens that are words, ``[rows, length]``.
            segments: Pieces of documents within rows, 0 at padding; each piece is a separate text.
        """
        texts: list[str] = []
        words: list[list[tuple[int, int]]] = []
        for row in range(len(input_ids)):
            for piece in range(1, int(segments[row].max(initial=0)) + 1):
                columns = np.flatnonzero(segments[row] == piece)
                wanted = np.flatnonzero(is_wanted[row, columns])
                if len(wanted):
                    read = self._text(input_ids[row, columns].tolist())
                    texts.append(read.text)
                    words.append([(read.starts[n], read.ends[n]) for n in wanted.tolist()])
        # Rows, the pieces within a row and the words within a piece are in ascending order, as from ``nonzero``.
        return self.reader(texts, words)


def learn_prototypes(
    source: str,
    corpus: Corpus,
    *,
    layer: int | None = None,
    device: str = "cpu",
    max_rows: int = 0,
    length: int = 128,
    batch_size: int = 64,
    min_count: int = MIN_COUNT,
    seed: int = 0,
    progress: ProgressCallback = no_progress,
) -> Prototypes:
    """Average the vectors of every word of a vocabulary over a corpus.

    Args:
        source: The encoder: a checkpoint or a hub name.
        corpus: Its words are the whole-word tokens of its tokenizer that could be substitutes.
        layer: Layer whose states to use; None for the one at two thirds of the depth.
        device: Where the encoder runs.
        max_rows: Rows to read, drawn at random; 0 for all.
        length: Tokens per row.
        batch_size: Rows per batch.
        min_count: Minimum occurrences of a word.
        seed: Seed for drawing rows.
        progress: Called with the number of rows read and their total.

    Raises:
        ModelError: if no word occurs ``min_count`` times.
    """
    tokenizer = corpus.load_tokenizer()
    text = TokenText(tokenizer)
    kinds = substitution_kinds(text.surfaces).numpy()
    encoder = TextEncoder(source, () if layer is None else (layer,), window=sys.maxsize, device=device)
    weights = encoder.digest()
    reader = RowReader(WholeTextReader(encoder), text)
    index = RowIndex(corpus, length)
    num_rows = min(max_rows or len(index), len(index))
    numbers = rows_at(seed, np.arange(num_rows, dtype=np.int64), len(index))
    sums, counts = np.zeros((len(kinds), reader.reader.hidden_size)), np.zeros(len(kinds), np.int64)
    for start in range(0, num_rows, batch_size):
        batch = index.read(numbers[start : start + batch_size])
        is_wanted = batch.is_whole_word & (kinds[np.minimum(batch.input_ids, len(kinds) - 1)] >= 0)
        tokens = batch.input_ids[is_wanted]
        np.add.at(sums, tokens, reader(batch.input_ids, is_wanted, batch.segments))
        counts += np.bincount(tokens, minlength=len(counts))
        progress(start + len(batch.input_ids), num_rows)
    # "Ġcity" and "city" are one word.
    by_word: dict[str, list[int]] = defaultdict(list)
    for token in np.flatnonzero(counts).tolist():
        by_word[text.surfaces[token].word].append(token)
    kept = {word: tokens for word, tokens in by_word.items() if counts[tokens].sum() >= min_count}
    if not kept:
        raise ModelError(f"no word occurs {min_count} times in {num_rows:,} rows of '{corpus.path}': read more rows")
    matrix = np.stack([sums[tokens].sum(0) for tokens in kept.values()])
    return Prototypes(
        tuple(kept),
        unit_vectors(matrix.astype(np.float32)),
        np.array([counts[tokens].sum() for tokens in kept.values()]),
        {
            "encoder": source,
            "weights": weights,
            "layer": str(encoder.layers[0]),
            "corpus": corpus.info.fingerprint,
            "rows": str(num_rows),
            "length": str(length),
            "min_count": str(min_count),
            "num_words": str(len(kept)),
        },
    )


class PrototypesScorer(SubstitutionScorer):
    """Cosine between a word's vector in its sentence and its substitute's prototype; a negative one scores 0.

    A substitute without a prototype (several words, or a rare one) scores 0.

    Args:
        encoder: The encoder of the prototypes, at their layer.
        prototypes: Prototypes of words.
        threshold: The acceptance threshold.
    """

    def __init__(self, encoder: TextEncoder, prototypes: Prototypes, threshold: float = THRESHOLD) -> None:
        self.encoder = encoder
        self.prototypes = prototypes
        self.threshold = threshold
        self.provenance = dict(prototypes.provenance)

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """Score each substitution; a text is read once for each of its words."""
        rows = [self.prototypes.find(s.substitute) for s in substitutions]
        spans: dict[Span, int] = {}
        known = [(n, row) for n, row in enumerate(rows) if row is not None]
        places = [
            spans.setdefault((substitutions[n].text, substitutions[n].start, substitutions[n].end), len(spans))
            for n, _ in known
        ]
        scores = np.zeros(len(substitutions))
        if known:
            vectors = unit_vectors(self.encoder.vectors(list(spans))[:, 0])
            cosines = (vectors[places] * self.prototypes.matrix[[row for _, row in known]]).sum(-1)
            scores[[n for n, _ in known]] = cosines.clip(0, 1)
        return scores

    @property
    def counts(self) -> Mapping[str, int]:
        """Numbers of texts and words cut to the window, and of words without tokens."""
        return dict(self.encoder.reader.counts)

    def reads(self) -> tuple[object, ...]:
        """The encoder's digest and layers, and the digest of the prototypes."""
        encoder, prototypes = self.encoder, self.prototypes
        return (
            encoder.digest(),
            encoder.layers,
            vectors_digest(prototypes.words, prototypes.matrix),
        )

    def to(self, device: torch.device) -> None:
        """Move the encoder."""
        self.encoder.to(device)


def load_pair(leaf: Leaf, device: str = "cpu", window: int = WINDOW) -> tuple[TextEncoder, Prototypes]:
    """Load the prototypes that a leaf names, and their encoder.

    Args:
        leaf: The part of a specification that names them.
        device: Where the encoder runs.
        window: Maximum number of tokens of a text, if the encoder has positions for them.

    Raises:
        ModelError: if either is missing, or they do not match.
    """
    leaf.check(argument=True, options=("encoder", "top"), what="FILE, written by 'trueneg detect prototypes'")
    leaf.count("top", 1, min=1)  # of detectors in training; checked for scorers, too
    prototypes = Prototypes.load(leaf.argument)
    source = leaf.options.get("encoder", prototypes.provenance["encoder"])
    encoder = TextEncoder(source, (int(prototypes.provenance["layer"]),), window=window, device=device)
    # Files of former versions do not record the encoder's weights.
    noted = prototypes.provenance.get("weights")
    is_other = noted is not None and noted != encoder.digest()
    if is_other or encoder.model.config.hidden_size != prototypes.matrix.shape[1]:
        raise ModelError(
            f"'{leaf.argument}' holds prototypes of another encoder than '{source}' is now: make them again with "
            "'trueneg detect prototypes', or name theirs as [encoder=ENCODER]"
        )
    return encoder, prototypes


def make_scorer(leaf: Leaf, resources: Resources) -> PrototypesScorer:
    """Compare a word in its sentence with the substitute's average vector: prototypes:FILE.

    The encoder is the one named in the file, or ``[encoder=ENCODER]``.
    """
    encoder, prototypes = load_pair(leaf, resources.device)
    return PrototypesScorer(encoder, prototypes, leaf.threshold_or(prototypes.threshold))
