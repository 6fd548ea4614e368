"""Table 2 as text and as a plot: corrections as shares of rows, mispredictions and masked positions; over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.errors import ConfigError
from trueneg.reporting.page import label, plain_labels, save_figure
from trueneg.reporting.tables import short_names

Record = Mapping[str, Any]
"""One of the ``records`` that ``trueneg evaluate`` writes."""

SHARES = {"of_rows": "of rows, %", "of_mispredicted": "of wrong, %", "of_masked": "of masked, %"}
"""Shares with their headings, in the order of Table 2, whose "Pred." may mean either of the last two."""

_STYLES = ("-", "--", ":", "-.")


def heading(records: Sequence[Record]) -> list[str]:
    """Return the headings of ``table_rows``, without columns that are equal in all records."""
    return [*_parts(records), "wrong, %", *SHARES.values()]


def table_rows(records: Sequence[Record]) -> list[list[str]]:
    """Format a row per record, in percent: mispredictions, and corrections with their 95 % intervals."""
    parts = _parts(records)
    return [
        [
            *(column[number] for column in parts.values()),
            f"{100 * record['readings'].get('mispredicted', 0):.1f}",
            *(_share(record["shares"][name]) for name in SHARES),
        ]
        for number, record in enumerate(records)
    ]


@plain_labels()
def plot_over_training(records: Sequence[Record], path: Path) -> None:
    """Plot the shares of rows and of mispredictions over training, a line per detector, with its interval as a band.

    Args:
        records: Records of a run's checkpoints.
        path: A ``.png``, ``.svg`` or ``.pdf`` file.

    Raises:
        ConfigError: if the records are not of a run's checkpoints.
    """
    from matplotlib.figure import Figure

    if any(record["fraction"] is None for record in records):
        raise ConfigError("a picture over training needs a run's checkpoints: evaluate with --over-training")
    lines: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in records:
        key = (record["checkpoint"], record["text"], record["sequences"], record["detector"])
        lines.setdefault(key, []).append(record)
    detectors = short_names(dict.fromkeys(key[3] for key in lines))
    places = list(dict.fromkeys(key[:3] for key in lines))
    names = dict(zip(places, _distinct(places), strict=True))
    figure = Figure(figsize=(9.6, 4.2), dpi=120, layout="constrained")
    panels = {"of_rows": "Rows with a correction", "of_mispredicted": "Mispredictions corrected"}
    for axes, (share, title) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        for (*place, detector), of_line in lines.items():
            number = places.index((place[0], place[1], place[2]))
            drawn = [(r["fraction"], r["shares"][share]) for r in of_line if r["shares"][share] is not None]
            x = [100 * fraction for fraction, _ in drawn]
            estimate, low, high = ([100 * s[name] for _, s in drawn] for name in ("estimate", "low", "high"))
            color = f"C{list(detectors).index(detector)}"
            name = label(" · ".join(filter(None, (detectors[detector], names[places[number]]))))
            axes.plot(x, estimate, _STYLES[number % len(_STYLES)], marker="o", ms=4, color=color, label=name)
            axes.fill_between(x, low, high, color=color, alpha=0.12, lw=0)
        axes.set(title=title, xlabel="steps of training, %", ylabel="%", xlim=(0, 103))
        axes.set_ylim(0, max(axes.get_ylim()[1], 0.1))
        axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", fontsize="small", frameon=False, ncols=2)
    save_figure(figure, path)


def _parts(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the columns in which records differ, and always the detector."""
    detectors = short_names(dict.fromkeys(record["detector"] for record in records))
    columns = {
        "checkpoint": [record["checkpoint"] for record in records],
        "text": [record["text"] for record in records],
        "sequences": [record["sequences"] for record in records],
        "training": ["" if r["fraction"] is None else f"{100 * r['fraction']:.4g}%" for r in records],
        "rows": [f"{record['num_rows']:,}" for record in records],
        "detector": [detectors[record["detector"]] for record in records],
    }
    return {name: column for name, column in columns.items() if len(set(column)) > 1 or name == "detector"}


def _distinct(places: Sequence[tuple[str, ...]]) -> list[str]:
    """Name each checkpoint, text and kind of sequences by the parts in which they differ."""
    differing = [position for position in range(3) if len({place[position] for place in places}) > 1]
    return [" · ".join(place[position] for position in differing) for place in places]


def _share(interval: Mapping[str, float] | None) -> str:
    if interval is None:
        return "–"
    return f"{100 * interval['estimate']:.2f} ({100 * interval['low']:.2f}–{100 * interval['high']:.2f})"
