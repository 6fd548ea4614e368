"""Metrics against scikit-learn, scipy and figures worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from sklearn import metrics as reference

from trueneg.errors import TaskError
from trueneg.tasks.metrics import METRICS

Pair = tuple[NDArray[Any], NDArray[Any]]

EXPECTED = {
    "accuracy": reference.accuracy_score,
    "f1": lambda gold, predicted: reference.f1_score(gold == 1, predicted == 1, zero_division=0),
    "macro_f1": lambda gold, predicted: reference.f1_score(gold, predicted, average="macro", zero_division=0),
    "matthews": reference.matthews_corrcoef,
}


def classes(num_classes: int) -> st.SearchStrategy[Pair]:
    label = st.integers(0, num_classes - 1)
    return st.lists(st.tuples(label, label), min_size=1, max_size=40).map(lambda pairs: (*np.array(pairs).T,))


def columns(pair: Pair) -> dict[str, NDArray[Any]]:
    return dict(zip(("gold", "predicted"), pair, strict=True))


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize("name", EXPECTED)
@given(pair=classes(2) | classes(4))
@settings(max_examples=60, deadline=None)
def test_classification_is_scikit_learns(name: str, pair: Pair) -> None:
    assert METRICS[name](columns(pair)) == pytest.approx(EXPECTED[name](*pair), abs=1e-12)


@pytest.mark.parametrize("name, expected", [("pearson", stats.pearsonr), ("spearman", stats.spearmanr)])
@pytest.mark.parametrize("digits", [0, 1, 9])
def test_correlations_are_scipys(name: str, expected: Any, digits: int) -> None:
    random = np.random.default_rng(digits)
    gold = np.round(random.random(200) * 5, digits)
    pair = (gold, np.round(1e3 + 1e-3 * (gold + random.normal(size=200)), digits + 3))
    assert METRICS[name](columns(pair)) == pytest.approx(expected(*pair).statistic, abs=1e-10)


def test_shares_of_labels_by_hand() -> None:
    pair = (np.array([1, 1, 1, 0, 0, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0, 0, 0]))
    found = {name: METRICS[name](columns(pair)) for name in EXPECTED}
    assert found == pytest.approx(
        {"accuracy": 6 / 8, "f1": 4 / 6, "macro_f1": (4 / 6 + 8 / 10) / 2, "matthews": (2 * 4 - 1) / 15}
    )


@pytest.mark.parametrize("name", ["matthews", "pearson", "spearman"])
@pytest.mark.parametrize("value", [0, 1, 0.1])
def test_one_answer_to_everything_correlates_with_nothing(name: str, value: float) -> None:
    gold = np.array([0, 1, 1, 0, 1, 0, 0])
    assert METRICS[name](columns((gold, np.full(7, value)))) == 0
    assert METRICS[name](columns((np.full(7, value), gold))) == 0


def test_labels_may_be_words() -> None:
    pair = (np.array(["yes", "no", "yes"]), np.array(["yes", "yes", "yes"]))
    assert METRICS["accuracy"](columns(pair)) == pytest.approx(2 / 3)
    assert METRICS["macro_f1"](columns(pair)) == pytest.approx((4 / 5 + 0) / 2)
    assert METRICS["matthews"](columns(pair)) == 0


def test_reading_comprehension_is_a_mean() -> None:
    answers = {"exact": np.array([1, 0, 0, 1]), "f1": np.array([1.0, 0.5, 0.0, 1.0])}
    assert METRICS["exact_match"](answers) == 0.5
    assert METRICS["squad_f1"](answers) == 0.625


def test_spans_and_tokens_are_summed_before_they_are_divided() -> None:
    spans = {"num_gold": np.array([2, 0, 4]), "num_predicted": np.array([2, 1, 1]), "num_right": np.array([1, 0, 1])}
    assert METRICS["span_f1"](spans) == pytest.approx(2 * 2 / (6 + 4))
    assert METRICS["span_f1"].scores(spans).tolist() == [-2, -1, -3]  # spans missed and spans made up
    assert METRICS["span_f1"]({name: np.zeros(2, int) for name in spans}) == 0
    tokens = {"num_tokens": np.array([10, 30]), "num_tokens_right": np.array([10, 15])}
    assert METRICS["token_accuracy"](tokens) == 25 / 40


def test_before_and_under_attack() -> None:
    answers = {
        "gold": np.array([0, 1, 1, 0]),
        "predicted": np.array([1, 1, 0, 0]),
        "predicted_before": np.array([0, 1, 1, 1]),
    }
    assert METRICS["accuracy_before"](answers) == 0.75
    assert METRICS["accuracy_under_attack"](answers) == 0.5
    assert METRICS["attack_success_rate"](answers) == pytest.approx(2 / 3), "of three that were right"
    assert METRICS["attack_success_rate"]({**answers, "predicted_before": 1 - answers["gold"]}) == 0
    spans = {"exact_before": np.array([1, 0]), "f1_before": np.array([1.0, 0.5])}
    assert (METRICS["exact_match_before"](spans), METRICS["squad_f1_before"](spans)) == (0.5, 0.75)


def made_up(name: str, num: int, random: np.random.Generator) -> dict[str, NDArray[Any]]:
    if name in ("pearson", "spearman"):
        gold = random.integers(0, 6, num) / 2
        return {"gold": gold, "predicted": np.round(gold + random.normal(size=num), 1)}
    if {*METRICS[name].columns} <= {"gold", "predicted", "predicted_before"}:
        return {column: random.integers(0, 3, num) for column in METRICS[name].columns}
    low = random.integers(0, 3, num)
    made = {column: random.random(num) for column in METRICS[name].columns}
    return {column: low if "right" in column else low + random.integers(0, 3, num) for column in made} | (
        made if name in ("exact_match", "squad_f1") else {}
    )


@pytest.mark.parametrize("name", METRICS)
def test_a_weight_is_so_many_copies(name: str) -> None:
    random = np.random.default_rng(7)
    answers = made_up(name, 30, random)
    weights = random.multinomial(30, np.full(30, 1 / 30), size=20)
    weights[0] = np.eye(30, dtype=int)[3] * 30  # one example only: nothing varies
    found = METRICS[name].weighted(answers, weights)
    copied = [
        METRICS[name]({column: np.repeat(values, times) for column, values in answers.items()}) for times in weights
    ]
    assert found == pytest.approx(copied, abs=1e-9)
    assert len(set(np.round(found, 9))) > 1


@pytest.mark.parametrize("name", METRICS)
def test_scores_prefer_the_better_answer(name: str) -> None:
    better = {"exact": 1, "f1": 1.0, "num_gold": 3, "num_predicted": 3, "num_right": 3}
    better |= {"num_tokens": 5, "num_tokens_right": 5, "gold": 1, "predicted": 1}
    kinds = ("groups", "pairs", "original", "revised")
    better |= {"num_groups": 1, "num_original": 1, "num_revised": 4} | {f"num_{kind}_right": 1 for kind in kinds}
    better |= {"exact_before": 1, "f1_before": 1.0, "predicted_before": 1}
    for figure in (f"{way}{level}" for way in ("lenient", "strict") for level in ("", "_acceptable", "_conceivable")):
        better |= {f"num_{figure}_10": 4, f"num_{figure}_1": 1}
    better |= {"num_acceptable": 4, "num_conceivable": 4}
    better |= {"gap": 0.9, "has_gain": 1}
    worse = better | {"gap": 0.4, "exact": 0, "f1": 0.2, "num_right": 1, "num_tokens_right": 4, "predicted": 0}
    worse |= {f"num_{kind}_right": 0 for kind in kinds}
    for figure in (f"{way}_{level}" for way in ("lenient", "strict") for level in ("acceptable", "conceivable")):
        worse |= {f"num_{figure}_10": 2, f"num_{figure}_1": 0}
    worse |= {"exact_before": 0, "f1_before": 0.2}
    worse |= {"predicted_before": int(name == "attack_success_rate")}
    answers = {column: np.array([better[column], worse[column]]) for column in METRICS[name].columns}
    first, second = METRICS[name].scores(answers)
    assert first > second


@pytest.mark.parametrize(
    "answers, complaint",
    [
        ({"gold": np.array([1])}, "'accuracy' reads 'predicted', which the answers lack"),
        ({"gold": np.array([]), "predicted": np.array([])}, "no examples"),
        ({"gold": np.array([1.0]), "predicted": np.array([np.nan])}, "'predicted' holds numbers that are not finite"),
    ],
)
def test_answers_that_cannot_be_measured(answers: dict[str, NDArray[Any]], complaint: str) -> None:
    with pytest.raises(TaskError, match=complaint):
        METRICS["accuracy"](answers)
