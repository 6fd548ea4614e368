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
from trueneg.evaluation.results.provenance import versions
from trueneg.evaluation.results.reproduction import ROWS, Cell, Claim, ReproducedTable, judge
from trueneg.evaluation.results.split_pairs import SplitPair
from trueneg.evaluation.results.store import check_result, find_results, is_constant, load_predictions, predictions_path
from trueneg.evaluation.results.summary import Runs, read_runs, refuse_other_data
from trueneg.evaluation.statistics.averages import mean_difference
from trueneg.evaluation.statistics.intervals import Interval, t_interval, t_test
from trueneg.evaluation.statistics.significance import Difference, difference, holm
from trueneg.files.records import read_record
from trueneg.recipes.papers import AVERAGE, PrintedTable
from trueneg.recipes.plan import OUTPUT, Output, Workspace
from trueneg.recipes.scales import SCALES, Scale, find_scale
from trueneg.reporting.results import cut_in

SWEEP = "sweep"
"""Folder of a sweep's combinations; the results of the selected one are next to it."""


SLIDING_WINDOW = 13.2
"""Exact match on SQuAD 1.1 of a baseline without learning, in percent (Rajpurkar et al. 2016, Table 5)."""


@dataclass(frozen=True)
class Column:
    """Where to find a column's figures in fine-tuning results."""

    name: str
    task: str
    split: str
    """Name of the split, or a prefix of it followed by ``*``."""
    metric: str
    subtract: str = ""
    """Metric to subtract ``metric`` from, as for the drop under an attack; empty for none."""

    def has(self, task: str, split: str) -> bool:
        """Whether results on a split of a task belong to this column."""
        is_split = split.startswith(self.split[:-1]) if self.split.endswith("*") else split == self.split
        return task == self.task and is_split

    def value(self, runs: Runs, seed: int) -> float | None:
        """Return the figure of a seed, in percent; None if there is none."""
        for (task, split), results in runs.items():
            if self.has(task, split) and seed in results:
                metrics = results[seed][1].metrics
                if self.metric in metrics and (not self.subtract or self.subtract in metrics):
                    figure = metrics[self.metric]
                    return 100 * (metrics[self.subtract] - figure if self.subtract else figure)
        return None


@dataclass(frozen=True)
class Spec:
    """Rows, columns and claims of the table that is made from a recipe's jobs."""

    printed: PrintedTable
    rows: Mapping[str, Sequence[str | tuple[str, str]]]
    """Row to the jobs that its figures come from; as (job, folder name) if several of them have the same task."""
    columns: Sequence[Column]
    claims: Sequence[tuple[str, str, str]]
    """Row, baseline and column of each claim."""
    averages: Sequence[str] = ()
    """Columns that ``AVERAGE`` is the mean of, for the paper's figures and for ours."""
    notes: Sequence[str] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    """Row or column of the paper that the scale lacks, to the reason."""


@dataclass
class Measured:
    """Figures of a table, from any source."""

    figures: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    """Row and column to figures by seed."""
    constant: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    """Row and column to the seeds whose models predict the same for all examples."""
    averaged: Sequence[str] = ()
    """Columns that ``AVERAGE`` is the mean of."""
    obstacles: dict[tuple[str, str], str] = field(default_factory=dict)
    """Row and column to the reason why the figure cannot be compared."""
    differences: dict[tuple[str, str, str], tuple[Interval, float]] = field(default_factory=dict)
    """Claim to a difference whose interval accounts for examples as well as seeds, and its p-value."""

    def take(self, seed: int, table: ReproducedTable, row: str = "", column: str = "") -> None:
        """Copy a seed's figures from another folder's table: all, or those of one row or of columns with a prefix."""
        for cell in table.cells:
            if seed in cell.by_seed and row in ("", cell.row) and cell.column.startswith(column):
                self.figures.setdefault((cell.row, cell.column), {})[seed] = cell.by_seed[seed]

    def failures(self) -> list[str]:
        """Describe the fine-tuning runs that failed."""
        found: dict[tuple[str, tuple[int, ...]], list[str]] = {}
        for (row, column), seeds in self.constant.items():
            found.setdefault((row, tuple(sorted(seeds))), []).append(column)
        return [
            f"{row} predicts the same of all examples of {', '.join(columns)} with seeds {', '.join(map(str, seeds))}."
            for (row, seeds), columns in found.items()
        ]

    def obstacle(self, row: str, column: str) -> str:
        """Return why a figure cannot be compared; empty if it can."""
        found = [(row, one) for one in (self.averaged if column == AVERAGE else [column]) if (row, one) in self.figures]
        failed = [len(self.constant.get(one, ())) > len(self.figures[one]) / 2 for one in found]
        learned = f"{row} learned nothing with most seeds: it predicts the same of all examples"
        return self.obstacles.get((row, column)) or (learned if failed and all(failed) else "")

    def difference(self, row: str, baseline: str, column: str) -> tuple[Interval | None, float, str]:
        """Return a claim's difference, its p-value, and why it cannot be judged; empty if it can."""
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
    """Build a table from figures and claims; p-values are adjusted for the number of claims (Holm).

    Its notes list what it lacks of the paper's table, with the reasons from ``why``.
    """
    found = [measured.difference(*claim) for claim in claims]
    if find_scale(scale).is_made_up:
        found = [(interval, p, "the data are made up") for interval, p, _ in found]
    printed_of = [printed.difference(*claim) for claim in claims]
    tested = [
        number
        for number, (interval, _, obstacle) in enumerate(found)
        if interval and not obstacle and (printed.is_ours or printed_of[number])
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
        judged,
        [*missing_notes(printed, rows, measured, why), *notes, *version_notes(workspace), *joined_notes(workspace)],
        {name: workspace.public_command(name) for name in workspace.plan.jobs},
        {one.label: found for one, found in workspace.digests.items()}, versions(),
    )  # fmt: skip


def missing_notes(printed: PrintedTable, rows: Sequence[str], measured: Measured, why: Mapping[str, str]) -> list[str]:
    """List the paper's rows that a table lacks and the paper's columns without a figure, with the reasons.

    Example:
        >>> from trueneg.recipes.papers import TN_TABLE4
        >>> small = ["ELECTRA-small", "ELECTRA-small HC", "ELECTRA-small SR"]
        >>> missing_notes(TN_TABLE4, small, Measured({(small[0], "EM"): {1: 75.0}, (small[0], "F1"): {1: 83.0}}), {})
        ['Rows of the paper that are not here: ELECTRA-base, ELECTRA-base HC, ELECTRA-base SR (nothing was measured).']
    """
    with_figures = {column for _, column in measured.figures}
    left_out = {
        "Rows of the paper that are not here": [row for row in printed.rows if row not in rows],
        # A table without any figures, such as one that only a server can score, has its own note.
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


def version_notes(workspace: Workspace) -> list[str]:
    """List the versions that ran a plan's jobs, if there are several: job keys do not depend on the version."""
    found: Counter[str] = Counter()
    for name in [name for name in workspace.plan.jobs if workspace.state(name) == "done"]:
        known = workspace.versions(name)
        of_job = [f"{what} {known[what]}" for what in ("trueneg", "revision", "torch", "transformers") if what in known]
        found[", ".join(of_job) or "unknown"] += 1
    if len(found) < 2:
        return []
    return [f"{_SEVERAL}{'; '.join(f'{what}: {num}' for what, num in found.most_common())}."]


def joined_notes(workspace: Workspace) -> list[str]:
    """Count the jobs whose figures come from other folders' tables, by the versions recorded there."""
    used = [one.table for name, one in workspace.joined_jobs.items() if workspace.state(name) != "done"]
    made_by = Counter(f"trueneg {one.version}, revision {one.versions.get('revision', 'unknown')}" for one in used)
    of = f"of {len(workspace.plan.jobs)} jobs were made in another folder"
    notes = [f"{_ELSEWHERE}{num} {of} ({by})." for by, num in made_by.items()]
    theirs = dict.fromkeys(note.removeprefix(_THERE) for one in used for note in one.notes)
    return [*notes, *(f"{_THERE}{note}" for note in theirs if note.startswith((_SEVERAL, _ELSEWHERE)))]


def without_model(models: Mapping[str, str], scale: Scale) -> dict[str, str]:
    """Explain which rows or columns have a model that a scale lacks, and which scales have it.

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
    """Read fine-tuning results, and compare rows over seeds and examples."""
    measured, found = Measured(averaged=spec.averages), dict[str, Runs]()
    results: dict[str, list[str]] = {}
    names = [column.name for column in spec.columns]
    for row, jobs in spec.rows.items():
        folder, of_jobs = _gathered(workspace, recipe, row, jobs)
        results |= of_jobs
        runs = found[row] = read_runs(folder)
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
    notes = [*spec.notes, *data_notes(list(found.values()), spec.columns), *measured.failures()]
    claims = [claim for claim in spec.claims if {claim[0], claim[1]} <= spec.rows.keys()]
    for claim in claims:
        of_claim = spec.averages if claim[2] == AVERAGE else [claim[2]]
        notes += _compare(measured, found, claim, [column for column in spec.columns if column.name in of_claim])
    if spec.averages:
        names.append(AVERAGE)
    printed = spec.printed.averaged(spec.averages) if spec.averages else spec.printed
    table = assemble(workspace, recipe, scale, printed, list(spec.rows), names, measured, claims, notes, spec.why)
    return replace(table, results=results)


def data_notes(found: Sequence[Runs], columns: Sequence[Column]) -> list[str]:
    """Describe the numbers of training examples and of truncated texts: the maximum over rows and seeds."""
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
    """Return the seeds whose models predict the same for all examples: their fine-tuning failed."""
    found = set[int]()
    for (task, split), results in runs.items():
        if column.has(task, split):
            for seed, (path, _) in results.items():
                if is_constant(load_predictions(path)):
                    found.add(seed)
    return found


def _no_reader(row: str, runs: Runs, column: Column) -> str:
    """Describe a model that is worse on SQuAD than a baseline without learning; empty if it is not.

    Such a model has nothing to lose under an attack, and its figures cannot be compared with a paper's.
    """
    if column.task != SQUAD:
        return ""
    of_column = [results for (task, split), results in runs.items() if column.has(task, split)]
    metrics = [result.metrics for results in of_column for _, result in results.values()]
    names = ("exact_match", "exact_match_before")
    found = [100 * one[name] for one in metrics for name in names if name in one]
    if not found or (mean := sum(found) / len(found)) >= SLIDING_WINDOW:
        return ""
    return (
        f"{row} did not learn to read: exact match {mean:.1f} %, a sliding window without learning has "
        f"{SLIDING_WINDOW} (Rajpurkar et al. 2016)"
    )


def _average(measured: Measured, row: str, columns: Sequence[str], seeds: Sequence[int]) -> None:
    """Average a row's columns for each seed that has all of them."""
    found = [measured.figures.get((row, column), {}) for column in columns]
    averages = {
        seed: sum(figures[seed] for figures in found) / len(found)
        for seed in seeds
        if found and all(seed in figures for figures in found)
    }
    if averages:
        measured.figures[row, AVERAGE] = averages


def _compare(
    measured: Measured, runs: Mapping[str, Runs], claim: tuple[str, str, str], columns: Sequence[Column]
) -> list[str]:
    """Compare two rows over seeds and examples, in a column or in an average; note what is compared over seeds alone.

    Of an average, the wider of two intervals counts, and the larger p-value. One accounts for examples and treats tasks
    as independent; the other, over seeds alone, accounts for what the tasks of a seed have in common: its pre-training.
    """
    row, baseline, name = claim
    over_seeds, p, _ = measured.difference(*claim)
    try:
        parts = [_difference(runs, row, baseline, column) for column in columns]
    except TaskError:
        if not any(column.subtract for column in columns):
            raise
        parts = [None]  # an attack on each model may have left different examples, or none before it
    known = [part for part in parts if part]
    if not known or len(known) < len(parts):
        why = "too few examples in common, or predictions of an earlier version"
        return [f"{row} against {baseline}, {name}: judged over seeds alone ({why})."] if over_seeds else []
    if name == AVERAGE and over_seeds:
        found = mean_difference(known)
        wider = max(over_seeds, _percent(found.interval), key=lambda interval: interval.high - interval.low)
        measured.differences[claim] = wider, max(p, found.p)
    elif name != AVERAGE and known[0].seeds is not None:
        measured.differences[claim] = _percent(known[0].interval), known[0].p
    return []


def _difference(runs: Mapping[str, Runs], row: str, baseline: str, column: Column) -> Difference | None:
    """Compare two rows' results in a column; None if they have too few examples, or some lack its metric.

    Raises:
        TaskError: if their predictions are of different examples, or do not have what the metric reads.
    """
    left, right = runs[baseline], runs[row]
    refuse_other_data(left, right)
    for key in left:
        if column.has(*key) and key in right:
            pair = SplitPair(baseline, row, *key, left[key], right[key]).scores(column.metric, column.subtract)
            if pair:
                return difference(pair.left, pair.right, pair.num_groups, is_paired=pair.is_paired)
    return None


def _percent(interval: Interval) -> Interval:
    return Interval(100 * interval.estimate, 100 * interval.low, 100 * interval.high, interval.num)


def rows_folder(workspace: Workspace, recipe: str, row: str) -> Path:
    """Return the folder of a row's results."""
    return workspace.root / recipe / ROWS / row.replace(" ", "-").replace("/", "-")


def _gathered(
    workspace: Workspace, recipe: str, row: str, jobs: Sequence[str | tuple[str, str]]
) -> tuple[Path, dict[str, list[str]]]:
    """Copy a row's results into one folder, for ``compare`` and ``report``; return it, and the results of each job.

    It is built under a temporary name, then replaces the old folder, which may be a source if it was joined.
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
    """Return a job's results by their paths in the row's folder.

    They are checked before they are copied, so that an error names the original file.

    Args:
        workspace: The plan.
        job: One of its jobs.
        part: Name of the task's folder in the row's folder; as in the job's own folder by default.

    Raises:
        TaskError: if there are none, or one is damaged.
    """
    if workspace.state(job) != "done" and job in workspace.joined_jobs:
        theirs = workspace.joined_jobs[job].results(job)
        return {place.partition("/")[2]: path for place, path in theirs.items()}
    out = workspace.path(Output(job=job))
    found = {path.relative_to(out): path for path in find_results(out) if path.relative_to(out).parts[0] != SWEEP}
    again = f"remove '{workspace.folder(job)}' to have the job done again"
    if not found:
        raise TaskError(f"'{out}' has no results with their predictions, and '{job}' left some: {again}")
    for path in found.values():
        check_result(path, f"; {again}")
    return {
        str(place.parents[2] / part / Path(*place.parts[-2:]) if part else place): path for place, path in found.items()
    }


Read = Callable[[Workspace, str, str], ReproducedTable]
"""Function that reads the results of a recipe's jobs: workspace, recipe and scale to the table."""


def output_of(workspace: Workspace, job: str) -> dict[str, Any]:
    """Read what a job's command wrote with ``--json``.

    Raises:
        TaskError: if it is damaged.
    """
    path = workspace.folder(job) / OUTPUT
    return read_record(dict[str, Any], path, TaskError, f"remove '{path.parent}' to have the job done again")


def reader(spec: Spec) -> Read:
    """Return the function that reads fine-tuning results for a table."""
    return lambda workspace, recipe, scale: read_results(workspace, recipe, scale, spec)
