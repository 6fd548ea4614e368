"""Rows of labelled data as named columns: which file of a folder is which split, and what each line holds."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from trueneg.errors import TaskError, unknown_name
from trueneg.files.records import parse_json
from trueneg.files.text import conversion, csv_rows, delimiter_of, foreign_encoding, is_unicode

SPLIT_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "eval", "testa"),
    "test": ("test", "testb"),
}
"""Split to the names that its file may have (testa and testb: CoNLL-2003)."""

MALFORMED_SHARE = 0.01
"""Maximum share of malformed lines in a file: they are left out and counted; with more, the file is refused."""

WITHHELD = "\0"
"""Cell for a missing label in a hub column that has other labels (-1 among named classes)."""

_QUOTED = re.compile(r'"(?:[^"]|"")*"')


@dataclass(frozen=True)
class Records:
    """A file's rows. Every cell is text; an empty one is a missing value."""

    path: Path | str
    names: tuple[str, ...]
    """Names of the columns."""
    rows: Sequence[tuple[str, ...]]
    lines: Sequence[int]
    """Line at which each row begins in its file, from 1."""
    delimiter: str | None = None
    """Delimiter of CSV or TSV."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of ``malformed_lines`` and ``blank_lines``, if any: they are not in ``rows``."""

    def column(self, name: str) -> int:
        """Return the index of a column.

        Raises:
            TaskError: naming the file, its columns and the closest name.
        """
        if name not in self.names:
            raise TaskError(f"{self.path}: {unknown_name('column', name, self.names)}")
        return self.names.index(name)

    def where(self, row: int) -> str:
        """Name a row for a message: its file and line."""
        return f"{self.path}:{self.lines[row]}"


class Files:
    """Your own data: a file, or a folder with a file for each split.

    Args:
        data: See ``split_files``.
        extensions: See ``split_files``.

    Attributes:
        splits: Name of each split to its file.
    """

    def __init__(self, data: Path, extensions: Sequence[str]) -> None:
        self.data = data
        self.splits: Mapping[str, Path] = split_files(data, extensions)

    def path(self, split: str) -> Path:
        """Find the file of a split.

        Raises:
            TaskError: naming the available splits.
        """
        if split not in self.splits:
            raise TaskError(f"--data {self.data}: {unknown_name('split', split, self.splits)}")
        return self.splits[split]

    def records(self, split: str) -> Records:
        """Read a split's rows; see ``read_records``."""
        return read_records(self.path(split))


def split_files(data: Path, extensions: Sequence[str]) -> dict[str, Path]:
    """Map splits to their files.

    Args:
        data: A folder or one file. A file's split is the last word of its stem (``train.csv``, ``imdb-train.csv``) or
            its extension (``eng.train``), if in ``SPLIT_NAMES``; else ``train`` for a single file, or its stem.
        extensions: Extensions to consider, in lower case, with the dot.

    Raises:
        TaskError: if there is no such file or folder, no file in it, or two for one split.
    """
    if not data.exists():
        raise TaskError(f"--data {data}: no such file or folder: {_nearby(data)}")
    if data.is_file():
        split = _split_of(data)
        return {split if split in SPLIT_NAMES else "train": data}
    found: dict[str, Path] = {}
    for file in sorted(data.iterdir()):
        if file.suffix.lower() in extensions and file.is_file():
            split = _split_of(file)
            if split in found:
                raise TaskError(f"--data {data}: {found[split].name} and {file.name} are both '{split}': move one away")
            found[split] = file
    if not found:
        raise TaskError(f"--data {data}: no file in it ends in {', '.join(extensions)}: it holds {listing(data)}")
    return found


def name_of(data: str) -> str:
    """Name a task on your own data after the file without its extension, the folder, or the hub dataset.

    Raises:
        TaskError: for a name that a folder of results cannot have, as for a file "...csv".

    Example:
        >>> name_of("data/films.v2.csv"), name_of("hub:nyu-mll/glue:mrpc")
        ('films.v2', 'glue-mrpc')
    """
    if data.startswith("hub:"):
        dataset, _, configuration = data.removeprefix("hub:").partition(":")
        name = "-".join(filter(None, (PurePath(dataset).name, configuration)))
    else:
        place = Path(data).resolve()
        # Path.stem of a name like "...csv" changed in Python 3.14.
        stem, _, _ = place.name.rpartition(".")
        name = place.name if place.is_dir() or not stem else stem
    if not name.strip("."):
        raise TaskError(f"--data {data}: results cannot be kept under the name {name!r}: rename it")
    return name


def listing(folder: Path, max_names: int = 12) -> str:
    """List the contents of a folder, for a message."""
    names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in folder.iterdir())
    return (
        ", ".join(names[:max_names]) + (f" and {len(names) - max_names} more" if len(names) > max_names else "")
        or "nothing"
    )


def read_records(path: Path, *, is_quoted: bool | None = None) -> Records:
    """Read a CSV, TSV, JSONL or Parquet file whose first line, or whose keys, name its columns.

    CSV is separated by commas, or by semicolons, tabs or bars if its first line has those instead.

    Args:
        path: File, whose extension determines the format.
        is_quoted: Whether quote characters around a cell are not part of its text, as spreadsheets write them. By
            default True for CSV, and for TSV if every cell that begins with a quote character is well formed and one
            of them contains a doubled quote, or if only then all rows have as many cells as the first line, some with
            line breaks; ``quoted_cells`` then counts them.

    Raises:
        TaskError: naming file and line: for text that is not UTF-8, a file without rows, repeated names, or more
            malformed lines than ``MALFORMED_SHARE``.
    """
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson", ".json"):
        return _read_json_lines(path)
    if suffix == ".parquet":
        return _read_parquet(path)
    delimiter = "\t" if suffix != ".csv" else delimiter_of(next((line for _, line in read_lines(path)), ""))
    num_quoted = _num_quoted(path) if suffix != ".csv" and is_quoted is None else 0
    is_quoted = suffix == ".csv" or num_quoted > 0 if is_quoted is None else is_quoted
    cells = list((_quoted if is_quoted else _plain)(path, delimiter))
    if not cells or not any(cells[0][1]):
        raise TaskError(f"{path}: its first line is empty: it has to name the columns")
    names = tuple(name.strip() for name in cells[0][1])
    records = as_records(path, names, cells[1:], delimiter)
    return replace(records, counts={**records.counts, "quoted_cells": num_quoted}) if num_quoted else records


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line) of a file, without line endings.

    Raises:
        TaskError: for a file that cannot be read or is not UTF-8.
    """
    # Not splitlines(), which also breaks at characters that are text here (U+0085, U+2028, form feed, a lone CR).
    lines = _text(path).split("\n")
    for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, start=1):
        yield number, line.removesuffix("\r")


def read_json(path: Path) -> Any:
    """Read a file of JSON.

    Raises:
        TaskError: if it cannot be read, naming the line of the error.
    """
    return parse_json("\n".join(line for _, line in read_lines(path)), str(path), TaskError, "get the file again")


def read_tsv(path: Path) -> list[tuple[int, tuple[str, ...]]]:
    """Read (line number, cells) of a TSV file in which quote characters are text.

    Raises:
        TaskError: for a file that cannot be read or is not UTF-8.
    """
    return list(_plain(path, "\t"))


def as_records(
    path: Path | str,
    names: Sequence[str],
    cells: Sequence[tuple[int, Sequence[str]]],
    delimiter: str | None = None,
) -> Records:
    """Keep the rows that have as many cells as there are names, and count the others.

    Args:
        path: File, for messages.
        names: Names of the columns.
        cells: (line number, cells) of each line.
        delimiter: Delimiter, if there is one.

    Raises:
        TaskError: naming file and line: for no rows, repeated names, or too many malformed lines.
    """
    if repeated := next((name for at, name in enumerate(names) if name in names[:at]), None):
        raise TaskError(f"{path}: two columns are called {repeated!r}: rename one")
    filled = [(line, tuple(row)) for line, row in cells if any(row)]
    kept = [(line, row) for line, row in filled if len(row) == len(names)]
    odd = next(((line, len(row)) for line, row in filled if len(row) != len(names)), None)
    if odd is not None and len(filled) - len(kept) > MALFORMED_SHARE * len(filled):
        separated = f"separated by {delimiter!r}, " if delimiter else ""
        raise TaskError(
            f"{path}:{odd[0]}: {len(names)} columns expected, {odd[1]} found, {separated}and so in "
            f"{len(filled) - len(kept)} of {len(filled)} lines: fix them (up to {MALFORMED_SHARE:.0%} are left out "
            f"and counted)"
        )
    if not kept:
        raise TaskError(f"{path}: no rows")
    counts = {"malformed_lines": len(filled) - len(kept), "blank_lines": len(cells) - len(filled)}
    lines, rows = zip(*kept, strict=True)
    return Records(path, tuple(names), rows, lines, delimiter, {what: num for what, num in counts.items() if num})


def cell(value: object) -> str | None:
    """Write a JSON value as a cell; None for anything but text, numbers, booleans and null.

    Example:
        >>> [cell(value) for value in ("a", 1, 0.5, True, None, [1])]
        ['a', '1', '0.5', 'true', '', None]
    """
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value) if isinstance(value, bool | int | float) else None


def column_cells(values: Iterable[object], kind: str = "") -> list[str | None]:
    """Write the values of a column as cells; float32 (Arrow: float) and half in their shortest form.

    Example:
        >>> column_cells([2.4000000953674316, None], "float32")
        ['2.4', '']
    """
    narrow = _NARROW.get(kind)
    return [cell(float(str(narrow(one))) if narrow and isinstance(one, float) else one) for one in values]


_NARROW = {"float": np.float32, "float32": np.float32, "halffloat": np.float16, "float16": np.float16}


def _split_of(file: Path) -> str:
    known = {name: split for split, names in SPLIT_NAMES.items() for name in names}
    ending, last_word = file.suffix.lower()[1:], re.split(r"[-_.]", file.stem.lower())[-1]
    return known.get(ending) or known.get(last_word) or file.stem


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror}") from error
    start = content[:4096]
    if encoding := foreign_encoding(start):
        raise TaskError(f"{path}: not UTF-8 but {encoding.upper()}: {conversion(start)}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TaskError(f"{path}:{line}: not UTF-8 ({error.reason}): {conversion(start)}") from error


def _plain(path: Path, delimiter: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    for number, line in read_lines(path):
        yield number, tuple(line.split(delimiter))


def _num_quoted(path: Path) -> int:
    """Count quoted cells of a TSV file; 0 if quote characters are text."""
    rows = [row for _, row in _plain(path, "\t") if any(row)]
    quoted = [cell for row in rows for cell in row if cell.startswith('"')]
    if all(_QUOTED.fullmatch(cell) for cell in quoted):
        return len(quoted) if any('""' in cell[1:-1] for cell in quoted) else 0
    if all(len(row) == len(rows[0]) for row in rows):
        return 0
    try:
        whole = [row for _, row in _quoted(path, "\t") if any(row)]
    except TaskError:
        return 0
    if any(len(row) != len(rows[0]) for row in whole):
        return 0
    # Which cells were quoted is not known any more: writers quote those that have to be.
    return sum(any(sign in cell for sign in '"\n\t') for row in whole for cell in row)


def _quoted(path: Path, delimiter: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    for first, row in csv_rows(path, io.StringIO(_text(path), newline=""), delimiter, TaskError):
        yield first, tuple(row)


def _read_parquet(path: Path) -> Records:
    """Read a Parquet file, rows numbered from 1; columns other than text, numbers or booleans are left out."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
        columns = {
            name: column_cells(column.to_pylist(), str(column.type))
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    except (pyarrow.ArrowException, OSError, ValueError) as error:  # a text may not be UTF-8
        raise TaskError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    names = [name for name, values in columns.items() if None not in values]
    rows = zip(*([value or "" for value in columns[name]] for name in names), strict=True)
    return as_records(path, names, list(enumerate(rows, start=1)))


def _read_json_lines(path: Path) -> Records:
    rows: list[tuple[int, dict[str, object]]] = []
    num_blank = 0
    broken: list[tuple[int, str]] = []
    for number, line in read_lines(path):
        if not line.strip():
            num_blank += 1
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            broken.append((number, f"not JSON ({error})"))
            continue
        if not isinstance(value, dict):
            broken.append((number, f"each line must be an object, got {type(value).__name__}"))
        elif not is_unicode("".join(one for one in value.values() if isinstance(one, str))):
            broken.append((number, "a text holds half of a surrogate pair, as of an emoji that was cut"))
        else:
            rows.append((number, value))
    num_lines = len(rows) + len(broken)
    if broken and _text(path).lstrip().startswith("["):
        raise TaskError(f"{path}: a JSON array: write one object a line (jq -c '.[]' FILE > {path.stem}.jsonl)")
    if len(broken) > MALFORMED_SHARE * num_lines:
        raise TaskError(f"{path}:{broken[0][0]}: {broken[0][1]}, and so in {len(broken)} of {num_lines} lines")
    # Keys whose values are all lists, objects or null are no columns; rows that lack a column have an empty cell there.
    there = {(name, type(value)) for _, row in rows for name, value in row.items()}
    are_nested = {name for name, kind in there if kind in (list, dict)}
    are_text = {name for name, kind in there if kind not in (list, dict, type(None))}
    names = tuple(
        name
        for name in dict.fromkeys(name for _, row in rows for name in row)
        if name in are_text or name not in are_nested
    )
    for number, row in rows:
        if odd := next((name for name in names if isinstance(row.get(name), list | dict)), None):
            raise TaskError(f"{path}:{number}: {odd!r} is {type(row[odd]).__name__} here, text or a number elsewhere")
    cells = [(number, tuple(cell(row.get(name)) or "" for name in names)) for number, row in rows]
    records = as_records(path, names, cells)
    counts = {"malformed_lines": len(broken), "blank_lines": num_blank + records.counts.get("blank_lines", 0)}
    return replace(records, counts={name: n for name, n in counts.items() if n})


def _nearby(path: Path) -> str:
    return f"{path.parent} holds {listing(path.parent)}" if path.parent.is_dir() else f"no folder {path.parent} either"
