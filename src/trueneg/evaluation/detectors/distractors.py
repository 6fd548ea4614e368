"""Words that are near a target in every vector space but are not substitutes: antonyms and sister terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trueneg.detectors.scorers.base import Substitution
from trueneg.evaluation.detectors.swords import LEVELS, Item
from trueneg.lexicon.morphology import agreeing_substitute
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PartOfSpeech

Kind = Literal["antonyms", "sisters"]

KINDS: tuple[Kind, ...] = ("antonyms", "sisters")


@dataclass(frozen=True, slots=True)
class Distractor:
    """A target replaced by a word of the wrong meaning."""

    substitution: Substitution
    target_id: str
    kind: Kind


def distractors(
    items: Sequence[Item], wordnet: WordNet, *, max_sisters: int = 10, seed: int = 0, inflect: bool = True
) -> list[Distractor]:
    """Put WordNet's antonyms and sister terms of each target into its context.

    Antonyms of every sense are used. Sister terms are the other hyponyms of the hypernyms of the first sense (of nouns
    and verbs), unless they share a synset with the target. Words that at least one in ten annotators accepts are left
    out of both.

    Args:
        items: Substitutions with human judgements.
        wordnet: Source of the words.
        max_sisters: Maximum number of sister terms per target, drawn at random.
        seed: Seed of the draws.
        inflect: Inflect and case the words like the target.
    """
    first = {item.target_id: item for item in reversed(items)}
    targets = [first[target_id] for target_id in dict.fromkeys(item.target_id for item in items)]
    accepted = {(i.target_id, i.substitute_lemma.lower()) for i in items if i.acceptability >= LEVELS["any"]}
    generator = np.random.default_rng(seed)

    def of_kind(target: Item, kind: Kind, words: Sequence[str]) -> Iterator[Distractor]:
        given, before = target.substitution, target.substitution.text[: target.substitution.start]
        for word in words:
            form = agreeing_substitute(given.target, target.lemma, word, given.pos, before=before) if inflect else word
            yield Distractor(Substitution(given.text, given.start, given.end, form, given.pos), target.target_id, kind)

    found: list[Distractor] = []
    for target in targets:
        if target.substitution.pos is None:
            continue
        for kind, words in (
            ("antonyms", wordnet.antonyms(target.lemma, target.substitution.pos)),
            ("sisters", sister_terms(wordnet, target.lemma, target.substitution.pos)),
        ):
            left = sorted(word for word in words if (target.target_id, word.lower()) not in accepted)
            if kind == "sisters" and len(left) > max_sisters:
                left = [left[at] for at in sorted(generator.choice(len(left), max_sisters, replace=False).tolist())]
            found += of_kind(target, kind, left)  # type: ignore[arg-type]
    return found


def sister_terms(wordnet: WordNet, word: str, pos: PartOfSpeech) -> frozenset[str]:
    """Find the words that share a hypernym with a word's most frequent sense, and no synset with the word.

    Example:
        ``"village" in sister_terms(WordNet.load(), "town", "n")``
    """
    first = next(iter(wordnet.senses(word, pos)), None)
    if first is None:
        return frozenset()
    above = [p for p in wordnet.synset(first[0], first[1]).pointers if p.symbol == "@"]
    below = (q for p in above for q in wordnet.synset(p.pos, p.offset).pointers if q.symbol == "~")
    own = {lemma.lower() for lemma in wordnet.synonyms(word, pos)} | {word.lower()}
    return frozenset(lemma for q in below for lemma in wordnet.lemmas(q.pos, q.offset) if lemma.lower() not in own)
