"""The corrections of a page: the first of them as rows, and all of them as data that the page searches and sorts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from trueneg.evaluation.masked_lm.corrections import Correction, FalseNegativeRecord, most_convincing
from trueneg.reporting.tables import NONE, short_names
from trueneg.terminal.printable import printable

FIRST = "probability"
"""Default sort key of corrections, highest first."""
ROWS = 40
"""Rows per page of the table."""
SIDE = 160
"""Characters of a sentence that are shown on either side of a word."""

_COLUMNS = {
    "gold": ("gold", False),
    "predicted": ("predicted", False),
    "probability": ("p(predicted)", True),
    "gold_probability": ("p(gold)", True),
    "credit": ("credit", True),
    "part": ("part of speech", False),
    "group": ("found by", False),
}


def corrections_table(records: Sequence[tuple[str, FalseNegativeRecord]]) -> dict[str, Any] | None:
    """Build the content of the page's table of corrections; None if there are none.

    Args:
        records: One per run, text and detector, with the name of the run.
    """
    pairs = [(number, one) for number, (_, record) in enumerate(records) for one in record.corrections]
    if not pairs:
        return None
    found = sorted(pairs, key=lambda pair: -pair[1].probability)
    groups = _groups(records)
    is_shown = {
        "credit": any(one.credit is not None for _, one in found),
        "part": any(one.part_of_speech for _, one in found),
        "group": len(records) > 1,
    }
    data = _data(found, groups)
    columns = [(name, *shown) for name, shown in _COLUMNS.items() if is_shown.get(name, True)]
    number = {id(one): group for group, one in found}
    return {
        "columns": columns,
        "orders": _orders(columns),
        "rows": [
            (_cells(one, groups[number[id(one)]]["name"]), one)
            for one in most_convincing((one for _, one in found), ROWS)
        ],
        "data": data,
        "filters": _filters(groups, data["parts"]),
        "has_credit": is_shown["credit"],
        "is_cut": any(len(side) > SIDE for _, one in found for side in (one.before, one.after)),
    }


def _orders(columns: Sequence[tuple[str, str, bool]]) -> list[tuple[str, str]]:
    """List both sort orders of each column for the page's form, starting with the default.

    Example:
        >>> _orders([("gold", "gold", False)])
        [('gold descending', 'gold, Z to A'), ('gold ascending', 'gold, A to Z')]
    """
    said = {False: ("Z to A", "A to Z"), True: ("highest first", "lowest first")}
    ordered = sorted(columns, key=lambda column: column[0] != FIRST)
    return [
        (f"{name} {order}", f"{text}, {how}")
        for name, text, is_number in ordered
        for order, how in zip(("descending", "ascending"), said[is_number], strict=True)
    ]


def shortened(side: int) -> Callable[[str], str]:
    """Return a function that shortens a sentence to ``SIDE`` characters before a word (-1) or after it (1).

    Example:
        >>> len(shortened(-1)("a " * 200)), shortened(1)("short")
        (161, 'short')
    """

    def shorten(text: str) -> str:
        text = printable(text)
        if len(text) <= SIDE:
            return text
        return f"…{text[-SIDE:]}" if side < 0 else f"{text[:SIDE]}…"

    return shorten


def _groups(records: Sequence[tuple[str, FalseNegativeRecord]]) -> list[dict[str, str]]:
    """Name each record by the parts in which records differ."""
    detectors = short_names(dict.fromkeys(record.detector or "the detector" for _, record in records))
    texts = short_names(dict.fromkeys(record.text for _, record in records))
    groups = [
        {"run": name, "text": texts[record.text], "detector": detectors[record.detector or "the detector"]}
        for name, record in records
    ]
    differing = [part for part in ("run", "text", "detector") if len({group[part] for group in groups}) > 1]
    return [
        {part: printable(value) for part, value in group.items()}
        | {"name": printable(" · ".join(group[part] for part in differing or ["detector"]))}
        for group in groups
    ]


def _data(found: Sequence[tuple[int, Correction]], groups: Sequence[dict[str, str]]) -> dict[str, Any]:
    """Return columns in which words and parts of speech are indices into lists."""
    words: dict[str, int] = {}
    parts: dict[str, int] = {}

    def number(known: dict[str, int], text: str) -> int:
        return known.setdefault(printable(text), len(known))

    before, after = shortened(-1), shortened(1)
    ones = [one for _, one in found]
    return {
        "groups": groups,
        "group": [group for group, _ in found],
        "gold": [number(words, one.gold) for one in ones],
        "predicted": [number(words, one.predicted) for one in ones],
        "probability": [round(one.probability, 4) for one in ones],
        "gold_probability": [round(one.gold_probability, 4) for one in ones],
        "credit": [None if one.credit is None else round(one.credit, 4) for one in ones],
        "part": [number(parts, one.part_of_speech) for one in ones],
        "before": [before(one.before) for one in ones],
        "after": [after(one.after) for one in ones],
        "words": list(words),
        "parts": list(parts),
    }


def _cells(one: Correction, group: str) -> dict[str, str]:
    return {
        "gold": one.gold,
        "predicted": one.predicted,
        "probability": f"{one.probability:.2f}",
        "gold_probability": f"{one.gold_probability:.2f}",
        "credit": NONE if one.credit is None else f"{one.credit:.2f}",
        "part": one.part_of_speech or NONE,
        "group": group,
    }


def _filters(groups: Sequence[dict[str, str]], parts: Sequence[str]) -> list[dict[str, Any]]:
    """List the page's filters that have more than one option."""
    choices: list[tuple[str, str, Iterable[tuple[Hashable, str]]]] = [
        (name, label, [(value, value) for value in dict.fromkeys(group[name] for group in groups)])
        for name, label in (("detector", "Detector"), ("run", "Run"), ("text", "Text"))
    ]
    choices.append(("part", "Part of speech", [(at, part or "not noted") for at, part in enumerate(parts)]))
    return [{"name": name, "label": label, "options": options} for name, label, options in choices if len(options) > 1]  # type: ignore[arg-type]
