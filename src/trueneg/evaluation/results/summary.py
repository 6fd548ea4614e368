"""Summary of a folder of results: each task's metrics over seeds, and GLUE's average."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trueneg.errors import TaskError
from trueneg.evaluation.results.store import Result, check_predictions, find_results, load_result, warn_of_former_names

Runs = dict[tuple[str, str], dict[int, tuple[Path, Result]]]
"""Result file and result by seed, for each task and split, in order."""

GLUE_AVERAGE: Mapping[str, tuple[str, str]] = {
    "glue/cola": ("dev", "matthews"),
    "glue/sst2": ("dev", "accuracy"),
    "glue/mrpc": ("dev", "accuracy"),
    "glue/stsb": ("dev", "spearman"),
    "glue/qqp": ("dev", "accuracy"),
    "glue/mnli": ("dev_matched", "accuracy"),
    "glue/qnli": ("dev", "accuracy"),
    "glue/rte": ("dev", "accuracy"),
}
"""Task to the split and metric that enter the average, as in Table 3 of "Pre-training on True Negatives"."""


@dataclass(frozen=True)
class Summary:
    """One metric of one split of one task, over all seeds."""

    task: str
    split: str
    metric: str
    is_primary: bool
    by_seed: dict[int, float]
    num_examples: int
    selection: str
    """How the evaluated weights were chosen."""
    model: str

    @property
    def median(self) -> float:
        """The seeds' median."""
        return statistics.median(self.by_seed.values())

    @property
    def mean(self) -> float:
        """The seeds' mean."""
        return statistics.fmean(self.by_seed.values())

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest score of a seed."""
        return min(self.by_seed.values()), max(self.by_seed.values())


@dataclass(frozen=True)
class GlueAverage:
    """Mean over GLUE's tasks of their medians over seeds."""

    value: float | None
    """None if there is no task."""
    medians: dict[str, float]
    """By task."""
    missing: list[str]
    """Tasks that the average lacks."""


def read_runs(folder: str | Path) -> Runs:
    """Read all results below a folder, by task and split.

    A task is named as in its results, followed by its folder's name if that differs (``classification reviews``).

    Raises:
        TaskError: if there are none, two of the same task, split and seed, or a damaged one; missing predictions; or
            seeds that were trained or evaluated on different versions of the data.

    Warns:
        TruenegDeprecationWarning: if prediction files are named as in the former version.
    """
    runs: Runs = {}
    paths = list(find_results(Path(folder)))
    warn_of_former_names(folder, paths)
    for path in paths:
        result = load_result(path)
        check_predictions(path, result)
        place = path.resolve().parents[1].name
        is_named = place in (result.task.rpartition("/")[2], result.task.replace("/", "-"))
        name = result.task if is_named else f"{result.task} {place}"
        seeds = runs.setdefault((name, result.split), {})
        if result.seed in seeds:
            raise TaskError(
                f"'{folder}' holds two results of {name}, {result.split}, seed {result.seed}: "
                f"'{seeds[result.seed][0]}' and '{path}': name the folder of one model"
            )
        seeds[result.seed] = (path, result)
    if not runs:
        raise TaskError(f"'{folder}' holds no results (<task>/seed-<seed>/<split>.json): fine-tune with --out {folder}")
    refuse_other_data(runs)
    for (task, _), seeds in runs.items():
        _refuse_other_training(task, seeds.values())
    return {key: dict(sorted(runs[key].items())) for key in sorted(runs)}


def refuse_other_data(*sides: Runs) -> None:
    """Refuse results on equally many, but different, examples of a split: their texts or labels differ.

    Results of versions that did not write ``Result.data`` are not checked, nor are those with different numbers of
    examples, for which there are other errors.

    Raises:
        TaskError: naming two such results.
    """
    first: dict[tuple[str, str, int], tuple[Path, Result]] = {}
    for runs in sides:
        for (task, split), seeds in runs.items():
            for path, result in seeds.values():
                if not result.data:
                    continue
                known, other = first.setdefault((task, split, result.num_examples), (path, result))
                if other.data != result.data:
                    raise TaskError(
                        f"'{known}' and '{path}' are of other versions of {task}, {split} (data {other.data} and "
                        f"{result.data}): evaluate both on the same data"
                    )


def _refuse_other_training(task: str, results: Iterable[tuple[Path, Result]]) -> None:
    """Refuse seeds whose models were trained on different versions of a split: their mean is meaningless."""
    first: dict[str, tuple[Path, str]] = {}
    for path, result in results:
        for split, digest in result.train.get("data", {}).items():
            known, other = first.setdefault(split, (path, digest))
            if other != digest:
                raise TaskError(
                    f"the models of '{known}' and '{path}' are of other versions of {task}, {split} (data {other} and "
                    f"{digest}): fine-tune every seed on the same data"
                )


def summarise(runs: Runs) -> list[Summary]:
    """Aggregate seeds: each metric of each labelled split, a task's primary metric first.

    Raises:
        TaskError: if the seeds of a split differ in their number of examples or in how weights were chosen.
    """
    summaries = []
    for (task, split), seeds in runs.items():
        results = [result for _, result in seeds.values()]
        first = results[0]
        for what, values in (
            ("numbers of examples", {result.num_examples for result in results}),
            ("rules of choosing weights", {result.selection for result in results}),
        ):
            if len(values) > 1:
                known = " and ".join(map(str, sorted(values)))
                raise TaskError(f"the seeds of {task}, {split}, have several {what} ({known}): evaluate all alike")
        summaries += [
            Summary(
                task,
                split,
                metric,
                metric == first.primary,
                {seed: result.metrics[metric] for seed, (_, result) in seeds.items()},
                first.num_examples,
                first.selection,
                first.model,
            )
            for metric in first.metrics
            if all(metric in result.metrics for result in results)
        ]
    return summaries


def glue_average(summaries: Sequence[Summary]) -> GlueAverage:
    """Average the available GLUE tasks by the paper's rule: see ``GLUE_AVERAGE``.

    WNLI is left out, as in the papers; MNLI counts with its matched genres.
    """
    medians = {
        task: summary.median
        for task, counted in GLUE_AVERAGE.items()
        for summary in summaries
        if summary.task == task and (summary.split, summary.metric) == counted
    }
    return GlueAverage(
        statistics.fmean(medians.values()) if medians else None,
        medians,
        [task for task in GLUE_AVERAGE if task not in medians],
    )
