"""Nearest neighbours among word vectors: the paper's second lookup table (footnote 11, Table 6), and their cosine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
from transformers import PreTrainedTokenizerFast

from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.detectors.specification import Leaf, Resources
from trueneg.detectors.table import TableDetector
from trueneg.errors import ConfigError, LexiconError, unknown_name
from trueneg.files.digests import checksum, fingerprint_of
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.surface import substitution_groups, surfaces
from trueneg.lexicon.table import LookupTable, kept_table
from trueneg.lexicon.vectors import Vectors, load_vectors, vectors_digest
from trueneg.models.backbone import embedding_table
from trueneg.models.loading import resolve_checkpoint
from trueneg.models.reading import load_encoder
from trueneg.tokenizer import fingerprint, load_tokenizer

Among = Literal["vocabulary", "whole-vocabulary", "file"]
AMONG: tuple[Among, ...] = get_args(Among)
"""What neighbours are ranked among: see :func:`neighbour_table`."""

OPTIONS = ("top", "least", "mutual", "among")
NEIGHBOURS_VERSION = 1
"""Raised when tables of the same vectors change."""
FILES = (".txt", ".vec", ".bin")
"""Suffixes of names that mean a file of vectors, whether or not it exists."""


class NeighboursScorer(SubstitutionScorer):
    """Cosine between the vectors of two words; for several words, of their mean vector.

    With ``top`` k, a substitute among the k words nearest to the target scores 1/2 + cosine/2, any other cosine/2, so
    that the threshold 1/2 gives the paper's lookup table. Without, the score is the cosine (0 if negative), and the
    threshold the minimum cosine to accept. Words without a vector score 0.

    Args:
        vectors: Word vectors.
        top: How many neighbours count; 0 for all.
        least: The minimum cosine to accept.
        is_mutual: Whether a neighbour counts only if the target is among its own neighbours.
    """

    def __init__(self, vectors: Vectors, top: int = 10, least: float = 0.0, is_mutual: bool = False) -> None:
        self.vectors = vectors
        self.top = top
        self.least = least
        self.is_mutual = is_mutual
        self.threshold = 0.5 if top else least
        self.provenance = {
            **vectors.provenance,
            "top": str(top),
            "least": str(least),
            "mutual": str(is_mutual).lower(),
        }

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """Score each substitution; each target's neighbours are looked up once per call."""
        vectors = self.vectors
        pairs = [(self._vector(s.target), self._vector(s.substitute)) for s in substitutions]
        cosines = np.array([0.0 if a is None or b is None else float(a @ b) for a, b in pairs]).clip(0, 1)
        if not self.top:
            return cosines
        words = {word for s in substitutions for word in (s.target, s.substitute)}
        rows = {word: row for word in words if (row := vectors.find(word)) is not None}
        wanted = {rows[s.target] for s in substitutions if s.target in rows}
        if self.is_mutual:
            wanted |= {rows[s.substitute] for s in substitutions if s.substitute in rows}
        lists = self._lists(np.array(sorted(wanted), np.int64))
        return np.where([self._is_near(s, rows, lists) for s in substitutions], 0.5, 0.0) + cosines / 2

    def reads(self) -> tuple[object, ...]:
        """The digest of the vectors, and the settings."""
        return vectors_digest(self.vectors.words, self.vectors.matrix), self.top, self.least, self.is_mutual

    def _is_near(self, s: Substitution, rows: Mapping[str, int], lists: Mapping[int, frozenset[int]]) -> bool:
        if s.target not in rows or s.substitute not in rows:
            return False
        target, substitute = rows[s.target], rows[s.substitute]
        is_near = substitute in lists[target]
        return is_near and (not self.is_mutual or target in lists[substitute])

    def _lists(self, rows: np.ndarray) -> dict[int, frozenset[int]]:
        found, cosines = self.vectors.nearest(rows, self.top)
        return {
            int(row): frozenset(near[cosine >= self.least].tolist())
            for row, near, cosine in zip(rows, found, cosines, strict=True)
        }

    def _vector(self, text: str) -> np.ndarray | None:
        rows = [row for word in text.split() if (row := self.vectors.find(word)) is not None]
        if not rows:
            return None
        mean = self.vectors.matrix[rows].mean(0)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12))


def neighbour_table(
    tokenizer: PreTrainedTokenizerFast,
    vectors: Vectors,
    *,
    top: int = 10,
    least: float = 0.0,
    is_mutual: bool = False,
    among: Among = "vocabulary",
) -> LookupTable:
    """List, for every word of a vocabulary, its nearest words: the paper's table of word vectors.

    A pair agrees in prefix and casing, as in the table of synonyms.

    Args:
        tokenizer: Any fast tokenizer.
        vectors: Word vectors.
        top: Neighbours per word; 0 for all of at least ``least``.
        least: The minimum cosine.
        is_mutual: Whether to keep a pair only if each is a neighbour of the other.
        among: What a word's neighbours are ranked among (footnote 11: "the whole vocabulary"). ``whole-vocabulary``,
            the paper's: every word of the vocabulary that has a vector; stop words have no neighbours (footnote 5), but
            can be one. ``vocabulary``, ours: words of three letters or more that are not stop words, on both sides.
            ``file``: all words that have vectors, of which those of ``vocabulary`` are kept. With the 2,446 most
            frequent words of GloVe.6B.50d, bert-base-uncased has 22,810, 21,570 and 19,286 pairs; the first two share
            19,477.

    Raises:
        LexiconError: if no word of the vocabulary has a vector.
    """
    if among not in AMONG:
        raise ConfigError(unknown_name("among", among, AMONG))
    groups = substitution_groups(tokenizer, every_word=among == "whole-vocabulary")
    words = {word for group in groups.values() for word in group}
    word_of = {row: word for word in words if (row := vectors.find(word)) is not None}
    if not word_of:
        raise LexiconError("no word of the vocabulary has a vector: give vectors of the vocabulary's language")
    rows = np.array(sorted(word_of), np.int64)
    if top:
        found, cosines = vectors.nearest(rows, top, None if among == "file" else rows)
        lists = [near[cosine >= least] for near, cosine in zip(found, cosines, strict=True)]
    else:
        lists = vectors.within(rows, least, rows)
    near = {
        word_of[row]: {word_of[other] for other in listed.tolist() if other in word_of}
        for row, listed in zip(rows.tolist(), lists, strict=True)
        if word_of[row] not in STOP_WORDS
    }
    if is_mutual:
        near = {word: {other for other in others if word in near.get(other, ())} for word, others in near.items()}
    table = {
        token: {group[other] for other in near.get(word, ()) if other in group}
        for group in groups.values()
        for word, token in group.items()
    }
    about = {"top": str(top), "least": str(least), "mutual": str(is_mutual), "among": among}
    return LookupTable.from_rows(table, tokenizer, {"source": "vectors", **vectors.provenance, **about})


def embedding_vectors(checkpoint: str) -> Vectors:
    """Return a checkpoint's input embeddings of whole words, as word vectors.

    Raises:
        ModelError: if it is not a checkpoint.
    """
    matrix = embedding_table(load_encoder(checkpoint)).detach().numpy()
    words: dict[str, int] = {}
    for token, surface in enumerate(surfaces(load_tokenizer(resolve_checkpoint(checkpoint)))[: len(matrix)]):
        # Of "Ġcity" and "city", the one with a space before it is used.
        if surface.starts_word and surface.word and (surface.word not in words or surface.prefix == "start"):
            words[surface.word] = token
    rows = list(words.values())
    # Remove the component that all embeddings share.
    centred = matrix[rows] - matrix[rows].mean(0)
    return Vectors.of(list(words), centred, {"vectors": f"embeddings of {Path(checkpoint).name or checkpoint}"})


def read_vectors(source: str) -> Vectors:
    """Read word vectors from a file, or from the embeddings of a checkpoint.

    Raises:
        LexiconError: if the file is missing or contains none.
        ModelError: if it is neither a file nor a checkpoint.
    """
    is_file = Path(source).is_file() or Path(source).suffix in FILES
    return load_vectors(source) if is_file else embedding_vectors(source)


def _check(leaf: Leaf) -> None:
    leaf.check(argument=True, options=OPTIONS, what="VECTORS, a file of GloVe or word2vec vectors or a checkpoint")


def _among(leaf: Leaf) -> Among:
    return cast(Among, leaf.choice("among", AMONG))


def _settings(leaf: Leaf) -> tuple[int, float, bool]:
    """The number of neighbours (0: no list), the minimum cosine, and whether they must be mutual."""
    is_mutual = leaf.choice("mutual", ("no", "yes")) == "yes"
    if leaf.threshold is not None:
        if leaf.options.keys() & {"top", "least", "mutual"}:
            raise ConfigError(
                f"detector '{leaf.text}': @{leaf.threshold} means a minimum cosine instead of a list: for both "
                f"write [top=10,least={leaf.threshold}]"
            )
        if _among(leaf) == "file":
            raise ConfigError(f"detector '{leaf.text}': among=file ranks a list: with @{leaf.threshold} leave it out")
        return 0, leaf.threshold, is_mutual
    top, least = leaf.count("top", 10), leaf.number("least", 0.0)
    if not top and not least:
        raise ConfigError(f"detector '{leaf.text}': without a list it needs a minimum cosine: write @0.6")
    return top, least, is_mutual


def make_scorer(leaf: Leaf, resources: Resources) -> NeighboursScorer:
    """Accept the nearest word vectors, of a file or a checkpoint's embeddings: neighbours:VECTORS.

    Options: ``[top=10,least=0.5,mutual=yes]``; ``@0.6`` means a minimum cosine instead of a list.

    ``among=vocabulary`` (default), ``whole-vocabulary`` (the paper) or ``file`` sets what a training table ranks; a
    scorer, which has no vocabulary, ranks all words that have vectors.
    """
    _check(leaf)
    settings, _ = _settings(leaf), _among(leaf)
    return NeighboursScorer(read_vectors(leaf.argument), *settings)


def make_detector(leaf: Leaf, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> TableDetector:
    """Compile the neighbours into a lookup table for a tokenizer; that of a file's vectors is kept in the cache."""
    _check(leaf)
    (top, least, is_mutual), among = _settings(leaf), _among(leaf)

    def build() -> LookupTable:
        vectors = read_vectors(leaf.argument)
        return neighbour_table(tokenizer, vectors, top=top, least=least, is_mutual=is_mutual, among=among)

    if not Path(leaf.argument).is_file():
        return TableDetector(build())
    file = Path(leaf.argument)
    settings = fingerprint_of([NEIGHBOURS_VERSION, file.name, top, least, is_mutual, among])
    return TableDetector(kept_table(f"{fingerprint(tokenizer)}-{checksum(file)[:16]}-{settings}", build))
