"""Words of one family, and names: close to one another in any vector space, but hardly ever interchangeable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import permutations
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, of_slots
from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.detectors.specification import Leaf, Resources
from trueneg.detectors.table import TableDetector
from trueneg.lexicon.compatibility import is_proper
from trueneg.lexicon.families import Families
from trueneg.lexicon.surface import surfaces
from trueneg.lexicon.table import LookupTable
from trueneg.lexicon.wordnet import WordNet


class FamilyScorer(SubstitutionScorer):
    """Score 1 if two words are of one family, or one is a name, and they are not synonyms, else 0.

    Args:
        kind: ``derived`` or ``proper``.
        wordnet: The lexicon.
    """

    def __init__(self, kind: Literal["derived", "proper"], wordnet: WordNet) -> None:
        self._kind = kind
        self._families = Families(wordnet)
        self._is_name = lru_cache(maxsize=1 << 17)(partial(is_proper, wordnet=wordnet))
        self.provenance = {"class": kind, "wordnet": wordnet.version}

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """1 if the kind applies, else 0."""
        return np.array([self._applies(s.target, s.substitute) for s in substitutions], dtype=np.float64)

    def reads(self) -> tuple[object, ...]:
        """The kind, and WordNet's digest."""
        return self._kind, self._families.wordnet.digest

    def _applies(self, word: str, other: str) -> bool:
        if self._kind == "derived":
            return self._families.are_related(word, other)
        is_name = self._is_name(word) or self._is_name(other)
        return is_name and not self._families.wordnet.are_synonyms(word, other)


class ProperDetector(Detector):
    """``FamilyScorer`` of names for the tokens of a vocabulary, on the device: credit 1 or 0.

    Args:
        is_name: Whether each token is a name.
        synonyms: Pairs of synonyms of which either is a name.
    """

    def __init__(self, is_name: Sequence[bool], synonyms: LookupTable) -> None:
        super().__init__()
        self.synonyms = TableDetector(synonyms)
        self.provenance = self.synonyms.provenance
        self._is_name: Tensor
        self.register_buffer("_is_name", torch.tensor(is_name), persistent=False)

    def credit(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Give 1 if gold or the token is a name and they are not synonyms."""
        here, there = (ids.clamp(max=len(self._is_name) - 1) for ids in (gold, tokens))
        is_scored = (tokens < len(self._is_name)) & of_slots(batch.is_whole_word, tokens)
        is_one = (self._is_name[here] | self._is_name[there]) & is_scored
        return is_one.to(torch.float32) - is_one * self.synonyms.credit(gold, tokens, batch)


def derived(leaf: Leaf, resources: Resources) -> FamilyScorer:
    """Accept words of one family that are not synonyms, as "japan" for "japanese"; as a veto: !derived."""
    leaf.check(argument=False)
    return FamilyScorer("derived", resources.relations.wordnet)


def proper(leaf: Leaf, resources: Resources) -> FamilyScorer:
    """Accept pairs, except synonyms, in which either word is mostly a name; as a veto: !proper."""
    leaf.check(argument=False)
    return FamilyScorer("proper", resources.relations.wordnet)


def make_derived(leaf: Leaf, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> TableDetector:
    """Compile ``derived`` for a tokenizer, which takes some seconds.

    Raises:
        LexiconError: if WordNet is not found.
    """
    leaf.check(argument=False)
    families, words = Families(resources.relations.wordnet), _words(tokenizer)
    near = set(_sharing((token, families.roots(word)) for token, word in words.items()))
    bases: dict[str, list[int]] = defaultdict(list)
    for token, word in words.items():
        for base in families.bases(word):
            bases[base].append(token)
    for token, word in words.items():
        for part in families.first_parts(word):
            near.update(pair for other in bases[part] for pair in ((token, other), (other, token)))
    return TableDetector(_table(near - _synonyms(words, families.wordnet), tokenizer, families.wordnet))


def make_proper(leaf: Leaf, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> ProperDetector:
    """Compile ``proper`` for a tokenizer, which takes some seconds.

    Raises:
        LexiconError: if WordNet is not found.
    """
    leaf.check(argument=False)
    wordnet, words = resources.relations.wordnet, _words(tokenizer)
    is_name = [False] * (max(tokenizer.get_vocab().values()) + 1)
    for token, word in words.items():
        is_name[token] = is_proper(word, wordnet)
    synonyms = {(a, b) for a, b in _synonyms(words, wordnet) if is_name[a] or is_name[b]}
    return ProperDetector(is_name, _table(synonyms, tokenizer, wordnet))


Pair = tuple[int, int]


def _words(tokenizer: PreTrainedTokenizerFast) -> dict[int, str]:
    """Tokens that can begin a word, in lower case."""
    found = enumerate(surfaces(tokenizer))
    return {token: surface.word.lower() for token, surface in found if surface.starts_word and surface.word}


def _synonyms(words: dict[int, str], wordnet: WordNet) -> set[Pair]:
    """Pairs of tokens with a meaning in common."""
    meanings = ((token, [(pos, at) for pos, at, _ in wordnet.senses(word)]) for token, word in words.items())
    return set(_sharing(meanings))


def _sharing(tokens: Iterable[tuple[int, Iterable[Hashable]]]) -> Iterator[Pair]:
    """Pairs of tokens that share a value, in both orders."""
    having: dict[Hashable, list[int]] = defaultdict(list)
    for token, values in tokens:
        for value in values:
            having[value].append(token)
    for group in having.values():
        yield from permutations(group, 2)


def _table(pairs: set[Pair], tokenizer: PreTrainedTokenizerFast, wordnet: WordNet) -> LookupTable:
    rows: dict[int, set[int]] = defaultdict(set)
    for gold, other in pairs:
        rows[gold].add(other)
    return LookupTable.from_rows(rows, tokenizer, {"wordnet": wordnet.version})
