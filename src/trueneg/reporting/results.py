"""Results and comparisons as tables, and the verdict of each comparison in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trueneg.evaluation.results.comparison import Compared, Comparison
from trueneg.evaluation.results.summary import GLUE_AVERAGE, glue_average, read_runs, summarise
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.evaluation.statistics.significance import CLAIM, MIN_SEEDS
from trueneg.files.names import tell_apart
from trueneg.reporting.forest import forest_plot
from trueneg.reporting.tables import Column, Table
from trueneg.tasks.metrics import METRICS


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


def results_table(folders: Sequence[str | Path]) -> Table:
    """Tabulate each folder's tasks: median, mean and range over seeds, in percent, and GLUE's average.

    Args:
        folders: Of results, one a model.

    Raises:
        TaskError: for a folder without results, or with those of several models.
    """
    rows: list[list[Any]] = []
    notes = ["Percent. Range: lowest and highest seed. Selection: how the evaluated weights of a run were chosen."]
    for name, folder in zip(tell_apart(folders), folders, strict=True):
        summaries = summarise(read_runs(folder))
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
    columns = {
        "task": Column("task"),
        "split": Column("split"),
        "metric": Column("metric"),
        "contender": Column("contender"),
        "baseline": Column(comparison.baseline, percent, is_number=True),
        "figure": Column(
            "contender's" if len(comparison.contenders) > 1 else comparison.contenders[0], percent, is_number=True
        ),
        "difference": Column(
            f"difference [{comparison.confidence:.0%}]", _interval, is_number=True, parts=("", "low", "high")
        ),
        "adjusted": Column("p (Holm)", _p, is_number=True),
        "seeds": Column("seeds", is_number=True),
        "examples": Column("examples", "{:,}".format, is_number=True),
        "needed": Column("seeds needed", is_number=True),
        "p": Column("p", _p, is_number=True),
        "signs": Column("better : worse", _signs, is_number=True, parts=("(better)", "(worse)")),
        "sign_p": Column("p (signs)", _p, is_number=True),
        "eps": Column("eps_min", "{:.2f}".format, is_number=True),
    }
    left_out = {"contender"} if len(comparison.contenders) == 1 else set()
    if is_short:
        left_out |= {"p", "examples", "signs", "sign_p", "eps", "needed"}
    shown = [name for name in columns if name not in left_out]
    rows = [[_cells(row)[name] for name in shown] for row in comparison.rows]
    return Table(
        [columns[name] for name in shown],
        rows,
        f"{', '.join(comparison.contenders)} against {comparison.baseline}",
        [
            *(verdict(row, comparison.confidence) for row in comparison.rows),
            *comparison.notes,
            *([] if is_short else [_LEGEND]),
        ],
        forest_plot(comparison),
    )


def verdict(row: Compared, confidence: float = 0.95) -> str:
    """Say in one or two sentences what a comparison shows, and what it does not."""
    found, p = row.difference, row.difference.p if row.p_adjusted is None else row.p_adjusted
    size = abs(found.interval.estimate)
    figures = (
        f"{points(found.interval.low)} to {points(found.interval.high)} at {confidence:.0%}, {_count(row)}, "
        f"p{' (Holm)' if row.is_primary else ''} {'' if p < 0.001 else '= '}{_p(p)}"
    )
    is_less = found.interval.estimate < 0
    is_better = "better" if is_less == METRICS[row.metric].less_is_better else "worse"
    amount = f"{is_better} than {row.baseline} by {percent(size)} points of {row.metric} ({figures})"
    if p < 1 - confidence:
        said = f"{row.contender} is {amount}"
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
    "Seeds needed: from which on the interval around this difference would exclude zero."
)


def _cells(row: Compared) -> dict[str, Any]:
    found = row.difference
    return {
        "task": row.task,
        "split": row.split,
        "metric": row.metric,
        "contender": row.contender,
        "baseline": sum(row.left.values()) / len(row.left),
        "figure": sum(row.right.values()) / len(row.right),
        "difference": found.interval,
        "p": found.p,
        "adjusted": row.p_adjusted,
        "seeds": _seeds(row),
        "examples": row.num_examples,
        "signs": row.signs,
        "sign_p": row.signs.p,
        "eps": row.eps_min,
        "needed": found.seeds_needed,
    }


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


def _signs(signs: Any) -> str:
    return f"{signs.num_better:,} : {signs.num_worse:,}"


def _p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"
