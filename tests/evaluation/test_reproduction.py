"""The record of a reproduced table, and the verdict on a claim."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from trueneg.errors import TaskError
from trueneg.evaluation.results.reproduction import (
    Cell,
    Claim,
    ReproducedTable,
    judge,
    load_table,
    save_table,
)
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.reporting.reproduced import reproduced_tables
from trueneg.reporting.tables import Table

CLAIM = Claim("HC", "base", "CoLA", 1.0, Interval(0.6, 0.2, 1.0, 5), 0.01, "replicated", "the same direction")
TABLE = ReproducedTable(
    recipe="tn-table3",
    title="GLUE",
    source="Zhang et al. 2023, Table 3",
    scale="mini",
    rows=["base", "HC"],
    columns=["CoLA"],
    cells=[Cell("base", "CoLA", 56.8, {1: 10.0, 2: 12.0}), Cell("HC", "CoLA", 62.0)],
    claims=[CLAIM],
    notes=[],
    commands={"corpus": "trueneg corpus build text --out corpus"},
    data={"glue/CoLA": "0" * 64},
    versions={"trueneg": "0"},
)


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    save_table(TABLE, tmp_path)
    assert load_table(tmp_path) == TABLE
    cell = load_table(tmp_path).cell("base", "CoLA")
    assert cell is not None and cell.mean == 11.0
    assert load_table(tmp_path).cell("SR", "CoLA") is None


@pytest.mark.parametrize(
    ("damage", "named"),
    [({"schema": 2}, "schema"), ({"rows": None}, "rows"), ({"claims": [{}]}, "claims")],
)
def test_a_damaged_or_newer_table_is_refused_by_name(tmp_path: Path, damage: dict[str, object], named: str) -> None:
    path = save_table(TABLE, tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(TaskError, match=f"table.json.*{named}"):
        load_table(tmp_path)


@pytest.mark.parametrize(
    ("paper", "interval", "p", "obstacle", "verdict"),
    [
        (1.0, (0.2, 0.9), 0.01, "", "replicated"),
        (-1.0, (-0.9, -0.2), 0.01, "", "replicated"),
        (1.0, (-0.9, -0.2), 0.01, "", "contradicted"),
        (1.0, (0.2, 0.9), 0.06, "", "not resolved"),
        (1.0, (-0.2, 1.9), 0.3, "", "not resolved"),
        (1.0, (0.2, 0.9), 0.01, "it did not learn", "not comparable"),
        (None, (0.2, 0.9), 0.01, "", "not comparable"),
        (0.0, (0.2, 0.9), 0.01, "", "not comparable"),
    ],
)
def test_a_claim_is_judged_by_its_direction(
    paper: float | None, interval: tuple[float, float], p: float, obstacle: str, verdict: str
) -> None:
    found = Interval((interval[0] + interval[1]) / 2, *interval, 5)
    assert judge(paper, found, p, obstacle)[0] == verdict


@pytest.mark.parametrize(("p", "verdict"), [(0.25, "not resolved"), (0.01, "replicated")])
def test_a_point_has_no_spread_to_judge_by_but_the_number_of_examples(p: float, verdict: str) -> None:
    found = judge(1.0, Interval(1.0, 1.0, 1.0, 3), p)
    assert found[0] == verdict and ("no spread to judge by" in found[1]) == (verdict == "not resolved")


def test_nothing_measured_is_not_comparable() -> None:
    assert judge(1.0, None, None) == ("not comparable", "nothing was measured")


@pytest.mark.parametrize(
    ("interval", "p", "verdict"),
    [
        ((0.2, 0.9), 0.01, "confirmed"),
        ((-0.9, -0.2), 0.01, "contradicted"),
        ((0.2, 0.9), 0.06, "not resolved"),
        ((-0.2, 0.9), 0.3, "not resolved"),
    ],
)
def test_a_claim_that_no_paper_has_is_that_the_difference_is_positive(
    interval: tuple[float, float], p: float, verdict: str
) -> None:
    found = Interval((interval[0] + interval[1]) / 2, *interval, 5)
    assert judge(None, found, p, is_ours=True)[0] == verdict
    assert judge(None, found, p)[0] == "not comparable"


def shown(table: Table) -> list[list[str | None]]:
    """What people see of cells, which have numbers for programs besides."""
    return [[cell and cell[-1] for cell in row] for row in table.rows]


def test_a_table_without_a_paper_shows_no_place_for_its_figures() -> None:
    (figures, _) = reproduced_tables(TABLE)
    assert shown(figures) == [["base", "56.8 | 11.00 ± 1.41"], ["HC", "62 |"]]
    (own,) = reproduced_tables(replace(TABLE, cells=[Cell("base", "CoLA", None, {1: 10.0, 2: 12.0})], claims=[]))
    assert shown(own) == [["base", "11.00 ± 1.41"], ["HC", None]]
    assert own.notes[0].startswith("Mean")
