"""A self-contained page about runs: curves, settings, and the corrections that were found."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trueneg.errors import TruenegError
from trueneg.evaluation.corrections import Correction, most_convincing
from trueneg.reporting.page import write_page
from trueneg.training.folder import CONFIG, METRICS

CURVES = {
    "gold_loss": "Loss of the gold token (nats)",
    "accuracy": "Masked tokens predicted right",
    "corrected": "Mispredictions corrected",
    "corrected_rows": "Rows with a correction",
    "detection_accuracy": "Replaced tokens detected",
    "embedding_cosine": "Mean cosine of embeddings",
}
"""Readings that are drawn, with their titles, where a run has them."""

SHOWN_CORRECTIONS = 40

TEMPLATE = """{% extends "page" %}
{% block title %}{{ runs | map(attribute="name") | join(", ") }}{% endblock %}
{% block body %}
<h1>Pre-training on true negatives</h1>
<table><tr><th></th>{% for run in runs %}<th>{{ run.name }}</th>{% endfor %}</tr>
{% for name, values in facts %}<tr><th>{{ name }}</th>{% for value in values %}<td>{{ value }}</td>{% endfor %}</tr>
{% endfor %}</table>
{{ curves | safe }}
{% for run in runs if run.corrections %}
<h2>Right answers that plain training punishes{% if runs | length > 1 %}: {{ run.name }}{% endif %}</h2>
<p>In text it was not trained on, the model mispredicted {{ "{:.1%}".format(run.found.readings.mispredicted) }} of
{{ "masked tokens" }}; the detector accepts {{ "{:.2%}".format(run.found.readings.corrected) }} of these
mispredictions, {{ run.found.corrections | length }} in all. The most probable, each pair of words and each
sentence once:</p>
<table><tr><th>gold</th><th>predicted</th><th>p(predicted)</th><th>p(gold)</th><th>in its sentence</th></tr>
{% for c in run.corrections %}<tr><td class="gold">{{ c.gold }}</td><td class="predicted">{{ c.predicted }}</td>
<td class="number">{{ "{:.2f}".format(c.probability) }}</td>
<td class="number">{{ "{:.2f}".format(c.gold_probability) }}</td>
<td class="context">{{ c.before }} <span class="gold">{{ c.gold }}</span>
<span class="predicted">{{ c.predicted }}</span> {{ c.after }}</td></tr>
{% endfor %}</table>
{% endfor %}
{% endblock %}
"""


@dataclass(frozen=True)
class RunFiles:
    """What a run's folder says."""

    name: str
    config: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    found: Mapping[str, Any]
    corrections: Sequence[Correction]


def write_report(folders: Sequence[str | Path], out: str | Path = "report.html") -> Path:
    """Write a page that needs nothing but itself.

    Args:
        folders: Run folders, side by side in the report.
        out: The HTML file.

    Raises:
        TruenegError: if a folder holds no run.
    """
    runs = [read_run(Path(folder)) for folder in folders]
    return write_page(TEMPLATE, Path(out), runs=runs, facts=_facts(runs), curves=draw_curves(runs))


def read_run(folder: Path) -> RunFiles:
    """Read a run's result files.

    Raises:
        TruenegError: if there are none.
    """
    metrics = folder / METRICS
    if not metrics.is_file():
        raise TruenegError(f"'{folder}' holds no run: a folder with metrics.jsonl is wanted")
    # A run that goes on, or was killed, may have written half a line.
    records = [json.loads(line) for line in metrics.read_text().splitlines(keepends=True) if line.endswith("\n")]
    found_file = folder / "false-negatives.json"
    found = json.loads(found_file.read_text()) if found_file.is_file() else {}
    return RunFiles(
        name=folder.name,
        config=json.loads((folder / CONFIG).read_text()),
        records=records,
        found=found,
        corrections=most_convincing(
            (Correction(**fields) for fields in found.get("corrections", [])), SHOWN_CORRECTIONS
        ),
    )


def draw_curves(runs: Sequence[RunFiles]) -> str:
    """Draw each reading over steps, held-out values as dots, as one SVG."""
    from matplotlib.figure import Figure

    present = {
        name: title for name, title in CURVES.items() if any(name in record for run in runs for record in run.records)
    }
    if not present:
        return ""
    columns = min(2, len(present))
    num_rows = -(-len(present) // columns)
    figure = Figure(figsize=(5.2 * columns, 3 * num_rows), layout="constrained")
    for number, (name, title) in enumerate(present.items(), 1):
        axes = figure.add_subplot(num_rows, columns, number)
        axes.set_title(title, fontsize=10)
        for run in runs:
            for kind, style in (("train", "-"), ("eval", "o")):
                points = [(r["step"], r[name]) for r in run.records if r["kind"] == kind and name in r]
                if points:
                    label = run.name if kind == "train" else None
                    color = f"C{runs.index(run)}"
                    axes.plot(*zip(*points, strict=True), style, markersize=4, color=color, label=label)
        axes.grid(alpha=0.3)
        if len(runs) > 1:
            axes.legend(fontsize=8)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue().partition("\n<svg")[1].strip() + buffer.getvalue().partition("\n<svg")[2]


def _facts(runs: Sequence[RunFiles]) -> list[tuple[str, list[str]]]:
    def fact(run: RunFiles) -> dict[str, str]:
        config = run.config
        objective, model = config["objective"], config["model"]
        last, held_out = _last(run.records, "train"), _last(run.records, "eval")
        return {
            "objective": objective["name"],
            "model": "/".join(Path(model["start_from"]).parts[-2:]) or config["preset"] or model["architecture"],
            "hard correction": objective["correction"]["detector"] or "none",
            "soft regularization": objective["regularization"]["level"] or "none",
            "steps": f"{last.get('step', 0):,} of {config['train']['steps']:,}",
            "tokens a second": f"{last.get('tokens_per_second', 0):,.0f}",
            "gold loss, training": f"{last.get('gold_loss', float('nan')):.3f}",
            "gold loss, held out": f"{held_out['gold_loss']:.3f}" if "gold_loss" in held_out else "not measured",
        }

    facts = [fact(run) for run in runs]
    return [(name, [fact[name] for fact in facts]) for name in facts[0]]


def _last(records: Sequence[Mapping[str, Any]], kind: str) -> Mapping[str, Any]:
    return next((record for record in reversed(records) if record["kind"] == kind), {})
