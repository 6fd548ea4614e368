"""Tables in every format, and what they say of results and comparisons."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from rich.cells import cell_len

from made_up_results import guesses, labels, write_model, write_result
from trueneg.errors import ConfigError
from trueneg.evaluation.results.comparison import compare
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.reporting.page import inline_svg
from trueneg.reporting.results import comparison_table, forest_plot, results_table, verdict
from trueneg.reporting.tables import FORMATS, Column, Table, form_of, write_tables
from trueneg.terminal.printable import printable

NASTY = "50% of_a & $b$ {c} #1 ~^\\ | <i> `x` *y* [z]\n\x1b[31m"


def table() -> Table:
    columns = [
        Column("task"),
        Column("share", "{:.1f}".format, is_number=True),
        Column("range", lambda pair: f"{pair[0]} to {pair[1]}", is_number=True, parts=("low", "high")),
    ]
    return Table(columns, [["rte", 1 / 3, (-1, 2)], ["mrpc", None, None], [NASTY, -12.0, (0, 1)]], "A & B", ["50% [n]"])


def test_csv_has_full_numbers_and_a_column_for_each_part() -> None:
    header, first, second, third = csv.reader(io.StringIO(table().render("csv")))
    assert header == ["task", "share", "range low", "range high"]
    assert first == ["rte", repr(1 / 3), "-1", "2"]
    assert second == ["mrpc", "", "", ""]
    assert third[0] == printable(NASTY)


def test_csv_has_no_cell_for_what_is_not_finite() -> None:
    column = Column("share", str, is_number=True, parts=("", "low"))
    assert Table([column], [[(float("nan"), float("-inf"))]]).csv() == "share,share low\n,\n"


def test_markdown_keeps_its_columns() -> None:
    text = table().render("markdown")
    assert text.startswith("## A & B\n\n| task | share | range |\n| --- | ---: | ---: |\n| rte | 0.3 | -1 to 2 |\n")
    assert "| mrpc | – | – |\n" in text
    (nasty,) = (line for line in text.splitlines() if "50% of" in line)
    assert len(re.findall(r"(?<!\\)\|", nasty)) == 4
    assert r"\<i> \`x\` \*y\* [z]" in nasty
    assert text.endswith("\n\n50% [n]\n")
    link = Table([Column("a")], [["[a](b) [c][d]"]]).markdown()
    assert link.endswith("| [a\\](b) [c\\][d] |\n")


def test_latex_is_escaped() -> None:
    text = table().render("latex")
    assert r"\begin{tabular}{lrr}" in text and r"\caption{A \& B}" in text
    for line in (r"\toprule", r"\midrule", r"\bottomrule", r"mrpc & -- & -- \\", r"rte & 0.3 & $-$1 to 2 \\"):
        assert line in text.splitlines()
    (nasty,) = (line for line in text.splitlines() if line.startswith(r"50\% of"))
    cell, share, _ = nasty.removesuffix(r" \\").split(" & ", 2) if r"\&" not in nasty else re.split(r"(?<!\\)&", nasty)
    assert share.strip() == "$-$12.0"
    assert r"of\_a \& \$b\$ \{c\} \#1 \textasciitilde{}\textasciicircum{}\textbackslash{} \textbar{}" in cell
    assert r"\textless{}i\textgreater{}" in cell and "{[}z{]}" in cell
    plain = re.sub(r"\\[a-z]+|\\.", "", text)
    assert plain.count("{") == plain.count("}")


class Reader(HTMLParser):
    """Reads cells back."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.is_inside = tag in ("td", "th")
        if self.is_inside:
            self.cells.append("")
        assert tag in ("table", "thead", "tbody", "tr", "td", "th", "h2", "p", "div")

    def handle_endtag(self, tag: str) -> None:
        self.is_inside = False

    def handle_data(self, data: str) -> None:
        if self.is_inside:
            self.cells[-1] += data


def test_html_reads_back() -> None:
    reader = Reader()
    reader.feed(table().render("html"))
    assert reader.cells[:6] == ["task", "share", "range", "rte", "0.3", "-1 to 2"]
    assert reader.cells[9].startswith("50% of_a & $b$ {c} #1 ~^\\ | <i>")
    assert table().html().count('<td class="number" ') == 6


def test_a_terminal_gets_aligned_text_without_commands() -> None:
    text = table().render("terminal")
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0] == "A & B"
    shares = [line for line in lines if line.startswith(("rte", "50%"))]
    assert shares[0].index("0.3") + 3 == shares[1].index("-12.0") + 5
    assert "50% [n]" in lines  # no markup
    narrow = table().render("terminal", width=40)
    assert max(map(len, narrow.splitlines())) <= 40
    assert "".join(narrow.split()).count("mrpc") == 1


def test_files(tmp_path: Path) -> None:
    page = write_tables([table(), table()], tmp_path / "new" / "page.html", "html", {}).read_text()
    assert (
        page.startswith("<!doctype html>")
        and page.count("<table ") == 2
        and "<title>trueneg: A &amp; B</title>" in page
    )
    assert write_tables([table()], tmp_path / "t.csv", "csv", {}).read_text() == table().csv()
    with pytest.raises(ConfigError, match="is a folder: name a file"):
        write_tables([table()], tmp_path, "csv", {})
    with pytest.raises(ConfigError, match="did you mean 'latex'"):
        table().render("latx")


def test_results_over_seeds_and_glues_average(tmp_path: Path) -> None:
    base, other = write_model(tmp_path / "base", 0.7), write_model(tmp_path / "hc", 0.8, seeds=[1, 2])
    found = results_table([base, other])
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert [(row["model"], row["task"], row["seeds"]) for row in rows] == [
        ("base", "glue/rte", "3"),
        ("base", "GLUE average, 1 of 8 tasks", ""),
        ("hc", "glue/rte", "2"),
        ("hc", "GLUE average, 1 of 8 tasks", ""),
    ]
    first = rows[0]
    assert (first["split"], first["metric"], first["examples"], first["selection"]) == (
        "dev",
        "accuracy",
        "400",
        "last",
    )
    assert float(first["range low"]) <= float(first["median"]) <= float(first["range high"])
    assert rows[1]["median"] == first["median"]
    notes = " ".join(found.notes)
    assert "GLUE average of base: 1 of 8 tasks" in notes and "missing: glue/cola, glue/sst2," in notes
    shown = found.markdown()
    assert f"| {100 * float(first['median']):.2f} |" in shown
    assert all(found.render(form) for form in FORMATS)


def test_verdicts_in_plain_words(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", 0.70)

    def said(name: str, share: float, baseline: Path = base, **options: object) -> str:
        return verdict(compare(baseline, write_model(tmp_path / name, share, **options)).rows[0])  # type: ignore[arg-type]

    assert re.fullmatch(
        r"glue/rte, dev: much is better than base by \d\.\d\d points of accuracy "
        r"\(\+\d\.\d\d to \+\d+\.\d\d at 95%, 3 seeds, p \(Holm\) (<|= )0\.\d{3}\)\.",
        said("much", 0.78),
    )
    assert "less is worse than base by" in said("less", 0.6)
    assert "no difference shown: same minus base is +0.00 points" in said("same", 0.70)
    slightly = said("slightly", 0.71)
    assert "no difference shown: slightly minus base is +" in slightly
    assert "would show from" in slightly or "are too few to show a difference of this size, however many" in slightly
    one = said("one", 0.8, write_model(tmp_path / "single", 0.7, seeds=[1]), seeds=[1])
    assert "one is better than single by" in one
    assert one.endswith("1 seed: this tells these two models apart, not the two ways of training.")
    assert "Note: seeds 3 of base are not used" in said("two", 0.8, seeds=[1, 2])


def test_what_does_not_survive_holm_is_no_claim(tmp_path: Path) -> None:
    base, other = write_model(tmp_path / "base", 0.70), write_model(tmp_path / "hc", 0.73)
    (row,) = compare(base, other, resamples=500).rows
    assert "hc is better than base by" in verdict(row)
    point = Interval(0.1, 0.1, 0.1, 3)
    same = dataclasses.replace(row, p_adjusted=0.25, difference=dataclasses.replace(row.difference, interval=point))
    assert "hc looks better than base" in verdict(same) and "the same with every seed and example" in verdict(same)
    said = verdict(dataclasses.replace(row, p_adjusted=0.2))
    assert "hc looks better than base by" in said and "p (Holm) = 0.200" in said
    assert "not once all comparisons are allowed for (Holm)" in said


def test_comparisons_as_tables(tmp_path: Path) -> None:
    base, other = write_model(tmp_path / "base", 0.7), write_model(tmp_path / "hc", 0.8)
    write_result(base, "glue/cola", 1, {"gold": labels(5), "predicted": labels(5)})
    found = compare(base, other)
    full, short = comparison_table(found), comparison_table(found, is_short=True)
    (row,) = csv.DictReader(io.StringIO(full.csv()))
    assert float(row["difference [95%]"]) == found.rows[0].difference.interval.estimate
    assert float(row["fewer errors [95%]"]) == found.rows[0].error_reduction.estimate, "a share, as all in CSV"
    assert float(row["difference [95%] low"]) == found.rows[0].difference.interval.low
    assert float(row["hc"]) - float(row["base"]) == pytest.approx(float(row["difference [95%]"]))
    assert (row["seeds"], row["better : worse (worse)"], row["seeds needed"]) == ("3", "0", "3")
    assert len(short.columns) < len(full.columns)
    assert "contender" not in row
    assert verdict(found.rows[0]) in short.notes and "only in base: glue/cola dev" in short.notes
    assert all(full.render(form) for form in FORMATS)
    two = comparison_table(compare(base, other, write_model(tmp_path / "sr", 0.75)))
    assert [row["contender"] for row in csv.DictReader(io.StringIO(two.csv()))] == ["hc", "sr"]


def test_pictures_colour_what_is_better_where_less_is_better(tmp_path: Path) -> None:
    gold = labels(300)
    folders = []
    for name, share in (("weak", 0.4), ("strong", 0.8)):
        for seed in (1, 2, 3):
            columns = {"gold": gold, "predicted": guesses(gold, share, seed), "predicted_before": gold}
            metrics = ("attack_success_rate", "accuracy_under_attack")
            write_result(tmp_path / name, "mr", seed, columns, split="attack-typos", metrics=metrics)
        folders.append(tmp_path / name)
    found = compare(*folders, metric="all", resamples=300)
    assert [row.difference.interval.estimate > 0 for row in found.rows] == [False, True]
    assert ["is better than" in verdict(row) for row in found.rows] == [True, True]
    plot = forest_plot(found)
    assert "var(--bad)" not in plot and plot.count("stroke: var(--good); stroke-width: 10") == 2
    assert "Of attack_success_rate less is better: left of zero." in plot
    worse = forest_plot(compare(*reversed(folders), metric="all", resamples=300))
    assert "var(--good)" not in worse and "less is better" in worse
    assert "less is better" not in forest_plot(compare(*folders, metric="accuracy_under_attack", resamples=300))


def test_the_format_follows_the_name_of_the_file(tmp_path: Path) -> None:
    for name, form in (("c.HTML", "html"), ("c.md", "markdown"), ("c.json", "json"), ("c.txt", "terminal")):
        assert form_of("", tmp_path / name) == form
    assert form_of("markdown", tmp_path / "c.txt") == form_of("markdown", tmp_path / "c") == "markdown"
    for name in ("c.xlsx", "c", ".csv"):
        with pytest.raises(ConfigError, match=r"Known: \.html"):
            form_of("", tmp_path / name)
    with pytest.raises(ConfigError, match="named as a file of csv"):
        form_of("html", tmp_path / "c.csv")


def test_no_word_is_broken_at_any_width() -> None:
    cells = ["results/cline/reviews/seed-1", "textfooler-textattack", "87.5 [81.2, 93.1]", "日本語 日本"]
    columns = [Column(name, is_number=n == 2) for n, name in enumerate(["model", "attack", "before x 100", "note"])]
    words = {*cells[0].replace("/", "/ ").replace("d-1", "d-").split(), "textfooler-", "textattack", "[81.2,", "日本語"}
    for width in (None, 200, 80, 60, 44, 30, 20, 1):
        text = Table(columns, [cells], "A title", ["A note about it."]).terminal(width)
        if width is None or width >= 30:
            assert words <= set(re.findall(r"\S+?(?:/|(?<=[a-z])-)|\S+", text)), width
            assert width is None or max(map(cell_len, text.splitlines())) <= width
        assert set("".join(cells)) <= set(text)


def test_two_models_of_one_name_are_told_apart(tmp_path: Path) -> None:
    found = results_table([write_model(tmp_path / folder / "base", 0.7) for folder in ("runs", "other")])
    assert {row[0] for row in found.rows} == {"runs/base", "other/base"}


def test_names_are_text_in_pictures(tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)> & co"
    found = compare(
        *(write_model(tmp_path / f"{name}{hostile}", share) for name, share in (("a", 0.7), ("b", 0.8), ("c", 0.75)))
    )
    plot = forest_plot(found)
    assert "<img" not in plot
    assert plot.count(html.escape(hostile)) >= len(found.rows) + 1  # each line, and the caption
    tag, _, _ = inline_svg(Figure(), '"><b onload="').partition(">")
    assert ElementTree.fromstring(f"{tag}/>").attrib["aria-label"] == '"><b onload="'
