"""Results of recipes, trials and the planted experiment as tables and as plain data, without an HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from trueneg.reporting.planted import titled_tables
from trueneg.reporting.reproduced import reproduced_tables
from trueneg.reporting.sources import Sources
from trueneg.reporting.tables import Table
from trueneg.reporting.trial import trial_tables


def tables_of(sources: Sources) -> list[Table]:
    """Return the tables of all experiments; if there are several, their CSV rows name the table."""
    found = list(_named(sources))
    return [replace(table, name=name) if len(found) > 1 else table for name, table in found]


def data_of(sources: Sources) -> dict[str, Any]:
    """Return the results with every seed, for JSON: by kind of experiment, then by the name of its folder."""
    found = {
        "recipes": {name: asdict(table) for name, table in sources.tables.items()},
        "trials": {name: asdict(trial) for name, trial in sources.trials.items()},
        "planted": {file.name: file.data for file in sources.files["planted"]},
    }
    return {kind: of_kind for kind, of_kind in found.items() if of_kind}


def _named(sources: Sources) -> Iterator[tuple[str, Table]]:
    for name, table in sources.tables.items():
        figures, *claims = reproduced_tables(table)
        yield from (
            (f"{name}: {what}", one) for what, one in zip(("figures", "claims"), (figures, *claims), strict=False)
        )
    for name, trial in sources.trials.items():
        for one in trial_tables(trial):
            yield f"{name}: {one.title.lower()}", replace(one, title=f"Trial {name}: {one.title.lower()}")
    for file in sources.files["planted"]:
        yield from ((f"{file.name}: {one.columns[0].name}", one) for one in titled_tables(file.read))
