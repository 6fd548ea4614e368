"""Cells laid out as lines of text, at any width, without breaking a word."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells

GAP = "  "
MIN_WIDTH = 8
_PIECE = re.compile(r"\S+?(?:/+(?=\S)|(?<=[^\W\d])-(?=[^\W\d]))|\S+")
"""Parts that are not broken: words, the folders of a path, the parts of a hyphenated name."""


def lay_out(heading: Sequence[str], rows: Sequence[Sequence[str]], is_right: Sequence[bool], width: int | None) -> str:
    """Align rows under their heading.

    Columns are as wide as their cells. Where a line has no room for that, the widest column of text gives way first,
    then the widest of numbers, down to its longest word, and cells go on below; where that is not enough, each row
    becomes lines of ``heading  cell``.

    Args:
        heading: A name for each column.
        rows: Cells, each one line of text.
        is_right: Which columns are aligned to the right.
        width: Characters in a line; None for as many as it takes.

    Example:
        >>> print(lay_out(["model", "n"], [["results/base", "12"], ["hc", "3"]], [False, True], None), end="")
        model          n
        results/base  12
        hc             3
        >>> print(lay_out(["model", "n"], [["results/base", "12"]], [False, True], 12), end="")
        model      n
        results/  12
        base
    """
    columns = list(zip(heading, *rows, strict=True))
    widths = _widths(columns, is_right, width)
    if widths is None:
        return "\n".join(_block(heading, row, width) for row in rows)
    lines = []
    for row in (heading, *rows):
        cells = [wrap(cell, space) for cell, space in zip(row, widths, strict=True)]
        for number in range(max(map(len, cells))):
            parts = [cell[number] if number < len(cell) else "" for cell in cells]
            padded = [_pad(part, space, right) for part, space, right in zip(parts, widths, is_right, strict=True)]
            lines.append(GAP.join(padded).rstrip() + "\n")
    return "".join(lines)


def wrap(text: str, width: int | None) -> list[str]:
    """Break text into lines of at most so many characters, between words; only a word longer than a line is cut.

    Example:
        >>> wrap("results/hc/seed-1 is there", 11)
        ['results/hc/', 'seed-1 is', 'there']
    """
    if width is None or cell_len(text) <= width:
        return [text]
    lines = [""]
    end = 0
    for piece in _PIECE.finditer(text):
        space = text[end : piece.start()] if lines[-1] else ""
        end = piece.end()
        if cell_len(lines[-1] + space + piece[0]) <= width:
            lines[-1] += space + piece[0]
        else:
            lines += chop_cells(piece[0], width)
    return lines if lines[0] or len(lines) == 1 else lines[1:]


def _widths(columns: Sequence[Sequence[str]], is_right: Sequence[bool], width: int | None) -> list[int] | None:
    """Choose the width of each column; None if a line has no room even for the longest words."""
    widths = [max(map(cell_len, column)) for column in columns]
    smallest = [
        max((cell_len(piece) for cell in cells for piece in _PIECE.findall(cell)), default=0) for cells in columns
    ]
    room = None if width is None else width - len(GAP) * (len(columns) - 1)
    if room is None or sum(widths) <= room:
        return widths
    if sum(smallest) > room:
        return None
    while sum(widths) > room:
        spare = [number for number, have in enumerate(widths) if have > smallest[number]]
        widest = max(spare, key=lambda number: (not is_right[number], widths[number]))
        widths[widest] -= 1
    return widths


def _block(heading: Sequence[str], row: Sequence[str], width: int | None) -> str:
    space = max(map(cell_len, heading))
    room = None if width is None else max(MIN_WIDTH, width - space - len(GAP))
    lines = [
        f"{_pad(name if number == 0 else '', space, False)}{GAP}{part}".rstrip()
        for name, cell in zip(heading, row, strict=True)
        for number, part in enumerate(wrap(cell, room))
    ]
    return "".join(f"{line}\n" for line in lines)


def _pad(text: str, width: int, is_right: bool) -> str:
    gap = " " * (width - cell_len(text))
    return gap + text if is_right else text + gap
