"""A comparison as a forest plot: each difference with its interval."""

from __future__ import annotations

import html
import math

from trueneg.evaluation.results.comparison import Compared, Comparison
from trueneg.terminal.printable import printable

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
    """Draw a picture as wide as its page: a line per difference, in points."""
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
        color = ("var(--good)" if interval.estimate > 0 else "var(--bad)") if shown else "currentColor"
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
    said = f"Points more than {comparison.baseline}, with intervals of {comparison.confidence:.0%}; coloured: shown."
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
