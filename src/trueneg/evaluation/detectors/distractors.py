"""Words that lie near a target in every vector space and yet are no substitutes: antonyms and sister terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trueneg.detectors.scorers.base import Substitution
from trueneg.evaluation.detectors.swords import LEVELS, Item
from trueneg.lexicon.agreement import agreeing_substitute
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PartOfSpeech

Kind = Literal["antonyms", "sisters"]

KINDS: tuple[Kind, ...] = ("antonyms", "sisters")


@dataclass(frozen=True, slots=True)
class Distractor:
    """A word of the wrong meaning in the place of a target."""

    substitution: Substitution
    target_id: str
    kind: Kind


def distractors(
    items: Sequence[Item], wordnet: WordNet, *, most_sisters: int = 10, seed: int = 0, inflect: bool = True
) -> list[Distractor]:
    """Put WordNet's antonyms and sister terms of each target into its context.

    Antonyms are WordNet's own, of every sense. Sister terms are the other words below the hypernyms of the first
    sense (nouns and verbs have such), unless they share a synset with the target. What one in ten judges accepts
    is left out of both: "accept" may well stand for "deny" somewhere.

    Args:
        items: Judged substitutions.
        wordnet: Where the words come from.
        most_sisters: Sister terms of a target, drawn at random where it has more.
        seed: Draws them.
        inflect: Put the words into the form and casing of the target.
    """
    first = {item.target_id: item for item in reversed(items)}
    targets = [first[target_id] for target_id in dict.fromkeys(item.target_id for item in items)]
    accepted = {(i.target_id, i.substitute_lemma.lower()) for i in items if i.acceptability >= LEVELS["any"]}
    generator = np.random.default_rng(seed)

    def of_kind(target: Item, kind: Kind, words: Sequence[str]) -> Iterator[Distractor]:
        place, before = target.substitution, target.substitution.text[: target.substitution.start]
        for word in words:
            form = agreeing_substitute(place.target, target.lemma, word, place.pos, before=before) if inflect else word
            yield Distractor(Substitution(place.text, place.start, place.end, form, place.pos), target.target_id, kind)

    found: list[Distractor] = []
    for target in targets:
        if target.substitution.pos is None:
            continue
        for kind, words in (
            ("antonyms", wordnet.antonyms(target.lemma, target.substitution.pos)),
            ("sisters", sister_terms(wordnet, target.lemma, target.substitution.pos)),
        ):
            left = sorted(word for word in words if (target.target_id, word.lower()) not in accepted)
            if kind == "sisters" and len(left) > most_sisters:
                left = [left[at] for at in sorted(generator.choice(len(left), most_sisters, replace=False).tolist())]
            found += of_kind(target, kind, left)  # type: ignore[arg-type]
    return found


def sister_terms(wordnet: WordNet, word: str, pos: PartOfSpeech) -> frozenset[str]:
    """The words that share a hypernym with a word's most frequent sense, and no synset with the word.

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
