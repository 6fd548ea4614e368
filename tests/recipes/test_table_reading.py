"""From results of fine-tuning to a table: figures, intervals, what is not comparable, and what is damaged."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from made_up_results import labels, write_result
from trueneg.errors import TaskError
from trueneg.evaluation.results.comparison import compare
from trueneg.evaluation.results.reproduction import ReproducedTable
from trueneg.evaluation.results.store import Result, save_result
from trueneg.evaluation.statistics.averages import mean_difference
from trueneg.evaluation.statistics.bootstrap import Bootstrap, ratio
from trueneg.evaluation.statistics.intervals import t_interval
from trueneg.evaluation.statistics.significance import Scores, difference
from trueneg.recipes.papers import AVERAGE, CLINE_TABLE4, CLINE_TABLE5, TN_TABLE3, TN_TABLE5, PrintedTable
from trueneg.recipes.plan import Job, Plan, Workspace
from trueneg.recipes.tables import Column, Measured, Spec, assemble, read_results


def write_results(
    root: Path, row: str, rights: dict[int, dict[str, int]], num: int = 400, counts: dict[str, int] | None = None
) -> str:
    """Results of tasks with so many right of ``num``, as fine-tuning leaves them."""
    for seed, tasks in rights.items():
        for task, right in tasks.items():
            gold = [number // 2 % 2 for number in range(num)]
            predicted = [label if number < right else 1 - label for number, label in enumerate(gold)]
            result = Result(
                f"glue/{task}", "dev", seed, {"accuracy": right / num}, num, "model", "last", 1, counts or {}
            )
            result = replace(result, train={"num_examples": 1000}, config={"task": {"length": 64}})
            examples = [{"key": str(n), "gold": gold[n], "predicted": predicted[n]} for n in range(num)]
            save_result(result, examples, root / "out" / task / f"seed-{seed}")
    return row


def test_averages_are_compared_seed_by_seed_and_claims_allow_for_their_number(tmp_path: Path) -> None:
    """Against scipy, on results made by hand."""
    rights = {
        "base": {s: {"rte": 200 + s, "sst2": 240} for s in (1, 2, 3)},
        "HC": {s: {"rte": 280 + s, "sst2": 290 + s % 2} for s in (1, 2, 3)},
        "SR": {s: {"rte": 200 + s, "sst2": 240 + s % 2} for s in (1, 2, 3)},
    }
    plan = Plan({row: Job(row, ("list", row)) for row in rights})
    workspace = Workspace.open(tmp_path, plan)
    for row in rights:
        write_results(workspace.folder(row), row, rights[row])
    columns = [Column("RTE", "glue/rte", "dev", "accuracy"), Column("SST", "glue/sst2", "dev", "accuracy")]
    claims = [(f"BERT-base {row}".strip(), "BERT-base", AVERAGE) for row in ("HC", "SR")]
    jobs = {"BERT-base": ["base"], "BERT-base HC": ["HC"], "BERT-base SR": ["SR"]}
    table = read_results(workspace, "tn-table3", "mini", Spec(TN_TABLE3, jobs, columns, claims, ["RTE", "SST"]))

    def average(row: str) -> np.ndarray:
        return np.array([100 * (one["rte"] + one["sst2"]) / 800 for one in rights[row].values()])

    cell = table.cell("BERT-base HC", AVERAGE)
    assert cell is not None and list(cell.by_seed.values()) == pytest.approx(average("HC"))
    assert cell.paper == 81.25 == (69.3 + 93.2) / 2, "of the same tasks, not the paper's average of eight"
    ps, intervals = [], []
    for row in ("HC", "SR"):
        folders = [tmp_path / "tn-table3" / "rows" / name for name in ("BERT-base", f"BERT-base-{row}")]
        over_examples = compare(*folders, average=True).averages[0].difference
        over_seeds = ttest_1samp(average(row) - average("base"), 0)
        ps.append(max(over_examples.p, over_seeds.pvalue))
        ends = [
            tuple(over_seeds.confidence_interval()),
            (100 * over_examples.interval.low, 100 * over_examples.interval.high),
        ]
        intervals.append(max(ends, key=lambda ends: ends[1] - ends[0]))
    assert [claim.p for claim in table.claims] == pytest.approx(
        [min(1, 2 * ps[0]), ps[1]] if ps[0] < ps[1] else [ps[0], 2 * ps[1]]
    )
    for claim, row, (low, high) in zip(table.claims, ("HC", "SR"), intervals, strict=True):
        assert claim.interval is not None
        assert claim.interval.estimate == pytest.approx((average(row) - average("base")).mean())
        assert (claim.interval.low, claim.interval.high) == pytest.approx((low, high))
    assert table.claims[0].paper == pytest.approx((69.3 + 93.2 - 67.9 - 93.0) / 2)
    assert [claim.verdict for claim in table.claims] == ["replicated", "not resolved"]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda result: result.with_name("dev.predictions.jsonl").unlink(), "has no results with their predictions"),
        (lambda result: result.write_text(result.read_text()[:40]), "dev.json' is damaged"),
        (lambda result: result.write_text('{"schema": 9}'), "'schema' is 9.*upgrade trueneg, or evaluate"),
    ],
)
def test_a_damaged_result_is_named_where_it_lies(damage: Any, named: str, tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path, Plan({"base": Job("base", ("list",))}))
    write_results(workspace.folder("base"), "base", {1: {"rte": 200}})
    damage(workspace.folder("base") / "out" / "rte" / "seed-1" / "dev.json")
    spec = Spec(TN_TABLE3, {"BERT-base": ["base"]}, [Column("RTE", "glue/rte", "dev", "accuracy")], [])
    folder = re.escape(str(workspace.folder("base")))
    with pytest.raises(TaskError, match=rf"{named}.*remove '{folder}' to have the job done again"):
        read_results(workspace, "tn-table3", "mini", spec)


@pytest.mark.parametrize(("num_failed", "is_compared"), [(1, True), (2, False), (3, False)])
def test_a_model_that_learned_nothing_with_most_seeds_is_not_compared(
    num_failed: int, is_compared: bool, tmp_path: Path
) -> None:
    plan = Plan({row: Job(row, ("list", row)) for row in ("base", "HC")})
    workspace = Workspace.open(tmp_path, plan)
    for row, right in (("base", 20), ("HC", 30)):
        for seed in (1, 2, 3):
            is_constant = row == "base" and seed <= num_failed
            predicted = [0] * 40 if is_constant else [0] * right + [1] * (40 - right)
            examples = [{"key": str(n), "gold": n % 2, "predicted": p} for n, p in enumerate(predicted)]
            accuracy = sum(one["gold"] == one["predicted"] for one in examples) / 40
            result = Result("glue/rte", "dev", seed, {"accuracy": accuracy}, 40, "model", "last", 1)
            save_result(result, examples, workspace.folder(row) / "out" / "rte" / f"seed-{seed}")
    spec = Spec(
        TN_TABLE3,
        {"BERT-base": ["base"], "BERT-base HC": ["HC"]},
        [Column("RTE", "glue/rte", "dev", "accuracy")],
        [("BERT-base HC", "BERT-base", "RTE")],
    )
    (claim,) = read_results(workspace, "tn-table3", "mini", spec).claims
    assert (claim.verdict != "not comparable") == is_compared
    assert ("BERT-base learned nothing with most seeds" in claim.reason) != is_compared


@pytest.mark.parametrize(("exact_match", "is_compared"), [(0.131, False), (0.133, True)])
def test_a_model_that_reads_worse_than_a_sliding_window_is_not_compared(
    exact_match: float, is_compared: bool, tmp_path: Path
) -> None:
    """Of SQuAD, before an attack: the drop of one that reads nothing says nothing."""
    workspace = Workspace.open(tmp_path, Plan({row: Job(row, ("list", row)) for row in ("base", "HC")}))
    for row, before in (("base", exact_match), ("HC", 0.5)):
        for seed in (1, 2, 3):
            metrics = {"exact_match_under_attack": 0.05 + seed / 100, "exact_match_before": before}
            result = Result("squad", "attack-typos", seed, metrics, 1, "model", "last", 1)
            save_result(result, [{"key": "0"}], workspace.folder(row) / "out" / "squad" / f"seed-{seed}")
    drop = Column("drop of EM", "squad", "attack-typos", "exact_match_under_attack", "exact_match_before")
    rows = {"ELECTRA-small": ["base"], "ELECTRA-small HC": ["HC"]}
    spec = Spec(TN_TABLE5, rows, [drop], [("ELECTRA-small HC", "ELECTRA-small", "drop of EM")])
    (claim,) = read_results(workspace, "tn-table5", "mini", spec).claims
    assert ("ELECTRA-small did not learn to read: exact match 13.1 %" in claim.reason) != is_compared


def attacked(root: Path, *, has_before: bool = True) -> tuple[ReproducedTable, dict[str, np.ndarray]]:
    """The table of one drop, and the drop of each question and seed, ``[questions, seeds]``, of both rows."""
    workspace = Workspace.open(root, Plan({row: Job(row, ("list", row)) for row in ("base", "HC")}))
    random, drops = np.random.default_rng(5), {}
    hard = random.random(60)
    for row, share in (("base", 0.4), ("HC", 0.6)):
        of_seeds = []
        own = 0.5 * hard + 0.5 * random.random(60)  # some questions are harder for one way of training, with every seed
        for seed in (1, 2, 3):
            before = np.ones(60, int)
            exact = (own + random.normal(0, 0.03, 60) < share).astype(int)
            columns = {"exact": exact, "exact_before": before}
            written = write_result(
                workspace.folder(row) / "out", "squad", seed, columns, split="attack-typos",
                metrics=("exact_match_under_attack", "exact_match_before"),
            )  # fmt: skip
            if not has_before:
                predictions = written.with_name("attack-typos.predictions.jsonl")
                predictions.write_text(re.sub(r', "exact_before": 1', "", predictions.read_text()))
            of_seeds.append(before - exact)
        drops[row] = np.stack(of_seeds, axis=1).astype(float)
    drop = Column("drop of EM", "squad", "attack-typos", "exact_match_under_attack", "exact_match_before")
    rows = {"ELECTRA-small": ["base"], "ELECTRA-small HC": ["HC"]}
    spec = Spec(TN_TABLE5, rows, [drop], [("ELECTRA-small HC", "ELECTRA-small", "drop of EM")])
    return read_results(workspace, "tn-table5", "mini", spec), drops


def test_a_drop_is_judged_over_questions_too(tmp_path: Path) -> None:
    """Against the drops of questions, taken as values of their own."""
    table, drops = attacked(tmp_path)
    bootstrap = Bootstrap(range(60))
    scores = [
        Scores(drop.mean(axis=0), np.stack([bootstrap.samples(ratio(of, np.ones(60))) for of in drop.T], axis=1))
        for drop in (drops["base"], drops["HC"])
    ]
    expected = difference(*scores, 60, is_paired=True).interval
    interval = table.claims[0].interval
    assert interval is not None
    assert interval.estimate == pytest.approx(100 * expected.estimate)
    assert (interval.low, interval.high) == pytest.approx((100 * expected.low, 100 * expected.high), rel=0.05)
    seeds_alone = t_interval(100 * (drops["HC"] - drops["base"]).mean(axis=0))
    assert interval.high - interval.low > 1.5 * (seeds_alone.high - seeds_alone.low)
    assert not any("over seeds alone" in note for note in table.notes)


def test_a_drop_without_predictions_before_the_attack_is_judged_over_seeds_alone(tmp_path: Path) -> None:
    table, drops = attacked(tmp_path, has_before=False)
    interval, expected = table.claims[0].interval, t_interval(100 * (drops["HC"] - drops["base"]).mean(axis=0))
    assert interval is not None and (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    (note,) = [note for note in table.notes if "over seeds alone" in note]
    assert note.startswith("ELECTRA-small HC against ELECTRA-small, drop of EM: judged over seeds alone (")


def test_any_average_is_judged_over_examples_too(tmp_path: Path) -> None:
    """Not that of GLUE alone."""
    workspace = Workspace.open(tmp_path, Plan({row: Job(row, ("list", row)) for row in ("BERT", "CLINE")}))
    gold, random = labels(80), np.random.default_rng(6)
    for row, share in (("BERT", 0.5), ("CLINE", 0.6)):
        for task in ("mr", "imdb"):
            own = random.random(80)  # other examples are hard for the other row, with every seed
            for seed in (1, 2, 3):
                right = own + random.normal(0, 0.01, 80) < share
                columns = {"gold": gold, "predicted": np.where(right, gold, 1 - gold)}
                metrics = ("accuracy_under_attack",)
                write_result(workspace.folder(row) / "out", task, seed, columns, split="attack-adv", metrics=metrics)
    columns = [Column(task, task.lower(), "attack-*", "accuracy_under_attack") for task in ("MR", "IMDB")]
    jobs, claims = {"BERT": ["BERT"], "CLINE": ["CLINE"]}, [("CLINE", "BERT", AVERAGE)]
    table = read_results(workspace, "cline-table5", "mini", Spec(CLINE_TABLE5, jobs, columns, claims, ("MR", "IMDB")))
    folders = [tmp_path / "cline-table5" / "rows" / row for row in jobs]
    expected = mean_difference([row.difference for row in compare(*folders).rows])
    (claim,) = table.claims
    assert claim.interval is not None and claim.p is not None
    ends = 100 * expected.interval.low, 100 * expected.interval.high
    assert (claim.interval.low, claim.interval.high) == pytest.approx(ends)
    figures = {row: [*cell.by_seed.values()] for row in jobs if (cell := table.cell(row, AVERAGE))}
    assert claim.p >= expected.p and ends[1] - ends[0] > 2 * np.ptp(np.subtract(figures["CLINE"], figures["BERT"]))


def test_claims_that_the_paper_shows_no_difference_for_are_not_allowed_for() -> None:
    printed = PrintedTable("A paper", "A table", ("X",), {"base": (1.0,), "same": (1.0,), "more": (2.0,)})
    figures = {"base": (1.0, 2.0, 3.0), "same": (1.1, 2.3, 3.1), "more": (2.1, 3.3, 4.1)}
    measured = Measured({(row, "X"): dict(enumerate(values)) for row, values in figures.items()})
    workspace = Workspace.open(Path("repro"), Plan({"job": Job("job", ("list",))}))
    claims = [(row, "base", "X") for row in ("same", "more")]
    same, more = assemble(workspace, "mine", "mini", printed, list(figures), ["X"], measured, claims, []).claims
    assert (same.verdict, same.p) == ("not comparable", None)
    assert more.p == pytest.approx(ttest_1samp(np.subtract(figures["more"], figures["base"]), 0).pvalue)


def test_a_contrast_set_is_answered_by_one_that_learned(tmp_path: Path) -> None:
    """A constant answer is right for all of one label, as in the paper's BoolQ with 1 % of the examples."""
    plan = Plan({row: Job(row, ("list", row)) for row in ("BERT", "CLINE")})
    workspace = Workspace.open(tmp_path, plan)
    for row, answers in (("BERT", (1, 1)), ("CLINE", (1, 0))):
        for seed in (1, 2):
            items = [
                {"key": "0", "gold": 1, "predicted": answers[0]},
                {"key": "0/1", "gold": 0, "predicted": answers[1]},
            ]
            right = {"num_original": 1, "num_original_right": 1, "num_revised": 1, "num_revised_right": 1 - answers[1]}
            pairs = {"num_pairs_right": 1 - answers[1], "num_groups": 1, "num_groups_right": 1 - answers[1]}
            groups = [{"key": str(n), "group": str(n), **right, **pairs, "items": items} for n in range(8)]
            result = Result("boolq", "contrast-test", seed, {"revised": 1.0 - answers[1]}, 8, "model", "last", 1)
            save_result(result, groups, workspace.folder(row) / "out" / "boolq" / f"seed-{seed}")
    columns = [Column("BoolQ Rev", "boolq", "contrast-test", "revised")]
    spec = Spec(CLINE_TABLE4, {"BERT": ["BERT"], "CLINE": ["CLINE"]}, columns, [("CLINE", "BERT", "BoolQ Rev")])
    table = read_results(workspace, "cline-table4", "mini", spec)
    assert (table.claims[0].verdict, "BERT learned nothing" in table.claims[0].reason) == ("not comparable", True)
    assert "BERT predicts the same of all examples of BoolQ Rev with seeds 1, 2." in table.notes


def test_a_table_says_what_models_were_trained_on_and_what_was_cut(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path, Plan({row: Job(row, ("list", row)) for row in ("base", "HC")}))
    for row, num_cut in (("base", 3), ("HC", 5)):
        write_results(workspace.folder(row), row, {1: {"rte": 200}}, counts={"truncated": num_cut, "rows": 800})
    jobs = {"BERT-base": ["base"], "BERT-base HC": ["HC"]}
    spec = Spec(TN_TABLE3, jobs, [Column("RTE", "glue/rte", "dev", "accuracy")], [])
    assert read_results(workspace, "tn-table3", "mini", spec).notes[-2:] == [
        "Training examples: glue/rte 1,000.",
        "glue/rte, dev: 5 of 800 texts cut at 64 tokens (1%).",
    ]


def test_one_seed_says_nothing_of_another() -> None:
    measured = Measured({("HC", "CoLA"): {1: 2.0}, ("base", "CoLA"): {1: 1.0}})
    plan = Plan({"job": Job("job", ("list",))})
    workspace = Workspace.open(Path("repro"), plan)
    claims = [("HC", "base", "CoLA")]
    table = assemble(workspace, "tn-table3", "mini", TN_TABLE3, ["base", "HC"], ["CoLA"], measured, claims, [])
    assert table.claims[0].verdict == "not comparable"
    assert "seed" in table.claims[0].reason


def test_equal_differences_have_no_spread_to_judge_by() -> None:
    """Two seeds that differ by one answer of 300 each."""
    ours, theirs = {1: 100 * 191 / 300, 2: 100 * 201 / 300}, {1: 100 * 190 / 300, 2: 100 * 200 / 300}
    measured = Measured({("BERT-base HC", "CoLA"): ours, ("BERT-base", "CoLA"): theirs})
    workspace = Workspace.open(Path("repro"), Plan({"job": Job("job", ("list",))}))
    rows, claims = ["BERT-base", "BERT-base HC"], [("BERT-base HC", "BERT-base", "CoLA")]
    (claim,) = assemble(workspace, "tn-table3", "mini", TN_TABLE3, rows, ["CoLA"], measured, claims, []).claims
    assert claim.verdict == "not comparable" and "no spread" in claim.reason
