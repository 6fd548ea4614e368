"""Where the figures of a report come from: versions, revisions, seeds, and the commands that reproduce them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.config.codec import encode, flatten
from trueneg.config.fields import holds, rules
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.finetune_presets import BASE, FINETUNE_PRESETS, SMALL, SQUAD
from trueneg.evaluation.results.reproduction import ReproducedTable
from trueneg.evaluation.results.robustness import ATTACK
from trueneg.evaluation.results.store import Result
from trueneg.evaluation.results.summary import Runs
from trueneg.evaluation.results.trial import BASELINE
from trueneg.reporting.planted import config_of
from trueneg.reporting.sources import Sources
from trueneg.reporting.tables import Table, text_table
from trueneg.training.folder import CONFIG

_MADE_UP = "tiny"
"""The scale of recipes that generates its own data if none is given."""
_OF_RECIPES = (
    "Of recipes: DATA is the folder that was given as --data; files that --set names are told by their names alone."
)
_OF_TRIALS = "Of trials: further options that all their runs had are in the commands that are listed with them."
_OF_RESULTS = (
    "Of results: where a fine-tuned MODEL, its DATA or a loaded SET of adversarial examples lay is not recorded, nor "
    "resources of attacks that are not named; what follows # is recorded, and an option only where --set takes it."
)
_NOT_RECORDED = "not recorded"
_OF_PLANTED = "Of planted experiments: whether --corpus named another text than WordNet's is not noted."
COLUMNS = ("what", "kind", "seeds", "trueneg", "revision", "other versions", "made again by")


def provenance_table(sources: Sources, read: Mapping[str, Runs]) -> Table:
    """Tabulate each source of a report.

    Args:
        sources: What the report is made from.
        read: The results of its fine-tuned models, by name.
    """
    rows = [
        *_of_tables(sources),
        *_of_trials(sources),
        *_of_runs(sources),
        *_of_results(sources, read),
        *_of_files(sources),
    ]
    *_, others, _ = zip(*rows, strict=True)
    letters = {
        versions: chr(ord("A") + number % 26)
        for number, versions in enumerate(filter("–".__ne__, dict.fromkeys(others)))
    }
    shown = [[*row[:-2], letters.get(row[-2], "–"), row[-1]] for row in dict.fromkeys(rows)]
    notes = [f"{letter}: {versions}." for versions, letter in letters.items()]
    told = {
        _OF_RECIPES: sources.tables,
        _OF_TRIALS: sources.trials,
        _OF_PLANTED: sources.files["planted"],
        _OF_RESULTS: read,
    }
    notes += [note for note, of_kind in told.items() if of_kind]
    return text_table(COLUMNS, shown, notes=notes)


Row = tuple[str, ...]


def _of_tables(sources: Sources) -> Iterator[Row]:
    for name, table in sources.tables.items():
        seeds = sorted({seed for cell in table.cells for seed in cell.by_seed})
        command = shlex.join(["trueneg", "reproduce", table.recipe, *_reproduced(table, seeds)])
        versions = {"trueneg": table.version, **table.versions}
        yield (name, "reproduced table", ", ".join(map(str, seeds)) or "–", *_versions(versions), command)


def _reproduced(table: ReproducedTable, seeds: Sequence[int]) -> Iterator[str]:
    yield from ("--scale", table.scale)
    if table.scale != _MADE_UP:
        yield from ("--data", "DATA")
    if seeds and min(seeds) > 0:
        yield from ("--seeds", str(max(seeds)))
    if table.arms:
        yield from ("--arms", ",".join(table.arms))
    yield from (word for setting in table.settings for word in ("--set", setting))
    yield from ("--out", "OUT")


def _of_trials(sources: Sources) -> Iterator[Row]:
    for name, trial in sources.trials.items():
        arms, seeds = (",".join(arm for arm in trial.arms if arm != BASELINE), ",".join(map(str, trial.seeds)))
        command = ["trueneg", "try", *trial.text, "--from", trial.checkpoint, "--arms", arms, "--seeds", seeds]
        command += ["--set", f"train.steps={trial.steps}", "--out", "AGAIN"]
        versions = _versions({"trueneg": trial.version, **trial.versions})
        yield (name, "trial", seeds.replace(",", ", "), *versions, shlex.join(command))
    for file in sources.files["planted"]:
        arms = ",".join(arm.arm for arm in file.read.arms)
        of_runs = sorted({int(seed) for arm in file.read.arms for seed in arm.seeds if seed.isdecimal()})
        command = ["trueneg", "reproduce", "planted", "--arms", arms, "--seeds", str(max(of_runs, default=1))]
        command += [word for name, value in config_of(file.read).items() for word in ("--set", f"{name}={value}")]
        versions = _versions(file.read.versions)
        yield (
            file.name,
            "planted experiment",
            ", ".join(map(str, of_runs)),
            *versions,
            shlex.join([*command, "--out", "OUT"]),
        )


def _of_runs(sources: Sources) -> Iterator[Row]:
    for run in sources.runs:
        again = run.provenance.command or shlex.join(
            ["trueneg", "pretrain", "--config", str(run.folder), "--out", "AGAIN"]
        )
        yield (run.name, "pre-training", str(run.config.train.seed), *_versions(run.provenance.versions), again)


def _of_results(sources: Sources, read: Mapping[str, Runs]) -> Iterator[Row]:
    for name, runs in read.items():
        seeds_of: dict[Row, list[int]] = {}
        for (task, _), seeds in runs.items():
            for seed, (path, result) in seeds.items():
                kind, command = _made_by(path, result)
                seeds_of.setdefault((f"{name}, {task}", kind, *_versions(result.versions), command), []).append(seed)
        for (what, kind, *versions, command), seen in seeds_of.items():
            distinct = [*dict.fromkeys(map(str, seen))]
            if kind == _FINETUNING and command != _NOT_RECORDED:
                command += f" --seeds {','.join(distinct)}" if len(distinct) > 1 else f" --seed {distinct[0]}"
            yield (what, kind, ", ".join(distinct), *versions, command)


_FINETUNING = "fine-tuning"


def _made_by(path: Path, result: Result) -> tuple[str, str]:
    """Return the kind of a result, and the command that makes it again, without the seeds of fine-tuning."""
    config, split = result.config, result.split
    model = str(path.parents[1]) if (path.parent / CONFIG).is_file() else "MODEL"
    if split.startswith(ATTACK):
        return split, _attack(model, result)
    if "contrast_set" in config:
        words = ["evaluate", "contrast-set", model, "--data", str(config["contrast_set"])]
        return "contrast set", _joined([*words, "--split", split.removeprefix("contrast-")])
    if isinstance(config.get("substitution"), Mapping):
        options = [word for name, value in config["substitution"].items() for word in (f"--{name}", str(value))]
        return "substitution", _joined(["evaluate", "substitution", result.model, "--data", "DATA", *options])
    recorded = flatten(config)
    if "task.name" not in recorded:
        return _FINETUNING, _NOT_RECORDED
    task = ["--task", str(recorded["task.name"]), "--data", str(recorded.get("task.data") or "DATA")]
    if result.train.get("task", result.task) != result.task:
        return "evaluation", _joined(["evaluate", "task", "MODEL", *task, "--split", split])
    return _FINETUNING, _joined(["finetune", result.model, *task, *_settings(recorded)])


def _joined(words: Sequence[str]) -> str:
    return shlex.join(["trueneg", *words])


def _settings(recorded: Mapping[str, Any]) -> Iterator[str]:
    preset = str(recorded.get("preset", ""))
    yield from ("--preset", preset) if preset in FINETUNE_PRESETS else ()
    yield from (word for name in _changed(recorded, preset) for word in ("--set", f"{name}={_text(recorded[name])}"))


_NAMED = ("start_from", "task.name", "train.seed")
"""Options that a command has as arguments of their own."""


def _changed(recorded: Mapping[str, Any], preset: str) -> Iterator[str]:
    """Yield the options that have an effect, and that a preset does not set so for every encoder."""
    make, task = FINETUNE_PRESETS.get(preset), str(recorded["task.name"])
    family = SQUAD if task.partition("/")[0] == SQUAD else "text"
    presets = [flatten(encode(make(task, size, family))) for size in (SMALL, BASE, BASE + 1)] if make else [{}]
    values = {**flatten(encode(FinetuneConfig())), **recorded}
    for name, rule in rules(FinetuneConfig).items():
        if name in recorded and name not in _NAMED and (rule.resume != "free" or name == "plugins"):
            is_used = all(holds(condition, values) for condition in rule.needs)
            if is_used and any(one.get(name) != recorded[name] for one in presets):
                yield name


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_RESOURCES = {
    **{"neighbours": "--neighbours", "vectors": "--neighbours", "similarity": "--encoder"},
    **{"masked_lm": "--masked-lm", "tagger": "--tagger"},
}
"""Resources that attacks record, and the options that name them."""
_OUTCOMES = ("succeeded", "failed", "skipped", "changed", "unchanged")
"""Outcomes that attacks count, together all examples of a set."""


def _attack(model: str, result: Result) -> str:
    described = result.config.get("attack")
    if not isinstance(described, Mapping):
        return _NOT_RECORDED
    if "file" in described or "-of-" in result.split:
        return _joined(["attack", model, "--load", str(described.get("file", "SET"))])
    words = ["attack", model]
    for option in ("name", "profile", "seed", "split"):
        if option in described:
            words += ["--attack" if option == "name" else f"--{option}", str(described[option])]
    if num := sum(result.counts.get(outcome, 0) for outcome in _OUTCOMES):
        words += ["--max-examples", str(num)]
    resources = described.get("resources", {})
    words += [word for name, flag in _RESOURCES.items() if name in resources for word in (flag, str(resources[name]))]
    options = ", ".join(f"{name}={_text(value)}" for name, value in described.get("options", {}).items())
    return _joined(words) + (f"  # {options}" if options else "")


def _of_files(sources: Sources) -> Iterator[Row]:
    for what, files in (("triplets", sources.files["hits"]), ("sts", sources.files["similarity"])):
        for file in files:
            checkpoints = list(dict.fromkeys(one.checkpoint for one in getattr(file.read, what)))
            command = [
                "trueneg",
                "evaluate",
                "encoder",
                *checkpoints,
                "--task",
                what,
                "--data",
                file.read.data or "DATA",
            ]
            made = getattr(getattr(file.read, what)[0], "settings", [])
            command += [part for setting in made for part in ("--set", setting)]
            command += ["--split", file.read.split] if file.read.split else []
            command += ["--rows", str(file.read.rows)] if file.read.rows else []
            yield (file.name, f"encoders: {what}", "–", *_versions(file.read.versions), shlex.join(command))
    for file in sources.files["detectors"]:
        data = [*file.read.data]
        command = ["trueneg", "detect", "benchmark", "--data", data[0] if len(data) == 1 else "DATA"]
        command += [part for one in file.read.measured for part in ("--detector", one.detector)]
        command += _of_benchmark(file.read.options)
        seed = str(file.read.options.get("seed", "–"))
        yield (file.name, "detectors", seed, *_versions(file.read.versions), shlex.join(command))
    for file in sources.files["held_out"]:
        models = dict.fromkeys(record.checkpoint for record in file.read.records)
        command = ["trueneg", "evaluate", "masked-lm", *models, *file.read.arguments]
        made_by = _versions({"trueneg": file.read.version, **file.read.versions})
        yield (file.name, "held-out text", "–", *made_by, shlex.join(command))


_BENCHMARK = ("threshold", "precision", "folds", "resamples", "seed", "phrases", "limit", "vocabulary")
"""Options of ``detect benchmark`` that its results record."""


def _of_benchmark(options: Mapping[str, object]) -> Iterator[str]:
    """Write the recorded options, including defaults: a later version may have others."""
    for name in _BENCHMARK:
        if options.get(name) is not None:
            yield from (f"--{name}", str(options[name]))
    if not options.get("inflect", True):
        yield "--no-inflect"


def _versions(versions: Mapping[str, str]) -> tuple[str, str, str]:
    others = ", ".join(f"{name} {version}" for name, version in versions.items() if name not in ("trueneg", "revision"))
    return versions.get("trueneg", "") or "–", versions.get("revision", "") or "–", others or "–"
