"""Scores of an answer: cases worked by hand, and the published scripts' definition on noise."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueneg.tasks.squad import best_scores, normalized


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat", "cat"),
        ("an apple a day", "apple day"),
        ("theatre, another and", "theatre another and"),  # whole words only
        ("A.B.", "ab"),  # punctuation goes first, and joins
        ("a-b", "ab"),
        ("T.H.E.", ""),
        ("  two\n\twords ", "two words"),
        ("l’été–2001", "l’été–2001"),  # no ASCII
        ("plan–a–b", "plan– –b"),  # an article leaves a space behind
        ("ÉCOLE", "école"),
        ("", ""),
    ],
)
def test_normalization(text: str, expected: str) -> None:
    assert normalized(text) == expected


@pytest.mark.parametrize(
    ("predicted", "golds", "exact", "f1"),
    [
        ("Denver Broncos", ["the Denver Broncos!"], 1, 1),
        ("Denver", ["Denver Broncos"], 0, 2 / 3),
        ("Broncos Denver", ["Denver Broncos"], 0, 1),
        ("the the cat", ["cat"], 1, 1),
        ("no no no", ["no"], 0, 1 / 2),  # a word counts as often as both have it: precision 1/3, recall 1
        ("no no yes", ["no no no"], 0, 2 / 3),
        ("gold", ["golden"], 0, 0),
        ("", ["gold"], 0, 0),
        ("the", ["a"], 1, 0),  # version 1.1's script gives no F1 where nothing is left
        (None, ["a"], 0, 0),
        ("two words", ["three words here", "two words", "two"], 1, 1),  # each by the gold answer that fits best
        ("two words", ["two", "two words here"], 0, 0.8),
    ],
)
def test_scores_of_one_answer(predicted: str | None, golds: list[str], exact: float, f1: float) -> None:
    assert best_scores(predicted, golds) == pytest.approx((exact, f1), abs=1e-12)


@pytest.mark.parametrize(
    ("predicted", "golds", "expected"),
    [
        ("", [], 1),
        (None, [], 0),
        ("something", [], 0),
        ("", ["something"], 0),
        ("", ["the", "cat"], 0),  # a gold answer of nothing but an article is none, unless there are only such
        ("the", ["a"], 1),
    ],
)
def test_version_2_knows_empty_answers(predicted: str | None, golds: list[str], expected: float) -> None:
    assert best_scores(predicted, golds, may_be_empty=True) == (expected, expected)


def test_without_gold_answers_there_is_no_score() -> None:
    with pytest.raises(ValueError, match="no gold answers"):
        best_scores("something", [])


# The definition as published with versions 1.1 and 2.0, written out naively: sets and sorted lists.


def reference_words(text: str) -> list[str]:
    kept = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    return [word for word in re.split(r"\s+", re.sub(r"\b(a|an|the)\b", " ", kept)) if word]


def reference_f1(predicted: str, gold: str, version: int) -> float:
    left, right = reference_words(predicted), reference_words(gold)
    if version == 2 and (not left or not right):
        return float(left == right)
    unmatched, same = list(right), 0
    for word in left:
        if word in unmatched:
            unmatched.remove(word)
            same += 1
    if same == 0:
        return 0.0
    precision, recall = 1.0 * same / len(left), 1.0 * same / len(right)
    return (2 * precision * recall) / (precision + recall)


def reference(predicted: str, golds: Sequence[str], version: int) -> tuple[float, float]:
    if version == 2:
        golds = [gold for gold in golds if reference_words(gold)] or [""]
    exact = max(float(" ".join(reference_words(predicted)) == " ".join(reference_words(gold))) for gold in golds)
    return exact, max(reference_f1(predicted, gold, version) for gold in golds)


noise = st.lists(
    st.one_of(
        st.sampled_from(["the", "The", "a", "AN", "cat", "Cat", "cats", "no", "-", "--", "’", ".", "a.", "\u00a0"]),
        st.text(alphabet="aAbnhtæß-.,'_ \n\u2003é9", max_size=4),
    ),
    max_size=6,
).map(" ".join)


@given(noise, st.lists(noise, min_size=1, max_size=4))
def test_scores_are_the_published_ones(predicted: str, golds: list[str]) -> None:
    assert best_scores(predicted, golds) == reference(predicted, golds, version=1)
    assert best_scores(predicted, golds, may_be_empty=True) == reference(predicted, golds, version=2)
