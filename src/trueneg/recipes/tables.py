"""From results to a paper's table: figures by seed, differences with intervals, and a verdict on each claim."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trueneg.config.finetune_presets import SQUAD
from trueneg.errors import TaskError
from trueneg.evaluation.results.comparison import compare
from trueneg.evaluation.results.provenance import versions
from trueneg.evaluation.results.reproduction import ROWS, Cell, Claim, ReproducedTable, judge
from trueneg.evaluation.results.split_pairs import Compared
from trueneg.evaluation.results.store import (
    check_predictions,
    find_results,
    load_predictions,
    load_result,
    predictions_path,
)
from trueneg.evaluation.results.summary import Runs, read_runs
from trueneg.evaluation.statistics.intervals import Interval, t_interval, t_test
from trueneg.evaluation.statistics.significance import holm
from trueneg.files.records import read_record
from trueneg.recipes.papers import AVERAGE, PrintedTable
from trueneg.recipes.plan import OUTPUT, Output, Workspace
from trueneg.recipes.scales import SCALES, Scale, find_scale
from trueneg.reporting.results import cut_in

SWEEP = "sweep"
"""Folder of the combinations of a sweep, of which the selected one's results lie next to it."""


SLIDING_WINDOW = 13.2
"""Exact match on SQuAD 1.1 of a baseline without learning, in percent (Rajpurkar et al. 2016, Table 5)."""


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

    def has(self, task: str, split: str) -> bool:
        """Whether results of a split of a task are this column's."""
        is_split = split.startswith(self.split[:-1]) if self.split.endswith("*") else split == self.split
        return task == self.task and is_split

    def value(self, runs: Runs, seed: int) -> float | None:
        """Read a figure, in percent; None where there is none."""
        for (task, split), results in runs.items():
            if self.has(task, split) and seed in results:
                metrics = results[seed][1].metrics
                if self.metric in metrics and (not self.less or self.less in metrics):
                    return 100 * (metrics[self.less] - metrics[self.metric] if self.less else metrics[self.metric])
        return None

    def is_of(self, row: Compared) -> bool:
        """Whether a comparison is of this column."""
        return self.has(row.task, row.split) and row.metric == self.metric and not self.less


@dataclass(frozen=True)
class Spec:
    """What a recipe's jobs are read for."""

    printed: PrintedTable
    rows: Mapping[str, Sequence[str | tuple[str, str]]]
    """Row to the jobs whose results are its figures; with a name for the task's folder where one task comes twice."""
    columns: Sequence[Column]
    claims: Sequence[tuple[str, str, str]]
    """Row, its baseline, and the column."""
    averages: Sequence[str] = ()
    """Columns that ``AVERAGE`` is over, in the paper's figures as in ours."""
    notes: Sequence[str] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    """Rows and columns of the paper that the scale lacks, to the reason."""


@dataclass
class Measured:
    """Figures of a table, however they were found."""

    figures: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    """Row and column to figures by seed."""
    constant: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    """Row and column to seeds that predict the same of all examples."""
    averaged: Sequence[str] = ()
    """Columns that ``AVERAGE`` is over."""
    obstacles: dict[tuple[str, str], str] = field(default_factory=dict)
    """Row and column to what keeps the figure from being compared."""
    differences: dict[tuple[str, str, str], tuple[Interval, float]] = field(default_factory=dict)
    """Claim to a difference that allows for examples as well as seeds, and its p."""

    def take(self, seed: int, table: ReproducedTable, row: str = "", column: str = "") -> None:
        """Take the figures of a seed from a table of another folder: of a row, or of columns that begin so."""
        for cell in table.cells:
            if seed in cell.by_seed and row in ("", cell.row) and cell.column.startswith(column):
                self.figures.setdefault((cell.row, cell.column), {})[seed] = cell.by_seed[seed]

    def failures(self) -> list[str]:
        """Say which fine-tunings failed."""
        found: dict[tuple[str, tuple[int, ...]], list[str]] = {}
        for (row, column), seeds in self.constant.items():
            found.setdefault((row, tuple(sorted(seeds))), []).append(column)
        return [
            f"{row} predicts the same of all examples of {', '.join(columns)} with seeds {', '.join(map(str, seeds))}."
            for (row, seeds), columns in found.items()
        ]

    def obstacle(self, row: str, column: str) -> str:
        """Say what keeps a figure from being compared; empty where nothing does."""
        found = [(row, one) for one in (self.averaged if column == AVERAGE else [column]) if (row, one) in self.figures]
        failed = [len(self.constant.get(one, ())) > len(self.figures[one]) / 2 for one in found]
        learned = f"{row} learned nothing with most seeds: it predicts the same of all examples"
        return self.obstacles.get((row, column)) or (learned if failed and all(failed) else "")

    def difference(self, row: str, baseline: str, column: str) -> tuple[Interval | None, float, str]:
        """Give a claim's difference, p, and what keeps it from being judged."""
        obstacle = self.obstacle(row, column) or self.obstacle(baseline, column)
        if (row, baseline, column) in self.differences:
            return *self.differences[row, baseline, column], obstacle
        ours, theirs = self.figures.get((row, column), {}), self.figures.get((baseline, column), {})
        common = sorted(ours.keys() & theirs.keys())
        if not common:
            return None, 1.0, obstacle or "nothing was measured"
        if len(common) < 2:
            return None, 1.0, obstacle or "one seed says nothing about another: give --seeds 3 or more"
        differences = [ours[seed] - theirs[seed] for seed in common]
        interval = t_interval(differences)
        if interval.is_point and interval.excludes_zero:
            obstacle = obstacle or "the difference is the same with every seed: no spread to judge by, add seeds"
        return interval, t_test(differences), obstacle


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
    why: Mapping[str, str] = {},
) -> ReproducedTable:
    """Put figures and claims together; the claims' p allow for their number (Holm).

    What the paper's table has and this one lacks is named in its notes, with the reason of ``why``.
    """
    found = [measured.difference(*claim) for claim in claims]
    if find_scale(scale).is_made_up:
        found = [(interval, p, "the data are made up") for interval, p, _ in found]
    printed_of = [printed.difference(*claim) for claim in claims]
    tested = [
        number
        for number, (interval, _, obstacle) in enumerate(found)
        if interval and not obstacle and (printed.is_ours or printed_of[number] is not None)
    ]
    adjusted = dict(zip(tested, holm([found[number][1] for number in tested]), strict=True))
    judged = []
    for number, ((row, baseline, column), (interval, _, obstacle)) in enumerate(zip(claims, found, strict=True)):
        paper = printed_of[number]
        verdict, reason = judge(paper, interval, adjusted.get(number), obstacle, is_ours=printed.is_ours)
        judged.append(Claim(row, baseline, column, paper, interval, adjusted.get(number), verdict, reason))
    return ReproducedTable(
        recipe, printed.title, printed.source, scale, list(rows), list(columns),
        [
            Cell(row, column, printed.figure(row, column), measured.figures.get((row, column), {}))
            for row in rows for column in columns
        ],
        judged, [*lacking(printed, rows, measured, why), *notes, *several_versions(workspace), *joined(workspace)],
        {name: workspace.public_command(name) for name in workspace.plan.jobs},
        {one.label: found for one, found in workspace.digests.items()}, versions(),
    )  # fmt: skip


def lacking(printed: PrintedTable, rows: Sequence[str], measured: Measured, why: Mapping[str, str]) -> list[str]:
    """Name the paper's rows that a table lacks, and its columns that it has no figure of, with the reason.

    Example:
        >>> from trueneg.recipes.papers import TN_TABLE4
        >>> small = ["ELECTRA-small", "ELECTRA-small HC", "ELECTRA-small SR"]
        >>> lacking(TN_TABLE4, small, Measured({(small[0], "EM"): {1: 75.0}, (small[0], "F1"): {1: 83.0}}), {})
        ['Rows of the paper that are not here: ELECTRA-base, ELECTRA-base HC, ELECTRA-base SR (nothing was measured).']
    """
    with_figures = {column for _, column in measured.figures}
    left_out = {
        "Rows of the paper that are not here": [row for row in printed.rows if row not in rows],
        # A table without any figure, as one that waits for a server, says so itself.
        "Columns of the paper without a figure": [
            column for column in printed.columns if with_figures and column not in with_figures
        ],
    }
    notes = []
    for what, names in left_out.items():
        by_reason: dict[str, list[str]] = {}
        for name in names:
            by_reason.setdefault(why.get(name, "nothing was measured"), []).append(name)
        notes += [f"{what}: {', '.join(of_reason)} ({reason})." for reason, of_reason in by_reason.items()]
    return notes


_SEVERAL, _ELSEWHERE = "Jobs were done by several versions: ", "Figures of "
_THERE = "In that folder: "


def several_versions(workspace: Workspace) -> list[str]:
    """Name the versions that ran the jobs of a plan, if there are several: a key does not contain them."""
    found: Counter[str] = Counter()
    for name in [name for name in workspace.plan.jobs if workspace.state(name) == "done"]:
        known = workspace.versions(name)
        of_job = [f"{what} {known[what]}" for what in ("trueneg", "revision", "torch", "transformers") if what in known]
        found[", ".join(of_job) or "unknown"] += 1
    if len(found) < 2:
        return []
    return [f"{_SEVERAL}{'; '.join(f'{what}: {num}' for what, num in found.most_common())}."]


def joined(workspace: Workspace) -> list[str]:
    """Count the jobs whose figures come from tables of other folders, with the versions that those tables name."""
    used = [one.table for name, one in workspace.elsewhere.items() if workspace.state(name) != "done"]
    made_by = Counter(f"trueneg {one.version}, revision {one.versions.get('revision', 'unknown')}" for one in used)
    of = f"of {len(workspace.plan.jobs)} jobs were made in another folder"
    notes = [f"{_ELSEWHERE}{num} {of} ({by})." for by, num in made_by.items()]
    theirs = dict.fromkeys(note.removeprefix(_THERE) for one in used for note in one.notes)
    return [*notes, *(f"{_THERE}{note}" for note in theirs if note.startswith((_SEVERAL, _ELSEWHERE)))]


def without_model(models: Mapping[str, str], scale: Scale) -> dict[str, str]:
    """Say of rows and columns whose model a scale lacks that it does, and which scales have it.

    Args:
        models: Row or column to its model.
        scale: The scale.

    Example:
        >>> without_model({"BERT-large HC": "BERT-large", "BERT-base": "BERT-base"}, find_scale("mini"))
        {'BERT-large HC': 'this scale has no BERT-large: --scale paper'}
    """
    having = {
        model: [name for name, one in SCALES.items() if model in one.backbones and not one.is_made_up]
        for model in models.values()
    }
    return {
        name: f"this scale has no {model}: --scale {' or '.join(having[model])}"
        for name, model in models.items()
        if model not in scale.backbones
    }


def read_results(workspace: Workspace, recipe: str, scale: str, spec: Spec) -> ReproducedTable:
    """Read results of fine-tuning, and compare rows over seeds and examples."""
    measured, folders, found = Measured(averaged=spec.averages), {}, list[Runs]()
    results: dict[str, list[str]] = {}
    names = [column.name for column in spec.columns]
    for row, jobs in spec.rows.items():
        folders[row], of_jobs = _gathered(workspace, recipe, row, jobs)
        results |= of_jobs
        runs = read_runs(folders[row])
        found.append(runs)
        seeds = sorted({seed for results in runs.values() for seed in results})
        for column in spec.columns:
            values = {seed: value for seed in seeds if (value := column.value(runs, seed)) is not None}
            if values:
                measured.figures[row, column.name] = values
            if constant := _constant(runs, column):
                measured.constant[row, column.name] = constant
            if obstacle := _no_reader(row, runs, column):
                measured.obstacles[row, column.name] = obstacle
        _average(measured, row, spec.averages, seeds)
    notes = [*spec.notes, *amounts(found, spec.columns), *measured.failures()]
    is_of_glue = all(column.task.startswith("glue/") for column in spec.columns if column.name in spec.averages)
    for row, baseline, name in spec.claims:
        if name == AVERAGE and is_of_glue and len(spec.averages) > 1 and {row, baseline} <= folders.keys():
            _compare_averages(measured, folders, row, baseline)
        named = [column for column in spec.columns if column.name == name and not column.less]
        if named and {row, baseline} <= folders.keys():
            _compare(measured, folders, row, baseline, named[0])
    if spec.averages:
        names.append(AVERAGE)
    claims = [claim for claim in spec.claims if {claim[0], claim[1]} <= spec.rows.keys()]
    printed = spec.printed.averaged(spec.averages) if spec.averages else spec.printed
    table = assemble(workspace, recipe, scale, printed, list(spec.rows), names, measured, claims, notes, spec.why)
    return replace(table, results=results)


def amounts(found: Sequence[Runs], columns: Sequence[Column]) -> list[str]:
    """Say what models were trained on, and which texts were cut: of the row and seed that has the most."""
    trained, cut = dict[str, int](), dict[tuple[str, str], tuple[int, str]]()
    for runs in found:
        for (task, split), results in runs.items():
            if any(column.has(task, split) for column in columns):
                for _, result in results.values():
                    trained[task] = max(trained.get(task, 0), result.train.get("num_examples", 0))
                    cut[task, split] = max(
                        cut.get((task, split), (0, "")), (result.counts.get("truncated", 0), cut_in(result))
                    )
    examples = ", ".join(f"{task} {num:,}" for task, num in trained.items() if num)
    texts = [f"{task}, {split}: {told}." for (task, split), (_, told) in cut.items() if told]
    return [*([f"Training examples: {examples}."] if examples else []), *texts]


def _constant(runs: Runs, column: Column) -> set[int]:
    """Find the seeds that predict the same of all examples: fine-tunings that failed."""
    found = set[int]()
    for (task, split), results in runs.items():
        if column.has(task, split):
            for seed, (path, _) in results.items():
                # Of a contrast set a record is a group, which has its examples in it.
                items = (item for one in load_predictions(path) for item in one.get("items", [one]))
                answers = {repr(item["predicted"]) for item in items if "predicted" in item}
                if len(answers) == 1:
                    found.add(seed)
    return found


def _no_reader(row: str, runs: Runs, column: Column) -> str:
    """Say that a model answers SQuAD's questions worse than a baseline without learning; empty if it does not.

    Such a model has nothing to lose under an attack, and nothing to compare with a paper's.
    """
    if column.task != SQUAD:
        return ""
    of_column = [results for (task, split), results in runs.items() if column.has(task, split)]
    metrics = [result.metrics for results in of_column for _, result in results.values()]
    found = [100 * one.get("exact_match_before", one.get("exact_match", 1.0)) for one in metrics]
    if not found or (mean := sum(found) / len(found)) >= SLIDING_WINDOW:
        return ""
    return (
        f"{row} did not learn to read: exact match {mean:.1f} %, a sliding window without learning has "
        f"{SLIDING_WINDOW} (Rajpurkar et al. 2016)"
    )


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
    if found.has_seeds:
        measured.differences[row, baseline, column.name] = _percent(found.difference.interval), found.difference.p


def _compare_averages(measured: Measured, folders: Mapping[str, Path], row: str, baseline: str) -> None:
    """Take the wider of two intervals, and the larger p.

    One allows for examples and takes tasks as independent; the other, over seeds alone, allows for what the tasks of a
    seed have in common: its pre-training.
    """
    over_seeds, p, _ = measured.difference(row, baseline, AVERAGE)
    if over_seeds is None:
        return
    found = compare(folders[baseline], folders[row], average=True).averages[0].difference
    over_tasks = _percent(found.interval)
    wider = max(over_seeds, over_tasks, key=lambda interval: interval.high - interval.low)
    measured.differences[row, baseline, AVERAGE] = wider, max(p, found.p)


def _percent(interval: Interval) -> Interval:
    return Interval(100 * interval.estimate, 100 * interval.low, 100 * interval.high, interval.num)


def rows_folder(workspace: Workspace, recipe: str, row: str) -> Path:
    """Name the folder of a row's results."""
    return workspace.root / recipe / ROWS / row.replace(" ", "-").replace("/", "-")


def _gathered(
    workspace: Workspace, recipe: str, row: str, jobs: Sequence[str | tuple[str, str]]
) -> tuple[Path, dict[str, list[str]]]:
    """Copy a row's results into one folder, as ``compare`` and ``report`` read them; return it, and what each job left.

    The folder is made aside and then put in its place: another one's that is joined may be the same.
    """
    folder = rows_folder(workspace, recipe, row)
    aside, found = folder.with_name(f"{folder.name}.partial"), dict[str, list[str]]()
    shutil.rmtree(aside, ignore_errors=True)
    for one in jobs:
        job, part = (one, "") if isinstance(one, str) else one
        for place, path in _results_of(workspace, job, part).items():
            target = aside / place
            if target.exists():
                raise TaskError(f"two jobs of '{row}' have results of {place}: '{job}' is one of them")
            target.parent.mkdir(parents=True, exist_ok=True)
            for file, copy in ((path, target), (predictions_path(path), predictions_path(target))):
                shutil.copyfile(file, copy)
            found.setdefault(job, []).append(f"{folder.name}/{place}")
    shutil.rmtree(folder, ignore_errors=True)
    aside.rename(folder)
    return folder, found


def _results_of(workspace: Workspace, job: str, part: str = "") -> dict[str, Path]:
    """Find a job's results by their places in its row's folder.

    They are read before they are copied: a damaged one is to be named where it lies.

    Args:
        workspace: The plan.
        job: One of its jobs.
        part: What the folder of its task is called in the row's; as in the job's own by default.

    Raises:
        TaskError: for none, or a damaged one.
    """
    if workspace.state(job) != "done" and job in workspace.elsewhere:
        theirs = workspace.elsewhere[job].results(job)
        return {place.partition("/")[2]: path for place, path in theirs.items()}
    out = workspace.path(Output(job=job))
    found = {path.relative_to(out): path for path in find_results(out) if path.relative_to(out).parts[0] != SWEEP}
    again = f"remove '{workspace.folder(job)}' to have the job done again"
    if not found:
        raise TaskError(f"'{out}' has no results with their predictions, and '{job}' left some: {again}")
    for path in found.values():
        try:
            check_predictions(path, load_result(path))
        except TaskError as error:
            raise TaskError(f"{error}; {again}") from error
    return {
        str(place.parents[2] / part / Path(*place.parts[-2:]) if part else place): path for place, path in found.items()
    }


Read = Callable[[Workspace, str, str], ReproducedTable]
"""Reads the results of a recipe's jobs: workspace, recipe and scale to the table."""


def output_of(workspace: Workspace, job: str) -> dict[str, Any]:
    """Read what a job's command wrote with ``--json``.

    Raises:
        TaskError: if it is damaged.
    """
    path = workspace.folder(job) / OUTPUT
    return read_record(dict[str, Any], path, TaskError, f"remove '{path.parent}' to have the job done again")


def reader(spec: Spec) -> Read:
    """Give the function that reads results of fine-tuning for a table."""
    return lambda workspace, recipe, scale: read_results(workspace, recipe, scale, spec)
