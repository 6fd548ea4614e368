"""Substitutes merged by lemma and ranked per target, as in SWORDS' evaluator (Lee et al. 2021): GAP.

Where annotators judged substitutes (SWORDS), a substitute's gain is the share of annotators sure of it who accept it,
over all forms of the lemma. Where they proposed them (SemEval-07, CoInCo), it is the number who proposed it, and
phrases, which include hyphenated words in their evaluators, are left out on both sides (Thater et al. 2010, Melamud et
al. 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trueneg.errors import ConfigError, unknown_name
from trueneg.evaluation.detectors.swords import Item
from trueneg.evaluation.statistics.ranking import Floats, Integers, generalized_average_precision
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PartOfSpeech

PHRASES = ("auto", "keep", "drop")
"""How to treat substitutes of several words, including hyphenated ones; ``auto`` keeps them where substitutes were
judged, as in SWORDS."""

Lemmatizer = Callable[[str, PartOfSpeech | None], str]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Substitutes of each target, each lemma once."""

    of_item: Integers
    """Index of each item's candidate, int64 ``[items]``; -1 for an item that is left out."""
    targets: tuple[str, ...]
    """Target of each candidate."""
    lemmas: tuple[str, ...]
    gains: Floats
    """float64 ``[candidates]``."""
    counts: Mapping[str, int]
    """Number of items merged, of items left out by reason, and of targets ``without_gain``."""

    def gap_by_target(self, scores: Floats) -> dict[str, float]:
        """Compute GAP by target, without targets for which nobody accepts a substitute.

        Args:
            scores: Scores of the items, ``[items]``; a candidate gets the highest score of its items.
        """
        best = np.full(len(self.gains), -np.inf)
        known = self.of_item >= 0
        np.maximum.at(best, self.of_item[known], scores[known])
        return {
            target: generalized_average_precision(self.gains[chosen], best[chosen])
            for target, chosen in self.by_target().items()
            if (self.gains[chosen] > 0).any()
        }

    def by_target(self) -> dict[str, Integers]:
        """Return the indices of each target's candidates."""
        found: dict[str, list[int]] = {}
        for number, target in enumerate(self.targets):
            found.setdefault(target, []).append(number)
        return {target: np.array(numbers, np.int64) for target, numbers in found.items()}


def is_phrase(lemma: str) -> bool:
    """Whether a substitute has several words, or parts joined by a hyphen."""
    return " " in lemma or "-" in lemma


def merge_candidates(items: Sequence[Item], lemmatize: Lemmatizer, *, phrases: str = "auto") -> Candidates:
    """Merge substitutes of the same lemma; leave out the target's own lemma and substitutes that nobody is sure of.

    Args:
        items: Substitutions with human judgements.
        lemmatize: Returns the lemma of a word, given its part of speech: see ``lemmatizer``.
        phrases: One of ``PHRASES``.

    Raises:
        ConfigError: for an unknown ``phrases``, or if no candidate is left that anyone accepts.
    """
    if phrases not in PHRASES:
        raise ConfigError(unknown_name("way with phrases", phrases, PHRASES))
    number: dict[tuple[str, str], int] = {}
    counts = dict.fromkeys(("merged", "same_as_target", "phrases_dropped", "unsure", "without_gain"), 0)
    accepting, sure, of_item = list[int](), list[int](), np.full(len(items), -1, np.int64)
    is_proposed = list[bool]()
    for at, item in enumerate(items):
        pos = item.substitution.pos
        lemma = lemmatize(item.substitute_lemma, pos)
        if lemma == lemmatize(item.substitution.target, pos):
            counts["same_as_target"] += 1
        elif is_phrase(lemma) and (phrases == "drop" or (phrases == "auto" and item.is_proposed)):
            counts["phrases_dropped"] += 1
        elif not item.num_accepting + item.num_rejecting:
            counts["unsure"] += 1
        else:
            counts["merged"] += (item.target_id, lemma) in number
            of_item[at] = one = number.setdefault((item.target_id, lemma), len(number))
            if one == len(accepting):
                accepting.append(0)
                sure.append(0)
                is_proposed.append(item.is_proposed)
            accepting[one] += item.num_accepting
            sure[one] += item.num_accepting + item.num_rejecting
    gains = np.array(accepting, np.float64) / np.where(is_proposed, 1, sure)
    targets, lemmas = (tuple(part) for part in zip(*number, strict=True)) if number else ((), ())
    if not (gains > 0).any():
        raise ConfigError("no substitute of this data is acceptable to anyone: choose other data, or more targets")
    with_gain = {target for target, gain in zip(targets, gains, strict=True) if gain > 0}
    counts["without_gain"] = len({item.target_id for item in items} - with_gain)
    return Candidates(of_item, targets, lemmas, gains, counts)


def lemmatizer(wordnet: WordNet) -> Lemmatizer:
    """Make SWORDS' lemmatizer: the shortest of WordNet's base forms, in lower case; phrases stay as they are.

    As in SWORDS, a word without a part of speech is treated as a noun.

    Example:
        ``lemmatizer(WordNet.load())("Films", "n") == "film"``
    """
    known: dict[tuple[str, PartOfSpeech], str] = {}

    def lemma(word: str, pos: PartOfSpeech | None) -> str:
        key = word.lower().strip(), pos or "n"
        if key not in known:
            known[key] = key[0] if " " in key[0] else min(wordnet.morphy(*key), key=len, default=key[0])
        return known[key]

    return lemma
