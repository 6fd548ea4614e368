"""One table in five formats: terminal, Markdown, LaTeX, CSV or HTML.

The package tabulate could lay out the cells, but it escapes neither hostile text in Markdown nor formulas in CSV, and
lacks notes, captions, full numbers for CSV and labels for narrow pages, which are most of this file.
"""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, is_dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rich.cells import cell_len, chop_cells

from trueneg.errors import ConfigError, unknown_name
from trueneg.files.whole import write_json, write_whole
from trueneg.terminal.printable import printable, spreadsheet_cell

if TYPE_CHECKING:
    from trueneg.evaluation.statistics.intervals import Interval

NONE = "–"
"""Shown where there is no value."""


@dataclass(frozen=True)
class Column:
    """A column's name, and how its values are shown."""

    name: str
    show: Callable[[Any], str] = str
    """Formats any value but None."""
    is_number: bool = False
    """Whether it is aligned to the right."""
    parts: tuple[str, ...] = ()
    """Names of the parts of its values (tuples or dataclasses), each of which is a column in CSV."""


def finite(data: Any) -> Any:
    """Replace numbers that JSON and CSV do not have (infinities, NaN) by None, at any depth.

    Example:
        >>> finite({"low": float("-inf"), "high": 0.5})
        {'low': None, 'high': 0.5}
    """
    if isinstance(data, Mapping):
        return {name: finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


ENDS = ("", "low", "high")
"""Parts of an interval."""


def told_column(name: str, *parts: str, is_number: bool = False) -> Column:
    """Make a column of tuples: a value for each part, followed by the text to show.

    Example:
        >>> spread = Table([told_column("loss", "mean", "sd")], [[(2.5, 0.125, "2.5 ± 0.1")]])
        >>> print(spread.csv(), spread.markdown().splitlines()[-1])
        loss mean,loss sd
        2.5,0.125
         | 2.5 ± 0.1 |
    """
    return Column(name, itemgetter(-1), is_number, parts)


def ends_of(interval: Interval) -> tuple[float, float, float]:
    """Return the values of ``ENDS``."""
    return interval.estimate, interval.low, interval.high


@dataclass(frozen=True)
class Table:
    """Rows of values under columns, with notes.

    Example:
        >>> print(Table([Column("task"), Column("n", is_number=True)], [["rte", 12]]).markdown(), end="")
        | task | n |
        | --- | ---: |
        | rte | 12 |
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    notes: Sequence[str] = field(default=())
    """Shown below the table; not in CSV, which holds only values."""
    figure: str = ""
    """Markup of a chart, shown above the table in HTML."""
    name: str = ""
    """Value of an extra first column in CSV, which identifies the table; no such column by default."""

    def __post_init__(self) -> None:
        """Raise for rows of another length than the header's, which are a programming error."""
        if any(len(row) != len(self.columns) for row in self.rows):
            raise AssertionError("a row has another number of cells than the table has columns")

    def render(self, form: str, width: int | None = None) -> str:
        """Write the table in one of ``FORMATS``.

        Args:
            form: Its name.
            width: Characters per line in a terminal; by default, as many as the table needs.

        Raises:
            ConfigError: for an unknown name.
        """
        check_form(form)
        return self.terminal(width) if form == "terminal" else FORMATS[form](self)

    def terminal(self, width: int | None = None) -> str:
        """Write aligned text, with notes below."""
        heading = [printable(column.name) for column in self.columns]
        grid = lay_out(heading, self._shown(), [column.is_number for column in self.columns], width)
        title = f"{printable(self.title)}\n\n" if self.title else ""
        return title + grid + "".join(f"{line}\n" for note in self.notes for line in wrap(printable(note), width))

    def markdown(self) -> str:
        """Write a GitHub Markdown table with escaped cells."""
        lines = [
            self._markdown_row([column.name for column in self.columns]),
            f"| {' | '.join('---:' if column.is_number else '---' for column in self.columns)} |",
            *map(self._markdown_row, self._shown()),
        ]
        heading = [f"## {_markdown(self.title)}", ""] if self.title else []
        notes = [part for note in self.notes for part in ("", _markdown(note))]
        return "\n".join([*heading, *lines, *notes]) + "\n"

    def latex(self) -> str:
        """Write a ``table`` for the package ``booktabs``: the title as caption, notes below."""
        rows = [[_latex(cell) for cell in row] for row in self._shown()]
        lines = [
            r"\begin{table}",
            r"\centering",
            *([rf"\caption{{{_latex(self.title)}}}"] if self.title else []),
            rf"\begin{{tabular}}{{{''.join('r' if column.is_number else 'l' for column in self.columns)}}}",
            r"\toprule",
            " & ".join(_latex(column.name) for column in self.columns) + r" \\",
            r"\midrule",
            *(" & ".join(row) + r" \\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            *(rf"\par\footnotesize {_latex(note)}" for note in self.notes),
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Write values for other programs: numbers in full, empty where there is no value, a column for each part.

        Text that a spreadsheet would read as a formula is prefixed with an apostrophe.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names = [spreadsheet_cell(self.name)] if self.name else []
        writer.writerow(
            ["table"] * len(names)
            + [
                spreadsheet_cell(name)
                for column in self.columns
                for name in ([f"{column.name} {part}".strip() for part in column.parts] or [column.name])
            ]
        )
        for row in self.rows:
            writer.writerow(
                names
                + [
                    spreadsheet_cell(value) if isinstance(value, str) else finite(value)
                    for column, cell in zip(self.columns, row, strict=True)
                    for value in _values(column, cell)
                ]
            )
        return out.getvalue()

    def html(self) -> str:
        """Write a ``<table>`` for a page, with escaped cells; on a narrow screen each row becomes a block."""
        names = [_html(column.name) for column in self.columns]
        kinds = ['class="number" ' if column.is_number else "" for column in self.columns]
        head = "".join(f"<th {kind}>{name}</th>" for kind, name in zip(kinds, names, strict=True)).replace(
            "<th >", "<th>"
        )
        cells = (
            "".join(
                f'<td {kind}data-label="{name}">{_html(cell)}</td>'
                for kind, name, cell in zip(kinds, names, row, strict=True)
            )
            for row in self._shown()
        )
        body = "".join(f"<tr>{row}</tr>\n" for row in cells)
        title = f"<h2>{_html(self.title)}</h2>\n" if self.title else ""
        notes = "".join(f"<p>{_html(note)}</p>\n" for note in self.notes)
        table = f'<table class="stacked"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>'
        return f'{title}{self.figure}<div class="wide">{table}</div>\n{notes}'

    def _shown(self) -> list[list[str]]:
        return [
            [
                NONE if cell is None else printable(column.show(cell))
                for column, cell in zip(self.columns, row, strict=True)
            ]
            for row in self.rows
        ]

    def _markdown_row(self, cells: Sequence[str]) -> str:
        return f"| {' | '.join(_markdown(cell) for cell in cells)} |"


def text_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", notes: Sequence[str] = ()
) -> Table:
    """Make a table of text cells."""
    return Table([Column(name) for name in names], rows, title, notes)


def shown_table(table: Table, name: str) -> dict[str, str]:
    """Return a table's ``title``, its ``html``, and the ``link`` in it to the same table as CSV.

    Args:
        table: The table, shown without its figure.
        name: Name of the CSV file, without ``.csv``.
    """
    link = f'<a download="{_html(name)}.csv" href="data:text/csv;charset=utf-8,{quote(table.csv())}">CSV</a>'
    markup, tools = replace(table, title="", figure="").html(), f'<p class="tools">{link}</p>'
    return {"title": table.title, "html": markup + tools, "link": tools}


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "terminal": Table.terminal,
    "markdown": Table.markdown,
    "latex": Table.latex,
    "csv": Table.csv,
    "html": Table.html,
}
"""Name of a format to the method that writes it."""


JSON = "json"
"""Not among ``FORMATS``: callers supply all data, not only what a table shows."""

EXTENSIONS: Mapping[str, str] = {
    ".html": "html",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
    ".json": JSON,
    ".txt": "terminal",
}
"""File extension to format."""


def check_form(form: str) -> None:
    """Raise for an unknown format.

    Raises:
        ConfigError: naming the known ones.
    """
    if form not in FORMATS:
        raise ConfigError(unknown_name("format", form, FORMATS))


def form_of(form: str, out: Path | None, option: str = "--out") -> str:
    """Choose the format: the given one, else that of the file's extension.

    Args:
        form: A name, or empty.
        out: The file; None for standard output.
        option: The option that names the file, for messages.

    Raises:
        ConfigError: for an unknown format, an extension that is unknown or of another format, or a folder.

    Example:
        >>> form_of("", None), form_of("", Path("tables/hc.tex"))
        ('terminal', 'latex')
    """
    if form and form != JSON:
        check_form(form)
    if out is None:
        return form or "terminal"
    if out.is_dir():
        raise ConfigError(f"{option} {out} is a folder: name a file")
    said = EXTENSIONS.get(out.suffix.lower())
    if not form and said is None:
        known = ", ".join(f"{extension} ({of})" for extension, of in EXTENSIONS.items())
        or_say = "; or say --format" if option == "--out" else ""
        raise ConfigError(f"{option} {out}: no format is called so. Known: {known}{or_say}")
    if form and said not in (None, form) and out.suffix.lower() != ".txt":
        raise ConfigError(f"--format {form}: '{out}' is named as a file of {said}: leave --format out, or rename it")
    return form or said or "terminal"


def write_tables(tables: Sequence[Table], out: Path, form: str, data: Mapping[str, Any]) -> Path:
    """Write tables to a file; HTML as a self-contained page.

    Args:
        tables: The tables.
        out: The file; its folder is created.
        form: One of ``FORMATS``, or ``JSON``.
        data: What to write as JSON.

    Raises:
        ConfigError: for an unknown format, or a folder where the file should be.
    """
    if out.is_dir():
        raise ConfigError(f"--out {out} is a folder: name a file")
    out.parent.mkdir(parents=True, exist_ok=True)
    if form == JSON:
        write_json(out, finite(data))
        return out
    text = "\n".join(table.render(form) for table in tables)
    if form == "html":
        from trueneg.reporting.page import write_page

        title = next((table.title for table in tables if table.title), "tables")
        return write_page(_PAGE, out, title=title, text=text)
    write_whole(out, text)
    return out


_PAGE = (
    """{% extends "page" %}{% block title %}{{ title }}{% endblock %}{% block body %}{{ text | safe }}{% endblock %}"""
)

_MARKDOWN = {character: f"\\{character}" for character in "\\|`*_<~"}
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "…": r"\ldots{}"},
    **{
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "[": "{[}",
        "]": "{]}",
        "*": "{*}",
        "≥": r"$\geq$",
        "±": r"$\pm$",
    },
}


def _html(text: str) -> str:
    return html.escape(printable(text))


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)


def _markdown(text: str) -> str:
    """Escape text for Markdown; brackets are kept unless they would form a link."""
    return re.sub(r"\](?=[(\[:])", r"\\]", _escaped(printable(text), _MARKDOWN))


def _latex(text: str) -> str:
    """Escape text for LaTeX, with a minus sign instead of a hyphen before a number."""
    return re.sub(r"(?<![\w.)])-(?=\d)", "$-$", _escaped(printable(text), _LATEX))


def _values(column: Column, cell: Any) -> Sequence[Any]:
    if not column.parts:
        return [cell]
    if cell is None:
        return [None] * len(column.parts)
    values = astuple(cell) if is_dataclass(cell) and not isinstance(cell, type) else tuple(cell)
    return values[: len(column.parts)]


GAP = "  "
MIN_WIDTH = 8
_PIECE = re.compile(r"\S+?(?:/+(?=\S)|(?<=[^\W\d])-(?=[^\W\d]))|\S+")
"""Parts that are not split: words, the folders of a path, the parts of a hyphenated name."""


def lay_out(heading: Sequence[str], rows: Sequence[Sequence[str]], is_right: Sequence[bool], width: int | None) -> str:
    """Align rows under their heading.

    Columns are as wide as their cells. If they do not fit a line, the widest text columns are narrowed first, then the
    widest number columns, down to their longest words, and cells are wrapped; if that is not enough, each row becomes
    lines of ``heading  cell``.

    Args:
        heading: A name for each column.
        rows: Cells, each one line of text.
        is_right: Which columns are aligned to the right.
        width: Characters per line; None for no limit.

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
    """Break text between words into lines of at most ``width`` characters; only words longer than a line are split.

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
    """Choose the width of each column; None if not even the longest words fit a line."""
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


_PATH = re.compile(r"(?<=:)[^:\[\]@|&!]*[^:\[\]@|&!\s]")


def short_names(detectors: Iterable[str]) -> dict[str, str]:
    """Drop the folders of files and encoders from detectors' specifications, if these stay distinct.

    Example:
        >>> short_names(["lexical", "contextual:/models/minilm/model@0.65", "neighbours:data/glove.txt"])
        {'lexical': 'lexical', 'contextual:/models/minilm/model@0.65': 'contextual:minilm/model@0.65', \
'neighbours:data/glove.txt': 'neighbours:glove.txt'}
    """
    names = {detector: _PATH.sub(_last_parts, detector) for detector in detectors}
    return names if len(set(names.values())) == len(names) else {detector: detector for detector in names}


def _last_parts(match: re.Match[str]) -> str:
    path = Path(match.group())
    return path.name if path.suffix else "/".join(path.parts[-2:])
