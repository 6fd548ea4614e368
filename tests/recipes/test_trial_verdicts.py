"""A trial on one's own text: verdicts against scipy, and the page that tells of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy

from trueneg.errors import TaskError
from trueneg.evaluation.results.trial import (
    BASELINE,
    BEFORE,
    Measure,
    Shown,
    Trial,
    compare_arms,
    judge,
    load_trial,
    perplexity,
    save_trial,
)
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.reporting.trial import headline, trial_tables, write_trial

LOSSES = {
    BEFORE: {1: 2.9, 2: 2.9, 3: 2.9, 4: 2.9},
    BASELINE: {1: 2.50, 2: 2.44, 3: 2.61, 4: 2.52},
    "good": {1: 2.40, 2: 2.35, 3: 2.50, 4: 2.43},
    "bad": {1: 2.60, 2: 2.55, 3: 2.70, 4: 2.62},
    "equal": {1: 2.48, 2: 2.47, 3: 2.58, 4: 2.55},
}


def test_verdicts_are_those_of_scipy() -> None:
    """Paired t-tests and intervals by scipy; Holm's method written out."""
    found = compare_arms([Measure("loss", "nats", LOSSES, "less")], ["good", "bad", "equal"], [1, 2, 3, 4])
    assert [(one.arm, one.against) for one in found] == [
        (BASELINE, BEFORE),
        ("good", BASELINE),
        ("bad", BASELINE),
        ("equal", BASELINE),
    ]
    assert [one.verdict for one in found] == ["helps", "helps", "hurts", "no difference shown"]
    values = {arm: np.array(list(of.values())) for arm, of in LOSSES.items()}
    p_values = [float(scipy.stats.ttest_rel(values[one.arm], values[one.against]).pvalue) for one in found]
    order, highest, adjusted = sorted(range(4), key=lambda number: p_values[number]), 0.0, [0.0] * 4
    for rank, number in enumerate(order):
        highest = max(highest, min(1.0, (4 - rank) * p_values[number]))
        adjusted[number] = highest
    for one, p in zip(found, adjusted, strict=True):
        assert one.p == pytest.approx(p)
        differences = values[one.arm] - values[one.against]
        low, high = scipy.stats.t.interval(0.95, 3, differences.mean(), scipy.stats.sem(differences))
        assert one.interval is not None
        assert (one.interval.low, one.interval.high) == pytest.approx((low, high))


def test_more_is_better_turns_verdicts_around() -> None:
    found = compare_arms([Measure("similarity", "points", LOSSES, "more")], ["good", "bad"], [1, 2, 3, 4])
    assert [one.verdict for one in found] == ["hurts", "hurts", "helps"]


def test_what_is_not_shown_says_how_large_it_could_be() -> None:
    interval = Interval(-0.02, -0.09, 0.05, 3)
    verdict, reason = judge(interval, 0.4, "less", "nats")
    assert verdict == "no difference shown"
    assert "better by up to 0.090 or worse by up to 0.050" in reason
    assert "better by up to 0.050 or worse by up to 0.090" in judge(interval, 0.4, "more", "nats")[1]


def test_an_interval_that_excludes_zero_is_not_enough_among_many() -> None:
    verdict, reason = judge(Interval(-0.2, -0.3, -0.1, 3), 0.08, "less", "nats")
    assert verdict == "no difference shown"
    assert "Holm" in reason


def test_arms_that_are_the_same_are_told_as_such(tmp_path: Path) -> None:
    verdict, reason = judge(Interval(0.0, 0.0, 0.0, 3), 1.0, "less", "nats")
    assert (verdict, reason) == ("no difference at all", "exactly the same figure with every seed")
    equal = LOSSES | {"twin": LOSSES[BASELINE]}
    measures = [Measure("loss", "nats", equal, "less"), Measure("right", "points", equal, "neither")]
    arms, seeds = dict.fromkeys([BASELINE, "twin", "equal"], ""), [1, 2, 3, 4]
    answers = compare_arms(measures, ["twin", "equal"], seeds)
    trial = Trial([""], "", arms, seeds, 3, "", 1.0, measures, answers, [], [], [], {}, {}, {})
    assert headline(trial) == (
        "No difference is shown for equal. No difference at all for twin: the figures of plain training with every "
        "seed."
    )
    assert "no difference at all" in write_trial(trial, tmp_path / "try.html").read_text()


def test_the_page_has_no_p_of_zero_and_no_negative_zero(tmp_path: Path) -> None:
    near = {BASELINE: {1: 2.0, 2: 2.0, 3: 2.0}, BEFORE: {1: 2.0, 2: 2.0, 3: 2.0}}
    far = {1: 3.0, 2: 3.0 + 1e-4, 3: 3.0 - 1e-4}
    measures = [Measure("loss", "nats", {**near, "far": far, "twin": near[BASELINE]}, "less")]
    answers = compare_arms(measures, ["far", "twin"], [1, 2, 3])
    arms = dict.fromkeys([BASELINE, "far", "twin"], "")
    trial = Trial([""], "", arms, [1, 2, 3], 3, "", 1.0, measures, answers, [], [], [], {}, {}, {})
    page = write_trial(trial, tmp_path / "try.html").read_text()
    assert "(p &lt;0.001 by Holm" in page and "p 0.000" not in page
    assert "+0.00 [+0.00, +0.00]" in page and "−0.00" not in page


def test_the_same_difference_with_every_seed_shows_nothing() -> None:
    """One answer of 40 with each of two seeds: p would be 0, of systems that are as likely as not equally good."""
    probe = {BASELINE: {1: 80.0, 2: 82.5}, BEFORE: {1: 77.5, 2: 82.5}, "lexical": {1: 82.5, 2: 85.0}}
    answers = compare_arms([Measure("probe", "points", probe, "more")], ["lexical"], [1, 2])
    found = next(one for one in answers if one.arm == "lexical")
    assert found.verdict == "no difference shown" and "no spread" in found.reason and found.p == 1.0


def test_one_seed_shows_nothing() -> None:
    [first, second] = compare_arms([Measure("loss", "nats", LOSSES, "less")], ["good"], [1])
    assert first.verdict == second.verdict == "no difference shown"
    assert first.interval is first.p is None
    assert "--seeds 3" in second.reason


def test_an_untrained_head_is_not_compared_and_takes_no_part_in_the_correction() -> None:
    plain = Measure("loss", "nats", LOSSES, "less")
    both, one = (compare_arms([of], ["good"], [1, 2, 3, 4]) for of in (plain, replace(plain, obstacle="!")))
    assert [answer.verdict for answer in one] == ["not judged", "helps"]
    p = float(scipy.stats.ttest_rel([*LOSSES["good"].values()], [*LOSSES[BASELINE].values()]).pvalue)
    assert (one[0].p, one[1].p) == (None, pytest.approx(p))
    assert both[1].p == pytest.approx(2 * p)  # the smaller of two


def test_perplexity() -> None:
    assert perplexity(math.log(50)) == pytest.approx(50)
    assert perplexity(1e9) < math.inf


def test_hostile_text_is_inert(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    measures = [Measure("loss", "nats", LOSSES, "less")]
    trial = Trial(
        text=[hostile], checkpoint=hostile, arms={BASELINE: "plain", hostile: hostile}, seeds=[1, 2], steps=3,
        why_steps=hostile, minutes=1.0, measures=[replace(measures[0], by_arm={**LOSSES, hostile: LOSSES["good"]})],
        answers=compare_arms(measures, ["good"], [1, 2]),
        examples=[Shown(hostile, hostile, "\x1b[31m", {BASELINE: [(hostile, 0.5, True)]})], notes=[hostile],
        warnings=[hostile], commands={hostile: hostile}, data={hostile: hostile}, versions={"v": hostile},
    )  # fmt: skip
    page = write_trial(trial, tmp_path / "try.html").read_text()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    assert trial_tables(trial)[0].rows[0][0] == "loss"
    save_trial(trial, tmp_path)
    assert load_trial(tmp_path) == trial
    (tmp_path / "try.json").write_text('{"schema": 2}')
    with pytest.raises(TaskError, match="'schema' is 2"):
        load_trial(tmp_path)
