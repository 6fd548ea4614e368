"""Thresholds chosen on judged data, without looking at what they are measured on."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_up_scorers import MemorizingScorer, TableScorer, made_up_items
from trueneg.errors import ConfigError, TruenegWarning
from trueneg.evaluation.detectors.calibration import (
    Calibration,
    calibrate,
    choose_threshold,
    cross_validated_thresholds,
    grouped_folds,
    held_out_scores,
)
from trueneg.evaluation.statistics.ranking import Verdicts

ITEMS = made_up_items([[0.9, 0.0, 0.2], [0.5, 0.0, 0.0], [1.0, 0.4], [0.7, 0.0], [0.0, 0.6]])
SCORES = dict(
    zip(
        (item.substitution.substitute for item in ITEMS),
        (0.9, 0.1, 0.6, 0.8, 0.2, 0.3, 0.95, 0.5, 0.7, 0.75, 0.65, 0.4),
        strict=True,
    )
)


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcdefghij"), min_size=4), st.integers(2, 5), st.integers(0, 3))
def test_folds_keep_groups_together_and_are_even(groups: list[str], num_folds: int, seed: int) -> None:
    names = set(groups)
    if len(names) < num_folds:
        with pytest.raises(ConfigError, match=f"--folds {num_folds} of {len(names)} targets"):
            grouped_folds(groups, num_folds, seed)
        return
    folds = grouped_folds(groups, num_folds, seed)
    of_group = {
        name: {fold for group, fold in zip(groups, folds.tolist(), strict=True) if group == name} for name in names
    }
    assert all(len(found) == 1 for found in of_group.values())
    sizes = np.bincount([next(iter(found)) for found in of_group.values()], minlength=num_folds)
    assert len(sizes) == num_folds and sizes.max() - sizes.min() <= 1
    assert (folds == grouped_folds(groups, num_folds, seed)).all()


SCORED = st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0])), min_size=1).filter(
    lambda pairs: any(right for right, _ in pairs)
)


@settings(deadline=None)
@given(SCORED, st.sampled_from([0.2, 0.5, 0.6, 1.0]))
def test_the_lowest_threshold_precise_enough_is_chosen(pairs: list[tuple[bool, float]], wanted: float) -> None:
    is_right, scores = np.array([r for r, _ in pairs]), np.array([s for _, s in pairs])
    precise = [t for t in scores.tolist() if Verdicts.of(is_right, scores >= t).precision >= wanted]
    assert choose_threshold(is_right, scores, wanted) == (min(precise) if precise else math.inf)


@settings(deadline=None)
@given(SCORED)
def test_without_a_precision_the_best_f1_is_chosen(pairs: list[tuple[bool, float]]) -> None:
    is_right, scores = np.array([r for r, _ in pairs]), np.array([s for _, s in pairs])
    chosen = choose_threshold(is_right, scores, None)
    best = max(Verdicts.of(is_right, scores >= t).f1 for t in scores)
    assert Verdicts.of(is_right, scores >= chosen).f1 == pytest.approx(best)


def test_the_threshold_of_a_fold_has_not_seen_it() -> None:
    is_right = np.array([True, False, True, False])
    folds = np.array([0, 0, 1, 1])
    scores = np.array([0.9, 0.8, 0.3, 0.1])
    assert cross_validated_thresholds(is_right, scores, folds, 1.0).tolist() == [0.3, 0.9]
    assert cross_validated_thresholds(is_right, 1 - scores, folds, 1.0).tolist() == [math.inf, math.inf]
    assert cross_validated_thresholds(np.array([True, False, False, False]), scores, folds, None).tolist() == [
        math.inf,  # the other fold has nothing to learn from
        0.9,
    ]


def test_a_scorer_that_is_not_learned_is_asked_once() -> None:
    scorer = TableScorer(SCORES)
    scores = held_out_scores(scorer, [i.substitution for i in ITEMS], np.ones(len(ITEMS)), np.arange(len(ITEMS)))
    assert scores.tolist() == [SCORES[item.substitution.substitute] for item in ITEMS]
    assert scorer.num_calls == 1


def test_a_learned_scorer_never_scores_what_it_was_fitted_to() -> None:
    scorer = MemorizingScorer({})
    folds = grouped_folds([item.target_id for item in ITEMS], 5)
    acceptability = np.array([item.acceptability for item in ITEMS])
    acceptability[-1] = np.nan  # nobody judged it
    scores = held_out_scores(scorer, [item.substitution for item in ITEMS], acceptability, folds)
    assert not scores.any()
    words = np.array([item.substitution.substitute for item in ITEMS])
    assert scorer.fitted_to == [set(words[:-1][folds[:-1] != fold]) for fold in range(5)]


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_a_scorer_that_breaks_its_contract(bad: float) -> None:
    with pytest.raises(ValueError, match=r"gives 12 scores in \[0, 1\]"):
        held_out_scores(
            TableScorer({"s0.0": bad}), [i.substitution for i in ITEMS], np.ones(12), np.zeros(12, np.int64)
        )


def test_calibration_says_what_held_out_targets_get() -> None:
    """Scores whose scale differs from target to target: what fits all of them does not fit one that was not seen."""
    items = made_up_items([[0.9, 0.0, 0.2]] * 8)
    table = {item.substitution.substitute: 0.1 * (at // 3) + 0.03 * (at % 3 != 0) for at, item in enumerate(items)}
    chosen = calibrate(items, TableScorer(table), precision=0.33, folds=4, detector="table", data={"dev.json": "ab"})
    scores, is_right = np.array(list(table.values())), np.array([item.acceptability >= 0.5 for item in items])
    folds = grouped_folds([item.target_id for item in items], 4)
    accepted = np.zeros(len(items), np.bool_)
    for fold in range(4):
        others = folds != fold
        accepted[~others] = scores[~others] >= choose_threshold(is_right[others], scores[others], 0.33)
    held_out, seen = Verdicts.of(is_right, accepted), Verdicts.of(is_right, scores >= chosen.threshold)
    assert chosen.threshold == choose_threshold(is_right, scores, 0.33)
    assert (chosen.precision, chosen.recall, chosen.f1) == (held_out.precision, held_out.recall, held_out.f1)
    assert (chosen.num_items, chosen.num_targets, chosen.num_accepted) == (24, 8, held_out.num_accepted)
    assert seen.precision >= 0.33 and seen != held_out


def test_a_precision_that_no_fold_reaches_is_said_and_written_as_null(tmp_path: Path) -> None:
    """One target alone makes the precision: without it the others never reach it, and it is held out by itself."""
    items = made_up_items([[0.9, 0.0], [0.9, 0.0], [0.9, 0.0]])
    table = dict(zip((item.substitution.substitute for item in items), (0.9, 0.1, 0.3, 0.8, 0.3, 0.8), strict=True))
    with pytest.warns(TruenegWarning, match=r"'table' accepts nothing in the cross-validation.*lower --precision"):
        chosen = calibrate(items, TableScorer(table), precision=0.95, folds=3, detector="table")
    assert (chosen.threshold, chosen.precision, chosen.num_accepted) == (0.9, None, 0)
    chosen.save(tmp_path / "detector.json")
    written = json.loads((tmp_path / "detector.json").read_text(), parse_constant=pytest.fail)
    assert written["precision"] is None
    assert Calibration.load(tmp_path / "detector.json") == chosen


def test_levels_and_best_f1() -> None:
    scorer = TableScorer(SCORES)
    most, some = (calibrate(ITEMS, scorer, precision=0.75, level=level, folds=5) for level in ("most", "any"))
    assert (some.threshold, most.threshold) == (0.4, 0.7)
    scores = np.array([SCORES[item.substitution.substitute] for item in ITEMS])
    is_right = np.array([item.acceptability >= 0.5 for item in ITEMS])
    assert calibrate(ITEMS, scorer, precision=None, folds=5).threshold == choose_threshold(is_right, scores, None)


def test_an_impossible_precision_says_what_is_possible() -> None:
    worse = TableScorer({name: 1 - score for name, score in SCORES.items()})
    with pytest.raises(ConfigError, match=r"--precision 0.9: the best that 'bad' reaches is 0\.4\d+"):
        calibrate(ITEMS, worse, precision=0.9, folds=5, detector="bad")


@pytest.mark.parametrize("precision", [0.0, -1.0, 1.5, math.nan])
def test_a_precision_is_a_share(precision: float) -> None:
    with pytest.raises(ConfigError, match="--precision"):
        calibrate(ITEMS, TableScorer(SCORES), precision=precision, folds=5)


def test_data_on_which_nothing_is_acceptable() -> None:
    with pytest.raises(ConfigError, match="acceptable to most"):
        calibrate(made_up_items([[0.2], [0.4]]), TableScorer({}), folds=2)


def test_a_calibration_is_what_was_saved(tmp_path: Path) -> None:
    scorer = TableScorer(SCORES, provenance={"vectors": "made up"})
    chosen = calibrate(ITEMS, scorer, folds=5, detector="table", data={"dev.json": "ab"})
    chosen.save(tmp_path / "new" / "detector.json")
    assert Calibration.load(tmp_path / "new" / "detector.json") == chosen
    assert chosen.provenance == {"vectors": "made up"}
    assert {"trueneg", "numpy", "torch", "transformers"} <= chosen.versions.keys()


def test_what_a_scorer_learned_from_all_the_data_is_saved(tmp_path: Path) -> None:
    scorer = MemorizingScorer({})
    calibrate(ITEMS, scorer, precision=None, folds=5).save(tmp_path / "detector.json")
    learned = {item.substitution.substitute: item.acceptability for item in ITEMS}
    assert Calibration.load(tmp_path / "detector.json").parameters == learned
    assert len(scorer.fitted_to) == 6


@pytest.mark.parametrize("content", [None, "{", "[]", '{"kind": "other"}', '{"kind": "trueneg calibration"}'])
def test_files_that_are_no_calibration(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "detector.json").write_text(content)
    with pytest.raises(ConfigError, match=r"detector\.json.*trueneg detect calibrate"):
        Calibration.load(tmp_path / "detector.json")


@pytest.mark.parametrize("change", [{"threshold": "high"}, {"unheard-of": 1}])
def test_a_calibration_of_another_make(tmp_path: Path, change: dict[str, object]) -> None:
    calibrate(ITEMS, TableScorer(SCORES), folds=5).save(tmp_path / "detector.json")
    content = json.loads((tmp_path / "detector.json").read_text())
    (tmp_path / "detector.json").write_text(json.dumps(content | change))
    with pytest.raises(ConfigError, match="trueneg detect calibrate"):
        Calibration.load(tmp_path / "detector.json")


def test_fits_that_take_long_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    calibrate(ITEMS, MemorizingScorer({}), precision=None, folds=5, say=said.append)
    assert not said
    monkeypatch.setattr("trueneg.evaluation.detectors.calibration.LONG_SECONDS", 0.0)
    calibrate(ITEMS, MemorizingScorer({}), precision=None, folds=5, say=said.append)
    assert said == [f"fold {number} of 5: fitted in 0 s" for number in range(1, 6)]
