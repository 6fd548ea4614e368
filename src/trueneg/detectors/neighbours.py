"""Neighbours among word vectors: the paper's second lookup table (footnote 11, Table 6), and its cosine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerFast

from trueneg.config import CorrectionConfig
from trueneg.detectors.judge import Judge, Scores, Substitution
from trueneg.detectors.specification import Leaf, Resources
from trueneg.detectors.table import TableDetector
from trueneg.errors import ModelError
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.surface import surfaces
from trueneg.lexicon.table import LookupTable
from trueneg.lexicon.vectors import Vectors, load_vectors
from trueneg.models.loading import resolve_checkpoint
from trueneg.tokenizer import load_tokenizer

OPTIONS = ("top", "least", "mutual", "among")
MIN_LETTERS = 3


class NeighboursJudge(Judge):
    """Cosine of the vectors of two words; of several words, of the mean of theirs.

    With ``top`` k, a substitute among the k words nearest to the target scores 1/2 + cosine/2, any other cosine/2: so
    the threshold 1/2 is the paper's lookup table. Without, the score is the cosine (0 if negative), and the threshold
    the least cosine to accept. Words without a vector score 0.

    Args:
        vectors: Of words.
        top: How many neighbours count; 0 for all.
        least: The least cosine to accept.
        is_mutual: A neighbour counts only if the target is among its own.
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
        """Score each substitution."""
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
    ranks_all: bool = False,
) -> LookupTable:
    """List, for every word of a vocabulary, its nearest words: the paper's table of word vectors.

    As in the table of synonyms, words are alphabetic, of three letters or more and no stop words, and a pair agrees
    in prefix and casing.

    Args:
        tokenizer: Any fast tokenizer.
        vectors: Of words.
        top: Neighbours of a word; 0 for all with ``least``.
        least: The least cosine.
        is_mutual: Keep a pair only if each is a neighbour of the other.
        ranks_all: Rank among all words that have vectors, then keep those in the vocabulary, instead of ranking
            among the vocabulary's own. The paper does not say.
    """
    groups: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for token, surface in enumerate(surfaces(tokenizer)):
        word = surface.word.lower()
        is_word = len(word) >= MIN_LETTERS and word.isalpha() and word not in STOP_WORDS
        if surface.starts_word and surface.casing != "mixed" and is_word:
            groups[surface.prefix, surface.casing][word] = token
    row_of = {word: row for group in groups.values() for word in group if (row := vectors.find(word)) is not None}
    word_of = {row: word for word, row in row_of.items()}
    rows = np.array(sorted(word_of), np.int64)
    num = top or len(rows) - 1
    found, cosines = vectors.nearest(rows, num, None if ranks_all else rows)
    near = {
        word_of[int(row)]: {word_of[int(n)] for n, c in zip(ns, cs, strict=True) if c >= least and int(n) in word_of}
        for row, ns, cs in zip(rows, found, cosines, strict=True)
    }
    if is_mutual:
        near = {word: {other for other in others if word in near[other]} for word, others in near.items()}
    table = {
        token: {group[other] for other in near.get(word, ()) if other in group}
        for group in groups.values()
        for word, token in group.items()
    }
    about = {"top": str(top), "least": str(least), "mutual": str(is_mutual), "ranks_all": str(ranks_all)}
    return LookupTable.from_rows(table, tokenizer, {"source": "vectors", **vectors.provenance, **about})


def embedding_vectors(checkpoint: str) -> Vectors:
    """A checkpoint's input embeddings of whole words, as word vectors.

    Raises:
        ModelError: if it is no checkpoint.
    """
    from transformers import AutoModel

    from trueneg.models.quiet import quiet_transformers

    path = resolve_checkpoint(checkpoint)
    with quiet_transformers():
        try:
            model = AutoModel.from_pretrained(path)
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"'{checkpoint}' is no encoder: {str(error).strip().splitlines()[0]}") from error
    matrix = model.get_input_embeddings().weight.detach().float().numpy()
    words: dict[str, int] = {}
    for token, surface in enumerate(surfaces(load_tokenizer(path))[: len(matrix)]):
        # Of "Ġcity" and "city" the one with a space before it is the word.
        if surface.starts_word and surface.word and (surface.word not in words or surface.prefix == "start"):
            words[surface.word] = token
    rows = list(words.values())
    return Vectors.of(list(words), matrix[rows] - matrix[rows].mean(0), {"vectors": f"embeddings of {Path(path).name}"})


def _vectors(leaf: Leaf) -> Vectors:
    leaf.check(argument=True, options=OPTIONS, what="VECTORS, a file of GloVe or word2vec vectors or a checkpoint")
    return load_vectors(leaf.argument) if Path(leaf.argument).is_file() else embedding_vectors(leaf.argument)


def _settings(leaf: Leaf) -> tuple[int, float, bool]:
    default = 0.0 if leaf.threshold is None else leaf.threshold
    least = leaf.number("least", default, least=-1)
    # A threshold is a cosine to reach: then there is no list, unless it is asked for.
    top = int(leaf.number("top", 10 if leaf.threshold is None else 0))
    return top, least, leaf.choice("mutual", ("no", "yes")) == "yes"


def make_judge(leaf: Leaf, resources: Resources) -> NeighboursJudge:
    """Make ``neighbours:VECTORS[top=10,least=0.5,mutual=yes]``; ``@0.6`` asks for a cosine instead of a list."""
    return NeighboursJudge(_vectors(leaf), *_settings(leaf))


def make_detector(leaf: Leaf, config: CorrectionConfig, tokenizer: PreTrainedTokenizerFast) -> TableDetector:
    """Compile the same into a table of a tokenizer."""
    top, least, is_mutual = _settings(leaf)
    ranks_all = leaf.choice("among", ("vocabulary", "file")) == "file"
    table = neighbour_table(tokenizer, _vectors(leaf), top=top, least=least, is_mutual=is_mutual, ranks_all=ranks_all)
    return TableDetector(table)
