"""Charts of a page: line charts, forest plots and before/after plots, as SVG in the page's colours.

matplotlib draws them when the page is written, so no script is needed to view, print or save them. Web libraries were
considered: uPlot draws pixels, not vectors; Observable Plot and Vega-Lite add 0.3 to 1 MB of script to each page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from trueneg.reporting.page import SERIES, STANDINGS, inline_svg, label, page_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NARROW, WIDE = 4.4, 9.6
"""Width in inches of a chart that fits a phone unscaled, and of one across a page."""

_STYLES = ("-", "--", "-.", ":")
_MARKS = {"better": ("o", "full"), "worse": ("s", "full"), "open": ("o", "none")}

Standing = Literal["better", "worse", "open"]
"""What a comparison shows: better, worse, or neither."""


@dataclass(frozen=True)
class Line:
    """A named series of points, drawn as a line, dots or steps."""

    name: str
    points: Sequence[tuple[float, float]]
    color: int = 0
    """Lines of the same colour share a legend entry."""
    kind: Literal["line", "dots", "steps"] = "line"
    legend: str = ""
    """Legend label of all lines of this colour; by default, the line's name."""


@dataclass(frozen=True)
class Mark:
    """A row of a forest plot."""

    name: str
    value: float
    low: float | None
    """None, like ``high``, if there is no interval."""
    high: float | None
    standing: Standing
    unit: str
    axis: str = ""
    """Label of a separate axis; by default, rows with the same unit share one."""


@dataclass(frozen=True)
class Change:
    """A row of a before/after plot."""

    name: str
    before: float
    after: float
    said: str
    """Both values and their difference, as text."""
    color: int = 0


@dataclass(frozen=True)
class Chart:
    """A chart with the data that it shows."""

    title: str
    svg: str
    narrow: str = ""
    """SVG for narrow screens, if it differs."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Lines, and the position of the axes in the SVG, from which the page shows values at the pointer."""


def line_chart(
    title: str,
    across: str,
    lines: Sequence[Line],
    *,
    limits: tuple[float, float] | None = None,
    up_from_zero: bool = False,
) -> Chart:
    """Draw a line chart.

    Args:
        title: Quantity on the y axis, with its unit.
        across: Quantity on the x axis, with its unit.
        lines: The lines, each with at least one point.
        limits: Limits of both axes; by default, chosen to fit the points.
        up_from_zero: Start the y axis at zero.
    """
    colors = list(dict.fromkeys(line.color for line in lines))
    with page_style():
        figure, axes = _figure(NARROW, 2.9 + 0.19 * len(colors))
        named = set[int]()
        for line in lines:
            color, style = SERIES[line.color % len(SERIES)], _STYLES[line.color % len(_STYLES)]
            name = "_hidden" if line.color in named else label(_short(line.legend or line.name, 48))
            named.add(line.color)
            x, y = zip(*line.points, strict=True)
            if line.kind == "steps":
                axes.step(x, y, style, where="pre", lw=1.6, color=color, label=name)
            elif line.kind == "dots" or len(line.points) == 1:
                axes.plot(x, y, "o" if line.kind == "dots" else "_", ms=5, color=color, label=name)
            else:
                axes.plot(x, y, style, lw=1.6, color=color, label=name)
        axes.set(title=title, xlabel=across)
        if limits:
            axes.set(xlim=limits, ylim=limits)
        elif up_from_zero:
            axes.set_ylim(0, max(axes.get_ylim()[1], 0.1))
        axes.grid(alpha=0.3)
        figure.legend(loc="outside lower left", ncols=1, borderpad=0, labelspacing=0.25)
        figure.draw_without_rendering()
        box, (width, height) = axes.get_position(), figure.get_size_inches() * 72
        corners = (box.x0 * width, (1 - box.y1) * height, box.x1 * width, (1 - box.y0) * height)
        data = {
            "box": [round(float(corner), 2) for corner in corners],
            "x": [float(v) for v in axes.get_xlim()],
            "across": across,
            "lines": [
                {"name": line.name, "color": line.color % len(SERIES), "kind": line.kind, "points": _rounded(line)}
                for line in lines
            ],
        }
        return Chart(title, inline_svg(figure, f"{title}, over {across}"), data=data)


def forest_plot(title: str, rows: Sequence[Mark]) -> Chart:
    """Draw differences with their intervals, right of zero better, once for wide screens and once for narrow ones."""
    wide, narrow = (_forest(title, rows, width) for width in (WIDE, NARROW))
    return Chart(title, wide, narrow)


def change_chart(title: str, rows: Sequence[Change], limits: tuple[float, float] = (0, 100)) -> Chart:
    """Draw values before (hollow) and after (filled), with an arrow between them."""
    with page_style():
        figure, axes = _figure(NARROW, 0.75 + 0.62 * len(rows))
        for place, row in enumerate(rows):
            color = SERIES[row.color % len(SERIES)]
            axes.annotate(
                "", (row.after, place), (row.before, place), arrowprops={"arrowstyle": "-|>", "color": color, "lw": 1.6}
            )
            axes.plot([row.before], [place], "o", ms=7, color=color, fillstyle="none")
            axes.plot([row.after], [place], "o", ms=6, color=color)
            _written(axes, place - 0.52, label(_short(row.name, 46)))
            _written(axes, place - 0.25, label(row.said), size=9.5)
        axes.set(title=title, xlim=limits, ylim=(len(rows) - 0.6, -0.85), yticks=[])
        axes.spines["left"].set_visible(False)
        axes.grid(alpha=0.3, axis="x")
        return Chart(title, inline_svg(figure, f"{title}: " + "; ".join(f"{row.name}: {row.said}" for row in rows)))


def figures_of(row: Mark) -> str:
    """Format a row's value and interval, with signs.

    Example:
        >>> figures_of(Mark("hc", 1.25, 0.5, 2.0, "better", "points"))
        '+1.25 [+0.50, +2.00]'
    """
    digits = 2 if max(abs(v) for v in (row.value, row.low or 0, row.high or 0)) >= 0.1 or not row.value else 4
    value, low, high = (
        # Adding zero makes negative zero positive.
        "" if number is None else f"{round(number, digits) + 0.0:+.{digits}f}".replace("-", "−")
        for number in (row.value, row.low, row.high)
    )
    return f"{value} [{low}, {high}]" if low else f"{value}, no interval"


def _forest(title: str, rows: Sequence[Mark], width: float) -> str:
    axes_of = list(dict.fromkeys(row.axis or row.unit for row in rows))
    is_wide = width > NARROW
    row_height = 0.3 if is_wide else 0.62
    with page_style():
        from matplotlib.figure import Figure

        counts = [sum((row.axis or row.unit) == axis for row in rows) for axis in axes_of]
        heights = [row_height * count + (0.75 if is_wide else 0.85) for count in counts]
        figure = Figure(figsize=(width, sum(heights)), layout="constrained")
        grid = figure.subplots(len(axes_of), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
        for axes, measured in zip(grid[:, 0], axes_of, strict=True):
            _forest_on(axes, [row for row in rows if (row.axis or row.unit) == measured], measured, is_wide)
        said = "; ".join(f"{row.name}: {figures_of(row)} {row.unit}" for row in rows)
        return inline_svg(figure, f"{title}. {said}")


def _forest_on(axes: Axes, rows: Sequence[Mark], measured: str, is_wide: bool) -> None:
    for place, row in enumerate(rows):
        color, (mark, filled) = STANDINGS[row.standing], _MARKS[row.standing]
        if row.low is not None and row.high is not None:
            axes.plot([row.low, row.high], [place, place], "-", lw=2, color=color, solid_capstyle="butt")
        style: dict[str, Any] = {"fillstyle": filled, "markeredgewidth": 1.8}
        axes.plot([row.value], [place], mark, ms=7, color=color, **style)
        figures = figures_of(row)
        if is_wide:
            axes.text(1.02, place, figures, transform=axes.get_yaxis_transform(), va="center", size=9.5)
        else:
            _written(axes, place - 0.52, label(_short(row.name, 46)))
            _written(axes, place - 0.25, figures, size=9.5)
    axes.axvline(0, color="#888888", lw=1.2, zorder=0)
    ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None and math.isfinite(end)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    margin = 0.06 * (high - low) or 1.0
    axes.set(xlim=(low - margin, high + margin), ylim=(len(rows) - 0.4, -0.6 if is_wide else -0.85))
    axes.set_yticks([])
    if is_wide:
        names = [label(_short(row.name, 64)) for row in rows]
        axes.set_yticks(range(len(rows)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"← worse · {measured} · better →", size=9.5)
    axes.spines["left"].set_visible(False)
    if is_wide:
        axes.grid(alpha=0.3, axis="x")


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _written(axes: Axes, place: float, text: str, size: float = 10.5) -> None:
    """Write a line of text above a row, starting at the left edge."""
    axes.text(0, place, text, transform=axes.get_yaxis_transform(), va="center", size=size)


def _short(name: str, length: int) -> str:
    """Elide the middle of a long name: names differ at their ends.

    Example:
        >>> _short("contextual:minilm/model@0.62", 13)
        'contex…l@0.62'
    """
    side = (length - 1) // 2
    return name if len(name) <= length else f"{name[:side]}…{name[-side:]}"


def _rounded(line: Line) -> list[list[float]]:
    return [[float(f"{x:.6g}"), float(f"{y:.5g}")] for x, y in line.points]
