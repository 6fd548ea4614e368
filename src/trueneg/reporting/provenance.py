"""Where the figures of a report come from: versions, revisions, seeds, and the commands that reproduce them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from trueneg.evaluation.results.reproduction import ReproducedTable
from trueneg.evaluation.results.robustness import ATTACK
from trueneg.evaluation.results.summary import Runs
from trueneg.evaluation.results.trial import BASELINE
from trueneg.reporting.planted import config_of
from trueneg.reporting.sources import Sources
from trueneg.reporting.tables import Table, text_table

_MADE_UP = "tiny"
"""The scale of recipes that generates its own data if none is given."""
_OF_RECIPES = (
    "Of recipes: DATA is the folder that was given as --data; files that --set names are told by their names alone."
)
_OF_TRIALS = "Of trials: further options that all their runs had are in the commands that are listed with them."
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
    told = {_OF_RECIPES: sources.tables, _OF_TRIALS: sources.trials, _OF_PLANTED: sources.files["planted"]}
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
        for (task, split), seeds in runs.items():
            for seed, (path, result) in seeds.items():
                if split.startswith(ATTACK):
                    kind, command = split, ["attack", str(path.parents[1]), *_attack(result.config.get("attack"))]
                else:
                    kind, config = "fine-tuning", str(path.parents[1] / "seed-N")
                    command = ["finetune", "--config", config, "--out", "AGAIN"]
                row = (f"{name}, {task}", kind, *_versions(result.versions), shlex.join(["trueneg", *command]))
                seeds_of.setdefault(row, []).append(seed)
        for (what, kind, *others), seen in seeds_of.items():
            yield (what, kind, ", ".join(map(str, dict.fromkeys(seen))), *others)


def _attack(described: object) -> list[str]:
    if not isinstance(described, Mapping):
        return []
    if "file" in described:
        return ["--load", str(described["file"])]
    return ["--attack", str(described.get("name", "")), "--profile", str(described.get("profile", ""))]


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
        command = ["trueneg", "detect", "benchmark", "--data", *file.read.data]
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
