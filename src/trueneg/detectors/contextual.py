"""Words judged in their sentence: does an encoder still see the same word there when another is put in its place?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.detectors.encoder import Span, TextEncoder
from trueneg.detectors.judge import Judge, Scores, Substitution
from trueneg.detectors.specification import Leaf, Resources
from trueneg.errors import ConfigError
from trueneg.lexicon.wordnet import WordNet

OPTIONS = ("layer", "pooling", "window", "whiten")
WHITENING = 0.25
NUM_BACKGROUND = 2000


class ContextualJudge(Judge):
    """Cosine of a word's vector in its sentence and its substitute's vector in the same place.

    An encoder reads the sentence twice, with the word and with the substitute, and the two states at that place are
    compared. Directions that every word has much of say little, so states are first centred and each principal
    direction is divided by its standard deviation to the power ``2 * whiten``: 0 leaves directions as they are, 1/2
    is full whitening. Mean and directions are those of words in WordNet's example sentences. Of several layers, the
    cosines are averaged. A negative cosine scores 0.

    Args:
        encoder: Reads words in sentences.
        whiten: How much to whiten.
        threshold: The least score to accept.
        background: Words in sentences that the mean and the directions are taken from.
    """

    def __init__(
        self, encoder: TextEncoder, whiten: float = WHITENING, threshold: float = 0.5, background: Sequence[Span] = ()
    ) -> None:
        self.encoder = encoder
        self.whiten = whiten
        self.threshold = threshold
        self.background = background
        self.provenance = {
            "encoder": encoder.name,
            "layers": " ".join(map(str, encoder.layers)),
            "pooling": encoder.pooling,
            "window": str(encoder.reader.window),
            "whiten": str(whiten),
        }

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """Score each substitution; every text is read once."""
        return np.asarray(self.cosines(substitutions).mean(1).clip(0.0, 1.0))

    def cosines(self, substitutions: Sequence[Substitution]) -> NDArray[np.float64]:
        """Cosine at each layer, float64 ``[n, layers]``."""
        original, changed = self.vectors(substitutions)
        return np.asarray((original * changed).sum(-1), np.float64)

    def vectors(self, substitutions: Sequence[Substitution]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Unit vectors of the words and of their substitutes, each ``[n, layers, hidden]``."""
        spans: dict[Span, int] = {}
        places = [
            [
                spans.setdefault((text, s.start, end), len(spans))
                for text, end in ((s.text, s.end), (s.substituted, s.start + len(s.substitute)))
            ]
            for s in substitutions
        ]
        units = self._units(self.encoder.vectors(list(spans)))
        rows = np.array(places, np.int64).reshape(-1, 2)
        return units[rows[:, 0]], units[rows[:, 1]]

    def _units(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        mean, transform = self._statistics
        is_seen = vectors.any(-1, keepdims=True)
        changed = np.einsum("nlh,lhk->nlk", vectors - mean, transform) * is_seen
        return np.asarray(changed / np.maximum(np.linalg.norm(changed, axis=-1, keepdims=True), 1e-12), np.float32)

    @cached_property
    def _statistics(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Mean ``[layers, hidden]`` and transform ``[layers, hidden, hidden]``."""
        num_layers, hidden = len(self.encoder.layers), self.encoder.model.config.hidden_size
        if not self.background:
            return np.zeros((num_layers, hidden), np.float32), np.tile(
                np.eye(hidden, dtype=np.float32), (num_layers, 1, 1)
            )
        seen = self.encoder.vectors(self.background)
        mean = seen.mean(0)
        transforms = []
        for layer in range(num_layers):
            values, directions = np.linalg.eigh(np.cov(seen[:, layer] - mean[layer], rowvar=False))
            floored = np.maximum(values, 0) + 1e-4 * values.max()
            transforms.append(directions / floored**self.whiten)
        return mean, np.stack(transforms).astype(np.float32)

    def to(self, device: torch.device) -> None:
        """Move the encoder."""
        self.encoder.to(device)


def background_words(wordnet: WordNet, num: int = NUM_BACKGROUND) -> list[Span]:
    """Words in WordNet's example sentences, spread evenly over it."""
    examples = [example for gloss in wordnet.glosses() for example in gloss.examples if len(example.split()) >= 4]
    chosen = examples[:: max(1, len(examples) // num)][:num]
    spans = []
    for number, example in enumerate(chosen):
        words = example.split(" ")
        place = number % len(words)
        start = sum(len(word) + 1 for word in words[:place])
        if words[place]:
            spans.append((example, start, start + len(words[place])))
    return spans


def make_judge(leaf: Leaf, resources: Resources) -> ContextualJudge:
    """Make ``contextual:ENCODER[layer=4,pooling=mean,window=128,whiten=0.25]``; ``layer=3-5`` averages layers."""
    leaf.check(argument=True, options=OPTIONS, what="ENCODER, a checkpoint or a hub name")
    encoder = TextEncoder(
        leaf.argument,
        _layers(leaf),
        leaf.choice("pooling", ("mean", "first")),  # type: ignore[arg-type]
        int(leaf.number("window", 128, least=8)),
        resources.device,
    )
    whiten = leaf.number("whiten", WHITENING)
    background = background_words(resources.relations.wordnet) if whiten else ()
    return ContextualJudge(encoder, whiten, 0.5 if leaf.threshold is None else leaf.threshold, background)


def _layers(leaf: Leaf) -> tuple[int, ...]:
    text = leaf.options.get("layer", "")
    if not text:
        return ()
    first, _, last = text.partition("-")
    if not (first.isdigit() and (last.isdigit() or not last)):
        raise ConfigError(f"detector '{leaf.text}': layer={text}: a number is wanted, or two as 3-5")
    return tuple(range(int(first), int(last or first) + 1))
