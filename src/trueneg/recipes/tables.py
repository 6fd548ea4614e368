"""From results to a paper's table: figures by seed, differences with intervals, and a verdict on each claim."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trueneg.errors import TaskError
from trueneg.evaluation.results.comparison import Compared, compare
from trueneg.evaluation.results.provenance import versions
from trueneg.evaluation.results.reproduction import Cell, Claim, ReproducedTable, judge
from trueneg.evaluation.results.store import find_results, predictions_path
from trueneg.evaluation.results.summary import Runs, read_runs
from trueneg.evaluation.statistics.intervals import Interval, t_interval
from trueneg.evaluation.statistics.significance import holm
from trueneg.recipes.papers import PrintedTable
from trueneg.recipes.plan import Workspace

AVERAGE = "Average"
ROWS = "rows"
_SAME_PREDICTION = "predicts the same of everything"


@dataclass(frozen=True)
class Column:
    """Where a column's figures are among results of fine-tuning."""

    name: str
    task: str
    split: str
    """Or how its name begins, where that ends in ``*``."""
    metric: str
    less: str = ""
    """A metric to subtract it from, as in what an attack costs."""

    def value(self, runs: Runs, seed: int) -> float | None:
        """Read a figure, in percent; None where there is none."""
        for (task, split), results in runs.items():
            is_split = split.startswith(self.split[:-1]) if self.split.endswith("*") else split == self.split
            if task == self.task and is_split and seed in results:
                metrics = results[seed][1].metrics
                if self.metric in metrics and (not self.less or self.less in metrics):
                    return 100 * (metrics[self.less] - metrics[self.metric] if self.less else metrics[self.metric])
        return None

    def is_of(self, row: Compared) -> bool:
        """Whether a comparison is of this column."""
        is_split = row.split.startswith(self.split[:-1]) if self.split.endswith("*") else row.split == self.split
        return (row.task, row.metric) == (self.task, self.metric) and is_split and not self.less


@dataclass(frozen=True)
class Spec:
    """What a recipe's jobs are read for."""

    printed: PrintedTable
    rows: Mapping[str, Sequence[str]]
    """Row to the jobs whose results are its figures."""
    columns: Sequence[Column]
    claims: Sequence[tuple[str, str, str]]
    """Row, its baseline, and the column."""
    averages: Sequence[str] = ()
    """Columns that ``AVERAGE`` is over."""
    notes: Sequence[str] = ()


@dataclass
class Measured:
    """Figures of a table, however they were found."""

    figures: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    """Row and column to figures by seed."""
    obstacles: dict[tuple[str, str], str] = field(default_factory=dict)
    """Row and column to what keeps the figure from being compared."""
    differences: dict[tuple[str, str, str], tuple[Interval, float]] = field(default_factory=dict)
    """Claim to a difference that allows for examples as well as seeds, and its p."""

    def difference(self, row: str, baseline: str, column: str) -> tuple[Interval | None, float, str]:
        """Give a claim's difference, p, and what keeps it from being judged."""
        obstacle = next((self.obstacles[one, column] for one in (row, baseline) if (one, column) in self.obstacles), "")
        if (row, baseline, column) in self.differences:
            return *self.differences[row, baseline, column], obstacle
        ours, theirs = self.figures.get((row, column), {}), self.figures.get((baseline, column), {})
        common = sorted(ours.keys() & theirs.keys())
        if not common:
            return None, 1.0, obstacle or "nothing was measured"
        if len(common) < 2:
            return None, 1.0, obstacle or "one seed says nothing about another: give --seeds 3 or more"
        differences = [ours[seed] - theirs[seed] for seed in common]
        return t_interval(differences), _t_test(differences), obstacle


def _t_test(differences: Sequence[float]) -> float:
    from scipy.stats import ttest_1samp

    # Equal differences have no spread: they would divide by zero.
    return float(ttest_1samp(differences, 0.0).pvalue) if len(set(differences)) > 1 else float(differences[0] == 0)


def assemble(
    workspace: Workspace,
    recipe: str,
    scale: str,
    printed: PrintedTable,
    rows: Sequence[str],
    columns: Sequence[str],
    measured: Measured,
    claims: Sequence[tuple[str, str, str]],
    notes: Sequence[str],
) -> ReproducedTable:
    """Put figures and claims together; the claims' p allow for their number (Holm)."""
    found = [measured.difference(*claim) for claim in claims]
    tested = [number for number, (interval, _, obstacle) in enumerate(found) if interval and not obstacle]
    adjusted = dict(zip(tested, holm([found[number][1] for number in tested]), strict=True))
    judged = []
    for number, ((row, baseline, column), (interval, _, obstacle)) in enumerate(zip(claims, found, strict=True)):
        figures = printed.figure(row, column), printed.figure(baseline, column)
        paper = None if None in figures else round(figures[0] - figures[1], 6)  # type: ignore[operator]
        verdict, reason = judge(paper, interval, adjusted.get(number), obstacle)
        judged.append(Claim(row, baseline, column, paper, interval, adjusted.get(number), verdict, reason))
    return ReproducedTable(
        recipe, printed.title, printed.source, scale, list(rows), list(columns),
        [
            Cell(row, column, printed.figure(row, column), measured.figures.get((row, column), {}))
            for row in rows for column in columns
        ],
        judged, list(notes),
        {name: workspace.command(name) for name in workspace.plan.jobs},
        workspace.plan.data(), versions(),
    )  # fmt: skip


def read_results(workspace: Workspace, recipe: str, scale: str, spec: Spec) -> ReproducedTable:
    """Read results of fine-tuning, and compare rows over seeds and examples."""
    measured, folders = Measured(), {}
    names = [column.name for column in spec.columns]
    for row, jobs in spec.rows.items():
        folders[row] = _gathered(workspace, recipe, row, jobs)
        runs = read_runs(folders[row])
        seeds = sorted({seed for results in runs.values() for seed in results})
        for column in spec.columns:
            values = {seed: value for seed in seeds if (value := column.value(runs, seed)) is not None}
            if values:
                measured.figures[row, column.name] = values
        _average(measured, row, spec.averages, seeds)
    for row, baseline, name in spec.claims:
        column = next((column for column in spec.columns if column.name == name), None)
        if column is not None and not column.less and {row, baseline} <= folders.keys():
            _compare(measured, folders, row, baseline, column)
    if spec.averages:
        names.append(AVERAGE)
    claims = [claim for claim in spec.claims if {claim[0], claim[1]} <= spec.rows.keys()]
    return assemble(workspace, recipe, scale, spec.printed, list(spec.rows), names, measured, claims, spec.notes)


def _average(measured: Measured, row: str, columns: Sequence[str], seeds: Sequence[int]) -> None:
    """Average a row's columns, seed by seed, where it has all of them."""
    found = [measured.figures.get((row, column), {}) for column in columns]
    averages = {
        seed: sum(figures[seed] for figures in found) / len(found)
        for seed in seeds
        if found and all(seed in figures for figures in found)
    }
    if averages:
        measured.figures[row, AVERAGE] = averages


def _compare(measured: Measured, folders: Mapping[str, Path], row: str, baseline: str, column: Column) -> None:
    compared = compare(folders[baseline], folders[row], metric=column.metric)
    found = next((one for one in compared.rows if column.is_of(one)), None)
    if found is None:
        return
    if constant := [note for note in found.notes if _SAME_PREDICTION in note]:
        measured.obstacles[row, column.name] = constant[0]
    if found.has_seeds:
        interval = found.difference.interval
        scaled = (100 * value for value in (interval.estimate, interval.low, interval.high))
        measured.differences[row, baseline, column.name] = Interval(*scaled, interval.num), found.difference.p


def _gathered(workspace: Workspace, recipe: str, row: str, jobs: Sequence[str]) -> Path:
    """Copy a row's results into one folder, as ``compare`` and ``report`` read them."""
    folder = workspace.root / recipe / ROWS / row.replace(" ", "-").replace("/", "-")
    if folder.is_dir():
        shutil.rmtree(folder)
    for job in jobs:
        out = workspace.folder(job) / "out"
        for path in find_results(out):
            place = folder / path.parent.relative_to(out)
            place.mkdir(parents=True, exist_ok=True)
            if (place / path.name).exists():
                raise TaskError(f"two jobs of '{row}' have results of {path.relative_to(out)}: '{job}' is one of them")
            for one in (path, predictions_path(path)):
                shutil.copyfile(one, place / one.name)
    return folder


Read = Callable[[Workspace, str, str], ReproducedTable]
"""Reads the results of a recipe's jobs: workspace, recipe and scale to the table."""


def reader(spec: Spec) -> Read:
    """Give the function that reads results of fine-tuning for a table."""
    return lambda workspace, recipe, scale: read_results(workspace, recipe, scale, spec)


def with_note(spec: Spec, note: str) -> Spec:
    """Add a note."""
    return replace(spec, notes=[*spec.notes, note])
