"""Sweeps: every combination of some options' values is trained, and one is selected.

A folder of results after a sweep of two learning rates::

    OUT/sweep/optimizer.learning_rate=1e-05/TASK/seed-N/    results of each combination, in the usual layout
    OUT/sweep/optimizer.learning_rate=2e-05/TASK/seed-N/
    OUT/TASK/seed-N/                                        results of the selected one, and how it was selected
    OUT/TASK/selection.json                                 all scores that the selection is based on

Commands that read ``OUT`` find only the selected results.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import shutil
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from trueneg.config.codec import encode, flatten, full_name
from trueneg.config.fields import rules
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.errors import ConfigError, TaskError, unknown_name
from trueneg.evaluation.predictions import selection
from trueneg.evaluation.results.store import (
    HELD_OUT,
    SELECTION,
    SWEEP,
    Result,
    find_results,
    load_predictions,
    load_result,
)
from trueneg.files.records import read_versioned
from trueneg.files.whole import write_json
from trueneg.runs.configuring_finetuning import check_finetuning
from trueneg.runs.finetuned_models import evaluate_contrast_set
from trueneg.runs.finetuning import Finetuned, finetune_seeds, folder_of
from trueneg.runs.finetuning_tasks import check_data, configure_tasks
from trueneg.tasks import make_task
from trueneg.tasks.contrast_sets import read_contrast_set
from trueneg.training.checkpoint import write_folder
from trueneg.training.folder import CONFIG

SCHEMA = 1
CONTRAST_SET = "contrast-set"
_CONTRAST_SPLIT = "contrast-test"
_CONTRAST_METRIC = "revised"
"""CLINE's section 4.3 selects "the best result on the contrastive test set", which its Table 4 abbreviates to Rev."""

_NOT_SWEPT = {
    "start_from": "name one checkpoint a command",
    "task.name": "name several with --task",
    "train.seed": "every combination is trained with all of --seeds",
    **dict.fromkeys(
        ("hold_out", "valid_fraction", "task.train_fraction", "task.max_train_examples", "task.max_dev_examples"),
        "combinations would be selected by figures on other examples",
    ),
}
"""Options that cannot be swept, and why."""


@dataclass(frozen=True)
class Combination:
    """One combination of the swept options' values, for one task."""

    settings: dict[str, Any]
    """Values by dotted name."""
    folder: str
    """Folder of its results, relative to the sweep's ``--out``."""
    by_seed: dict[int, float]
    """Selection score of each seed."""
    mean: float
    """Mean over the seeds."""
    results: dict[str, dict[int, dict[str, float]]] = field(default_factory=dict)
    """All metrics, by split and seed."""


@dataclass(frozen=True)
class Selection:
    """How one combination was selected for a task: ``<out>/<task>/selection.json``."""

    task: str
    on: str
    """``held-out``, for a part of the training examples, or the name of a split."""
    metric: str
    rule: str
    """The selection rule in words."""
    seeds: list[int]
    combinations: list[Combination]
    selected: int
    """Index of the combination with the highest mean; the first in case of ties."""
    schema: int = SCHEMA


@dataclass(frozen=True)
class Swept:
    """Outcome of a sweep."""

    runs: list[Finetuned]
    """The selected runs of each task; the last one is unfinished if the sweep stopped early."""
    selections: list[Selection]


def read_sweep(sweeps: Sequence[str]) -> list[list[str]]:
    """Expand ``name=value,value`` into all combinations, each as ``name=value`` settings.

    Raises:
        ConfigError: for an unknown option (suggesting the closest name), one that cannot be swept, or too few values.

    Example:
        >>> read_sweep(["learning_rate=1e-5,2e-5", "epochs=3,10"])[1]
        ['optimizer.learning_rate=1e-5', 'epochs=10']
    """
    known = rules(FinetuneConfig)
    axes: dict[str, list[str]] = {}
    for sweep in sweeps:
        given, equals, text = sweep.partition("=")
        values = [value.strip() for value in text.split(",")]
        if not equals or not all(values):
            raise ConfigError(f"--sweep {sweep}: write it as name=value,value: optimizer.learning_rate=1e-5,2e-5")
        name = full_name(FinetuneConfig(), given.strip())
        if why := _NOT_SWEPT.get(name) or ("" if known[name].resume == "same" else "it changes no result"):
            raise ConfigError(f"--sweep {given}: no sweep is over {name}: {why}")
        if name in axes:
            raise ConfigError(f"--sweep {given}: {name} is swept twice: give all values at once, with commas")
        if len(values) < 2:
            raise ConfigError(f"--sweep {sweep}: one value is no sweep: give several, or --set {sweep}")
        axes[name] = values
    return [
        [f"{name}={value}" for name, value in zip(axes, chosen, strict=True)]
        for chosen in itertools.product(*axes.values())
    ]


def sweep(
    start_from: str,
    tasks: str,
    sweeps: Sequence[str],
    out: str | Path,
    seeds: Iterable[int],
    *,
    preset: str = "",
    settings: Sequence[str] = (),
    select_on: str = HELD_OUT,
    resume: bool = False,
    quiet: bool = False,
) -> Swept:
    """Fine-tune with every combination of some options' values and every seed, and select one combination per task.

    The one with the highest mean of the task's primary metric over seeds is selected, evaluated on ``select_on``:

    - ``held-out``: a part of the training examples (``valid_fraction``) that no combination trains on, drawn with the
      seed and so the same for all combinations;
    - ``dev``: the first of the task's validation splits. Scores on it are then too high;
    - ``contrast-set:FOLDER``: the revised examples of the task's contrast set, by accuracy, as in CLINE's §4.3. This
      is selection on the test set.

    Results and all tables of them state which was used (``selection``). Finished runs are not trained again.

    Args:
        start_from: A run folder, a Hugging Face folder or a hub name.
        tasks: As ``tasks.tasks_named`` reads them.
        sweeps: ``name=value,value``; several give every combination.
        out: The folder of results.
        seeds: Values of ``train.seed``; those of an existing selection in ``out`` are added.
        preset: One of ``finetune_presets``; by default the one for the encoder's architecture.
        settings: ``key=value``, the same for all combinations.
        select_on: See above.
        resume: Continue an unfinished run; start if there is none.
        quiet: Show no progress.

    Raises:
        ConfigError: before anything is trained, for an unknown option, a value of another type, or a folder of results
            that no sweep made.
        TruenegError: for anything else a user can fix; see the message.
    """
    kind, _, place = select_on.partition(":")
    if kind not in (HELD_OUT, "dev", CONTRAST_SET):
        raise ConfigError(unknown_name("--select-on", kind, [HELD_OUT, "dev", f"{CONTRAST_SET}:FOLDER"]))
    swept = read_sweep(sweeps)
    names = [setting.partition("=")[0] for setting in swept[0]]
    fixed = [full_name(FinetuneConfig(), setting.partition("=")[0].strip()) for setting in settings]
    if twice := [name for name in names if name in fixed]:
        raise ConfigError(f"{twice[0]} is set and swept: leave one of them out")
    given = [*settings, *(["hold_out=true"] if kind == HELD_OUT else [])]
    # For each task, the configurations of all combinations.
    per_combination = [configure_tasks(start_from, tasks, preset=preset, settings=[*given, *one]) for one in swept]
    combined = list(zip(*per_combination, strict=True))
    for configs in combined:
        for config in configs:
            check_finetuning(config)
    check_data([configs[0] for configs in combined])
    planned = [_Task(configs, names, Path(out), kind, place) for configs in combined]
    done, chosen = Swept([], []), list(seeds)
    for task in planned:
        runs, selected = task.sweep(chosen, resume=resume, quiet=quiet)
        done.runs.extend(runs)
        if selected is None:
            break
        done.selections.append(selected)
    return done


class _Task:
    """One task's part of a sweep.

    Raises:
        ConfigError: for errors that would stop it later.
    """

    def __init__(
        self, configs: Sequence[FinetuneConfig], names: Sequence[str], out: Path, kind: str, place: str
    ) -> None:
        self.configs, self.out, self.kind, self.place = configs, out, kind, place
        task = make_task(configs[0].task)
        self.name, self.target = task.name, folder_of(task.name, 0, out).parent
        values: list[Mapping[str, Any]] = [flatten(encode(config)) for config in configs]
        self.values = [{name: of[name] for name in names} for of in values]
        self.folders = [_folder(of) for of in self.values]
        if len({*self.folders}) < len(self.folders):
            raise ConfigError(f"--sweep: a value of {' or '.join(names)} is given twice: give it once")
        if any(self.target.glob("seed-*")) and not (self.target / SELECTION).is_file():
            raise ConfigError(f"'{self.target}' holds results that no sweep selected: give another --out")
        self.keys: set[str] = set()
        if kind == CONTRAST_SET:
            self._check_contrast_set(configs[0])

    def _check_contrast_set(self, config: FinetuneConfig) -> None:
        if not self.place:
            raise ConfigError("--select-on contrast-set:FOLDER: name the folder with the contrast set, as released")
        if not config.keep_model:
            raise ConfigError("keep_model=false: --select-on contrast-set needs the models: leave it out")
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ConfigError("--select-on contrast-set runs in one process: start it without torchrun")
        contrast = read_contrast_set(self.name, self.place, "test")
        self.keys = {str(example.group) for example in contrast.original.examples}

    def sweep(self, seeds: list[int], *, resume: bool, quiet: bool) -> tuple[list[Finetuned], Selection | None]:
        """Train all combinations and select one; None if it stopped early."""
        if (self.target / SELECTION).is_file():
            seeds = sorted({*seeds, *read_selection(self.target).seeds})
        by_combination: list[list[Finetuned]] = []
        for config, folder in zip(self.configs, self.folders, strict=True):
            runs = finetune_seeds(config, self.out / SWEEP / folder, seeds, resume=resume, quiet=quiet)
            if runs[-1].reason != "finished":
                return runs[-1:], None
            by_combination.append(runs)
        selected = self._selection(seeds, by_combination)
        runs, config = by_combination[selected.selected], self.configs[selected.selected]
        published = [_labelled_run(run, self.target, config, selected) for run in runs]
        if int(os.environ.get("RANK", "0")) == 0:
            self.target.mkdir(parents=True, exist_ok=True)
            write_json(self.target / SELECTION, asdict(selected))  # first: running again recovers from a kill below
            for run, shown in zip(runs, published, strict=True):
                _publish(run.folder, shown.folder, config, selected)
        return published, selected

    def _selection(self, seeds: list[int], by_combination: Sequence[Sequence[Finetuned]]) -> Selection:
        found = [{run.seed: self._figure(run) for run in runs} for runs in by_combination]
        on, metric, _ = next(iter(found[0].values()))
        combinations = []
        for values, folder, runs, figures in zip(self.values, self.folders, by_combination, found, strict=True):
            by_seed = {seed: figure for seed, (_, _, figure) in figures.items()}
            results: dict[str, dict[int, dict[str, float]]] = {}
            for run in runs:
                for split, result in run.results.items():
                    results.setdefault(split, {})[run.seed] = result.metrics
            place = Path(SWEEP, folder, self.target.name).as_posix()
            combinations.append(Combination(values, place, by_seed, statistics.fmean(by_seed.values()), results))
        means = [-math.inf if math.isnan(one.mean) else one.mean for one in combinations]
        where = f"{self.configs[0].valid_fraction:.0%} of the training examples, held out" if on == HELD_OUT else on
        num_equal = means.count(max(means))
        equals = f"; {num_equal} combinations share it, of which this is the first" if num_equal > 1 else ""
        rule = f"highest mean of {metric} over seeds on {where}{equals}"
        return Selection(self.name, on, metric, rule, seeds, combinations, means.index(max(means)))

    def _figure(self, run: Finetuned) -> tuple[str, str, float]:
        """Score by which a run is selected: the split, the metric, and its value."""
        split, result = next(iter(run.results.items()))
        if self.kind == HELD_OUT:
            return HELD_OUT, result.primary, float(result.train["held_out"]["metrics"][result.primary])
        if self.kind == "dev":
            return split, result.primary, result.metrics[result.primary]
        path = run.folder / f"{_CONTRAST_SPLIT}.json"
        is_available = path.is_file() and {str(one.get("key")) for one in load_predictions(path)} == self.keys
        contrast = load_result(path) if is_available else evaluate_contrast_set(run.folder, self.place)[0]
        run.results[_CONTRAST_SPLIT] = contrast
        return _CONTRAST_SPLIT, _CONTRAST_METRIC, contrast.metrics[_CONTRAST_METRIC]


def _publish(source: Path, target: Path, config: FinetuneConfig, selected: Selection) -> None:
    """Publish a run's folder as selected results, with a note in its results of how it was selected.

    If the same run is already there, it stays, as it may have been evaluated and attacked since. Files are hard-linked
    if possible, else copied.
    """
    is_same = target.is_dir() and (target / CONFIG).read_bytes() == (source / CONFIG).read_bytes()
    if is_same and {path.name for path in target.iterdir()} >= {path.name for path in source.iterdir()}:
        for path in find_results(target):
            write_json(path, asdict(_labelled(load_result(path), config, selected)))
        return

    def fill(new: Path) -> None:
        results = {*find_results(source)}
        for path in sorted(source.rglob("*")):
            to = new / path.relative_to(source)
            if path.is_dir():
                to.mkdir()
            elif path in results:
                write_json(to, asdict(_labelled(load_result(path), config, selected)))
            else:
                _link(path, to)

    write_folder(target, fill, "all combinations are trained: make room and run the same again")


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _labelled_run(run: Finetuned, target: Path, config: FinetuneConfig, selected: Selection) -> Finetuned:
    results = {split: _labelled(result, config, selected) for split, result in run.results.items()}
    return replace(run, folder=target / run.folder.name, results=results)


def _labelled(result: Result, config: FinetuneConfig, selected: Selection) -> Result:
    """Record in a result how its model was selected."""
    swept = {
        "on": selected.on,
        "metric": selected.metric,
        "num_combinations": len(selected.combinations),
        "settings": selected.combinations[selected.selected].settings,
    }
    trained = {**result.train, "sweep": swept}
    return replace(result, train=trained, selection=selection(config, trained))


def read_selection(folder: str | Path) -> Selection:
    """Read how a task's results were selected.

    Args:
        folder: ``<out>/<task>``.

    Raises:
        TaskError: if no sweep selected them, or the file is damaged or has another version.
    """
    return read_versioned(Selection, Path(folder) / SELECTION, SCHEMA, TaskError, "run the same sweep again")


def _folder(values: Mapping[str, Any]) -> str:
    """Name a combination's folder by its values, independent of how they were written.

    Example:
        >>> _folder({"optimizer.learning_rate": 0.00002, "epochs": 3.0})
        'optimizer.learning_rate=2e-05,epochs=3.0'
    """
    text = ",".join(f"{name}={value}" for name, value in values.items())
    return re.sub(r"[^\w.+=,-]", "-", text)
