"""Page sections of runs: curves, settings, and what limits their comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.config.codec import encode, flatten
from trueneg.config.options import PretrainConfig
from trueneg.reporting.charts import Chart, Line, line_chart
from trueneg.reporting.findings import arms_of
from trueneg.reporting.mixtures import changes, shares_of
from trueneg.reporting.sources import RunFiles
from trueneg.reporting.tables import Table, short_names, shown_table, text_table

CURVES = {
    "gold_loss": ("Loss of the gold token", "nats"),
    "accuracy": ("Masked tokens predicted right", "%"),
    "corrected": ("Mispredictions corrected", "%"),
    "corrected_rows": ("Rows with a correction", "%"),
    "detection_accuracy": ("Replaced tokens detected", "%"),
    "embedding_cosine": ("Mean cosine of embeddings", "cosine"),
}
"""Metrics to plot if a run has them, with titles and units."""


def draw_curves(runs: Sequence[RunFiles]) -> list[Chart]:
    """Plot each metric over steps, with held-out values as dots."""
    arms = [(name, of_arm.values()) for name, of_arm in arms_of(runs).items()]
    drawn = []
    for reading, (title, unit) in CURVES.items():
        lines = [
            Line(
                run.name,
                points,
                number,
                "dots" if kind == "eval" else "line",
                f"{arm} ({len(of_arm)} seeds)" if len(of_arm) > 1 else run.name,
            )
            for number, (arm, of_arm) in enumerate(arms)
            for run in of_arm
            for kind in ("train", "eval")
            if (points := _points(run, kind, reading, 100 if unit == "%" else 1))
        ]
        if lines:
            drawn.append(line_chart(f"{title}, {unit}", "steps", lines))
    return drawn


def _points(run: RunFiles, kind: str, reading: str, scale: float) -> list[tuple[float, float]]:
    records = (record for record in run.records if record.get("kind") == kind)
    # Infinities and NaN are not valid JSON, and cannot be plotted.
    return [
        (r["step"], scale * r[reading])
        for r in records
        if isinstance(r.get(reading), int | float) and abs(r[reading]) < 1e300
    ]


def facts_of(runs: Sequence[RunFiles]) -> tuple[str, Table]:
    """Describe what several runs have in common, and tabulate what differs."""

    def fact(run: RunFiles) -> dict[str, str]:
        config, last = run.config, run.last("train")
        seconds = last.get("seconds")
        return {
            "objective": config.objective.name,
            "model": short_place(config.model.start_from) or config.preset or config.model.architecture,
            "corpus": corpora_of(run.config, run.records) or "not said",
            "hard correction": detector_name(config.objective.correction.detector) or "none",
            "soft regularization": config.objective.regularization.level or "none",
            "learning rate": f"{config.optimizer.learning_rate:g}, {config.optimizer.schedule}, warm-up "
            f"{config.optimizer.warmup_steps:,} steps",
            "batch": f"{config.train.batch_size:,} rows of {config.corpus.length:,} tokens",
            "precision": config.train.precision,
            "seed": str(config.train.seed),
            "steps": f"{run.step:,} of {config.train.steps:,}",
            "time": _duration(seconds) if isinstance(seconds, int | float) else "not known",
            "tokens a second": _number(last.get("tokens_per_second"), ",.0f"),
            # Unknown for runs logged before these were measured.
            "share of the device's peak": _number(last.get("mfu"), ".1%"),
            "padding": _number(last.get("padding"), ".1%"),
            "time spent waiting for data": _number(last.get("data_wait"), ".1%"),
            "gold loss, training": _number(last.get("gold_loss"), ".3f"),
            "gold loss, held out": _number(run.last("eval").get("gold_loss"), ".3f"),
            "sentence similarity": _similarity(run),
            **({"held out, by source": "; ".join(changes(run.records)) or "one source"} if has_sources else {}),
        }

    has_sources = any(changes(run.records) for run in runs)
    facts = [fact(run) for run in runs]
    rows = [[name, *(of_run[name] for of_run in facts)] for name in (facts[0] if facts else ())]
    alike = [row for row in rows if len(runs) > 1 and len(set(row[1:])) == 1]
    table = text_table(["setting", *(run.name for run in runs)], [row for row in rows if row not in alike])
    return "; ".join(f"{name} {value}" for name, value, *_ in alike), table


def remarks_on(runs: Sequence[RunFiles]) -> Iterator[str]:
    """Yield remarks on what limits the comparison of runs."""

    def told(values: Sequence[str]) -> str:
        return ", ".join(f"{run.name} {value}" for run, value in zip(runs, values, strict=True))

    steps = [f"{run.step:,}" for run in runs]
    if len(set(steps)) > 1:
        yield (
            f"the runs have done different numbers of steps ({told(steps)}): compare them at the same step of the "
            "curves, not by their last figures"
        )
    sizes = [f"{run.config.train.batch_size:,} x {run.config.corpus.length:,}" for run in runs]
    if len(set(sizes)) > 1:
        yield f"their steps are of different size ({told(sizes)} tokens): the same step is not the same training"
    corpora = [corpora_of(run.config, run.records) for run in runs]
    if len({(run.config.corpus.path, run.config.corpus.mixture) for run in runs}) > 1:
        yield f"their corpora differ ({told(corpora)}): losses on different text cannot be compared"


def differing_settings(runs: Sequence[RunFiles]) -> dict[str, Any] | None:
    """Show the settings that are not the same in all runs."""
    flat = [flatten(encode(run.config)) for run in runs]
    names = [name for name in flat[0] if any(one[name] != flat[0][name] for one in flat)] if flat else []
    rows = [[name, *(_setting(one[name]) for one in flat)] for name in names]
    heading = ["setting", *(run.name for run in runs)]
    return shown_table(text_table(heading, rows), "settings") | {"num": len(rows)} if rows else None


def _similarity(run: RunFiles) -> str:
    if (found := run.similarity) is None:
        return "not measured"
    told = [
        f"{pooling} {f'{100 * found.before[pooling]:.2f} → ' if pooling in found.before else ''}{100 * after:.2f}"
        for pooling, after in found.after.items()
    ]
    return f"{', '.join(told)} (Spearman × 100, {found.task} {found.split})"


def _setting(value: Any) -> str:
    return (short_place(value) if isinstance(value, str) else str(value)) or "(empty)"


def detector_name(specification: str) -> str:
    """Drop the folders of files from a detector's specification."""
    return short_names([specification])[specification]


def corpora_of(config: PretrainConfig, records: Sequence[Mapping[str, Any]]) -> str:
    """Name a run's corpus, or those of its mixture with their shares."""
    return shares_of(config, records) or short_place(config.corpus.path)


def short_place(path: str) -> str:
    """Shorten an absolute path, meaningless on other machines, to its last two parts."""
    return "/".join(Path(path).parts[-2:]) if Path(path).is_absolute() else path


def share(value: Any) -> str:
    """Format a share, if it is a number."""
    return f"{value:.2%}" if isinstance(value, int | float) else "an unknown share"


def _number(value: Any, form: str) -> str:
    return format(value, form) if isinstance(value, int | float) else "not measured"


def _duration(seconds: float) -> str:
    """Format hours and minutes, or minutes and seconds.

    Example:
        >>> _duration(75), _duration(7500)
        ('1 min 15 s', '2 h 05 min')
    """
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {int(seconds) % 60:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"
