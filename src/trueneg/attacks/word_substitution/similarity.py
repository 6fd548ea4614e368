"""Similarity, according to an encoder, of the text around a change before and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trueneg.bounded_cache import BoundedCache
from trueneg.evaluation.encoders.sentence_similarity import cosines
from trueneg.models.text_reader import TextReader


class Similarity(Protocol):
    """Measures the distance between texts as an angle."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """Description of what its values depend on."""

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Angle between the texts of each pair, in radians, ``[pairs]``; it does not depend on the other pairs."""


class MeanVectors:
    """The angle between mean vectors of an encoder's last layer.

    TextFooler's authors use the Universal Sentence Encoder, which gives other angles for the same texts: a limit on the
    angle is only meaningful together with the encoder, and results name both.

    Args:
        source: A checkpoint: a run, a Hugging Face folder or a hub name, with a fast tokenizer.
        device: Device that it runs on.

    Raises:
        ModelError: if the checkpoint is not an encoder.
    """

    def __init__(self, source: str, device: str = "cpu") -> None:
        self.provenance = {"similarity": source, "pooling": "mean of the last layer"}
        self._reader = TextReader(source, device=device)
        self._cache: BoundedCache[str, NDArray[np.float32]] = BoundedCache(1 << 14)  # 50 MB with 384 dimensions

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Angle between the texts of each pair, in radians, ``[pairs]``."""
        if not pairs:
            return np.zeros(0)
        vectors = np.stack(self._cache.look_up([text for pair in pairs for text in pair], self._read))
        return angles(vectors[::2], vectors[1::2])

    def _read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._reader.vectors(texts, poolings=("mean",), layers=slice(-1, None))["mean"]
        return vectors[:, 0].astype(np.float32)


def angles(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.float64]:
    """Angles between vectors along the last axis, in radians; a right angle if a vector is zero.

    Example:
        >>> angles(np.array([[1.0, 0], [1, 1]]), np.array([[0.0, 2], [0, 0]])).round(2).tolist()
        [1.57, 1.57]
    """
    return np.arccos(np.clip(cosines(left, right), -1, 1))
