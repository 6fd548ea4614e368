"""A self-contained page about runs: curves, settings, and corrections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trueneg.config.codec import encode, flatten, load_config
from trueneg.config.options import PretrainConfig
from trueneg.errors import TruenegError
from trueneg.evaluation.masked_lm.corrections import (
    FalseNegativeRecord,
    judgement,
    load_false_negatives,
    most_convincing,
)
from trueneg.files.names import tell_apart
from trueneg.reporting.page import inline_svg, label, page_style, write_page
from trueneg.reporting.tables import short_names
from trueneg.training.folder import CONFIG, FALSE_NEGATIVES, METRICS
from trueneg.training.log import read_metrics

CURVES = {
    "gold_loss": ("Loss of the gold token", "nats"),
    "accuracy": ("Masked tokens predicted right", "%"),
    "corrected": ("Mispredictions corrected", "%"),
    "corrected_rows": ("Rows with a correction", "%"),
    "detection_accuracy": ("Replaced tokens detected", "%"),
    "embedding_cosine": ("Mean cosine of embeddings", "cosine"),
}
"""Metrics to draw, with titles and units, where a run has them."""

SHOWN_CORRECTIONS = 40

TEMPLATE = """{% extends "page" %}
{% block title %}{{ runs | map(attribute="name") | join(", ") }}{% endblock %}
{% block source %}made from config.json, metrics.jsonl and false-negatives.json of the runs{% endblock %}
{% block body %}
<h1>Pre-training on true negatives</h1>
{% for remark in remarks %}<p><strong>Note:</strong> {{ remark }}</p>
{% endfor %}
<div class="wide"><table><tr><th></th>{% for run in runs %}<th>{{ run.name }}</th>{% endfor %}</tr>
{% for name, values in facts %}<tr><th>{{ name }}</th>{% for value in values %}<td>{{ value }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
{% if differing %}<details><summary>All settings that differ ({{ differing | length }})</summary>
<div class="wide"><table><tr><th></th>{% for run in runs %}<th>{{ run.name }}</th>{% endfor %}</tr>
{% for name, values in differing %}<tr><td>{{ name }}</td>{% for value in values %}<td>{{ value }}</td>{% endfor %}</tr>
{% endfor %}</table></div></details>{% endif %}
{% if curves %}<div class="charts">{% for curve in curves %}<figure>{{ curve | safe }}</figure>
{% endfor %}</div>
<p class="aside">Lines: batches of the training text, as they were logged. Dots: held-out text, which no run is trained
on; a run without dots was not evaluated while it trained.</p>{% endif %}
{% for run in runs %}{% for found in run.found %}
<h2>Mispredictions that {{ found.detector or "the detector" }} accepts
{%- if runs | length > 1 %}: {{ run.name }}{% endif %}</h2>
<p>On {% if found.num_rows %}{{ "{:,}".format(found.num_rows) }} held-out rows{% else %}held-out text{% endif %}
{%- if found.text %} of {{ found.text | place }}{% endif %} the model mispredicted
{{ found.readings.mispredicted | share }} of the masked tokens. Of these mispredictions
{{ found.readings.corrected | share }} are accepted, {{ "{:,}".format(found.corrections | length) }} in all: hard
correction does not punish such. That does not make all of them right: {{ found.detector | judgement }}.</p>
{% if found.corrections %}
<p>The most probable, each pair of words and each sentence once:</p>
<div class="wide"><table class="stacked"><thead><tr><th>gold</th><th>predicted</th><th>p(predicted)</th><th>p(gold)</th>
<th>in its sentence</th></tr></thead><tbody>
{% for c in found | surest %}<tr><td class="gold" data-label="gold">{{ c.gold }}</td>
<td class="predicted" data-label="predicted">{{ c.predicted }}</td>
<td class="number" data-label="p(predicted)">{{ "{:.2f}".format(c.probability) }}</td>
<td class="number" data-label="p(gold)">{{ "{:.2f}".format(c.gold_probability) }}</td>
<td class="context">{{ c.before }} <span class="gold">{{ c.gold }}</span>
<span class="predicted">{{ c.predicted }}</span> {{ c.after }}</td></tr>
{% endfor %}</tbody></table></div>{% endif %}
{% endfor %}{% endfor %}
{% endblock %}
"""


@dataclass(frozen=True)
class RunFiles:
    """The result files of a run."""

    name: str
    config: PretrainConfig
    records: Sequence[Mapping[str, Any]]
    found: Sequence[FalseNegativeRecord]

    def last(self, kind: str) -> Mapping[str, Any]:
        """Find the last record of a kind, ``train`` or ``eval``; empty if there is none."""
        return next((record for record in reversed(self.records) if record.get("kind") == kind), {})


def write_report(folders: Sequence[str | Path], out: str | Path) -> Path:
    """Write a self-contained page.

    Args:
        folders: Run folders, side by side in the report.
        out: The HTML file.

    Raises:
        TruenegError: if a folder holds no run, is named twice, or has a damaged file.
    """
    runs = [read_run(Path(folder), name) for name, folder in zip(tell_apart(folders), folders, strict=True)]
    return write_page(
        TEMPLATE,
        Path(out),
        filters={"judgement": judgement, "place": _place, "share": _share, "surest": _surest},
        runs=runs,
        remarks=list(_remarks(runs)),
        facts=_facts(runs),
        differing=_differing(runs),
        curves=draw_curves(runs),
    )


def read_run(folder: Path, name: str) -> RunFiles:
    """Read a run's result files; ``name`` is what the page calls it.

    Warns:
        TruenegWarning: if lines of its ``metrics.jsonl`` are damaged.

    Raises:
        TruenegError: if there are none, or one is damaged.
    """
    metrics, found = folder / METRICS, folder / FALSE_NEGATIVES
    if not metrics.is_file():
        raise TruenegError(f"'{folder}' holds no run: name a folder with metrics.jsonl")
    return RunFiles(
        name,
        config=load_config(PretrainConfig, folder / CONFIG),
        records=read_metrics(metrics),
        found=load_false_negatives(found) if found.is_file() else [],
    )


def draw_curves(runs: Sequence[RunFiles]) -> list[str]:
    """Draw each reading over steps, held-out values as dots, each as one SVG."""
    from matplotlib.figure import Figure

    drawn = []
    for reading, (title, unit) in CURVES.items():
        lines = [
            (number, kind, points)
            for number, run in enumerate(runs)
            for kind in ("train", "eval")
            if (points := _points(run, kind, reading, 100 if unit == "%" else 1))
        ]
        if not lines:
            continue
        with page_style():
            figure = Figure(figsize=(5.2, 3.2), layout="constrained")
            axes = figure.subplots()
            for number, kind, points in lines:
                # A line of one point would not be seen.
                style = "o" if kind == "eval" else "-" if len(points) > 1 else "_"
                name = label(runs[number].name) + (", held out" if kind == "eval" else "")
                axes.plot(*zip(*points, strict=True), style, markersize=5, color=f"C{number % 10}", label=name)
            axes.set(title=title, xlabel="steps", ylabel=unit)
            axes.grid(alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(fontsize=8)
            drawn.append(inline_svg(figure, f"{title}, {unit}, over steps"))
    return drawn


def _points(run: RunFiles, kind: str, reading: str, scale: float) -> list[tuple[float, float]]:
    records = (record for record in run.records if record.get("kind") == kind)
    return [(r["step"], scale * r[reading]) for r in records if isinstance(r.get(reading), int | float)]


def _facts(runs: Sequence[RunFiles]) -> list[tuple[str, list[str]]]:
    def fact(run: RunFiles) -> dict[str, str]:
        config, last = run.config, run.last("train")
        seconds = last.get("seconds")
        return {
            "objective": config.objective.name,
            "model": _place(config.model.start_from) or config.preset or config.model.architecture,
            "corpus": _place(config.corpus.path) or "not said",
            "hard correction": _detector(config.objective.correction.detector) or "none",
            "soft regularization": config.objective.regularization.level or "none",
            "learning rate": f"{config.optimizer.learning_rate:g}, {config.optimizer.schedule}, warm-up "
            f"{config.optimizer.warmup_steps:,} steps",
            "batch": f"{config.train.batch_size:,} rows of {config.corpus.length:,} tokens",
            "precision": config.train.precision,
            "seed": str(config.train.seed),
            "steps": f"{_steps(run):,} of {config.train.steps:,}",
            "time": _duration(seconds) if isinstance(seconds, int | float) else "not known",
            "tokens a second": _number(last.get("tokens_per_second"), ",.0f"),
            "gold loss, training": _number(last.get("gold_loss"), ".3f"),
            "gold loss, held out": _number(run.last("eval").get("gold_loss"), ".3f"),
        }

    facts = [fact(run) for run in runs]
    return [(name, [fact[name] for fact in facts]) for name in facts[0]]


def _remarks(runs: Sequence[RunFiles]) -> Iterator[str]:
    """Say what limits the comparison of runs."""

    def told(values: Sequence[str]) -> str:
        return ", ".join(f"{run.name} {value}" for run, value in zip(runs, values, strict=True))

    steps = [f"{_steps(run):,}" for run in runs]
    if len(set(steps)) > 1:
        yield (
            f"the runs have done different numbers of steps ({told(steps)}): compare them at the same step of the "
            "curves, not by their last figures"
        )
    sizes = [f"{run.config.train.batch_size:,} x {run.config.corpus.length:,}" for run in runs]
    if len(set(sizes)) > 1:
        yield f"their steps are of different size ({told(sizes)} tokens): the same step is not the same training"
    corpora = [_place(run.config.corpus.path) for run in runs]
    if len({run.config.corpus.path for run in runs}) > 1:
        yield f"their corpora differ ({told(corpora)}): losses on different text cannot be compared"


def _differing(runs: Sequence[RunFiles]) -> list[tuple[str, list[str]]]:
    """Find the settings that are not the same in all runs."""
    flat = [flatten(encode(run.config)) for run in runs]
    differing = [name for name in flat[0] if any(one[name] != flat[0][name] for one in flat)]
    return [(name, [_setting(one[name]) for one in flat]) for name in differing]


def _setting(value: Any) -> str:
    return (_place(value) if isinstance(value, str) else str(value)) or "(empty)"


def _surest(found: FalseNegativeRecord) -> Sequence[Any]:
    return most_convincing(found.corrections, SHOWN_CORRECTIONS)


def _steps(run: RunFiles) -> int:
    return max((record["step"] for record in run.records), default=0)


def _detector(specification: str) -> str:
    return short_names([specification])[specification]


def _place(path: str) -> str:
    """Shorten an absolute path, which tells others nothing, to its last two parts."""
    return "/".join(Path(path).parts[-2:]) if Path(path).is_absolute() else path


def _share(value: Any) -> str:
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
