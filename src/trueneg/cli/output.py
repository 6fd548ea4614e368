"""Output of verbs: results on standard output, everything else on standard error."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import textwrap
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from trueneg.errors import ConfigError, TruenegWarning
from trueneg.files.whole import check_writable
from trueneg.reporting.tables import Column, Table, finite
from trueneg.terminal.printable import printable, printable_json, printable_lines

Json = Annotated[bool, typer.Option("--json", help="Print only one JSON object on standard output.")]

INDENT = "    "


def _hush(is_quiet: bool) -> bool:
    if is_quiet:
        warnings.simplefilter("ignore", TruenegWarning)  # until ``main`` ends
    return is_quiet


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=_hush, help="Show only errors: no progress, messages or warnings.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set any option, such as optimizer.learning_rate=3e-4; repeatable."
    ),
]

_NUMBERS = re.compile(r"[\d.,:%×+\-–/()\[\]\s]+$")
"""Cells to align right: numbers, with their intervals."""


Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify",
        help="First verify the checksums of corpora, tags and annotations; files unchanged since the last check are "
        "skipped.",
    ),
]


@dataclass(frozen=True)
class Output:
    """Prints a verb's results and messages."""

    as_json: bool = False
    quiet: bool = False

    def say(self, message: str) -> None:
        """Print a message on standard error, unless quiet."""
        if not self.quiet:
            Console(stderr=True).print(printable_lines(message), soft_wrap=True, highlight=False, markup=False)

    def result(self, data: Mapping[str, Any], text: str) -> None:
        """Print a verb's result, as JSON or as text."""
        if self.as_json:
            text = json.dumps(finite(data), default=_plain, ensure_ascii=False, allow_nan=False)
            typer.echo(printable_json(text))
        else:
            typer.echo(printable_lines(text))

    def table(self, data: Mapping[str, Any], columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Print a result that is a table."""
        if self.as_json:
            self.result(data, "")
            return
        numeric = [
            all(isinstance(cell, int | float) or _NUMBERS.match(str(cell)) for cell in column)
            for column in zip(*rows, strict=True)
        ] or [False] * len(columns)
        shown = [Column(name, is_number=is_number) for name, is_number in zip(columns, numeric, strict=True)]
        self.show(Table(shown, rows))

    def show(self, table: Table, form: str = "terminal", *, after_another: bool = False) -> None:
        """Print a table, as wide as the terminal if standard output is one, else as wide as needed."""
        if after_another:
            typer.echo("")
        console = Console()
        has_width = form == "terminal" and (console.is_terminal or "COLUMNS" in os.environ)
        width = console.width if has_width else None
        typer.echo(table.render(form, width), nl=False)

    def definitions(self, data: Mapping[str, Any], entries: Mapping[str, str]) -> None:
        """Print a list of names, each with its explanation below it, so that no name is ever broken."""
        if self.as_json:
            self.result(data, "")
            return
        console = Console(highlight=False, markup=False)
        for name, text in entries.items():
            console.print(printable(name))
            indented = textwrap.wrap(
                printable(text),
                console.width,
                initial_indent=INDENT,
                subsequent_indent=INDENT,
                break_on_hyphens=False,  # nor a path or an option
                break_long_words=False,
            )
            console.print("\n".join(indented), soft_wrap=True)


def is_main_process() -> bool:
    """Whether this is the one process, of those that a launcher started, that prints messages."""
    return os.environ.get("RANK", "0") == "0"


def refuse_given(context: typer.Context, names: Collection[str], beside: str) -> None:
    """Refuse options that would have no effect.

    Args:
        context: The verb's context.
        names: The verb's parameters that have no effect here.
        beside: What they have no effect with, such as ``--load``.

    Raises:
        ConfigError: naming the first that was given.
    """
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in names and source is not None and source.name == "COMMANDLINE":
            raise ConfigError(
                f"{'/'.join([*option.opts, *option.secondary_opts])} does nothing beside {beside}: leave it out"
            )


def check_out(out: Path, example: str) -> None:
    """Refuse a file that cannot be written, before any work is done; its folder is made.

    Args:
        out: The file.
        example: A file's name, for the message if ``out`` is a folder.

    Raises:
        ConfigError: naming it.
    """
    if out.is_dir():
        raise ConfigError(f"--out {out} is a folder: name a file, as {out / example}")
    try:
        check_writable(out)
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be written ({error.strerror or error}): name another file") from error


def check_new(out: Path, overwrite: bool) -> None:
    """Refuse an output folder that is a file, or that is not empty unless it may be overwritten.

    Raises:
        ConfigError: naming it.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file: name a folder")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise ConfigError(f"--out {out} is not empty: name another folder, or pass --overwrite")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return finite(dataclasses.asdict(value))
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
