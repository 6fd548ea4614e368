"""A reproduced table as text: the paper's figures next to ours, and a verdict on each claim."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from trueneg.evaluation.results.reproduction import Cell, ReproducedTable
from trueneg.reporting.results import p_value
from trueneg.reporting.tables import ENDS, Column, Table, ends_of, told_column

FIGURE = ("paper", "mean", "standard deviation")
"""Parts of a figure."""


def reproduced_tables(reproduced: ReproducedTable) -> list[Table]:
    """Return the table, with cells "paper | ours ± standard deviation over seeds", and a table of its claims."""
    has_paper = any(cell.paper is not None for cell in reproduced.cells)
    rows = [
        [(row, row), *(_cell(reproduced.cell(row, column), has_paper) for column in reproduced.columns)]
        for row in reproduced.rows
    ]
    num = max((len(cell.by_seed) for cell in reproduced.cells), default=0)
    title = f"{reproduced.source}: {reproduced.title} ({reproduced.scale})"
    legend = f"{'Paper | ours, mean' if has_paper else 'Mean'} ± standard deviation over seeds ({num})."
    columns = [told_column("", "row"), *(told_column(column, *FIGURE) for column in reproduced.columns)]
    figures = Table(columns, rows, title, [legend, *reproduced.notes])
    claims = [
        [
            f"{claim.row} against {claim.baseline}, {claim.column}",
            (claim.paper, "" if claim.paper is None else f"{claim.paper:+.2f}"),
            claim.interval and (*ends_of(claim.interval), f"{claim.interval:+.2f}"),
            *(claim.p, claim.verdict, claim.reason),
        ]
        for claim in reproduced.claims
    ]
    names = [
        *(Column("claim"), told_column("paper", ""), told_column("ours [95 %]", *ENDS)),
        *(Column("p (Holm)", p_value), Column("verdict"), Column("why")),
    ]
    return [figures, Table(names, claims, "Claims")] if claims else [figures]


def markdown(tables: Sequence[Table]) -> str:
    """Write tables below each other, as Markdown."""
    return "\n".join(table.markdown() for table in tables)


def _cell(cell: Cell | None, has_paper: bool) -> tuple[float | None, float | None, float | None, str] | None:
    if cell is None or (cell.paper is None and not cell.by_seed):
        return None
    values = list(cell.by_seed.values())
    spread = statistics.stdev(values) if len(values) > 1 else None
    paper = f"{'' if cell.paper is None else f'{cell.paper:g}'} |" if has_paper else ""
    shown = "" if cell.mean is None else f"{cell.mean:.2f}{'' if spread is None else f' ± {spread:.2f}'}"
    return cell.paper, cell.mean, spread, f"{paper} {shown}".strip()
