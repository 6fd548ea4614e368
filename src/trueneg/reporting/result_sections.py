"""Page sections of fine-tuned models, attacks, encoders and detectors: charts and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trueneg.evaluation.results.comparison import Comparison
from trueneg.evaluation.results.robustness import Robustness
from trueneg.reporting import detection
from trueneg.reporting.charts import Change, Line, change_chart, line_chart
from trueneg.reporting.findings import layers_of, short_checkpoints, similarities_of
from trueneg.reporting.results import averages_table, comparison_table, percent, points, results_table
from trueneg.reporting.sources import MeasuredOn, Sources
from trueneg.reporting.tables import short_names, shown_table, text_table


def of_results(sources: Sources, comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Show metrics over seeds and every comparison, each as a table."""
    if not sources.results:
        return []
    tables = [replace(results_table(list(sources.results.values())), title="Figures")]
    tables += [averages_table(comparison) for comparison in comparisons if comparison.averages]
    tables += [comparison_table(comparison) for comparison in comparisons]
    return [shown_table(table, f"results-{number}") for number, table in enumerate(tables, 1)]


def of_attacks(by_model: Mapping[str, Sequence[Robustness]]) -> dict[str, Any] | None:
    """Show metrics before and after each attack: a chart per attack, with a row per model, and a table."""
    rows = [(name, one) for name, found in by_model.items() for one in found]
    if not rows:
        return None
    names = list(by_model)
    charts = []
    for task, attack, metric in dict.fromkeys((one.task, one.attack, one.metric) for _, one in rows):
        changes = [
            Change(name, 100 * one.before, 100 * one.after, _change(one), names.index(name))
            for name, one in rows
            if (one.task, one.attack, one.metric) == (task, attack, metric)
        ]
        charts.append(change_chart(f"{task}, {attack}: {metric.replace('_', ' ')}, %", changes))
    table = text_table(
        ["model", "task", "attack", "metric", "before", "under attack", "change [95%]", "seeds", "examples"],
        [
            [
                *(name, one.task, one.attack, one.metric, percent(one.before), percent(one.after)),
                *(_interval(one), str(one.num_seeds), f"{one.num_examples:,}"),
            ]
            for name, one in rows
        ],
    )
    return {"charts": charts, "table": shown_table(table, "robustness")}


def _change(one: Robustness) -> str:
    return f"{percent(one.before)} → {percent(one.after)}  ({_interval(one)})"


def _interval(one: Robustness) -> str:
    if one.change is None:
        return points(one.after - one.before)
    return f"{points(one.change.estimate)} [{points(one.change.low)}, {points(one.change.high)}]"


def of_encoders(sources: Sources) -> dict[str, Any] | None:
    """Show Hits by layer, a chart per similarity and set of triplets, and tables of Hits and of sentence similarity."""
    layers, similar = layers_of(sources), similarities_of(sources)
    if not layers and not similar:
        return None
    names = short_checkpoints([*layers, *similar])
    charts, tables = [], []
    order = list(dict.fromkeys(one.checkpoint for one in layers))
    seen: list[MeasuredOn] = []
    layers = [replace(one, on=_first_alike(one.on, seen)) for one in layers]
    for way, triplets, on in dict.fromkeys((one.way, one.triplets, one.on) for one in layers):
        lines = [
            Line(
                names[one.checkpoint],
                [(layer, 100 * hits) for layer, hits in enumerate(one.curve)],
                order.index(one.checkpoint),
            )
            for one in layers
            if (one.way, one.triplets, one.on) == (way, triplets, on)
        ]
        where = f"{triplets}, {on}" if len(seen) > 1 else triplets
        charts.append(line_chart(f"Hits by {way}, % ({where})", "layer", lines))
    if layers:
        rows = [
            [
                *(names[one.checkpoint], *([str(one.on)] if len(seen) > 1 else []), one.triplets, one.way),
                f"{percent(one.curve[one.paper_layer])} (layer {one.paper_layer})",
                f"{percent(one.chosen.estimate)} [{percent(one.chosen.low)}, {percent(one.chosen.high)}]"
                f" (layer {one.chosen_layer})",
                f"{one.chosen_ties:.2%}",
            ]
            for one in layers
        ]
        best, chosen = "Hits, best layer (as the paper)", "Hits, layer chosen on a fifth [95%]"
        heading = ["encoder", *(["of"] if len(seen) > 1 else []), "words replaced", "by", best, chosen, "ties"]
        tables.append(shown_table(text_table(heading, rows), "hits"))
    if similar:
        rows = [
            [
                *(names[one.checkpoint], one.pooling, percent(one.spearman)),
                *(" to ".join(map(percent, one.interval)), f"{one.num_examples:,}"),
            ]
            for one in similar
        ]
        heading = ["encoder", "vectors", "Spearman × 100", "95 % interval", "pairs"]
        tables.append(shown_table(text_table(heading, rows), "sentence-similarity"))
    return {"charts": charts, "tables": tables}


def _first_alike(on: MeasuredOn, seen: list[MeasuredOn]) -> MeasuredOn:
    """Return the first seen element that is not known to be of other examples, or add this one."""
    found = next((other for other in seen if not on.is_other(other)), None)
    if found is None:
        seen.append(on)
    return found or on


def of_detectors(sources: Sources) -> Iterator[dict[str, Any]]:
    """Show precision over recall and the figures of each evaluation of detectors."""
    for number, file in enumerate(sources.files["detectors"], 1):
        names = short_names(one.detector for one in file.read.measured)
        lines = [
            # Average precision is a step function that starts at recall 0, before the first threshold.
            Line(
                names[one.detector],
                list(
                    zip([0, *one.curve["recall"]], [*one.curve["precision"][:1], *one.curve["precision"]], strict=True)
                ),
                number,
                "steps",
            )
            for number, one in enumerate(file.read.measured)
        ]
        first = file.read.rows[0]
        yield {
            "name": file.name,
            "chart": line_chart("Precision", "recall", lines, limits=(0, 1)),
            "caption": f"{first['num_items']:,} substitutes of {first['num_targets']:,} words in context, acceptable "
            f"to most annotators; by chance {percent(first['chance'])} % are right.",
            "table": shown_table(detection.rows_table(file.data, names), f"detectors-{number}"),
        }
