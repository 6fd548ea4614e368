"""Sentence similarity without training (STS-B): cosines of [CLS] and mean vectors against human scores, by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from trueneg.errors import TaskError
from trueneg.evaluation.statistics.bootstrap import Bootstrap
from trueneg.evaluation.statistics.intervals import Interval, percentiles
from trueneg.models.text_reader import Floats, Pooling, TextReader
from trueneg.tasks.base import Prediction
from trueneg.tasks.metrics import METRICS
from trueneg.tasks.text import TextExample
from trueneg.terminal.progress import ProgressCallback, no_progress


def cosines(left: ArrayLike, right: ArrayLike) -> Floats:
    """Compute cosines along the last axis; 0 for a zero vector.

    Example:
        >>> cosines([[3.0, 4.0], [0.0, 0.0]], [[4.0, 3.0], [1.0, 0.0]]).round(2).tolist()
        [0.96, 0.0]
    """
    x, y = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    lengths = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    products = np.einsum("...h,...h->...", x, y)
    return np.asarray(np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0))


@dataclass(frozen=True)
class SentenceSimilarity:
    """Similarities of pairs of sentences by an encoder.

    Attributes:
        keys: Keys of the pairs.
        gold: Human similarity scores, ``[n]``.
        cosines: ``[n, layers + 1]`` for each pooling, rounded to six digits so that equal texts tie.
    """

    keys: Sequence[str]
    gold: Floats
    cosines: Mapping[Pooling, Floats]

    def spearman(self, pooling: Pooling = "mean", layer: int = -1) -> float:
        """Compute Spearman's correlation of a layer's cosines with gold, in [-1, 1]."""
        return METRICS["spearman"](self._columns(pooling, layer))

    def interval(
        self,
        pooling: Pooling = "mean",
        layer: int = -1,
        *,
        confidence: float = 0.95,
        resamples: int = 2000,
        seed: int = 0,
    ) -> Interval:
        """Compute Spearman's correlation with a bootstrap interval over pairs."""
        columns = self._columns(pooling, layer)
        samples = Bootstrap.over(columns, resamples, seed).measure(METRICS["spearman"], [columns])
        return Interval(METRICS["spearman"](columns), *percentiles(samples, confidence), len(self.gold))

    def predictions(self, pooling: Pooling = "mean", layer: int = -1) -> list[Prediction]:
        """Return one prediction per pair, as tasks do, so that ``trueneg compare`` can compare encoders."""
        columns = self._columns(pooling, layer)
        return [
            {"key": key, "gold": gold, "predicted": predicted}
            for key, gold, predicted in zip(
                self.keys, columns["gold"].tolist(), columns["predicted"].tolist(), strict=True
            )
        ]

    def _columns(self, pooling: Pooling, layer: int) -> dict[str, Floats]:
        return {"gold": self.gold, "predicted": self.cosines[pooling][:, layer]}


def sentence_similarity(
    reader: TextReader, examples: Sequence[TextExample], progress: ProgressCallback = no_progress
) -> SentenceSimilarity:
    """Compute the similarity of sentence pairs at every layer.

    Args:
        reader: The encoder.
        examples: Pairs with a numeric label, such as STS-B's.
        progress: Called with the number of distinct sentences read and the total.

    Raises:
        TaskError: for no examples, or one without a second text or a label.
    """
    if not examples:
        raise TaskError("no pairs of sentences: read a split with examples")
    for example in examples:
        if example.second is None or example.label is None:
            raise TaskError(
                f"'{example.key}' is not a labelled pair: read a labelled split of pairs, such as STS-B's dev"
            )
    # Many sentences come in several pairs.
    number = {text: n for n, text in enumerate(dict.fromkeys(t for e in examples for t in (e.text, e.second or "")))}
    vectors = reader.vectors(list(number), progress)
    left = [number[example.text] for example in examples]
    right = [number[example.second or ""] for example in examples]
    return SentenceSimilarity(
        [example.key for example in examples],
        np.array([example.label for example in examples], dtype=np.float64),
        {pooling: cosines(found[left], found[right]).round(6) for pooling, found in vectors.items()},
    )
