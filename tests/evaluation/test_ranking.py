"""Rankings against scikit-learn, ties included; the bootstrap against weights and against a loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, precision_recall_curve, precision_score, recall_score

from trueneg.evaluation.statistics import ranking
from trueneg.evaluation.statistics.ranking import (
    Booleans,
    Curve,
    Floats,
    Integers,
    Resamples,
    Verdicts,
    average_precision,
    interval,
)

few = settings(max_examples=40, deadline=None)

Ranked = tuple[Booleans, Floats, Integers]


@st.composite
def ranked(draw: st.DrawFn) -> Ranked:
    """Items of four groups, with few distinct scores: ties are the rule."""
    num = draw(st.integers(1, 40))
    right = draw(st.lists(st.booleans(), min_size=num, max_size=num).filter(any))
    scores = draw(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), min_size=num, max_size=num))
    groups = draw(st.lists(st.integers(0, 3), min_size=num, max_size=num))
    return np.array(right), np.array(scores), np.array(groups)


@few
@given(ranked())
def test_average_precision_and_curve_are_scikit_learns(made: Ranked) -> None:
    is_right, scores, _ = made
    assert average_precision(is_right, scores) == pytest.approx(average_precision_score(is_right, scores))
    curve = Curve.of(is_right, scores)
    precision, recall, thresholds = precision_recall_curve(is_right, scores)
    assert curve.thresholds[::-1] == pytest.approx(thresholds)
    assert curve.precision[::-1] == pytest.approx(precision[:-1])
    assert curve.recall[::-1] == pytest.approx(recall[:-1])


@few
@given(ranked(), st.randoms())
def test_the_order_of_items_makes_no_difference(made: Ranked, random: st.DataObject) -> None:
    is_right, scores, _ = made
    order = list(range(len(scores)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert average_precision(is_right[order], scores[order]) == average_precision(is_right, scores)


def test_a_ranking_without_order_has_the_precision_of_chance() -> None:
    is_right = np.arange(50) % 5 == 0
    assert average_precision(is_right, np.ones(50)) == pytest.approx(0.2)


def test_nothing_right_is_no_ranking() -> None:
    with pytest.raises(ValueError, match="nothing is right"):
        average_precision(np.zeros(3, np.bool_), np.arange(3.0))


@few
@given(ranked(), st.floats(0, 1))
def test_verdicts_are_scikit_learns(made: Ranked, threshold: float) -> None:
    is_right, scores, _ = made
    verdicts, accepted = Verdicts.of(is_right, scores >= threshold), scores >= threshold
    assert verdicts.recall == pytest.approx(recall_score(is_right, accepted))
    assert verdicts.f1 == pytest.approx(f1_score(is_right, accepted))
    if accepted.any():
        assert verdicts.precision == pytest.approx(precision_score(is_right, accepted))
    else:
        assert np.isnan(verdicts.precision)


@few
@given(ranked(), st.floats(0, 1))
def test_precision_at_recall_is_that_of_the_highest_threshold_that_reaches_it(made: Ranked, recall: float) -> None:
    is_right, scores, _ = made
    curve = Curve.of(is_right, scores)
    each = [Verdicts.of(is_right, scores >= threshold) for threshold in sorted(set(scores.tolist()), reverse=True)]
    first = next(verdicts for verdicts in each if verdicts.recall >= recall)
    assert curve.precision_at_recall(recall) == pytest.approx(first.precision)
    assert curve.f1 == pytest.approx([verdicts.f1 for verdicts in each])


@few
@given(ranked(), st.integers(2, 10))
def test_a_thinned_curve_is_a_part_with_both_ends(made: Ranked, num_points: int) -> None:
    is_right, scores, _ = made
    curve = Curve.of(is_right, scores)
    thin = curve.thinned(num_points)
    points = set(zip(curve.thresholds, curve.precision, curve.recall, strict=True))
    kept = list(zip(thin.thresholds, thin.precision, thin.recall, strict=True))
    assert set(kept) <= points and len(kept) == len(set(kept)) <= num_points + 1
    assert kept[-1][0] == curve.thresholds[-1] and kept[0][2] == curve.recall[0]


@few
@given(ranked(), st.integers(0, 5))
def test_a_resample_weighs_items_by_how_often_their_group_is_drawn(made: Ranked, seed: int) -> None:
    is_right, scores, groups = made
    resamples = Resamples.draw(4, 8, seed)
    found = resamples.average_precision(is_right, scores, groups)
    for counts, value in zip(resamples.counts, found, strict=True):
        weights = counts[groups]
        if weights[is_right].sum():
            assert value == pytest.approx(average_precision_score(is_right, scores, sample_weight=weights))
        else:
            assert np.isnan(value)


def test_a_resample_is_the_same_however_much_is_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    is_right, scores, groups = generator.random(300) < 0.2, generator.random(300), generator.integers(0, 9, 300)
    resamples = Resamples.draw(9, 50)
    at_once = resamples.average_precision(is_right, scores, groups)
    monkeypatch.setattr(ranking, "_MOST_NUMBERS", 700)
    assert (resamples.average_precision(is_right, scores, groups) == at_once).all()


@few
@given(ranked())
def test_ratios_of_a_resample_are_those_of_its_items(made: Ranked) -> None:
    is_right, scores, groups = made
    accepted = scores >= 0.5
    resamples = Resamples.draw(4, 5)
    found = resamples.ratio((is_right & accepted).astype(float), accepted.astype(float), groups)
    for counts, value in zip(resamples.counts, found, strict=True):
        drawn = np.repeat(np.arange(len(groups)), counts[groups])
        if accepted[drawn].any():
            assert value == pytest.approx(precision_score(is_right[drawn], accepted[drawn], zero_division=0))
        else:
            assert np.isnan(value)


def test_draws_are_of_whole_samples_and_repeat_with_their_seed() -> None:
    first = Resamples.draw(7, 30, seed=3).counts
    assert first.shape == (30, 7) and (first.sum(axis=1) == 7).all()
    assert (first == Resamples.draw(7, 30, seed=3).counts).all()
    assert (first != Resamples.draw(7, 30, seed=4).counts).any()


@few
@given(ranked())
def test_every_draw_of_one_group_is_the_sample_itself(made: Ranked) -> None:
    is_right, scores, groups = made
    draws = Resamples.draw(1, 5).average_precision(is_right, scores, np.zeros_like(groups))
    assert draws == pytest.approx(average_precision(is_right, scores))


def test_an_interval_covers_what_it_says() -> None:
    """The precision of 400 draws from a known world lies in its 90 % interval about nine times in ten."""
    generator, hits = np.random.default_rng(0), 0
    for seed in range(100):
        groups = np.repeat(np.arange(40), 5)
        parts = (generator.random(200) < 0.3).astype(float)
        low, high = interval(Resamples.draw(40, 300, seed).ratio(parts, np.ones(200), groups), coverage=0.9)
        hits += low <= 0.3 <= high
    assert 80 <= hits <= 97


def test_an_interval_leaves_out_draws_without_a_value() -> None:
    assert interval(np.array([np.nan, 1.0, 1.0])) == (1.0, 1.0)
    assert np.isnan(interval(np.array([np.nan]))).all()


@few
@given(ranked())
def test_a_perfect_ranking_has_all(made: Ranked) -> None:
    is_right, scores, _ = made
    assert average_precision(is_right, is_right * 1.0) == 1.0 >= average_precision(is_right, scores)
