"""The planted experiment in words and as tables: ``results.json``, as ``trueneg reproduce planted`` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trueneg.evaluation.statistics.intervals import Interval
from trueneg.reporting.tables import ENDS, Column, Table, ends_of, shown_table, told_column

PLANTED = "results.json"
SHOWN = {
    False: ("masked LM", ("nll", "accuracy", "planted_nll", "planted_accuracy")),
    True: ("ELECTRA", ("auc", "masked_auc")),
}
"""Whether an arm is ELECTRA's, to the name and the metrics of its table; arms are judged by the first metric."""
LEGEND = "Means over seeds. In brackets: difference to the table's first arm, paired by seed, with its 95 % interval."


@dataclass(frozen=True)
class PlantedArm:
    """All runs of an arm, and their difference from the arm without corrections."""

    arm: str
    what: str
    is_electra: bool
    precision: float
    recall: float
    """Precision and recall that its detector is built to have."""
    seeds: dict[str, dict[str, float]]
    """Seed to metrics."""
    mean: dict[str, float]
    yardstick: str
    """The arm that it is compared with."""
    difference: dict[str, Interval]
    """By metric, if both have at least two seeds in common."""
    detector: dict[str, float]
    """What was credited in training: ``precision``, ``recall`` and ``num_credited``."""
    seconds: float


@dataclass(frozen=True)
class PlantedResults:
    """``results.json``."""

    recipe: str
    versions: dict[str, str]
    settings: dict[str, Any]
    planted_share: float | None
    """Of all tokens; None before the first run."""
    arms: list[PlantedArm] = field(default_factory=list)


def config_of(results: PlantedResults) -> dict[str, Any]:
    """Return the options of all runs."""
    config = results.settings.get("config")
    return config if isinstance(config, dict) else {}


def about(results: PlantedResults) -> str:
    """Describe what was planted, and the number of training steps."""
    words, steps = (config_of(results).get(name) for name in ("num_words", "steps"))
    share = "no run yet" if results.planted_share is None else f"{results.planted_share:.0%} of all tokens"
    trained = f"{steps:,}" if isinstance(steps, int) else "an unknown number of"
    return f"{words} words, {share}, are split into 4 spellings each; {trained} steps."


def planted_tables(results: PlantedResults) -> list[Table]:
    """Tabulate masked language models, and discriminators."""
    tables = []
    for is_electra, (kind, metrics) in SHOWN.items():
        if arms := [arm for arm in results.arms if arm.is_electra is is_electra]:
            columns = [
                *(Column(kind), Column("seeds")),
                *(told_column(name.replace("_", " "), "", *(f"difference {end}".strip() for end in ENDS))
                  for name in metrics),
                *(Column(name, _share) for name in ("precision", "recall")),
            ]  # fmt: skip
            notes = [note for arm in arms if (note := _unpaired(arm, results.arms, metrics))]
            tables.append(Table(columns, [_cells(arm, metrics) for arm in arms], notes=notes))
    return tables


def titled_tables(results: PlantedResults) -> list[Table]:
    """Return the tables for use on their own, with a title and an explanation of their figures."""
    return [
        replace(
            table,
            title=f"Planted false negatives: {table.columns[0].name}",
            notes=[about(results), LEGEND, *table.notes],
        )
        for table in planted_tables(results)
    ]


def of_planted(results: PlantedResults, name: str) -> dict[str, Any]:
    """Return the template values of the experiment's section.

    Args:
        results: The experiment's results.
        name: Prefix of its CSV files' names.
    """
    return {
        "about": about(results),
        "legend": LEGEND,
        "arms": {arm.arm.partition("@")[0]: arm.what for arm in results.arms},
        "tables": [shown_table(table, f"{name}-{number}") for number, table in enumerate(planted_tables(results), 1)],
    }


def _cells(arm: PlantedArm, metrics: Sequence[str]) -> list[Any]:
    return [
        *(arm.arm, str(len(arm.seeds))),
        *(_value(arm.mean.get(name), arm.difference.get(name)) for name in metrics),
        *(arm.detector.get(name, "") for name in ("precision", "recall")),
    ]


def _value(mean: float | None, difference: Interval | None) -> tuple[Any, ...]:
    shown = f"{'' if mean is None else f'{mean:.3f}'}{f' ({difference})' if difference else ''}"
    return (mean, *(ends_of(difference) if difference else (None, None, None)), shown)


def _share(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f}"


def _unpaired(arm: PlantedArm, arms: Sequence[PlantedArm], metrics: Sequence[str]) -> str:
    """Describe which seeds an arm's differences cover, if its own and the baseline's seeds differ; else empty."""
    yardstick = next((one for one in arms if one.arm == arm.yardstick != arm.arm), None)
    if yardstick is None or arm.seeds.keys() == yardstick.seeds.keys():
        return ""
    paired = [seed for seed in arm.seeds if seed in yardstick.seeds]
    beginning = f"{arm.arm} and {yardstick.arm} were not run with the same seeds"
    if len(paired) < 2:
        return f"{beginning}, and have fewer than two in common: no difference is given."
    means = [
        f"{name.replace('_', ' ')} {sum(one.seeds[seed][name] for seed in paired) / len(paired):.3f} ({one.arm})"
        for name in metrics
        if name in arm.difference and all(name in one.seeds[seed] for one in (arm, yardstick) for seed in paired)
        for one in (arm, yardstick)
    ]
    return f"{beginning}: differences are over seeds {', '.join(paired)} alone, with means {', '.join(means)}."
