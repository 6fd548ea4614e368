"""``trueneg compare``: what it prints and writes, and mistakes."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from command_line import fails, trueneg, works

from made_up_results import guesses, labels, write_model, write_result


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [write_model(tmp_path / name, share) for name, share in (("base", 0.7), ("hc", 0.8))]


def test_a_table_and_a_verdict(folders: list[Path]) -> None:
    said = works("compare", *folders, "--resamples", 500)
    assert said.out.startswith("hc against base\n")
    assert "\nglue/rte, dev: hc is better than base by " in said.out
    assert "\x1b" not in said.out and said.err == ""


def test_json(folders: list[Path]) -> None:
    said = works("compare", *folders, "--json", "--confidence", 0.9)
    (row,) = said.data["rows"]
    assert (said.data["baseline"], said.data["contenders"], said.data["confidence"]) == ("base", ["hc"], 0.9)
    assert row["difference"]["interval"]["low"] > 0
    assert row["difference"]["p"] == row["p_adjusted"] < 0.1
    assert list(row["left"]) == ["1", "2", "3"]
    assert said.data["verdicts"][0].startswith("glue/rte, dev: hc is better")
    assert works("compare", *folders, "--json", "--confidence", 0.9).data == said.data  # the same samples each time


@pytest.mark.parametrize(
    "form, begins",
    [("markdown", "## hc against base\n"), ("latex", r"\begin{table}"), ("csv", "task,split,"), ("html", "<h2>hc")],
)
def test_formats(folders: list[Path], tmp_path: Path, form: str, begins: str) -> None:
    asked = ("compare", *folders, "--resamples", 100, "--format", form)
    printed = works(*asked).out
    assert printed.startswith(begins)
    out = tmp_path / "tables" / "table"
    assert works(*asked, "--out", out).out == f"{out}\n"
    assert (printed in out.read_text()) if form == "html" else (printed == out.read_text())
    assert works(*asked, "--out", out, "--json").data["baseline"] == "base"


def test_the_format_follows_the_name_of_the_file(folders: list[Path], tmp_path: Path) -> None:
    for verb, options in (("compare", ["--resamples", 100]), ("report", [])):
        written = {}
        for name in ("t.html", "t.csv", "t.md", "t.tex", "t.json", "t.txt"):
            works(verb, *folders, *options, "--out", tmp_path / name)
            written[name] = (tmp_path / name).read_text()
        begins = ("<!doctype html>", ("task,", "model,"), "## ", r"\begin{table}", "{", ("hc against base", "Results"))
        assert all(text.startswith(begin) for text, begin in zip(written.values(), begins, strict=True))
        assert json.loads(written["t.json"])
        for name in ("t.xlsx", "t"):
            assert "Known: .html (html), .csv" in fails(verb, *folders, *options, "--out", tmp_path / name)
            assert not (tmp_path / name).exists()
    assert "named as a file of csv" in fails("compare", *folders, "--format", "html", "--out", tmp_path / "t.csv")
    data = works("compare", *folders, "--resamples", 100, "--format", "json").data
    assert data == works("compare", *folders, "--resamples", 100, "--json").data


def test_a_page_shows_intervals_and_fits_a_phone(folders: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "c.html"
    works("compare", *folders, "--resamples", 100, "--out", page)
    text = page.read_text()
    (row,) = works("compare", *folders, "--resamples", 100, "--json").data["rows"]
    interval = row["difference"]["interval"]
    assert text.count("<svg ") == 1 and f"{100 * interval['estimate']:+.2f} [{100 * interval['low']:+.2f}" in text
    zero, whole, dot = (
        [float(x) for x in re.findall(r'x[12]="([\d.]+)"', line)] for line in re.findall("<line .*?/>", text)
    )
    assert zero[0] < whole[0] < dot[0] < whole[1] <= 100  # better by all of its interval
    assert text.index("<svg ") < text.index("<table ") and '<div class="wide"><table class="stacked">' in text
    cells = re.findall(r'data-label="([^"]+)"', text)
    assert cells[:7] == ["task", "split", "metric", "base", "hc", "difference [95%]", "p (Holm)"]
    assert "@media (max-width: 700px)" in text and "color-scheme: light dark" in text
    assert not re.findall(r"(?:src|href)=", text)


def test_every_metric_and_several_contenders(folders: list[Path], tmp_path: Path) -> None:
    several = [write_model(tmp_path / name, 0.75, metrics=("accuracy", "f1")) for name in ("a", "b", "c")]
    printed = works("compare", *several, "--metric", "all", "--resamples", 100, "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(printed)))
    expected = [(contender, metric) for contender in ("b", "c") for metric in ("accuracy", "f1")]
    assert [(row["contender"], row["metric"]) for row in rows] == expected


def test_an_unbounded_interval_is_null_in_json_and_empty_in_csv(tmp_path: Path) -> None:
    """Fieller's: whether a baseline of a few errors makes any is not certain."""
    gold = labels(30)
    folders = [tmp_path / "base", tmp_path / "other"]
    for folder, wrong in zip(folders, ((0,), (1, 2)), strict=True):
        predicted = [1 - label if number in wrong else label for number, label in enumerate(gold)]
        write_result(folder, "glue/rte", 1, {"gold": gold, "predicted": predicted})
    asked = ("compare", *folders, "--resamples", 200)
    works(*asked, "--out", tmp_path / "c.json")
    for text in (works(*asked, "--json").out, (tmp_path / "c.json").read_text()):
        assert "Infinity" not in text and "NaN" not in text
        assert json.loads(text)["rows"][0]["error_reduction"]["low"] is None
    (row,) = csv.DictReader(io.StringIO(works(*asked, "--format", "csv").out))
    assert row["fewer errors [95%] low"] == "" and float(row["fewer errors [95%]"]) == pytest.approx(-1)
    assert "-100.0 [−∞, " in works(*asked, "--format", "markdown").out


def test_mistakes(folders: list[Path], tmp_path: Path) -> None:
    assert "nothing to compare" in fails("compare", folders[0])
    assert "holds no results" in fails("compare", folders[0], tmp_path / "nowhere")
    assert "did you mean 'markdown'" in fails("compare", *folders, "--format", "markdwn")
    assert "is a folder: name a file" in fails("compare", *folders, "--out", tmp_path)
    assert "unknown metric" in fails("compare", *folders, "--metric", "bleu")
    assert trueneg("compare").code == 2


def test_averages_in_every_format(tmp_path: Path) -> None:
    folders = []
    for name, share in (("base", 0.7), ("hc", 0.8)):
        for task in ("glue/rte", "glue/qnli", "imdb"):
            for seed in (1, 2):
                gold = labels(300)
                columns = {"gold": gold, "predicted": guesses(gold, share, seed + int(1000 * share))}
                write_result(tmp_path / name, task, seed, columns)
        folders.append(tmp_path / name)
    asked = ("compare", *folders, "--resamples", 100, "--average")
    data = works(*asked, "--json").data
    glue, every = data["averages"]
    assert (glue["name"], len(glue["tasks"]), len(glue["missing"]), len(every["tasks"])) == ("GLUE average", 2, 6, 3)
    assert data["average_verdicts"][0].startswith("GLUE average, 2 of 8 tasks: hc is above base by ")
    assert "Without glue/cola, glue/sst2, " in data["average_verdicts"][0]
    said = works(*asked).out
    assert "\n\nAverages over tasks\n" in said and "average of 3 tasks" in said and "another pre-training run" in said
    (line,) = [one for one in works(*asked, "--format", "csv").out.splitlines() if one.startswith("average of")]
    assert float(line.split(",")[5]) == pytest.approx(every["difference"]["interval"]["estimate"])
    assert r"GLUE average, 2 of 8 tasks & hc & 2 &" in works(*asked, "--format", "latex").out
    assert "| GLUE average, 2 of 8 tasks | hc | 2 |" in works(*asked, "--format", "markdown").out
    page = tmp_path / "page.html"
    works(*asked, "--out", page)
    assert "<h2>Averages over tasks</h2>" in page.read_text()
    assert "averages" in json.loads(works(*asked, "--format", "json").out)
    assert "and an average is over two" in fails(
        "compare", *[write_model(tmp_path / n, 0.7) for n in "xy"], "--average"
    )


def test_examples_are_shown_or_written_and_hostile_text_is_inert(tmp_path: Path) -> None:
    data = tmp_path / "glue" / "RTE"
    data.mkdir(parents=True)
    rows = ["0\t=HYPERLINK(1) \x1b]0;title\x07<script>\tso\tentailment", "1\tsame\tso\tentailment"]
    (data / "dev.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tlabel", *rows]) + "\n")
    config = {"task": {"name": "glue/rte", "data": str(data.parent)}}
    for name, predicted in (("base", [0, 0]), ("hc", [1, 0])):
        columns = {"gold": [0, 0], "predicted": predicted}
        for seed in (1, 2):
            known = {"labels": ["entailment", "not_entailment"], "config": config}
            write_result(tmp_path / name, "glue/rte", seed, columns, **known)
    asked = ("compare", tmp_path / "base", tmp_path / "hc", "--resamples", 50)
    for form in ("terminal", "markdown", "csv", "latex"):
        said = works(*asked, "--examples", 5, "--format", form)
        assert "\x1b" not in said.out and "\x07" not in said.out and "HYPERLINK" in said.out
    (one,) = works(*asked, "--examples", 5, "--json").data["examples"]
    assert (one["better"], one["margin"], one["contender"]) == ("base", 1.0, {"not_entailment": 2})
    for name in ("e.csv", "e.html", "e.json", "e.md"):
        said = works(*asked, "--examples", tmp_path / name)
        assert f"1 examples on which they differ: {tmp_path / name}" in said.err
    cells = list(csv.reader(io.StringIO((tmp_path / "e.csv").read_text())))
    assert cells[1][9].startswith("'=HYPERLINK(1)") and cells[1][7:9] == ["entailment × 2", "not_entailment × 2"]
    assert "<script>" not in (tmp_path / "e.html").read_text()
    assert "at least 1, or a file" in fails(*asked, "--examples", 0)
    for examples in ("examples", "²", "--5"):
        assert f"--examples {examples}: no format is called so" in fails(*asked, f"--examples={examples}")
