"""Features from WordNet's definitions: is the word's sense in the sentence one of the substitute's?"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.arithmetic import reading_autocast
from trueneg.detectors.scorers.base import Substitution
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PartOfSpeech
from trueneg.models.reading import Span, TextEncoder, hidden_states, unit_vectors, weighted_sum

FEATURES = (
    "cosine with a gloss",
    "cosine of senses",
    "cosine of definitions",
    "greatest cosine of definitions",
    "probability of shared senses",
    "rank of the first shared sense",
    "no sense",
    "log number of senses",
)
"""Features of a substitution, see :meth:`Glosses.features`."""

MAX_SENSES = 6
"""Senses of a word that are considered, the most frequent ones."""
SHARPNESS = 10.0
"""Factor of the cosines in the softmax over the word's senses."""

_Sense = tuple[PartOfSpeech, int, str]
"""Part of speech, offset and base form."""


class Glosses:
    """Compares words in their sentence with the same words in WordNet's definitions.

    A sense of a word is the word's vector in "word: definition" at one layer of an encoder, relative to the rest of
    that text, so that it is comparable with the word's vector in a sentence. A definition is the mean of that text's
    last-layer states, as in a sentence encoder.

    Args:
        encoder: Reads texts.
        wordnet: Has the definitions.
        layer: Layer whose states are compared.
    """

    def __init__(self, encoder: TextEncoder, wordnet: WordNet, layer: int) -> None:
        self.encoder = copy(encoder)
        self.encoder.layers = (layer,)
        self.wordnet = wordnet
        self._vectors: dict[_Sense, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}
        self._senses = lru_cache(maxsize=1 << 16)(self._read_senses)

    def features(self, substitutions: Sequence[Substitution]) -> NDArray[np.float64]:
        """Compute ``FEATURES`` of each substitution, float64 ``[n, 8]``.

        The greatest cosine of the word in its sentence with a sense of the substitute; the greatest cosine of a sense
        of the substitute with the senses of the word, weighted by their probability in the sentence; the same of their
        definitions; the greatest cosine of two definitions; the probability of the senses that both have; the
        reciprocal rank of the first of these; whether the substitute has no sense; log(1 + number of the word's
        senses). If either has no sense, cosines, probability and rank are 0.
        """
        spans: dict[Span, int] = {}
        for s in substitutions:
            spans.setdefault((s.text, s.start, s.end), len(spans))
        words = unit_vectors(self.encoder.vectors(list(spans))[:, 0])
        self._read({sense for s in substitutions for text in (s.target, s.substitute) for sense in self._of(text, s)})
        rows = [self._features(s, words[spans[s.text, s.start, s.end]]) for s in substitutions]
        return np.array(rows, np.float64).reshape(-1, len(FEATURES))

    def _features(self, s: Substitution, word: NDArray[np.float32]) -> list[float]:
        own, other = self._of(s.target, s), self._of(s.substitute, s)
        if not own or not other:
            return [0.0] * 6 + [float(not other), float(np.log1p(len(own)))]
        (here, defined), (there, other_defined) = (
            map(np.stack, zip(*(self._vectors[sense] for sense in senses), strict=True)) for senses in (own, other)
        )
        probability = np.exp(SHARPNESS * (here @ word - (here @ word).max()))
        probability /= probability.sum()
        synsets = {sense[:2] for sense in other}
        is_shared = np.array([sense[:2] in synsets for sense in own])
        rank = 1 / (1 + int(is_shared.argmax())) if is_shared.any() else 0.0
        definitions = defined @ other_defined.T
        return [
            float((there @ word).max()),
            float((probability @ here @ there.T).max()),
            float((probability @ definitions).max()),
            float(definitions.max()),
            float(probability @ is_shared),
            rank,
            0.0,
            float(np.log1p(len(own))),
        ]

    def _of(self, word: str, s: Substitution) -> tuple[_Sense, ...]:
        return self._senses(word, s.pos)

    def _read_senses(self, word: str, pos: PartOfSpeech | None) -> tuple[_Sense, ...]:
        return tuple(sense for sense, _ in zip(self.wordnet.senses(word, pos), range(MAX_SENSES), strict=False))

    @torch.no_grad()
    def _read(self, senses: set[_Sense]) -> None:
        """Encode new definitions; the lexicon is finite, so all are kept."""
        new, encoder = sorted(senses - self._vectors.keys()), self.encoder
        texts = [(f"{base}: {self.wordnet.synset(p, offset).definition}", 0, len(base)) for p, offset, base in new]
        for chosen, read in encoder.reader.batches(texts, encoder.model.device):
            with reading_autocast(encoder.model.device):
                states = hidden_states(encoder.model, read.input_ids, read.attention_mask)
            weights = (encoder.weights(read), read.attention_mask / read.attention_mask.sum(1, keepdim=True))
            layers = (encoder.layers[0], -1)
            words, definitions = (
                unit_vectors(weighted_sum(states[layer].float(), weight.to(states[layer].device)).cpu().numpy())
                for layer, weight in zip(layers, weights, strict=True)
            )
            for at, word, definition in zip(chosen.tolist(), words, definitions, strict=True):
                self._vectors[new[at]] = word, definition
