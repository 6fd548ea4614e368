"""What a substitution is, and the common scale of scorers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_encoders import WrittenScorer, at

from trueneg.detectors.scorers.base import Substitution, acceptance

SCORES = st.floats(0, 1)
THRESHOLDS = st.floats(0, 1)


def test_a_substitution_knows_its_words() -> None:
    s = Substitution("its primary function", 4, 11, "main")
    assert (s.target, s.substituted) == ("primary", "its main function")
    assert s.substituted[s.start :].startswith("main")


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 2), (3, 2), (0, 6)])
def test_characters_that_are_no_word(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="are no word of a text of 5"):
        Substitution("movie", start, end, "film")


@given(st.lists(SCORES, min_size=1, max_size=20), THRESHOLDS)
def test_acceptance_keeps_the_order_and_stays_between_0_and_1(scores: list[float], threshold: float) -> None:
    ascending = np.sort(np.array(scores))
    found = acceptance(ascending, threshold)
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found) >= 0).all()


@given(SCORES, THRESHOLDS)
def test_acceptance_is_at_least_a_half_from_the_threshold_on(score: float, threshold: float) -> None:
    for near in (score, threshold, np.nextafter(threshold, 0.0), np.nextafter(threshold, 1.0)):
        found = acceptance(np.array([near]), threshold)[0]
        assert (found >= 0.5) == (near >= threshold)


@given(st.floats(0.01, 0.99))
def test_acceptance_keeps_both_ends(threshold: float) -> None:
    found = acceptance(np.array([0.0, threshold, 1.0]), threshold)
    assert found.tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(("threshold", "wanted"), [(-0.5, [0.5, 0.75, 1.0]), (np.inf, [0.0, 0.0, 0.0])])
def test_thresholds_beyond_the_scores(threshold: float, wanted: list[float]) -> None:
    assert acceptance(np.array([0.0, 0.5, 1.0]), threshold).tolist() == wanted


def test_a_scorer_accepts_by_its_own_threshold() -> None:
    scorer = WrittenScorer({("big", "large"): 0.8}, threshold=0.8)
    asked = [at("a big film", "big", word) for word in ("large", "small")]
    assert scorer.acceptance(asked).tolist() == [0.5, 0.0]
    stricter = scorer.with_threshold(0.9, {"from": "here"})
    assert stricter.acceptance(asked)[0] < 0.5 <= scorer.acceptance(asked)[0]
    assert stricter.provenance == {**scorer.provenance, "from": "here"}
