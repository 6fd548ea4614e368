"""A trial on one's own text in words, as tables, and as a page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from trueneg.evaluation.results.trial import BASELINE, BEFORE, Answer, Measure, Shown, Trial
from trueneg.reporting.charts import Chart, Mark, Standing, forest_plot
from trueneg.reporting.page import write_page
from trueneg.reporting.tables import Column, Table

TEMPLATE = """{% extends "page" %}
{% block title %}does it help on my text?{% endblock %}
{% block style %}
.helps { color: var(--good); font-weight: 600; } .hurts { color: var(--bad); font-weight: 600; }
.said li { margin: .3rem 0; } mark { background: #d9822b33; color: inherit; padding: 0 .2rem; border-radius: 4px; }
pre { overflow-x: auto; font-size: .85rem; } td.written { min-width: 9rem; } .gold-word { font-weight: 600; }
.accepted::after { content: " ✓"; color: var(--good); }
figure.forest { margin: 1.5rem 0; } figure.forest svg { max-width: 100%; height: auto; }
figure.forest .narrow { display: none; }
@media (max-width: 700px) { figure.forest .wide-only { display: none; } figure.forest .narrow { display: block; } }
{% endblock %}
{% block source %}made by trueneg try{% endblock %}
{% block body %}
<h1>Does it help on this text?</h1>
<p class="aside">{{ trial.checkpoint }}, continued on {{ trial.text | join(", ") }}: {{ trial.arms | length }} arms with
{{ trial.seeds | length }} {{ "seed" if trial.seeds | length == 1 else "seeds" }},
{{ "{:,}".format(trial.steps) }} steps each.</p>
<p><strong>{{ headline }}</strong></p>
<ul class="said">
{% for answer in judged %}<li>{{ arms[answer.arm] }}: <span class="{{ answer.verdict.split()[0] }}">
{{- answer.verdict }}</span> against {{ arms[answer.against] }}, {{ answer.measure }}: {{ answer.reason }}
{%- if answer.p is not none %} (p {{ "%.3f" | format(answer.p) }} by Holm's method){% endif %}.</li>
{% endfor %}</ul>
{% if forest %}<figure class="forest"><div class="wide-only">{{ forest.svg | safe }}</div>
<div class="narrow">{{ forest.narrow | safe }}</div></figure>{% endif %}
{% for table in tables %}
<h2>{{ table.title }}</h2>
<div class="wide"><table class="stacked"><thead><tr>
{% for column in table.columns %}<th class="{{ "number" if column.is_number }}">{{ column.name }}</th>{% endfor %}
</tr></thead><tbody>
{% for row in table.rows %}<tr>{% for cell in row %}
<td class="{{ "number" if table.columns[loop.index0].is_number }}"
data-label="{{ table.columns[loop.index0].name }}">{{ "" if cell is none else cell }}</td>
{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% for note in table.notes %}<p class="aside">{{ note }}</p>{% endfor %}
{% endfor %}
{% if examples %}
<h2>What the models write</h2>
<p class="aside">Words of held-out text that were masked one at a time, those first at which the arms of seed
{{ trial.seeds[0] }} differ most. Examples, no evidence. ✓: WordNet's table accepts the word for gold; bold: gold
itself.</p>
<div class="wide"><table class="stacked"><thead><tr><th>masked</th>
{% for arm in columns %}<th>{{ arm }}</th>{% endfor %}</tr></thead><tbody>
{% for shown in examples %}<tr><td class="context">{{ shown.before }}<mark>{{ shown.gold }}</mark>{{ shown.after }}</td>
{% for arm in columns %}<td class="written" data-label="{{ arm }}">
{% for word, probability, is_accepted in shown.written.get(arm, []) %}
<span class="{{ "accepted" if is_accepted }} {{ "gold-word" if word | lower == shown.gold | lower }}">{{ word }}</span>
<span class="aside">{{ "%.0f" | format(100 * probability) }} %</span><br>{% endfor %}</td>
{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% endif %}
<h2>How it was done</h2>
<ul>{% for arm, what in trial.arms.items() %}<li>{{ arm }}: {{ what }}.</li>{% endfor %}</ul>
<p>{{ "{:,}".format(trial.steps) }} steps a run: {{ trial.why_steps }}.</p>
<ul>{% for note in trial.notes %}<li>{{ note }}</li>{% endfor %}</ul>
{% if trial.warnings %}<p>Warnings of jobs:</p>
<ul>{% for warning in trial.warnings %}<li>{{ warning }}</li>{% endfor %}</ul>{% endif %}
<details><summary>Commands ({{ trial.commands | length }})</summary>
<pre>{% for name, command in trial.commands.items() %}# {{ name }}
{{ command }}
{% endfor %}</pre></details>
<details><summary>Data and versions</summary>
<dl>{% for name, value in trial.data.items() %}<dt>{{ name }}</dt><dd>SHA-256 {{ value }}</dd>{% endfor %}
{% for name, value in trial.versions.items() %}<dt>{{ name }}</dt><dd>{{ value }}</dd>{% endfor %}</dl></details>
{% endblock %}
"""

_STANDINGS: dict[str, Standing] = {"helps": "better", "hurts": "worse", "no difference shown": "open"}
_NAMES = {BEFORE: "the checkpoint as it was", BASELINE: "plain continued training"}


def headline(trial: Trial) -> str:
    """Say in a sentence or two which arms are better than plain training, and by what."""
    against = [one for one in trial.answers if one.against == BASELINE and one.better != "neither"]
    if len(trial.seeds) < 2:
        return "Not known: one seed says nothing about another. Give --seeds 3 or more to the same command."
    parts = []
    for verdict in ("helps", "hurts"):
        found = [f"{one.arm} ({one.measure})" for one in against if one.verdict == verdict]
        if found:
            parts.append(f"It {verdict}, with {', '.join(found)}.")
    silent = [arm for arm in trial.arms if arm != BASELINE and not _is_judged(arm, against)]
    if silent:
        parts.append(f"No difference is shown for {', '.join(silent)}.")
    return " ".join(parts)


def _is_judged(arm: str, answers: Sequence[Answer]) -> bool:
    return any(one.arm == arm and one.verdict in ("helps", "hurts") for one in answers)


def trial_tables(trial: Trial) -> list[Table]:
    """Give the figures of all arms, and the differences with their verdicts."""
    arms = [BEFORE, *trial.arms]
    rows = [[measure.name, *(_figure(measure, arm) for arm in arms), measure.unit] for measure in trial.measures]
    heading = [Column("measure"), *(Column(arm, is_number=True) for arm in arms), Column("unit")]
    legend = f"Mean ± standard deviation over {len(trial.seeds)} seeds."
    figures = Table(heading, rows, "Figures", [legend])
    names = ("measure", "arm", "against", "difference [95 %]", "p (Holm)", "verdict")
    answers = [
        [
            one.measure,
            one.arm,
            one.against,
            "" if one.interval is None else f"{one.interval} {one.unit}",
            "" if one.p is None else f"{one.p:.3f}",
            one.verdict,
        ]
        for one in trial.answers
    ]
    note = "Student's t over seeds, paired; p allows for all verdicts together."
    return [figures, Table([Column(name) for name in names], answers, "Differences", [note])]


def _figure(measure: Measure, arm: str) -> str | None:
    values = list(measure.by_arm.get(arm, {}).values())
    if not values:
        return None
    digits = 4 if measure.unit == "nats" else 2
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(set(values)) > 1 else ""
    return f"{statistics.fmean(values):,.{digits}f}{spread}"


def write_trial(trial: Trial, out: Path) -> Path:
    """Write the page."""
    judged = [one for one in trial.answers if one.better != "neither"]
    columns = [arm for arm in (BEFORE, *trial.arms) if any(arm in shown.written for shown in trial.examples)]
    examples: Sequence[Shown] = trial.examples
    return write_page(
        TEMPLATE,
        out,
        trial=trial,
        headline=headline(trial),
        judged=judged,
        arms={arm: _NAMES.get(arm, arm) for arm in (BEFORE, *trial.arms)},
        tables=trial_tables(trial),
        examples=examples,
        columns=columns,
        forest=_forest(trial),
    )


def _forest(trial: Trial) -> Chart | None:
    """Draw every judged difference with its interval, right of zero better; None with a single seed."""
    marks = []
    for one in trial.answers:
        if one.interval is not None and one.verdict != "not judged":
            sign = -1 if one.better == "less" else 1
            low, high = sorted((sign * one.interval.low, sign * one.interval.high))
            unit = one.unit if sign > 0 else f"{one.unit} less"
            name = f"{one.arm} against {one.against}: {one.measure}"
            marks.append(Mark(name, sign * one.interval.estimate, low, high, _STANDINGS[one.verdict], unit))
    return forest_plot("Differences", marks) if marks else None
