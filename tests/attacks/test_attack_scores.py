"""Figures before and after an attack, by hand."""

from __future__ import annotations

import pytest

from trueneg.attacks.base import AdversarialExample
from trueneg.attacks.scores import SQUAD_DROPS, TEXT_DROPS, Figure, drops, outcomes, squad_predictions, text_predictions
from trueneg.tasks.text import TextExample

TEXT = TextExample("0", "a film", None, 1)


def answered(gold: int, predicted: int) -> dict[str, object]:
    return {"key": "k", "gold": gold, "predicted": predicted, "probabilities": [0.5, 0.5]}


def test_who_was_wrong_before_is_not_attacked_and_stays_wrong() -> None:
    adversaries = [
        AdversarialExample(TEXT, TEXT, "succeeded", 5),
        AdversarialExample(TEXT, TEXT, "failed", 7),
        AdversarialExample(TEXT, TEXT, "skipped", 1),
    ]
    before = [answered(1, 1), answered(0, 0), answered(1, 0)]
    after = [answered(1, 0), answered(0, 0), answered(1, 0)]
    answers = text_predictions(adversaries, before, after)
    assert [a["predicted_before"] for a in answers] == [1, 0, 0]
    assert all("probabilities" not in a for a in answers)
    counted = outcomes(adversaries)
    assert counted == {"succeeded": 1, "failed": 1, "skipped": 1, "queries": 12}, "not of what was not attacked"
    (drop,) = drops(answers, TEXT_DROPS, resamples=200)
    assert (drop.before.estimate, drop.after.estimate) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert drop.drop.estimate == pytest.approx(1 / 3)
    assert 0 <= drop.drop.low <= drop.drop.estimate <= drop.drop.high <= 1


def test_an_attacked_premise_stays_in_its_group() -> None:
    before, after = ([answered(1, 1) | {"group": group}] for group in ("premise", "another premise"))
    (answer,) = text_predictions([AdversarialExample(TEXT, TEXT, "failed", 7)], before, after)
    assert answer["group"] == "premise"


def test_adversaries_that_are_noted_as_invalid_are_counted() -> None:
    adversaries = [
        AdversarialExample(TEXT, TEXT, "changed", notes={"is_valid": valid}) for valid in (True, False, False)
    ]
    assert outcomes([*adversaries, AdversarialExample(TEXT, TEXT, "unchanged")]) == {
        "changed": 3,
        "unchanged": 1,
        "invalid": 2,
    }


def test_a_drop_is_of_the_same_questions_and_its_interval_of_whole_paragraphs() -> None:
    adversaries = [AdversarialExample(TEXT, TEXT, "changed")] * 8
    before = [{"key": str(n), "group": str(n // 4), "predicted": "x", "exact": 1, "f1": 1.0} for n in range(8)]
    after = [{**answer, "exact": 0 if answer["group"] == "0" else 1, "f1": 0.5} for answer in before]
    answers = squad_predictions(adversaries, before, after)
    exact, f1 = drops(answers, SQUAD_DROPS, resamples=500)
    assert (exact.metric, exact.drop.estimate, exact.drop.num) == ("exact_match", 0.5, 2)
    assert (exact.drop.low, exact.drop.high) == (0, 1), "of two paragraphs, either may be drawn twice"
    (single, _) = drops(answers[:4], SQUAD_DROPS, resamples=500)
    assert single.before == Figure(1.0, None, None, 1) and single.drop == Figure(1.0, None, None, 1)
    assert (f1.before.estimate, f1.after.estimate, f1.drop.low, f1.drop.high) == (1, 0.5, 0.5, 0.5)
