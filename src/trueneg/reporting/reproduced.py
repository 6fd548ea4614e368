"""A reproduced table in words: the paper's figures next to ours, and a verdict on each claim."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from trueneg.evaluation.results.reproduction import Cell, ReproducedTable
from trueneg.reporting.tables import Column, Table

CLAIMS = ("claim", "paper", "ours [95 %]", "p (Holm)", "verdict", "why")


def reproduced_tables(reproduced: ReproducedTable) -> list[Table]:
    """Give the table, each cell as "paper | ours ± standard deviation over seeds", and the one of its claims."""
    has_paper = any(cell.paper is not None for cell in reproduced.cells)
    rows = [
        [row, *(_cell(reproduced.cell(row, column), has_paper) for column in reproduced.columns)]
        for row in reproduced.rows
    ]
    num = max((len(cell.by_seed) for cell in reproduced.cells), default=0)
    title = f"{reproduced.source}: {reproduced.title} ({reproduced.scale})"
    legend = f"{'Paper | ours, mean' if has_paper else 'Mean'} ± standard deviation over seeds ({num})."
    figures = Table([Column(""), *map(Column, reproduced.columns)], rows, title, [legend, *reproduced.notes])
    claims = [
        [
            f"{claim.row} against {claim.baseline}, {claim.column}",
            "" if claim.paper is None else f"{claim.paper:+.2f}",
            claim.interval
            and f"{claim.interval.estimate:+.2f} [{claim.interval.low:+.2f}, {claim.interval.high:+.2f}]",
            None if claim.p is None else f"{claim.p:.3f}",
            claim.verdict,
            claim.reason,
        ]
        for claim in reproduced.claims
    ]
    return [figures, Table([Column(name) for name in CLAIMS], claims, "Claims")] if claims else [figures]


def markdown(tables: Sequence[Table]) -> str:
    """Write tables below each other, as Markdown."""
    return "\n".join(table.markdown() for table in tables)


def _cell(cell: Cell | None, has_paper: bool) -> str | None:
    if cell is None or (cell.paper is None and not cell.by_seed):
        return None
    paper = "" if cell.paper is None else f"{cell.paper:g}"
    paper = f"{paper} |" if has_paper else ""
    if not cell.by_seed:
        return paper
    values = list(cell.by_seed.values())
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{paper} {statistics.fmean(values):.2f}{spread}".strip()
