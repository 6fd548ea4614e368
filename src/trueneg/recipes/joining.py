"""Tables of other folders: the figures of seeds and rows that another machine has, without its models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from trueneg.errors import ConfigError
from trueneg.evaluation.results.reproduction import TABLE, ReproducedTable, load_table
from trueneg.recipes.plan import JOBS, Workspace

JOINABLE = ("corrections", "tn-table2", "cline-table7")
"""Recipes whose claims are judged by the figures of seeds alone; those of fine-tuning need the predictions, too."""


def done_elsewhere(workspace: Workspace, recipe: str, paths: Sequence[str | Path]) -> dict[str, ReproducedTable]:
    """Find the jobs of a plan whose figures are in tables of other folders.

    Commands name the content of what they read, so that equal ones are the same experiment wherever they ran.

    Args:
        workspace: The plan.
        recipe: Its name.
        paths: Folders that have a ``table.json``, or these files.

    Returns:
        Name of each job to the table.

    Raises:
        ConfigError: for a recipe that cannot be joined, or a table of another plan.
        TaskError: for a table that is not there, or damaged.
    """
    if paths and recipe not in JOINABLE:
        raise ConfigError(
            f"--join: {recipe} needs more than the figures of a table: copy jobs/ of the other --out folder into this "
            f"one (a table alone will do for {', '.join(JOINABLE)})"
        )
    found: dict[str, ReproducedTable] = {}
    needed = {need for job in workspace.plan.jobs.values() for need in job.needs}
    for path in map(Path, paths):
        table = load_table(path.parent if path.name == TABLE else path)
        common = [name for name in workspace.plan.jobs if name in table.commands]
        if table.recipe != recipe or needed.issuperset(common):
            raise ConfigError(
                f"--join {path}: a table of {table.recipe} at --scale {table.scale}, which has no seed of a row of "
                f"this plan: leave it out, or give its seeds and arms"
            )
        for name in common:
            if why := _differs(workspace, name, table):
                raise ConfigError(f"--join {path}: its job '{name}' {why}: the figures are of another experiment")
            found.setdefault(name, table)
    return found


def _differs(workspace: Workspace, name: str, table: ReproducedTable) -> str:
    """Say how a table's job differs from the plan's of its name; nothing if it does not."""
    for one in workspace.plan.jobs[name].inputs:
        if table.data.get(one.name) != workspace.digests[one]:
            return f"read other data ({one.name})"
    theirs, ours = table.commands[name], workspace.told(name)
    return "" if _keyed(theirs) == _keyed(ours) else f"is '{theirs}', here it is '{ours}'"


def _keyed(command: str) -> str:
    """Leave the names of other jobs out of a command, which differ with the plan, but not their keys."""
    return re.sub(rf"OUT/{JOBS}/[^/]*-([0-9a-f]+)(?=/)", r"\1", command)
