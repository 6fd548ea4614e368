"""Words compared in their sentence: how similar are an encoder's vectors of a word and of its substitute there?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.detectors.specification import Leaf, Resources
from trueneg.errors import ConfigError
from trueneg.models.reading import Span, TextEncoder, unit_vectors
from trueneg.models.together import check_together, substitute_vectors

OPTIONS = ("layer", "pooling", "window", "center", "reading")
READINGS = ("apart", "together")
PAIRS_AT_ONCE = 2048
"""Pairs of a word and a substitute whose vectors are in memory at once, rounded up to whole words."""
THRESHOLD = 0.65
"""The default acceptance threshold; encoders differ, so calibrate: ``trueneg detect calibrate``."""


class ContextualScorer(SubstitutionScorer):
    """Cosine between a word's vector in its sentence and its substitute's vector in the same position.

    An encoder reads the sentence twice, with the word and with the substitute, and the two states at that position are
    compared, each relative to the rest of its sentence. With several layers, the cosines are averaged. A negative
    cosine scores 0, as does a word that the encoder's tokenizer drops.

    Args:
        encoder: Reads words in sentences.
        threshold: The acceptance threshold.
        together: Whether to encode all substitutes of a word in one pass over its sentence, see ``models.together``,
            instead of one pass each.

    Raises:
        ModelError: if they are to be encoded together and the encoder does not support it.
    """

    def __init__(self, encoder: TextEncoder, threshold: float = THRESHOLD, together: bool = False) -> None:
        if together:
            check_together(encoder)
        self.encoder = encoder
        self.together = together
        self.threshold = threshold
        self.provenance = {
            "encoder": encoder.name,
            "layers": " ".join(map(str, encoder.layers)),
            "pooling": encoder.pooling,
            "window": str(encoder.reader.window),
            "center": "sentence" if encoder.center else "none",
            **({"reading": "together"} if together else {}),
        }

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """Score each substitution; a text is read once for each of its words."""
        return np.asarray(self.cosines(substitutions).mean(1).clip(0.0, 1.0))

    def cosines(self, substitutions: Sequence[Substitution]) -> NDArray[np.float64]:
        """Cosine at each layer, float64 ``[n, layers]``."""
        # Each word with all of its substitutes, so that its text is read once.
        number: dict[Span, int] = {}
        words = np.array([number.setdefault((s.text, s.start, s.end), len(number)) for s in substitutions], np.int64)
        cosines = np.zeros((len(substitutions), len(self.encoder.layers)))
        counts = np.bincount(words)
        part = ((counts.cumsum() - counts) // PAIRS_AT_ONCE)[words]
        for one in np.unique(part):
            chosen = np.flatnonzero(part == one)
            original, changed = self.vectors([substitutions[at] for at in chosen.tolist()])
            cosines[chosen] = (original * changed).sum(-1)
        return cosines

    def vectors(self, substitutions: Sequence[Substitution]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Unit vectors of the words and of their substitutes, each ``[n, layers, hidden]``."""
        if self.together:
            return self._vectors_together(substitutions)
        spans: dict[Span, int] = {}
        places = [
            [
                spans.setdefault((text, s.start, end), len(spans))
                for text, end in ((s.text, s.end), (s.substituted, s.start + len(s.substitute)))
            ]
            for s in substitutions
        ]
        units = unit_vectors(self.encoder.vectors(list(spans)))
        rows = np.array(places, np.int64).reshape(-1, 2)
        return units[rows[:, 0]], units[rows[:, 1]]

    def _vectors_together(
        self, substitutions: Sequence[Substitution]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        asked: dict[Span, dict[str, int]] = {}
        places = []
        for s in substitutions:
            words = asked.setdefault((s.text, s.start, s.end), {})
            places.append((words, words.setdefault(s.substitute, len(words) + 1)))
        found = substitute_vectors(self.encoder, list(asked), [list(words) for words in asked.values()])
        first = dict(zip(map(id, asked.values()), np.cumsum([0, *map(len, found)]).tolist(), strict=False))
        units = unit_vectors(np.concatenate(found)) if found else self.encoder.vectors([])
        return units[[first[id(words)] for words, _ in places]], units[[first[id(words)] + at for words, at in places]]

    @property
    def counts(self) -> Mapping[str, int]:
        """Numbers of texts and words cut to the window, and of words without tokens."""
        return dict(self.encoder.reader.counts)

    def reads(self) -> tuple[object, ...]:
        """The encoder's digest, and the settings."""
        encoder = self.encoder
        settings = (encoder.layers, encoder.pooling, encoder.center, encoder.reader.window)
        # Without ``together``, the digest is that of former versions.
        return encoder.digest(), *settings, *(("together",) if self.together else ())

    def to(self, device: torch.device) -> None:
        """Move the encoder."""
        self.encoder.to(device)


def make_scorer(leaf: Leaf, resources: Resources) -> ContextualScorer:
    """Compare a word and its substitute as an encoder sees them in the sentence: contextual:ENCODER.

    Options: ``[layer=4,pooling=mean,window=128,center=sentence,reading=together]``; ``layer=3-5`` averages layers.

    Raises:
        ConfigError: for an unknown option or an invalid value.
        ModelError: if there is no such encoder, or it has no such layer.
    """
    leaf.check(argument=True, options=OPTIONS, what="ENCODER, a checkpoint or a hub name")
    encoder = TextEncoder(
        leaf.argument,
        _layers(leaf),
        leaf.choice("pooling", ("mean", "first")),  # type: ignore[arg-type]
        leaf.count("window", 128, min=8),
        leaf.choice("center", ("sentence", "none")) == "sentence",
        resources.device,
    )
    return ContextualScorer(encoder, leaf.threshold_or(THRESHOLD), leaf.choice("reading", READINGS) == "together")


def _layers(leaf: Leaf) -> tuple[int, ...]:
    text = leaf.options.get("layer", "")
    if not text:
        return ()
    first, _, last = text.partition("-")
    if not (first.isdigit() and (last.isdigit() or not last)):
        raise ConfigError(f"detector '{leaf.text}': layer={text}: expected a number, or two as 3-5")
    if int(last or first) < int(first):
        raise ConfigError(f"detector '{leaf.text}': layer={text}: the lower one first")
    return tuple(range(int(first), int(last or first) + 1))
