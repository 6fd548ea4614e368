"""Results and comparisons as tables, and the verdict of each comparison in words."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueneg.evaluation.results.average_comparison import AverageCompared
from trueneg.evaluation.results.comparison import Comparison
from trueneg.evaluation.results.split_pairs import Compared
from trueneg.evaluation.results.store import Result
from trueneg.evaluation.results.summary import GLUE_AVERAGE, glue_average, read_runs, refuse_other_data, summarise
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.evaluation.statistics.significance import CLAIM, MIN_SEEDS
from trueneg.files.names import distinct_names
from trueneg.reporting.tables import Column, Table
from trueneg.tasks.metrics import METRICS
from trueneg.terminal.printable import printable

if TYPE_CHECKING:
    from trueneg.evaluation.results.examples import DifferingExample


def percent(share: float) -> str:
    """Format a share or correlation for tables.

    Example:
        >>> percent(0.87654)
        '87.65'
    """
    return f"{100 * share:.2f}"


def points(share: float) -> str:
    """Format a difference of shares, with its sign.

    Example:
        >>> points(-0.0123)
        '-1.23'
    """
    return f"{100 * share:+.2f}"


def cut_texts(num: int, total: int, length: int) -> str:
    """Describe how many texts are truncated.

    Example:
        >>> cut_texts(418, 488, 128)
        '418 of 488 texts cut at 128 tokens (86%)'
    """
    return f"{num:,} of {total:,} texts cut at {length} tokens ({num / total:.0%})"


def cut_in(result: Result) -> str:
    """Describe how many texts of a result were truncated; empty for none."""
    num_cut, total = result.counts.get("truncated", 0), result.counts.get("rows", result.num_examples)
    return cut_texts(num_cut, total, result.config["task"]["length"]) if num_cut else ""


def results_table(folders: Sequence[str | Path]) -> Table:
    """Tabulate each folder's tasks: median, mean and range over seeds, in percent, and GLUE's average.

    Args:
        folders: Folders of results, one per model.

    Raises:
        TaskError: for a folder without results or with results of several models, or for folders with different data.
    """
    rows: list[list[Any]] = []
    notes = ["Percent. Range: lowest and highest seed. Selection: how the evaluated weights of a run were chosen."]
    read = [read_runs(folder) for folder in folders]
    refuse_other_data(*read)
    for name, runs in zip(distinct_names(folders), read, strict=True):
        summaries = summarise(runs)
        rows += [
            [
                *(name, of.task, of.split, of.metric, len(of.by_seed), of.median, of.mean, of.range),
                *(of.num_examples, of.selection),
            ]
            for of in summaries
        ]
        average = glue_average(summaries)
        if average.value is not None:
            label = f"GLUE average, {len(average.medians)} of {len(GLUE_AVERAGE)} tasks"
            rows.append([name, label, "dev", "mean of medians", *[None] * 6])
            rows[-1][5] = average.value
            notes.append(
                f"GLUE average of {name}: {len(average.medians)} of {len(GLUE_AVERAGE)} tasks (Spearman for STS-B, "
                "Matthews for CoLA, accuracy elsewhere; MNLI matched)"
                + (f"; missing: {', '.join(average.missing)}." if average.missing else ".")
            )
    columns = [
        Column("model"),
        Column("task"),
        Column("split"),
        Column("metric"),
        Column("seeds", is_number=True),
        Column("median", percent, is_number=True),
        Column("mean", percent, is_number=True),
        Column("range", _range, is_number=True, parts=("low", "high")),
        Column("examples", "{:,}".format, is_number=True),
        Column("selection"),
    ]
    return Table(columns, rows, "Results", notes)


def comparison_table(comparison: Comparison, *, is_short: bool = False) -> Table:
    """Tabulate a comparison, with verdicts below.

    Args:
        comparison: The comparison.
        is_short: Leave out columns that do not fit a terminal.
    """
    contender = "contender's" if len(comparison.contenders) > 1 else comparison.contenders[0]
    difference = f"difference [{comparison.confidence:.0%}]"
    columns: dict[str, tuple[Column, Callable[[Compared], Any]]] = {
        "task": (Column("task"), lambda row: row.task),
        "split": (Column("split"), lambda row: row.split),
        "metric": (Column("metric"), lambda row: row.metric),
        "contender": (Column("contender"), lambda row: row.contender),
        "baseline": (Column(comparison.baseline, percent, is_number=True), lambda row: _mean(row.left)),
        "figure": (Column(contender, percent, is_number=True), lambda row: _mean(row.right)),
        "difference": (
            Column(difference, _interval, is_number=True, parts=("", "low", "high")),
            lambda row: row.difference.interval,
        ),
        "adjusted": (Column("p (Holm)", p_value, is_number=True), lambda row: row.p_adjusted),
        "seeds": (Column("seeds", is_number=True), _seeds),
        "examples": (Column("examples", "{:,}".format, is_number=True), lambda row: row.num_examples),
        "needed": (Column("seeds needed", is_number=True), lambda row: row.difference.seeds_needed),
        "p": (Column("p", p_value, is_number=True), lambda row: row.difference.p),
        "errors": (
            Column(f"fewer errors [{comparison.confidence:.0%}]", _share, is_number=True, parts=("", "low", "high")),
            lambda row: row.error_reduction,
        ),
        "signs": (
            Column("better : worse", _signs, is_number=True, parts=("(better)", "(worse)")),
            lambda row: row.signs,
        ),
        "sign_p": (Column("p (signs)", p_value, is_number=True), lambda row: row.signs.p),
        "eps": (Column("eps_min", "{:.2f}".format, is_number=True), lambda row: row.eps_min),
    }
    left_out = {"contender"} if len(comparison.contenders) == 1 else set()
    if is_short:
        left_out |= {"p", "examples", "errors", "signs", "sign_p", "eps", "needed"}
    shown = [column for name, column in columns.items() if name not in left_out]
    return Table(
        [column for column, _ in shown],
        [[value(row) for _, value in shown] for row in comparison.rows],
        f"{', '.join(comparison.contenders)} against {comparison.baseline}",
        [
            *(verdict(row, comparison.confidence) for row in comparison.rows),
            *comparison.notes,
            *([] if is_short else [_LEGEND]),
        ],
        forest_plot(comparison),
    )


def averages_table(comparison: Comparison) -> Table:
    """Tabulate a comparison's averages over tasks, with the tasks that they cover in the notes."""
    level = f"[{comparison.confidence:.0%}]"
    columns = [
        Column("average"),
        Column("contender"),
        Column("tasks", is_number=True),
        Column(comparison.baseline, percent, is_number=True),
        Column("contender's", percent, is_number=True),
        Column(f"difference {level}", _interval, is_number=True, parts=("", "low", "high")),
        Column("p (Holm)" if len(comparison.contenders) > 1 else "p", p_value, is_number=True),
        Column(f"fewer errors {level}", _share, is_number=True, parts=("", "low", "high")),
        Column(f"{comparison.baseline}, medians", percent, is_number=True),
        Column("contender's, medians", percent, is_number=True),
        Column("difference of medians", points, is_number=True),
    ]
    rows = [
        [
            *(_average_name(one), one.contender, len(one.tasks), one.left, one.right, one.difference.interval),
            *(one.p_adjusted, one.error_reduction, one.left_medians, one.right_medians),
            one.right_medians - one.left_medians,
        ]
        for one in comparison.averages
    ]
    notes = [average_verdict(one, comparison.confidence) for one in comparison.averages]
    return Table(columns, rows, "Averages over tasks", [*notes, _AVERAGES])


def average_verdict(one: AverageCompared, confidence: float = 0.95) -> str:
    """Say in a sentence or two what a comparison of averages shows, and which tasks it covers."""
    interval = one.difference.interval
    figures = (
        f"{points(interval.low)} to {points(interval.high)} at {confidence:.0%}, "
        f"p {'' if one.p_adjusted < 0.001 else '= '}{p_value(one.p_adjusted)}"
    )
    if one.p_adjusted < 1 - confidence:
        better = "above" if interval.estimate > 0 else "below"
        said = f"{one.contender} is {better} {one.baseline} by {percent(abs(interval.estimate))} points ({figures})"
    else:
        said = f"no difference shown: {one.contender} minus {one.baseline} is {points(interval.estimate)} ({figures})"
    if not one.difference.has_seeds:
        said += "; some task has 1 seed: this tells these models apart, not the two ways of training"
    missing = f" Without {', '.join(one.missing)}: only tasks that both have." if one.missing else ""
    notes = "".join(f" Note: {note}." for note in one.notes)
    return f"{_average_name(one)}: {said}. Over {', '.join(one.tasks)}.{missing}{notes}"


def _average_name(one: AverageCompared) -> str:
    if one.missing:
        return f"{one.name}, {len(one.tasks)} of {len(one.tasks) + len(one.missing)} tasks"
    return one.name if one.name != "average" else f"average of {len(one.tasks)} tasks"


_AVERAGES = (
    "Percent. Difference, interval and p: of means over tasks of means over seeds; tasks are independent, seeds paired "
    "where both have them. They hold for these checkpoints: another pre-training run is not allowed for. Medians: mean "
    "over tasks of medians over seeds, as papers give it, without an interval. Fewer errors: the difference as a share "
    "of the baseline's errors, with Fieller's interval."
)


_SHOWN_TEXT = 200
"""Characters of a text that a table in a terminal shows."""


def examples_table(
    examples: Sequence[DifferingExample], baseline: str, notes: Sequence[str] = (), *, is_short: bool = False
) -> Table:
    """Tabulate the examples on which models differ.

    Args:
        examples: The examples, the most consistent first.
        baseline: The first model's name.
        notes: Notes on texts that could not be read.
        is_short: Cut long texts, for a terminal.
    """
    columns = [
        *(Column("task"), Column("split"), Column("example"), Column("better"), Column("worse")),
        Column("by", "{:.2f}".format, is_number=True),
        *(Column("gold"), Column(f"{baseline} predicts"), Column("other predicts")),
        *(Column("text", _cut if is_short else str), Column("second text", _cut if is_short else str)),
    ]
    columns = columns if any(one.second for one in examples) else columns[:-1]
    rows = [
        [
            *(one.task, one.split, one.key, one.better, one.worse, one.margin, one.gold),
            *(_predicted(one.baseline), _predicted(one.contender), one.text, one.second),
        ][: len(columns)]
        for one in examples
    ]
    legend = (
        "By: share of the seeds of the better model that are right, minus the other's (of numbers: how much nearer to "
        "gold). Predictions × seeds."
    )
    return Table(columns, rows, "Examples on which they differ", [*notes, legend])


def _predicted(counts: Mapping[str, int]) -> str:
    """Format predictions with the number of seeds that make each.

    Example:
        >>> _predicted({"positive": 4, "negative": 1})
        'positive × 4, negative × 1'
    """
    return ", ".join(f"{label} × {num}" for label, num in sorted(counts.items(), key=lambda item: -item[1]))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + "…"


def verdict(row: Compared, confidence: float = 0.95) -> str:
    """Say in one or two sentences what a comparison shows, and what it does not."""
    found, p = row.difference, row.difference.p if row.p_adjusted is None else row.p_adjusted
    size = abs(found.interval.estimate)
    figures = (
        f"{points(found.interval.low)} to {points(found.interval.high)} at {confidence:.0%}, {_count(row)}, "
        f"p{' (Holm)' if row.is_primary else ''} {'' if p < 0.001 else '= '}{p_value(p)}"
    )
    is_less = found.interval.estimate < 0
    is_better = "better" if is_less == METRICS[row.metric].less_is_better else "worse"
    amount = f"{is_better} than {row.baseline} by {percent(size)} points of {row.metric} ({figures})"
    if p < 1 - confidence:
        said = f"{row.contender} is {amount}"
    elif found.interval.excludes_zero and found.interval.is_point:
        said = f"{row.contender} looks {amount}, the same with every seed and example: too few to tell"
    elif found.interval.excludes_zero:
        said = f"{row.contender} looks {amount}, but not once all comparisons are allowed for (Holm)"
    else:
        said = (
            f"no difference shown: {row.contender} minus {row.baseline} is {points(found.interval.estimate)} points "
            f"of {row.metric} ({figures})"
        )
        if found.seeds_needed is not None:
            said += f"; a difference of this size would show from {found.seeds_needed:,} seeds on"
        elif found.examples_needed is not None:
            said += (
                f"; {row.num_groups:,} {_unit(row)} are too few to show a difference of this size, however many seeds: "
                f"it takes {found.examples_needed:,} at least"
            )
    if not row.has_seeds:
        said += "; 1 seed: this tells these two models apart, not the two ways of training"
    notes = "".join(f" Note: {note}." for note in row.notes)
    return f"{row.task}, {row.split}: {said}.{notes}"


_LEGEND = (
    "Percent; means over seeds. Interval and p: Student's t over seeds and examples together. p (Holm): allows for all "
    "primary metrics of this table. Better : worse: on how many examples (or groups), all seeds together, with an "
    f"exact sign test. eps_min: almost stochastic order over seeds; below {CLAIM} supports better. It is "
    f"not given with fewer than {MIN_SEEDS} seeds: of two each, 15 in 100 pairs of equal systems fall below {CLAIM}. "
    "Fewer errors: the difference as a share of the baseline's errors, with Fieller's interval. "
    "Seeds needed: from which on the interval around this difference would exclude zero."
)


def _mean(by_seed: Mapping[int, float]) -> float:
    return sum(by_seed.values()) / len(by_seed)


def _seeds(row: Compared) -> str:
    return str(len(row.left)) if row.is_paired else f"{len(row.left)} vs {len(row.right)}"


def _count(row: Compared) -> str:
    """Count seeds in words."""
    return f"{_seeds(row)} {'seed' if _seeds(row) == '1' else 'seeds'}"


def _unit(row: Compared) -> str:
    return "examples" if row.num_groups == row.num_examples else "groups of examples"


def _range(values: tuple[float, float]) -> str:
    return f"{percent(values[0])}–{percent(values[1])}"


def _interval(interval: Interval) -> str:
    return f"{points(interval.estimate)} [{points(interval.low)}, {points(interval.high)}]"


def _share(interval: Interval) -> str:
    """Format a share of errors; an unbounded end is shown as −∞."""
    shown = [100 * round(value, 3) + 0.0 for value in (interval.estimate, interval.low, interval.high)]
    estimate, low, high = (f"{value:+.1f}" if math.isfinite(value) else "−∞" for value in shown)
    return f"{estimate} [{low}, {high}]"


def _signs(signs: Any) -> str:
    return f"{signs.num_better:,} : {signs.num_worse:,}"


def p_value(p: float) -> str:
    """Format a p value."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


_STYLE = """<style>
.forest { margin: 1rem 0; } .forest figcaption { opacity: .75; font-size: .9rem; }
.forest > div { display: grid; grid-template-columns: 16rem 1fr 14rem; gap: 0 1rem; align-items: center; }
  .forest svg { width: 100%; height: 24px; display: block; }
.forest .figures { font-variant-numeric: tabular-nums; white-space: nowrap; }
.forest .what { overflow-wrap: anywhere; } .forest .axis { position: relative; height: 1.4rem; font-size: .8rem; }
.forest .axis span { position: absolute; transform: translateX(-50%); opacity: .75; }
@media (max-width: 700px) { .forest > div { grid-template-columns: 1fr; margin-top: .5rem; } }
</style>"""


def forest_plot(comparison: Comparison) -> str:
    """Draw a forest plot as wide as its page: a line per difference, in points."""
    rows = comparison.rows
    ends = [end for row in rows for end in (row.difference.interval.low, row.difference.interval.high)]
    low, high = 100 * min(0.0, *ends), 100 * max(0.0, *ends)
    margin = 0.06 * (high - low) or 1.0
    low, high = low - margin, high + margin

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    def line(row: Compared) -> str:
        interval = row.difference.interval
        start, middle, end = (place(100 * value) for value in (interval.low, interval.estimate, interval.high))
        p = row.difference.p if row.p_adjusted is None else row.p_adjusted
        shown = p < 1 - comparison.confidence
        is_better = (interval.estimate < 0) == METRICS[row.metric].less_is_better
        color = ("var(--good)" if is_better else "var(--bad)") if shown else "currentColor"
        said = f"{100 * interval.estimate:+.2f} [{100 * interval.low:+.2f}, {100 * interval.high:+.2f}]"
        bar = "".join(
            f'<line x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}" vector-effect="non-scaling-stroke" style="{style}"/>'
            for x1, x2, y1, y2, style in (
                (place(0), place(0), 0, 24, "stroke: currentColor; opacity: .4"),
                (start, end, 12, 12, f"stroke: {color}; stroke-width: 2"),
                (middle, middle, 12, 12, f"stroke: {color}; stroke-width: 10; stroke-linecap: round"),
            )
        )
        picture = f'<svg viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label="{said}">{bar}</svg>'
        what = html.escape(printable(_name(row, comparison)))
        return f'<div><span class="what">{what}</span>{picture}<span class="figures">{said}</span></div>\n'

    ticks = "".join(
        f'<span style="left: {place(tick)}%">{f"{tick:+g}" if tick else 0}</span>' for tick in _ticks(low, high)
    )
    reversed_ = dict.fromkeys(row.metric for row in rows if METRICS[row.metric].less_is_better)
    left = f" Of {', '.join(reversed_)} less is better: left of zero." if reversed_ else ""
    said = (
        f"Points more than {comparison.baseline}, with intervals of {comparison.confidence:.0%}; coloured: shown, "
        f"green better, red worse.{left}"
    )
    caption = html.escape(printable(said))
    return (
        f'<figure class="forest">{_STYLE}\n{"".join(map(line, rows))}<div><span></span><div class="axis">{ticks}</div>'
        f"<span></span></div>\n<figcaption>{caption}</figcaption></figure>\n"
    )


def _name(row: Compared, comparison: Comparison) -> str:
    contender = f"{row.contender}: " if len(comparison.contenders) > 1 else ""
    return f"{contender}{row.task}, {row.split}" + ("" if row.is_primary else f", {row.metric}")


def _ticks(low: float, high: float) -> list[float]:
    """Choose a few round numbers in a range.

    Example:
        >>> _ticks(-1.2, 5.4)
        [0, 2, 4]
    """
    rough = (high - low) / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [round(number * step, 10) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
