"""Page section of a reproduced table: the paper's figures next to ours, and the verdicts on its claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trueneg.evaluation.results.reproduction import Cell, ReproducedTable, Verdict
from trueneg.reporting.results import p_value
from trueneg.reporting.tables import NONE, Column, Table, shown_table, text_table

SIGNS: Mapping[Verdict, str] = {
    **{"replicated": "✓", "confirmed": "✓", "contradicted": "✗"},
    **{"not resolved": "?", "not comparable": "∅"},
}
"""Symbol shown beside a verdict's colour."""


def of_recipe(table: ReproducedTable, number: int) -> dict[str, Any]:
    """Return the template values of a table's section.

    Args:
        table: The table.
        number: Makes the names of its CSV files unique.
    """
    claims = text_table(
        ["claim", "in", "paper", "ours [95%]", "p (Holm)", "verdict", "why"],
        [
            [
                *(f"{claim.row} − {claim.baseline}", claim.column, _signed(claim.paper)),
                NONE if claim.interval is None else f"{claim.interval:+.2f}",
                NONE if claim.p is None else p_value(claim.p),
                *(f"{SIGNS[claim.verdict]} {claim.verdict}", claim.reason),
            ]
            for claim in table.claims
        ],
    )
    verdicts = {(claim.row, claim.column): claim for claim in table.claims}
    counts = {verdict: sum(claim.verdict == verdict for claim in table.claims) for verdict in SIGNS}
    return {
        "title": f"{table.title}: {table.source}",
        "about": f"{table.recipe}, scale {table.scale}. "
        + ", ".join(f"{SIGNS[verdict]} {verdict} {num}" for verdict, num in counts.items() if num),
        "columns": table.columns,
        "rows": [
            (row, [(_shown(table.cell(row, column)), verdicts.get((row, column))) for column in table.columns])
            for row in table.rows
        ],
        "signs": SIGNS,
        "csv": shown_table(_values(table), f"{table.recipe}-{number}"),
        "claims": shown_table(claims, f"{table.recipe}-claims-{number}") if table.claims else None,
        "notes": table.notes,
        "commands": table.commands,
    }


def _shown(cell: Cell | None) -> dict[str, str]:
    if cell is None:
        return {"ours": NONE, "range": "", "paper": ""}
    seeds = cell.by_seed.values()
    return {
        "ours": NONE if cell.mean is None else f"{cell.mean:.2f}",
        "range": f"{min(seeds):.2f}–{max(seeds):.2f}" if len(seeds) > 1 else "",
        "paper": "" if cell.paper is None else f"{cell.paper:g}",
    }


def _values(table: ReproducedTable) -> Table:
    """Tabulate every figure in a row of its own, for CSV."""
    names = ("row", "column", "paper", "ours, mean", "seed", "ours")
    rows: list[list[Any]] = []
    for cell in table.cells:
        figures: list[tuple[Any, Any]] = list(cell.by_seed.items())
        rows += [[cell.row, cell.column, cell.paper, cell.mean, *figure] for figure in figures or [(None, None)]]
    return Table([Column(name) for name in names], rows)


def _signed(number: float | None) -> str:
    return NONE if number is None else f"{number:+.2f}"
