"""One table in five formats: terminal, Markdown, LaTeX, CSV or HTML.

Not tabulate: it would join the cells, but it escapes neither hostile text in Markdown nor formulas in CSV, and has no
notes, captions, full numbers for CSV or labels for narrow pages. Those are most of this file.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

from trueneg.errors import ConfigError, unknown_name
from trueneg.files.whole import write_json, write_whole
from trueneg.reporting.layout import lay_out, wrap
from trueneg.terminal.printable import printable, spreadsheet_cell

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
    """Names of the parts of its values, which are tuples or dataclasses: a column each in CSV."""


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
    """Markup of a picture, shown above the table in HTML."""

    def __post_init__(self) -> None:
        """Refuse rows of another length than the header's: a programming mistake."""
        if any(len(row) != len(self.columns) for row in self.rows):
            raise AssertionError("a row has another number of cells than the table has columns")

    def render(self, form: str, width: int | None = None) -> str:
        """Write the table in one of ``FORMATS``.

        Args:
            form: Its name.
            width: Characters in a terminal's line; by default as many as the table needs.

        Raises:
            ConfigError: for another name.
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
        """Write a GitHub table, cells escaped."""
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
        """Write values for programs: numbers in full, empty where there is no value, a column for each part.

        Text that a spreadsheet would take for a formula gets an apostrophe in front.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            [
                spreadsheet_cell(name)
                for column in self.columns
                for name in ([f"{column.name} {part}".strip() for part in column.parts] or [column.name])
            ]
        )
        for row in self.rows:
            writer.writerow(
                [
                    spreadsheet_cell(value) if isinstance(value, str) else value
                    for column, cell in zip(self.columns, row, strict=True)
                    for value in _values(column, cell)
                ]
            )
        return out.getvalue()

    def html(self) -> str:
        """Write a ``<table>`` for a page, cells escaped; on a narrow screen each row becomes a block."""
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
    """Make a table whose cells are text already."""
    return Table([Column(name) for name in names], rows, title, notes)


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "terminal": Table.terminal,
    "markdown": Table.markdown,
    "latex": Table.latex,
    "csv": Table.csv,
    "html": Table.html,
}
"""Name to what writes it."""


JSON = "json"
"""Written by callers themselves: all data, not only what a table shows."""

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
    """Refuse an unknown format.

    Raises:
        ConfigError: naming the known ones.
    """
    if form not in FORMATS:
        raise ConfigError(unknown_name("format", form, FORMATS))


def form_of(form: str, out: Path | None) -> str:
    """Choose the format: the given one, else that of the file's extension.

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
        raise ConfigError(f"--out {out} is a folder: name a file")
    said = EXTENSIONS.get(out.suffix.lower())
    if not form and said is None:
        known = ", ".join(f"{extension} ({of})" for extension, of in EXTENSIONS.items())
        raise ConfigError(f"--out {out}: no format is called so. Known: {known}; or say --format")
    if form and said not in (None, form) and out.suffix.lower() != ".txt":
        raise ConfigError(f"--format {form}: '{out}' is named as a file of {said}: leave --format out, or rename it")
    return form or said or "terminal"


def write_tables(tables: Sequence[Table], out: Path, form: str, data: Mapping[str, Any]) -> Path:
    """Write tables to a file; HTML as a self-contained page.

    Args:
        tables: The tables.
        out: The file; its folder is made.
        form: One of ``FORMATS``, or ``JSON``.
        data: What is written as JSON.

    Raises:
        ConfigError: for an unknown format, or a folder where the file should be.
    """
    if out.is_dir():
        raise ConfigError(f"--out {out} is a folder: name a file")
    out.parent.mkdir(parents=True, exist_ok=True)
    if form == JSON:
        write_json(out, data)
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
    """Escaped; brackets stay as they are, but for what would make them a link."""
    return re.sub(r"\](?=[(\[:])", r"\\]", _escaped(printable(text), _MARKDOWN))


def _latex(text: str) -> str:
    """Escaped, and with a minus before a number instead of a hyphen."""
    return re.sub(r"(?<![\w.)])-(?=\d)", "$-$", _escaped(printable(text), _LATEX))


def _values(column: Column, cell: Any) -> Sequence[Any]:
    if not column.parts:
        return [cell]
    if cell is None:
        return [None] * len(column.parts)
    values = astuple(cell) if is_dataclass(cell) and not isinstance(cell, type) else tuple(cell)
    return values[: len(column.parts)]
