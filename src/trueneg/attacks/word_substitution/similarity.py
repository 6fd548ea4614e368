"""How similar the words around a change still are to an encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trueneg.bounded_cache import BoundedCache
from trueneg.evaluation.encoders.sentence_similarity import cosines
from trueneg.models.text_reader import TextReader


class Similarity(Protocol):
    """Measures how far texts are from each other, as an angle."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """What its answers depend on."""

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Measure the angle between the two texts of each pair, in radians, ``[pairs]``; of a pair by itself."""


class MeanVectors:
    """The angle between mean vectors of an encoder's last layer.

    TextFooler's authors use the Universal Sentence Encoder, with other angles for the same texts: a limit on the angle
    means something only together with the encoder, and results name both.

    Args:
        source: A checkpoint: a run, a Hugging Face folder or a hub name, with a fast tokenizer.
        device: Where it runs.

    Raises:
        ModelError: if the checkpoint is no encoder.
    """

    def __init__(self, source: str, device: str = "cpu") -> None:
        self.provenance = {"similarity": source, "pooling": "mean of the last layer"}
        self._reader = TextReader(source, device=device)
        self._cache: BoundedCache[str, NDArray[np.float32]] = BoundedCache(1 << 14)  # 50 MB at 384 numbers a vector

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Measure the angle between the two texts of each pair, in radians, ``[pairs]``."""
        if not pairs:
            return np.zeros(0)
        vectors = np.stack(self._cache.look_up([text for pair in pairs for text in pair], self._read))
        return angles(vectors[::2], vectors[1::2])

    def _read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._reader.vectors(texts, poolings=("mean",), layers=slice(-1, None))["mean"]
        return vectors[:, 0].astype(np.float32)


def angles(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.float64]:
    """Measure angles between vectors along the last axis, in radians; a right one with a vector that has no length.

    Example:
        >>> angles(np.array([[1.0, 0], [1, 1]]), np.array([[0.0, 2], [0, 0]])).round(2).tolist()
        [1.57, 1.57]
    """
    return np.arccos(np.clip(cosines(left, right), -1, 1))
