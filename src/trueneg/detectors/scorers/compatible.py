"""Whether a word could replace another at all, by form and by classes of words: ``prototypes:FILE & fits``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, of_slots
from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.detectors.specification import Leaf, Resources
from trueneg.lexicon.compatibility import Compatibility, Profile
from trueneg.lexicon.surface import surfaces

_KINDS = {"date": 1, "unit": 2, "number": 4}


class CompatibleScorer(SubstitutionScorer):
    """Score 1 if ``Compatibility.fits`` holds for a word and a single substitute, else 0; several words always fit."""

    def __init__(self, fit: Compatibility) -> None:
        self._fit = fit
        self.provenance = {"wordnet": fit.wordnet.version}

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """1 or 0 for each."""
        return np.array(
            [" " in s.substitute or self._fit.fits(s.target, s.substitute) for s in substitutions], np.float64
        )

    def reads(self) -> tuple[object, ...]:
        """WordNet's digest, and how opposites are found: in earlier versions only in one direction."""
        return self._fit.wordnet.digest, "opposites in both directions"


class FitsDetector(Detector):
    """``CompatibleScorer`` for the tokens of a vocabulary, on the device: credit 1 or 0.

    Args:
        profiles: Profile of each token; None for one that is not a word, which fits everywhere.
        forbidden: Pairs of tokens that are forms of one word, or antonyms, as ``gold * vocabulary + other``.
    """

    def __init__(self, profiles: Sequence[Profile | None], forbidden: Sequence[int]) -> None:
        super().__init__()
        self._vocab_size = len(profiles)
        bits: dict[str, int] = {}
        for profile in profiles:
            for tag in sorted(profile.tags) if profile else ():
                bits.setdefault(tag, 1 << len(bits))
        tags = [sum(bits[tag] for tag in profile.tags) if profile else 0 for profile in profiles]
        kinds = [sum(_KINDS[kind] for kind in profile.kinds) if profile else 0 for profile in profiles]
        self._tags: Tensor
        self._kinds: Tensor
        self._is_name: Tensor
        self._forbidden: Tensor
        for name, value in {
            "_tags": torch.tensor(tags),
            "_kinds": torch.tensor(kinds),
            "_is_name": torch.tensor([bool(profile and profile.is_name) for profile in profiles]),
            "_forbidden": torch.tensor([*sorted(forbidden), 2**62]),
        }.items():
            self.register_buffer(name, value, persistent=False)

    def credit(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Give 1 to tokens that could replace gold."""
        here, there = (ids.clamp(max=self._vocab_size - 1) for ids in (gold, tokens))
        is_form = (self._tags[here] == 0) | (self._tags[there] == 0) | ((self._tags[here] & self._tags[there]) != 0)
        is_apart = ((self._kinds[here] & self._kinds[there]) != 0) | self._is_name[here] | self._is_name[there]
        pair = here * self._vocab_size + there
        is_forbidden = self._forbidden[torch.searchsorted(self._forbidden, pair)] == pair
        is_scored = (tokens < self._vocab_size) & of_slots(batch.is_whole_word, tokens)
        return (is_form & ~is_apart & ~is_forbidden & is_scored).to(torch.float32)


def make_scorer(leaf: Leaf, resources: Resources) -> CompatibleScorer:
    """Accept words of a compatible form, except antonyms, names, and two dates, units or numbers: & fits.

    Raises:
        LexiconError: if WordNet is not found.
    """
    leaf.check(argument=False)
    return CompatibleScorer(Compatibility(resources.relations.wordnet))


def make_detector(leaf: Leaf, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> FitsDetector:
    """Compile ``fits`` for a tokenizer, which takes some seconds.

    Raises:
        LexiconError: if WordNet is not found.
    """
    leaf.check(argument=False)
    fit = Compatibility(resources.relations.wordnet)
    words = [surface.word.lower() if surface.starts_word else "" for surface in surfaces(tokenizer)]
    profiles = [fit.profile(word) if word else None for word in words]
    forms: dict[str, list[int]] = defaultdict(list)
    for token, profile in enumerate(profiles):
        for base in {base for _, base in profile.bases} | {words[token]} if profile else ():
            forms[base].append(token)
    related = {
        tuple(sorted((token, other)))
        for token, profile in enumerate(profiles)
        if profile
        for base in {base for _, base in profile.bases} | fit.opposites(words[token])
        for other in forms.get(base, ())
        if other != token
    }
    # ``fits`` is symmetric.
    unfit = [pair for pair in related if not fit.fits(*(words[token] for token in pair))]
    return FitsDetector(profiles, [a * len(words) + b for pair in unfit for a, b in (pair, pair[::-1])])
