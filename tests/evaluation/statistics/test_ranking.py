"""Rankings against scikit-learn, ties and weights included."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, precision_recall_curve, precision_score, recall_score

from trueneg.evaluation.statistics.ranking import (
    Booleans,
    Curve,
    Floats,
    Integers,
    Verdicts,
    average_precision,
    generalized_average_precision,
)

few = settings(max_examples=40, deadline=None)

Ranked = tuple[Booleans, Floats, Integers]


def average(is_right: Booleans, scores: Floats) -> float:
    return float(average_precision(is_right, scores)(np.ones((1, len(scores))))[0])


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
    curve = Curve.of(is_right, scores)
    expected = pytest.approx(average_precision_score(is_right, scores))
    assert average(is_right, scores) == expected == curve.average_precision
    precision, recall, thresholds = precision_recall_curve(is_right, scores)
    assert curve.thresholds[::-1] == pytest.approx(thresholds)
    assert curve.precision[::-1] == pytest.approx(precision[:-1])
    assert curve.recall[::-1] == pytest.approx(recall[:-1])


def test_nothing_right_is_no_ranking() -> None:
    with pytest.raises(ValueError, match="nothing is right"):
        Curve.of(np.zeros(3, np.bool_), np.arange(3.0))


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
def test_weights_are_scikit_learns(made: Ranked, seed: int) -> None:
    is_right, scores, groups = made
    weights = np.random.default_rng(seed).multinomial(4, [0.25] * 4, size=8)[:, groups].astype(float)
    for weight, value in zip(weights, average_precision(is_right, scores)(weights), strict=True):
        if weight[is_right].sum():
            assert value == pytest.approx(average_precision_score(is_right, scores, sample_weight=weight))
        else:
            assert np.isnan(value)


def gap_of_one_order(gains: Floats) -> float:
    """Kishida's formula, of gains in the order of a ranking."""
    precision = gains.cumsum() / np.arange(1, len(gains) + 1)
    ideal = np.sort(gains)[::-1]
    best = ideal.cumsum() / np.arange(1, len(ideal) + 1)
    return float(precision[gains > 0].sum() / best[ideal > 0].sum())


@few
@given(st.lists(st.tuples(st.sampled_from([0, 0, 1, 2, 5]), st.sampled_from([0.1, 0.5, 0.9])), min_size=1, max_size=6))
def test_gap_is_the_mean_over_all_orders_of_ties(made: list[tuple[int, float]]) -> None:
    gains, scores = (np.array(column, np.float64) for column in zip(*made, strict=True))
    if not gains.any():
        with pytest.raises(ValueError, match="gained"):
            generalized_average_precision(gains, scores)
        return
    orders = [order for order in permutations(range(len(made))) if (np.diff(scores[list(order)]) <= 0).all()]
    expected = np.mean([gap_of_one_order(gains[list(order)]) for order in orders])
    assert generalized_average_precision(gains, scores) == pytest.approx(expected)


@few
@given(ranked())
def test_gap_without_grades_or_ties_is_average_precision(made: Ranked) -> None:
    is_right, scores, _ = made
    scores = scores + 1e-3 * np.arange(len(scores))
    expected = average_precision_score(is_right, scores)
    assert generalized_average_precision(is_right.astype(np.float64), scores) == pytest.approx(expected)


@few
@given(st.lists(st.sampled_from([0.0, 0.1, 0.4, 1.0]), min_size=1, max_size=30).filter(any))
def test_gap_of_the_gold_order_is_one(gains: list[float]) -> None:
    gained = np.array(gains)
    assert generalized_average_precision(gained, gained) == pytest.approx(1.0)
    assert generalized_average_precision(gained, -gained) <= 1.0
