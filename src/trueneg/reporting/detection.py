"""Detectors against human judgements: a Markdown report and the precision-recall curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trueneg.evaluation.statistics.intervals import Interval
from trueneg.reporting.page import label, plain_labels, save_figure
from trueneg.reporting.tables import Table, text_table
from trueneg.terminal.printable import printable

Summary = Mapping[str, Any]
"""Content of a ``substitution.json``."""

COLUMNS = {
    "detector": "detector",
    "gap": "GAP",
    "average_precision": "average precision",
    "average_precision_any": "at any",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "threshold": "threshold",
    "precision_at_reference_recall": "precision at lexical's recall",
    "antonyms_accepted": "antonyms accepted",
    "sisters_accepted": "sisters accepted",
    "ms_per_substitution": "ms a substitution",
}
"""Key of a row to its heading."""

HEADLINE = {
    key: COLUMNS[key]
    for key in ("detector", "gap", "average_precision", "precision", "recall", "threshold", "antonyms_accepted")
}
"""The columns that fit a terminal."""


def table_rows(summary: Summary, columns: Iterable[str] = COLUMNS) -> list[list[str]]:
    """Format the figures: a list of cells per detector, in the order of the columns."""
    columns = tuple(columns)
    return [[_cell(row, key) for key in columns] for row in summary["rows"]]


def rows_table(summary: Summary, names: Mapping[str, str]) -> Table:
    """Tabulate all figures, with the given names of detectors."""
    rows = [[names[first], *others] for first, *others in table_rows(summary)]
    return text_table(list(COLUMNS.values()), rows, notes=[_threshold_note(summary)])


def markdown(summary: Summary) -> str:
    """Write the result as a Markdown document: the main table, then all measurements."""
    first = summary["rows"][0]
    title = f"# Substitutions that people accept: {printable(', '.join(summary['data'])) or 'made-up data'}"
    about = (
        f"{first['num_items']:,} substitutes of {first['num_targets']:,} words in context. Acceptable: to most "
        f"annotators (at least 5 in 10; {first['chance']:.1%} of the substitutes, the average precision of chance), or "
        f"to any (at least 1 in 10). Intervals: 95 %, bootstrap over the words.{_gap_note(summary)}"
    )
    readings = [
        [
            *(measured["detector"], reading["level"], reading["items"]),
            *(f"{reading['num_items']:,}", f"{reading['chance']:.3f}"),
            *(_with_interval(reading, key) for key in ("average_precision", "precision", "recall", "f1")),
        ]
        for measured in summary["measured"]
        for reading in measured["readings"]
    ]
    gains = [
        [measured["detector"], level, str(Interval(**gain))]
        for measured in summary["measured"]
        for level, gain in measured["differences"].items()
    ]
    ranked = [
        [measured["detector"], str(Interval(**gain))]
        for measured in summary["measured"]
        if (gain := measured.get("gap_difference"))
    ]
    errors = [
        [
            *(measured["detector"], kind, f"{rate['num_accepted']:,} of {rate['num']:,}"),
            f"{rate['share']['estimate']:.1%} [{rate['share']['low']:.1%}, {rate['share']['high']:.1%}]",
        ]
        for measured in summary["measured"]
        for kind, rate in measured["errors"].items()
    ]
    figures = ["average precision", "precision", "recall", "F1"]
    tables = [
        text_table(list(COLUMNS.values()), table_rows(summary), notes=[_threshold_note(summary)]),
        text_table(["detector", "acceptable to", "items", "n", "chance", *figures], readings, "On which items"),
        text_table(
            ["detector", "acceptable to", f"average precision minus that of {first['detector']}"],
            gains,
            "Paired differences",
        ),
        text_table(["detector", f"GAP minus that of {first['detector']}, of 1"], ranked, "Paired differences in GAP"),
        text_table(["detector", "WordNet's", "accepted", "share"], errors, "Words of the wrong meaning"),
    ]
    return "\n".join([title, "", about, "", *(table.markdown() for table in tables if table.rows)])


@plain_labels()
def plot_curves(summary: Summary, path: Path) -> None:
    """Plot precision over recall for each detector, its threshold as a dot, in the format of the file's extension."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), dpi=120, layout="constrained")
    axes = figure.subplots()
    for measured, row in zip(summary["measured"], summary["rows"], strict=True):
        recall, precision = measured["curve"]["recall"], measured["curve"]["precision"]
        name = label(f"{row['detector']}  ({row['average_precision']:.3f})")
        # Average precision is a step function that starts at recall 0, before the first threshold.
        (line,) = axes.step([0, *recall], [precision[0], *precision], where="pre", lw=1.4, label=name)
        if row["precision"] is not None:
            axes.plot([row["recall"]], [row["precision"]], "o", ms=5, color=line.get_color())
    chance = summary["rows"][0]["chance"]
    axes.axhline(chance, color="grey", lw=0.8, ls="--", label=f"chance  ({chance:.3f})")
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="recall", ylabel="precision")
    axes.set_title("acceptable to most annotators (average precision)")
    figure.legend(loc="outside lower center", fontsize="small", frameon=False)
    save_figure(figure, path)


def _cell(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if key == "gap":
        low, high = row["gap_interval"]
        return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
    if key == "average_precision":
        low, high = row["average_precision_interval"]
        return f"{value:.3f} [{low:.3f}, {high:.3f}]"
    if key == "threshold":
        return f"{value:.4g} ({row['threshold_from']})"
    if key == "ms_per_substitution":
        return f"{value:.3g}"
    return f"{value:.1%}" if key.endswith("accepted") else f"{value:.3f}"


def _with_interval(reading: Mapping[str, Any], key: str) -> str:
    value, bounds = reading[key], reading["intervals"][key]
    return "–" if value is None else f"{value:.3f} [{bounds[0]:.3f}, {bounds[1]:.3f}]"


def _gap_note(summary: Summary) -> str:
    """Describe how GAP is computed."""
    if (chance := summary.get("gap_chance")) is None:
        return ""
    done = [f"{name.replace('_', ' ')} {num:,}" for name, num in summary["candidates"].items() if num]
    listed = f" ({', '.join(done)})" if done else ""
    return (
        " GAP: generalized average precision x 100 of each word's substitutes merged by lemma"
        f"{listed}, the mean over words; equal scores count with their mean over all "
        f"orders, so chance has {100 * chance:.1f}."
    )


def _threshold_note(summary: Summary) -> str:
    options = summary["options"]
    aim = "the best F1" if options["precision"] is None else f"a precision of {options['precision']:g}"
    text = (
        "ms a substitution: processor time of all threads, reading and fitting included. "
        f'Thresholds marked "calibrated" aim at {aim} at "most"; their precision, recall and F1 are those of '
        f'{options["folds"]}-fold cross-validation by word. "own": the detector\'s own threshold.'
    )
    if fitted := [row["detector"] for row in summary["rows"] if row["is_fitted"]]:
        text += f" Fitted to this data, with all figures cross-validated: {', '.join(fitted)}."
    return text
