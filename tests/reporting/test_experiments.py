"""Trials and the planted experiment on the one page, and the tables of experiments without a page."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from click.testing import Result
from page_reader import Page
from typer.testing import CliRunner

from made_up_results import write_model
from trueneg.cli.main import app
from trueneg.errors import TaskError
from trueneg.evaluation.results.reproduction import Cell, Claim, ReproducedTable, load_table, save_table
from trueneg.evaluation.results.trial import BASELINE, BEFORE, Measure, Shown, Trial, compare_arms, save_trial
from trueneg.evaluation.statistics.intervals import Interval, t_interval
from trueneg.reporting import findings
from trueneg.reporting.experiments import data_of, tables_of
from trueneg.reporting.html import write_report
from trueneg.reporting.planted import PLANTED, PlantedArm, PlantedResults
from trueneg.reporting.reproduced import reproduced_tables
from trueneg.reporting.sources import is_experiment, read_sources

HOSTILE = "</script><script>alert(1)</script>"
LOSSES = {
    BEFORE: {1: 2.9, 2: 2.9, 3: 2.9},
    BASELINE: {1: 2.50, 2: 2.44, 3: 2.61},
    "lexical": {1: 2.40, 2: 2.35, 3: 2.50},
    "in-context": {1: 2.60, 2: 2.55, 3: 2.70},
}
RIGHT = {arm: {seed: 100 - 20 * loss for seed, loss in of.items()} for arm, of in LOSSES.items()}


def trial(**changes: Any) -> Trial:
    measures = [Measure("held-out loss", "nats", LOSSES, "less"), Measure("words right", "points", RIGHT, "neither")]
    known = Trial(
        text=[f"my {HOSTILE}.txt"], checkpoint="bert", arms=dict.fromkeys((BASELINE, "lexical", "in-context"), HOSTILE),
        seeds=[1, 2, 3], steps=30, why_steps="measured", minutes=9.0, measures=measures,
        answers=compare_arms(measures, ["lexical", "in-context"], [1, 2, 3]),
        examples=[Shown("a ", "big", HOSTILE, {BASELINE: [("=large", 0.5, True)], "lexical": []})], notes=["a note"],
        warnings=[], commands={"corpus": f"trueneg corpus build {HOSTILE}"}, data={}, versions={"torch": "2"},
    )  # fmt: skip
    return replace(known, **changes)


def arm(name: str, nll: list[float], gains: list[float], **changes: Any) -> PlantedArm:
    seeds = {str(seed): {"nll": value} for seed, value in enumerate(nll, 1)}
    difference = {"nll": t_interval(gains)} if len(gains) > 1 else {}
    known = PlantedArm(
        name, f"what {name} does", False, 1.0, 1.0, seeds, {"nll": nll[0]}, "baseline", difference, {}, 9
    )
    return replace(known, **changes)


def planted_folder(folder: Path, *more: PlantedArm) -> Path:
    arms = [arm("baseline", [5.0, 5.1], []), arm("soft_targets", [4.8, 4.9], [-0.21, -0.2]), *more]
    config = {"num_words": 100, "steps": 1200, "words": HOSTILE}
    results = PlantedResults("planted", {"trueneg": "1", "torch": "2"}, {"config": config}, 0.32, arms)
    (folder / "runs").mkdir(parents=True)
    (folder / PLANTED).write_text(json.dumps(asdict(results)))
    (folder / "settings.json").write_text(json.dumps({"config": config}))
    return folder


def recipe_folder(folder: Path) -> Path:
    cells = [
        Cell("base", "MNLI", 80.0, {1: 61.0, 2: 62.0}),
        Cell("HC", "MNLI", 80.6, {1: 63.5}),
        Cell("HC", "RTE", 70.0),
    ]
    claim = Claim("HC", "base", "MNLI", 0.6, Interval(2.25, 1.0, 3.5, 2), 0.01, "replicated", "the same direction")
    rows, columns = ["base", "HC"], ["MNLI", "RTE"]
    save_table(
        ReproducedTable("tn-table3", "GLUE", "TN", "mini", rows, columns, cells, [claim], [], {}, {}, {}), folder
    )
    (folder / "rows" / "HC" / "rte" / "seed-1").mkdir(parents=True)  # results below it are no part of it
    for name in ("dev.json", "dev.predictions.jsonl"):
        (folder / "rows" / "HC" / "rte" / "seed-1" / name).write_text("{")
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    (tmp_path / "try").mkdir()
    save_trial(trial(), tmp_path / "try")
    return [tmp_path / "try", planted_folder(tmp_path / "planted"), recipe_folder(tmp_path / "tn-table3")]


def test_trials_and_planted_runs_are_on_the_one_page(folders: list[Path], tmp_path: Path) -> None:
    text = write_report(folders, tmp_path / "report.html").read_text()
    page = Page(text)
    for said in (
        "4 comparisons: 3 better than the baseline, 1 worse",
        "lexical against plain continued training, own text (try): held-out loss (less is better) +0.10 [",
        "in-context against plain continued training, own text (try): held-out loss (less is better) −0.10 [",
        "soft_targets against baseline, planted false negatives (planted): negative log-likelihood of the right class",
        "100 words, 32% of all tokens, are split into 4 spellings each; 1,200 steps.",
        "what soft_targets does",
        "It helps, with lexical (held-out loss).",
        "trueneg reproduce planted --arms baseline,soft_targets --seeds 2 --set num_words=100 --set steps=1200",
        "--from bert --arms lexical,in-context --seeds 1,2,3 --set train.steps=30 --out AGAIN",
    ):
        assert said in page.words, said
    assert text.count("<script>") == 1 and "alert(1)</script>" not in text
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert {"trials", "planted", "recipes"} <= ids and {"#trials", "#planted", "#recipes"} <= {*page.links}
    saved = {a["download"]: a["href"] or "" for tag, a in page.elements if tag == "a" and "download" in a}
    assert {"trial-1-figures.csv", "trial-1-differences.csv", "trial-1-examples.csv", "planted-1-1.csv"} <= saved.keys()
    (example,) = csv.DictReader(io.StringIO(unquote(saved["trial-1-examples.csv"].partition(",")[2])))
    assert (example["written"], example["probability"], example["accepted"]) == ("'=large", "0.5", "yes")


def test_a_trials_answers_are_findings_where_one_side_is_better() -> None:
    better, worse = findings.of_trials({"try": trial()})
    assert [(one.contender, one.standing) for one in (better, worse)] == [
        ("lexical", "better"),
        ("in-context", "worse"),
    ]
    found = [one for one in trial().answers if one.arm == "lexical" and one.better == "less"]
    assert better.gain is not None and found[0].interval is not None
    assert (better.gain.value, better.gain.low) == pytest.approx((-found[0].interval.estimate, -found[0].interval.high))
    one_seed = compare_arms([Measure("held-out loss", "nats", LOSSES, "less")], ["lexical"], [1])
    (open_,) = findings.of_trials({"try": trial(answers=one_seed, seeds=[1])})
    assert open_.gain is None and "one seed says nothing" in open_.reason


def test_planted_arms_are_findings_against_the_arm_that_corrects_nothing(tmp_path: Path) -> None:
    alone = arm("drop", [5.2], [])
    auc = Interval(-0.03, -0.05, -0.01, 5)
    relabel = arm("relabel", [5.0], [], is_electra=True, yardstick="electra", difference={"auc": auc})
    folder = planted_folder(tmp_path / "planted", alone, relabel)
    better, nothing, worse = findings.of_planted(read_sources([folder]).files["planted"])
    assert (better.standing, better.gain and better.gain.value) == ("better", pytest.approx(0.205))
    assert nothing.gain is None and "fewer than two seeds" in nothing.reason
    assert (worse.baseline, worse.standing) == ("electra", "worse") and worse.gain is not None
    assert worse.gain.value == pytest.approx(-3) and worse.measure == "area under the ROC curve"


def test_damaged_experiments_are_named(folders: list[Path]) -> None:
    (folders[0] / "try.json").write_text('{"schema": 9}')
    with pytest.raises(TaskError, match=r"try\.json.*'schema' is 9"):
        read_sources(folders[:1])
    (folders[1] / PLANTED).write_text('{"recipe": "planted", "arms": [{"arm": 3}]}')
    with pytest.raises(TaskError, match=r"results\.json' is damaged"):
        read_sources(folders[1:])


def test_experiments_are_tables_too_with_numbers_in_full(folders: list[Path]) -> None:
    assert all(map(is_experiment, [*folders, folders[1] / PLANTED, folders[0].parent]))
    assert not any(map(is_experiment, [folders[0].parent / "nowhere", folders[1] / "runs"]))
    tables = tables_of(read_sources(folders))
    read = {table.name: list(csv.DictReader(io.StringIO(table.csv()))) for table in tables}
    assert list(read) == [
        *("tn-table3: figures", "tn-table3: claims", "try: figures", "try: differences", "planted: masked LM")
    ]
    assert all({row["table"] for row in rows} == {name} for name, rows in read.items())
    base, hc = read["tn-table3: figures"]
    assert (base["MNLI paper"], base["MNLI mean"], base["MNLI standard deviation"]) == ("80.0", "61.5", str(0.5**0.5))
    assert (hc["row"], hc["RTE paper"], hc["RTE mean"]) == ("HC", "70.0", "")
    (claim,) = read["tn-table3: claims"]
    assert (claim["ours [95 %]"], claim["ours [95 %] low"], claim["p (Holm)"]) == ("2.25", "1.0", "0.01")
    soft = read["planted: masked LM"][1]
    assert float(soft["nll difference"]) == pytest.approx(-0.205) and soft["precision"] == ""
    difference = read["try: differences"][1]
    assert difference["arm"] == "lexical" and difference["difference [95 %] unit"] == "nats"
    assert data_of(read_sources(folders)).keys() == {"recipes", "trials", "planted"}
    (alone, *_) = reproduced_tables(load_table(folders[2]))
    assert "| base | 80 \\| 61.50 ± 0.71 |" in alone.markdown() and "table" not in alone.csv()


def report(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_a_recipes_table_is_printed_and_written_in_every_format(folders: list[Path], tmp_path: Path) -> None:
    *_, recipe = folders
    out = tmp_path / "out"
    assert report(recipe, "--format", "csv").stdout.startswith("table,row,MNLI paper,MNLI mean")
    assert report(recipe, "--out", out / "table.csv").exit_code == 0
    assert (out / "table.csv").read_text() == report(recipe, "--format", "csv").stdout
    assert "80.6 | 63.50" in report(recipe, "--format", "terminal").stdout
    assert "\\toprule" in report(recipe, "--format", "latex").stdout
    data = json.loads(report(recipe, "--json", "--format", "json").stdout)
    assert data["recipes"]["tn-table3"]["cells"][0]["by_seed"] == {"1": 61.0, "2": 62.0}
    results = write_model(tmp_path / "results", 0.7)
    both = report(results, *folders, "--format", "csv").stdout
    assert both.startswith("model,task,split") and "\ntable,measure," in both and "planted: masked LM" in both


def test_without_a_format_an_experiment_is_a_page_although_it_holds_results(
    folders: list[Path], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert report(folders[2], "--out", page).exit_code == 0 and "GLUE: TN" in page.read_text()
    assert "damaged" not in report(folders[2], "--format", "markdown").output  # of rows/, which are no part of it


def test_of_what_no_tables_are_made_is_refused_by_name(folders: list[Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "metrics.jsonl").touch()
    said = report(folders[2], run, "--format", "csv")
    assert said.exit_code != 0
    assert f"'{run}' holds no results of fine-tuning and no experiment" in str(said.exception)
