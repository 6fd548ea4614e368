"""A folder of planted results: one file per run, and their table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trueneg.config.codec import differences, encode, load_config, save_config
from trueneg.errors import ConfigError
from trueneg.evaluation.statistics.intervals import Interval, t_interval
from trueneg.files.records import read_record
from trueneg.recipes.planted_arms import ARMS, Arm, ArmResult, PlantedConfig
from trueneg.reporting.tables import text_table
from trueneg.version import __version__

SETTINGS, RUNS = "settings.json", "runs"

SHOWN = {
    False: ("masked LM", ("nll", "accuracy", "planted_nll", "planted_accuracy")),
    True: ("ELECTRA", ("auc", "masked_auc")),
}
"""Whether an arm is ELECTRA's, to the name of its table and the metrics in it: see ``ArmResult.metrics``."""


@dataclass(frozen=True)
class Settings:
    """Settings of a folder of results."""

    config: PlantedConfig
    corpus_fingerprint: str


def run_file(folder: Path, arm: Arm, seed: int) -> Path:
    """Give the path of a run's result."""
    return folder / RUNS / f"{str(arm).replace('/', '-')}.seed{seed}.json"


def claim(folder: Path, settings: Settings) -> None:
    """Record the settings of a folder's results.

    Raises:
        ConfigError: if it has results of other settings.
    """
    path = folder / SETTINGS
    if path.is_file():
        changed = differences(load_config(Settings, path), settings)
        if changed:
            raise ConfigError(f"'{folder}' holds results of other settings ({', '.join(changed)}): give another --out")
    (folder / RUNS).mkdir(parents=True, exist_ok=True)
    save_config(settings, path)


def load_results(folder: Path) -> list[ArmResult]:
    """Read every run that a folder holds.

    Raises:
        ConfigError: for a file that is not a result.
    """
    paths = sorted((folder / RUNS).glob("*.json"))
    return [read_record(ArmResult, path, ConfigError, "delete it to have the run done again") for path in paths]


def summarise(settings: Settings, results: Sequence[ArmResult]) -> dict[str, Any]:
    """Summarise runs: values, means, and paired differences to each arm's yardstick."""
    by_arm: dict[Arm, dict[int, ArmResult]] = {}
    for result in results:
        by_arm.setdefault(Arm.parse(result.arm), {})[result.seed] = result
    rank = {use: number for number, use in enumerate(ARMS)}
    ordered = sorted(by_arm, key=lambda arm: (rank[arm.use], -arm.precision, -arm.recall))
    return {
        "recipe": "planted",
        "versions": {"trueneg": __version__} | {name: version(name) for name in ("torch", "transformers")},
        "settings": encode(settings),
        "planted_share": results[0].planted_share if results else None,
        "arms": [_summary(arm, by_arm[arm], by_arm.get(arm.yardstick, {})) for arm in ordered],
    }


def markdown(results: dict[str, Any]) -> str:
    """Write the results as Markdown: a table of masked language models, and one of discriminators."""
    settings = results["settings"]["config"]
    parts = [
        f"{settings['num_words']} words, {results['planted_share']:.0%} of all tokens, are split into 4 spellings "
        f"each; {settings['steps']:,} steps.",
        "Means over seeds. In brackets: difference to the table's first arm, paired by seed, with its 95 % interval.\n",
    ]
    for is_electra, (kind, metrics) in SHOWN.items():
        if rows := [arm for arm in results["arms"] if arm["is_electra"] is is_electra]:
            names = [kind, "seeds", *(name.replace("_", " ") for name in metrics), "precision", "recall"]
            parts.append(text_table(names, [_cells(arm, metrics) for arm in rows]).markdown())
    return "\n".join(parts)


def _summary(arm: Arm, runs: dict[int, ArmResult], yardstick: dict[int, ArmResult]) -> dict[str, Any]:
    paired = sorted(runs.keys() & yardstick.keys()) if arm != arm.yardstick else []
    measured = [run.metrics for run in [*runs.values(), *(yardstick[seed] for seed in paired)]]
    metrics = [name for name in measured[0] if all(name in values for values in measured)]
    readings = sorted({name for run in runs.values() for name in run.detector})
    differences = {
        name: t_interval([runs[seed].metrics[name] - yardstick[seed].metrics[name] for seed in paired])
        for name in metrics
        if len(paired) > 1
    }
    return {
        "arm": str(arm),
        "what": ARMS[arm.use],
        "is_electra": arm.is_electra,
        "precision": arm.precision,
        "recall": arm.recall,
        "seeds": {str(seed): runs[seed].metrics for seed in sorted(runs)},
        "mean": {name: _mean(run.metrics[name] for run in runs.values()) for name in metrics},
        "yardstick": str(arm.yardstick),
        "difference": {name: dataclasses.asdict(interval) for name, interval in differences.items()},
        "detector": {
            name: _mean(run.detector[name] for run in runs.values() if name in run.detector) for name in readings
        },
        "seconds": sum(run.seconds for run in runs.values()),
    }


def _cells(arm: dict[str, Any], metrics: Sequence[str]) -> list[str]:
    def value(name: str) -> str:
        difference = arm["difference"].get(name)
        mean = f"{arm['mean'][name]:.3f}" if name in arm["mean"] else ""
        return mean + (f" ({Interval(**difference)})" if difference else "")

    realised = [f"{arm['detector'][name]:.2f}" if name in arm["detector"] else "" for name in ("precision", "recall")]
    return [arm["arm"], str(len(arm["seeds"])), *map(value, metrics), *realised]


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)
