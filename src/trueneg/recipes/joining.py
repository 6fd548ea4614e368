"""Tables of other folders: another machine's figures for some seeds and rows, without its models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.results.reproduction import ROWS, TABLE, ReproducedTable, load_table
from trueneg.evaluation.results.store import check_result
from trueneg.recipes.plan import JOBS, JoinedFolder, Workspace

JUDGED_BY_FIGURES = ("corrections", "tn-table2", "cline-table3", "cline-table7")
"""Recipes whose claims are judged from each seed's figures alone; others also need each job's predictions."""
NOT_JOINABLE = {"tn-cost": "a ratio within one run", "tn-table7": "answers of one seed", "all": "several tables"}
"""Recipes that do not support ``--join``, and why."""


def done_elsewhere(workspace: Workspace, recipe: str, paths: Sequence[str | Path]) -> dict[str, JoinedFolder]:
    """Find the jobs of a plan whose figures or results are in other folders, in ``table.json`` or ``rows`` beside it.

    Jobs with equal data digests and equal commands, apart from job names, are the same experiment on any machine.

    Args:
        workspace: The plan.
        recipe: Its name.
        paths: Folders that contain a ``table.json``, or paths of such files.

    Returns:
        Job name to the folder that has it.

    Raises:
        ConfigError: for a recipe that cannot be joined, or a table of another plan.
        TaskError: for a table or results that are missing or damaged.
    """
    if paths and recipe in NOT_JOINABLE:
        raise ConfigError(f"--join: {recipe} is {NOT_JOINABLE[recipe]}, to which nothing can be joined: leave it out")
    found: dict[str, JoinedFolder] = {}
    needed = {need for job in workspace.plan.jobs.values() for need in job.needs}
    for path in map(Path, paths):
        folder = path.parent if path.name == TABLE else path
        table = load_table(folder)
        other = JoinedFolder(folder, table)
        common = [name for name in workspace.plan.jobs if name in table.commands]
        if table.recipe != recipe or needed.issuperset(common):
            raise ConfigError(
                f"--join {path}: a table of {table.recipe} at --scale {table.scale}, which has no seed of a row of "
                f"this plan: leave it out, or give its seeds and arms"
            )
        for name in common:
            if why := _differs(workspace, name, table):
                raise ConfigError(f"--join {path}: its job '{name}' {why}: the figures are of another experiment")
            if recipe not in JUDGED_BY_FIGURES:
                _check_results(other, name, is_last=name not in needed)
            found.setdefault(name, other)
    return found


def _check_results(other: JoinedFolder, job: str, *, is_last: bool) -> None:
    """Check that a job's results are undamaged, and that there are some if no other job needs it (``is_last``)."""
    results = other.results(job)
    if is_last and not results:
        raise TaskError(
            f"--join {other.folder}: its {TABLE} names no results of '{job}', as those of former versions: run the "
            f"same trueneg reproduce there once more"
        )
    for path in results.values():
        check_result(path, f", or copy the whole folder with its {ROWS}/", f"--join {other.folder}: ")


def _differs(workspace: Workspace, name: str, table: ReproducedTable) -> str:
    """Describe how a table's job differs from the plan's job of the same name; empty if it does not."""
    for one in workspace.plan.jobs[name].inputs:
        if table.data.get(one.label) != workspace.digests[one]:
            return f"read other data ({one.label})"
    theirs, ours = table.commands[name], workspace.public_command(name)
    return "" if _keyed(theirs) == _keyed(ours) else f"is '{theirs}', here it is '{ours}'"


def _keyed(command: str) -> str:
    """Remove the names of other jobs, which depend on the plan, from a command, but keep their keys."""
    return re.sub(rf"OUT/{JOBS}/[^/]*-([0-9a-f]+)(?=/)", r"\1", command)
