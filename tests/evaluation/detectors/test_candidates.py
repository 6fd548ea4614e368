"""Substitutes merged by lemma, and their GAP: by hand, and by the formula for orders that are known."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from made_up_scorers import TableScorer
from trueneg.detectors.scorers.base import Substitution
from trueneg.errors import ConfigError
from trueneg.evaluation.detectors.candidates import Candidates, lemmatizer, merge_candidates
from trueneg.evaluation.detectors.substitution import evaluate_scorers
from trueneg.evaluation.detectors.swords import Item
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PartOfSpeech

LEMMAS = {"films": "film", "movies": "movie", "gone": "go"}


def lemma(word: str, pos: PartOfSpeech | None) -> str:
    return LEMMAS.get(word.lower(), word.lower())


def item(word: str, accepting: int, rejecting: int, target: str = "t0", *, is_proposed: bool = False) -> Item:
    total = max(accepting + rejecting, 1)
    place = Substitution("Movies are long.", 0, 6, word, "n")
    named = f"{target}.{word}"
    return Item(place, accepting / total, target, named, "movie", word, accepting, rejecting, is_proposed)


def by_lemma(candidates: Candidates) -> dict[tuple[str, str], float]:
    names = zip(candidates.targets, candidates.lemmas, strict=True)
    return dict(zip(names, candidates.gains.tolist(), strict=True))


def test_forms_of_a_lemma_are_one_candidate() -> None:
    items = [item("film", 3, 7), item("films", 1, 4), item("Film", 0, 1, "t1"), item("flick", 1, 1, "t1")]
    found = merge_candidates(items, lemma)
    assert by_lemma(found) == {("t0", "film"): 4 / 15, ("t1", "film"): 0.0, ("t1", "flick"): 0.5}
    assert found.of_item.tolist() == [0, 0, 1, 2]
    assert found.counts == {"merged": 1, "same_as_target": 0, "phrases_dropped": 0, "unsure": 0, "without_gain": 0}


def test_a_candidate_has_the_best_score_of_its_forms() -> None:
    found = merge_candidates([item("film", 1, 0), item("films", 1, 0), item("coat", 0, 2)], lemma)
    assert found.gap_by_target(np.array([0.1, 0.9, 0.5])) == {"t0": 1.0}
    assert found.gap_by_target(np.array([0.1, 0.2, 0.5])) == {"t0": 0.5}


def test_what_is_left_out_is_counted() -> None:
    items = [item("movie", 5, 0), item("Movies", 5, 0), item("film", 1, 0), item("coat", 0, 0), item("x", 0, 3, "t1")]
    found = merge_candidates(items, lemma)
    assert by_lemma(found) == {("t0", "film"): 1.0, ("t1", "x"): 0.0}
    assert found.counts == {"merged": 0, "same_as_target": 2, "phrases_dropped": 0, "unsure": 1, "without_gain": 1}
    assert found.gap_by_target(np.zeros(5)).keys() == {"t0"}


def test_odd_words_are_candidates_like_others() -> None:
    words = ["flick's", "well-made", "work of art", "o'clock", "ca n't"]
    found = merge_candidates([item(word, 1, 0) for word in words], lemma)
    assert list(found.lemmas) == words


def test_phrases() -> None:
    judged = [item("work of art", 3, 1), item("film", 1, 1)]
    proposed = [item(word, num, 0, is_proposed=True) for word, num in [("work of art", 3), ("film", 2), ("flick-y", 1)]]
    assert list(merge_candidates(judged, lemma).lemmas) == ["work of art", "film"]
    assert list(merge_candidates(judged, lemma, phrases="drop").lemmas) == ["film"]
    assert merge_candidates(proposed, lemma).counts["phrases_dropped"] == 2, "as the published evaluators do"
    # Those who proposed a word are counted, not their share.
    assert by_lemma(merge_candidates(proposed, lemma)) == {("t0", "film"): 2.0}
    assert by_lemma(merge_candidates(proposed, lemma, phrases="keep"))["t0", "work of art"] == 3.0
    with pytest.raises(ConfigError, match="unknown way with phrases 'dropp': did you mean 'drop'"):
        merge_candidates(judged, lemma, phrases="dropp")


def test_nothing_acceptable_is_refused() -> None:
    with pytest.raises(ConfigError, match="acceptable to anyone"):
        merge_candidates([item("film", 0, 3)], lemma)


def test_the_lemmatizer_is_that_of_swords() -> None:
    found = lemmatizer(WordNet.load())
    assert [found(word, "n") for word in ("Films", "movies", "works of art", "qwzxs")] == [
        *("film", "movie", "works of art", "qwzxs"),
    ]
    assert found("films", None) == "film"


def test_known_orders_have_their_values() -> None:
    """Gold has 1, a constant what a random order has on average, and intervals are over targets."""
    shares = [(3, 7), (0, 10), (9, 1), (0, 10)]
    items = [item(f"w{target}{n}", *share, f"t{target}") for target in range(5) for n, share in enumerate(shares)]
    gold = {one.substitute_lemma: one.acceptability for one in items}
    scorers = {"none": TableScorer({}), "gold": TableScorer(gold)}
    result = evaluate_scorers(items, scorers, candidates=merge_candidates(items, lemma), folds=5, resamples=30)
    none, best = result.measured
    gains = np.array([0.3, 0.0, 0.9, 0.0])
    orders = [gains[list(order)] for order in permutations(range(4))]
    of_orders = [(o.cumsum() / np.arange(1, 5))[o > 0].sum() / (0.9 + 1.2 / 2) for o in orders]
    assert result.gap_chance == pytest.approx(np.mean(of_orders))
    assert none.gap is not None and none.gap.estimate == pytest.approx(np.mean(of_orders))
    assert best.gap is not None and (best.gap.estimate, best.gap.low, best.gap.high) == (1.0, 1.0, 1.0)
    assert best.gap_difference is not None
    assert best.gap_difference.estimate == pytest.approx(1 - np.mean(of_orders))
    assert none.gap_difference is None
    assert result.rows()[1]["gap"] == 1.0


def test_intervals_are_over_targets() -> None:
    items = [item(f"w{t}{n}", n, 1 - n, f"t{t}") for t in range(6) for n in range(2)]
    half = {f"w{t}1": 1.0 for t in range(3)} | {f"w{t}0": 1.0 for t in range(3, 6)}
    found = evaluate_scorers(
        items, {"half": TableScorer(half)}, candidates=merge_candidates(items, lemma), folds=3, resamples=200
    ).measured[0]
    assert found.gap is not None
    assert found.gap.estimate == pytest.approx((3 * 1.0 + 3 * 0.5) / 6)
    assert 0.5 <= found.gap.low < found.gap.estimate < found.gap.high <= 1.0
