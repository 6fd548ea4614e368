"""What a report says first, against scipy and by hand; and what it takes for what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_reader import Page
from scipy import stats
from test_html import make_run

from made_up_results import guesses, labels, write_model, write_result
from trueneg.config.codec import override, save_config
from trueneg.config.options import PretrainConfig, StageConfig
from trueneg.config.stages import with_stages
from trueneg.errors import TaskError, TruenegError
from trueneg.evaluation.results.comparison import compare
from trueneg.evaluation.results.reproduction import Cell, Claim, ReproducedTable, judge, save_table
from trueneg.evaluation.results.robustness import robustness
from trueneg.evaluation.results.summary import read_runs
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.reporting import findings
from trueneg.reporting.charts import Mark
from trueneg.reporting.html import write_report
from trueneg.reporting.sources import read_sources


def of_runs(*folders: Path) -> Sequence[findings.Finding]:
    return findings.of_runs(read_sources(folders).runs)


def test_runs_that_differ_in_their_seed_only_are_one_arm(tmp_path: Path) -> None:
    losses = {"base": [3.1, 3.3, 3.2], "hc": [3.0, 3.05, 3.1]}
    more = {"base": (), "hc": ("correction.detector=",)}
    folders = [
        make_run(tmp_path, f"{arm}-{seed}", [4.0, loss], f"train.seed={seed}", *more[arm])
        for arm in losses
        for seed, loss in enumerate(losses[arm], 1)
    ]
    (found,) = of_runs(*folders)
    assert (found.contender, found.baseline, found.standing) == ("hc", "base", "open")
    tested = stats.ttest_rel(losses["base"], losses["hc"])
    wanted = (tested.statistic * 0 + np.mean(np.subtract(losses["base"], losses["hc"])), *tested.confidence_interval())
    assert found.gain is not None
    assert (found.gain.value, found.gain.low, found.gain.high) == pytest.approx(wanted)
    page = Page(write_report(folders, tmp_path / "page.html").read_text())
    assert "hc (3 seeds)" in page.words and "1 comparison, and none of them shows a difference" in page.words


def test_runs_on_two_corpora_are_two_arms_whatever_their_seeds(tmp_path: Path) -> None:
    wiki = make_run(tmp_path, "base-wiki", [4.0, 3.1], "train.seed=1", "corpus.path=wiki")
    books = make_run(tmp_path, "base-books", [4.0, 2.1], "train.seed=2", "corpus.path=books")
    assert [*findings.arms_of(read_sources([wiki, books]).runs)] == ["base-wiki", "base-books"]


def test_an_arm_named_as_the_common_part_of_anothers_names_is_kept(tmp_path: Path) -> None:
    options = {"base": "learning_rate=1e-3", "hc-1": "train.seed=1", "hc-2": "train.seed=2", "hc": "weight_decay=0.5"}
    folders = [make_run(tmp_path, name, [4.0, 3.1], setting) for name, setting in options.items()]
    arms = findings.arms_of(read_sources(folders).runs)
    assert {name: [run.name for run in arm.values()] for name, arm in arms.items()} == {
        "base": ["base"],
        "hc-1": ["hc-1", "hc-2"],
        "hc": ["hc"],
    }


@pytest.mark.parametrize(
    ("setting", "reason"), [("objective.masking.rate=0.05", "masking"), ("corpus.length=64", "lengths of rows")]
)
def test_losses_are_compared_by_the_stage_that_was_evaluated(tmp_path: Path, setting: str, reason: str) -> None:
    def stages(last: tuple[str, ...], *others: str) -> PretrainConfig:
        return with_stages(override(PretrainConfig(), others), [StageConfig("main", 10), StageConfig("end", 10, last)])

    plain = make_run(tmp_path, "plain", [4.0, 3.5])
    other, same = (make_run(tmp_path, name, [4.0, 3.0]) for name in ("other", "same"))
    save_config(stages((setting,)), other / "config.json")
    save_config(stages((), "optimizer.learning_rate=1e-3"), same / "config.json")
    (apart,) = of_runs(plain, other)
    assert apart.gain is None and f"their {reason} differ" in apart.reason
    (alike,) = of_runs(plain, same)
    assert alike.gain is not None


def test_one_seed_or_other_text_say_nothing(tmp_path: Path) -> None:
    base = make_run(tmp_path, "base", [4.0, 3.5])
    (alone,) = of_runs(base, make_run(tmp_path, "one", [4.0, 3.0], "optimizer.learning_rate=1e-3"))
    assert alone.gain is not None and alone.gain.value == pytest.approx(0.5)
    assert (alone.gain.low, alone.standing) == (None, "open") and "another seed" in alone.reason
    for name, setting, reason in (
        ("corpus", "corpus.path=elsewhere", "corpora differ"),
        ("length", "corpus.length=64", "lengths of rows differ"),
        ("rows", "corpus.eval_rows=2048", "numbers of held-out rows (corpus.eval_rows) differ"),
        ("packed", "corpus.pack=true", "packing of rows (corpus.pack) differ"),
        ("mask", "objective.masking.rate=0.3", "masking differ"),
        ("seed", "train.seed=9", ""),
    ):
        (other,) = of_runs(base, make_run(tmp_path, name, [4.0, 3.0], setting, "optimizer.learning_rate=1e-3"))
        assert other.gain is None and other.standing == "open" and reason in other.reason
    (short,) = of_runs(base, make_run(tmp_path, "short", [4.0], "optimizer.learning_rate=1e-3"))
    assert short.gain is None and "different steps (10, 20)" in short.reason


def attacked(folder: Path, share: float, seeds: Sequence[int] = (1, 2, 3), num: int = 200) -> Path:
    gold = labels(num)
    for seed in seeds:
        before, after = (guesses(gold, right, seed) for right in (0.9, share))
        metrics = ("attack_success_rate", "accuracy_before", "accuracy_under_attack")
        columns = {"gold": gold, "predicted": after, "predicted_before": before}
        write_result(folder, "mr", seed, columns, split="attack-typos-default", metrics=metrics)
    return folder


def test_where_less_is_better_the_sign_is_turned(tmp_path: Path) -> None:
    comparison = compare(attacked(tmp_path / "weak", 0.4), attacked(tmp_path / "strong", 0.7))
    (row,) = comparison.rows
    (found,) = findings.of_comparison(comparison)
    assert row.metric == "attack_success_rate" and row.difference.interval.estimate < 0
    assert found.gain is not None and found.standing == "better"
    assert found.gain.value == pytest.approx(-100 * row.difference.interval.estimate)
    assert (found.gain.low, found.gain.high) == pytest.approx(
        (-100 * row.difference.interval.high, -100 * row.difference.interval.low)
    )


def test_robustness_is_the_mean_over_seeds_of_before_and_after(tmp_path: Path) -> None:
    folder = attacked(tmp_path / "model", 0.5)
    (found,) = robustness(read_runs(folder))
    told = [json.loads(path.read_text())["metrics"] for path in sorted(folder.rglob("attack-*default.json"))]
    before, after = (np.mean([metrics[f"accuracy_{when}"] for metrics in told]) for when in ("before", "under_attack"))
    assert (found.task, found.attack, found.metric, found.num_seeds) == ("mr", "typos-default", "accuracy", 3)
    assert (found.before, found.after) == pytest.approx((before, after))
    assert found.change is not None and found.change.low < found.change.estimate < found.change.high < 0
    assert found.change.estimate == pytest.approx(after - before)
    (mixed,) = robustness(read_runs(attacked(folder, 0.5, seeds=[4], num=150)))
    assert mixed.change is None and mixed.num_seeds == 4  # of other examples


def test_before_and_after_are_measured_on_the_same_samples(tmp_path: Path) -> None:
    num, random = 1000, np.random.default_rng(0)
    gold = labels(num)
    before = np.where(random.random(num) < 0.8, gold, 1 - gold)
    after = np.where((before == gold) & (random.random(num) < 0.05), 1 - before, before)
    columns = {"gold": gold, "predicted": after, "predicted_before": before}
    metrics = ("accuracy_before", "accuracy_under_attack")
    write_result(tmp_path, "mr", 1, columns, split="attack-typos-default", metrics=metrics)
    (found,) = robustness(read_runs(tmp_path))
    # Of one seed the interval is over examples alone: that of the paired t-test.
    wanted = stats.ttest_1samp((after == gold).astype(float) - (before == gold), 0).confidence_interval()
    assert found.change is not None
    assert (found.change.low, found.change.high) == pytest.approx(tuple(wanted), abs=0.001)


def table(**changes: Any) -> ReproducedTable:
    cells = [
        Cell("base", "MNLI", 80.0, {1: 61.0, 2: 62.0}),
        Cell("HC", "MNLI", 80.6, {1: 63.5, 2: 64.0}),
        Cell("HC", "QQP", 90.5),
    ]
    claims = [
        Claim("HC", "base", "MNLI", 0.6, Interval(2.25, 1.0, 3.5, 2), 0.01, "replicated", "the same direction"),
        Claim("HC", "base", "QQP", 0.5, None, None, "not comparable", "nothing was measured"),
    ]
    known: dict[str, Any] = {
        **{"recipe": "tn-table3", "title": "GLUE <b>", "source": "True Negatives, Table 3", "scale": "tiny"},
        **{"rows": ["base", "HC"], "columns": ["MNLI", "QQP"], "cells": cells, "claims": claims, "notes": ["smaller"]},
        **{"commands": {"job": "trueneg pretrain"}, "data": {}, "versions": {"torch": "2"}},
    }
    return ReproducedTable(**known | changes)


def test_a_reproduced_table_has_the_papers_figures_beside_ours(tmp_path: Path) -> None:
    folder = tmp_path / "tn-table3"
    write_model(folder / "results" / "a", 0.7)  # what a recipe leaves below its table is no part of the page
    write_model(folder / "results" / "b", 0.7)
    save_table(table(), folder)
    text = write_report([folder], tmp_path / "page.html").read_text()
    words = Page(text).words
    for said in (
        "GLUE <b>: True Negatives, Table 3",
        "63.75",
        "63.50–64.00",
        "paper 80.6",
        "paper 90.5",
        "✓ replicated 1",
    ):
        assert said in words, said
    assert "HC against base, True Negatives, Table 3: MNLI +2.25 [+1.00, +3.50] points" in words
    assert 'class="number replicated"' in text and "trueneg reproduce tn-table3 --scale tiny" in words
    assert "--scale tiny --seeds 2 --out OUT" in words
    made = table(arms=["HC agree", "soft"], settings=["encoder=mpnet"])
    save_table(made, folder)
    again = Page(write_report([folder], tmp_path / "again.html").read_text()).words
    assert "--seeds 2 --arms 'HC agree,soft' --set encoder=mpnet --out OUT" in again
    save_table(table(scale="mini", cells=[Cell("HC", "ratio", 1.0, {0: 1.0})], claims=[]), folder)
    again = Page(write_report([folder], tmp_path / "again.html").read_text()).words
    assert "trueneg reproduce tn-table3 --scale mini --data DATA --out OUT" in again  # a seed that none was asked for
    assert "HC%2CMNLI%2C80.6%2C63.75%2C1%2C63.5" in text  # as CSV
    found = list(findings.of_tables([table()]))
    assert [one.standing for one in found] == ["better", "open"] and found[1].gain is None


def test_a_name_of_a_recipe_is_text(tmp_path: Path) -> None:
    save_table(table(recipe='x"><script>alert(1)</script>'), tmp_path / "hostile")
    assert "<script>alert" not in write_report([tmp_path / "hostile"], tmp_path / "page.html").read_text()


def test_claims_of_drops_are_better_where_the_drop_is_smaller() -> None:
    smaller, larger = Interval(-12.0, -15.0, -9.0, 3), Interval(4.0, 1.0, 7.0, 3)
    claims = [
        Claim("SR", "base", "AddSentenceDiverse drop of EM", -13.31, smaller, 0.001, *judge(-13.31, smaller, 0.001)),
        # The paper itself has SR worse than HC here: that it is replicated does not make it better.
        Claim("SR", "HC", "SwapSynWordNet drop of EM", 0.34, larger, 0.01, *judge(0.34, larger, 0.01)),
        Claim("HC", "base", "SwapSynWordNet EM", 2.0, larger, 0.01, *judge(2.0, larger, 0.01)),
    ]
    found = list(findings.of_tables([table(claims=claims)]))
    assert [claim.verdict for claim in claims] == ["replicated"] * 3
    assert [one.standing for one in found] == ["better", "worse", "better"]
    marks = [one.gain for one in found if one.gain is not None]
    assert [(mark.value, mark.low, mark.high) for mark in marks] == [(12, 9, 15), (-4, -7, -1), (4, 1, 7)]
    assert [one.measure.endswith("(less is better)") for one in found] == [True, True, False]


def test_of_claims_that_are_not_of_what_is_better_the_verdict_alone_is_said() -> None:
    rises = Claim("100 %", "6.25 %", "base Iter.", 0.17, Interval(0.5, 0.2, 0.8, 3), 0.01, "replicated", "+0.50")
    (found,) = findings.of_tables([replace(table(claims=[rises]), recipe="tn-table2")])
    assert found.gain is None and "replicated: +0.50; neither more nor less is better" in found.reason
    (other,) = findings.of_tables([table(claims=[rises])])
    assert other.standing == "better"


def test_independent_intervals_are_added_in_squares() -> None:
    found = findings.independent_difference(Interval(0.7, 0.6, 0.78, 50), Interval(0.5, 0.42, 0.6, 40))
    assert found.estimate == pytest.approx(0.2) and found.num == 40
    assert found.low == pytest.approx(0.2 - np.hypot(0.1, 0.1))
    assert found.high == pytest.approx(0.2 + np.hypot(0.08, 0.08))


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TruenegError, match=r"empty' holds no run and no results: name a run"):
        (tmp_path / "empty").mkdir()
        read_sources([tmp_path / "empty"])
    hits = tmp_path / "hits.json"
    hits.write_text('{"triplets": [{"checkpoint": "a", "way": "cls", "curve": ["high"]}]}')
    with pytest.raises(TaskError, match=r"hits.json' is damaged: 'triplets.0.*: make it again, or leave it out"):
        read_sources([hits])
    hits.write_text('{"loss": 3}')
    with pytest.raises(TruenegError, match="holds no run and no results"):
        read_sources([hits])
    save_table(table(schema=2), tmp_path)
    with pytest.raises(TaskError, match="'schema' is 2"):
        read_sources([tmp_path])


def test_folders_that_share_no_task_are_not_known(tmp_path: Path) -> None:
    gold = labels(50)
    write_result(tmp_path / "other", "glue/mrpc", 1, {"gold": gold, "predicted": gold})
    words = Page(
        write_report([write_model(tmp_path / "base", 0.7), tmp_path / "other"], tmp_path / "p.html").read_text()
    ).words
    assert "other against base, fine-tuned models" in words and "no labelled task and split in common" in words


def test_the_first_picture_keeps_what_shows_a_difference() -> None:
    def finding(number: int) -> findings.Finding:
        standing: Any = "better" if number % 10 == 9 else "open"
        return findings.Finding("a", "b", "", "", Mark(str(number), 1.0, 0.5, 1.5, standing, "points"))

    marks, said = findings.drawn([finding(number) for number in range(40)])
    assert [mark.name for mark in marks] == [str(number) for number in range(40) if number < 22 or number % 10 == 9]
    assert said.startswith("24 of 40 comparisons")
    assert findings.drawn([finding(1)])[1] == ""


def test_what_cannot_be_compared_is_not_counted_among_comparisons() -> None:
    interval = Interval(0.5, 0.2, 0.8, 5)
    shown = findings.Finding("hc", "base", "rte", "accuracy", findings._mark("hc", interval, "better", "points"))
    lacking = findings.Finding("sr", "base", "rte", "accuracy", None, "one seed")
    assert findings.summary([shown, lacking, lacking]).startswith("1 comparison: 1 better")
    assert "2 more cannot be compared" in findings.summary([shown, lacking, lacking])
    assert findings.summary([lacking]).startswith("Nothing of what is here can be compared")


def test_a_folder_of_recipes_is_all_of_its_tables(tmp_path: Path) -> None:
    table = ReproducedTable(
        "tn-cost", "t", "s", "mini", ["HC"], ["ratio"], [Cell("HC", "ratio", 1.02)], [], [], {}, {}, {}
    )
    for name in ("tn-cost", "again"):
        save_table(table, tmp_path / "repro" / name)
    assert list(read_sources([tmp_path / "repro"]).tables) == ["repro/again", "repro/tn-cost"]
