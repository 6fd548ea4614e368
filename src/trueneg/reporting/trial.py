"""A trial on the user's own text as sentences, tables and a page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trueneg.evaluation.results.trial import BASELINE, BEFORE, Answer, Measure, Trial, Verdict
from trueneg.reporting.charts import Chart, Mark, Standing, forest_plot
from trueneg.reporting.page import write_page
from trueneg.reporting.results import p_value
from trueneg.reporting.tables import ENDS, Column, Table, ends_of, shown_table, told_column

TEMPLATE = """{% extends "page" %}{% import "trial" as shown %}
{% block title %}does it help on my text?{% endblock %}
{% block style %}{{ asset("trial.css") }}{% endblock %}
{% block source %}made by trueneg try{% endblock %}
{% block body %}
<h1>Does it help on this text?</h1>
{{ shown.verdicts(t) }}
{% if t.forest %}<figure class="forest"><div class="wide-only">{{ t.forest.svg | safe }}</div>
<div class="narrow">{{ t.forest.narrow | safe }}</div></figure>{% endif %}
{{ shown.details(t, "h2") }}
{% endblock %}
"""

VERDICTS: dict[Verdict, Standing] = {
    **{"helps": "better", "hurts": "worse"},
    **{"no difference shown": "open", "no difference at all": "open"},
}
PLAIN = "plain continued training"
_NAMES = {BEFORE: "the checkpoint as it was", BASELINE: PLAIN}


def headline(trial: Trial) -> str:
    """Say in a sentence or two which arms are better or worse than plain training, and by which measures."""
    against = [one for one in trial.answers if one.against == BASELINE and one.better != "neither"]
    if len(trial.seeds) < 2:
        return "Not known: one seed says nothing about another. Give --seeds 3 or more to the same command."
    parts = []
    for verdict in ("helps", "hurts"):
        found = [f"{one.arm} ({one.measure})" for one in against if one.verdict == verdict]
        if found:
            parts.append(f"It {verdict}, with {', '.join(found)}.")
    silent = [arm for arm in trial.arms if arm != BASELINE and not _is_judged(arm, against)]
    equal = [arm for arm in silent if {one.verdict for one in against if one.arm == arm} == {"no difference at all"}]
    if unclear := [arm for arm in silent if arm not in equal]:
        parts.append(f"No difference is shown for {', '.join(unclear)}.")
    if equal:
        parts.append(f"No difference at all for {', '.join(equal)}: the figures of plain training with every seed.")
    return " ".join(parts)


def _is_judged(arm: str, answers: Sequence[Answer]) -> bool:
    return any(one.arm == arm and one.verdict in ("helps", "hurts") for one in answers)


def trial_tables(trial: Trial) -> list[Table]:
    """Return tables of the figures of all arms, and of the differences with their verdicts."""
    arms = [BEFORE, *trial.arms]
    rows = [[measure.name, *(_figure(measure, arm) for arm in arms), measure.unit] for measure in trial.measures]
    heading = [
        Column("measure"),
        *(told_column(arm, "mean", "standard deviation", is_number=True) for arm in arms),
        Column("unit"),
    ]
    legend = f"Mean ± standard deviation over {len(trial.seeds)} seeds."
    figures = Table(heading, rows, "Figures", [legend])
    answers = [
        [
            *(one.measure, one.arm, one.against),
            one.interval and (*ends_of(one.interval), one.unit, f"{one.interval} {one.unit}"),
            *(one.p, one.verdict),
        ]
        for one in trial.answers
    ]
    columns = [
        *map(Column, ("measure", "arm", "against")),
        told_column("difference [95 %]", *ENDS, "unit"),
        *(Column("p (Holm)", p_value), Column("verdict")),
    ]
    note = "Student's t over seeds, paired; p allows for all verdicts together."
    return [figures, Table(columns, answers, "Differences", [note])]


def _figure(measure: Measure, arm: str) -> tuple[float, float | None, str] | None:
    values = list(measure.by_arm.get(arm, {}).values())
    if not values:
        return None
    digits = 4 if measure.unit == "nats" else 2
    mean, spread = statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None
    shown = f" ± {spread:.{digits}f}" if len(set(values)) > 1 else ""
    return mean, spread, f"{mean:,.{digits}f}{shown}"


def _examples_table(trial: Trial) -> Table:
    """Tabulate every prediction in a row of its own, for CSV."""
    names = ("before", "gold", "after", "arm", "written", "probability", "accepted")
    rows = [
        [shown.before, shown.gold, shown.after, arm, word, probability, "yes" if is_accepted else "no"]
        for shown in trial.examples
        for arm, written in shown.written.items()
        for word, probability, is_accepted in written
    ]
    return Table([Column(name) for name in names], rows)


def trial_parts(trial: Trial, name: str = "trial") -> dict[str, Any]:
    """Return the values for the templates of ``trial.html``.

    Args:
        trial: The trial.
        name: Prefix of its CSV files' names.
    """
    return {
        "trial": trial,
        "headline": headline(trial),
        "judged": [one for one in trial.answers if one.better != "neither"],
        "arms": {arm: _NAMES.get(arm, arm) for arm in (BEFORE, *trial.arms)},
        "tables": [shown_table(table, f"{name}-{table.title.lower()}") for table in trial_tables(trial)],
        "examples": shown_table(_examples_table(trial), f"{name}-examples") if trial.examples else None,
        "columns": [arm for arm in (BEFORE, *trial.arms) if any(arm in shown.written for shown in trial.examples)],
        "forest": _forest(trial),
        "p_value": p_value,
    }


def write_trial(trial: Trial, out: Path) -> Path:
    """Write the page."""
    return write_page(TEMPLATE, out, t=trial_parts(trial))


def _forest(trial: Trial) -> Chart | None:
    """Draw every judged difference with its interval, right of zero better; None with a single seed."""
    marks = []
    for one in trial.answers:
        if one.interval is not None and one.verdict != "not judged":
            sign = -1 if one.better == "less" else 1
            low, high = sorted((sign * one.interval.low, sign * one.interval.high))
            unit = one.unit if sign > 0 else f"{one.unit} less"
            name = f"{one.arm} against {one.against}: {one.measure}"
            marks.append(Mark(name, sign * one.interval.estimate, low, high, VERDICTS[one.verdict], unit))
    return forest_plot("Differences", marks) if marks else None
