"""Rows of labelled data as named columns: which file of a folder is which split, and what each line holds."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trueneg.errors import TaskError, unknown_name

SPLIT_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "eval", "testa"),
    "test": ("test", "testb"),
}
"""Split to what its file may be called (testa and testb: CoNLL-2003)."""

MALFORMED_SHARE = 0.01
"""Of a file's lines: up to here they are left out and counted, beyond it the file is refused."""

_QUOTED = re.compile(r'"(?:[^"]|"")*"')


@dataclass(frozen=True)
class Records:
    """A file's rows. Every cell is text; an empty one says nothing."""

    path: Path | str
    names: tuple[str, ...]
    """Of the columns."""
    rows: Sequence[tuple[str, ...]]
    lines: Sequence[int]
    """Where each row begins in its file, from 1."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """``malformed_lines`` and ``blank_lines``, where there are any: they are no rows."""

    def column(self, name: str) -> int:
        """Number of a column.

        Raises:
            TaskError: naming the file, what is there and the closest name.
        """
        if name not in self.names:
            raise TaskError(f"{self.path}: {unknown_name('column', name, self.names)}")
        return self.names.index(name)

    def where(self, row: int) -> str:
        """Name a row for a message: its file and line."""
        return f"{self.path}:{self.lines[row]}"


def split_files(data: Path, extensions: Sequence[str]) -> dict[str, Path]:
    """Say which file is which split.

    Args:
        data: A folder or one file. A file's split is the last word of its stem (``train.csv``, ``imdb-train.csv``) or
            its ending (``eng.train``), if in ``SPLIT_NAMES``; else ``train`` if it is the one file, else its stem.
        extensions: That count, in lower case, with the dot.

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


def name_of(data: Path) -> str:
    """What a task over one's own data is called: the file's name without its ending, or the folder's.

    Example:
        >>> name_of(Path("data/films.v2.csv"))
        'films.v2'
    """
    return data.resolve().stem if data.is_file() or not data.exists() else data.resolve().name


def split_file(files: Mapping[str, Path], split: str, data: Path) -> Path:
    """File of a split.

    Raises:
        TaskError: naming the splits that there are.
    """
    if split not in files:
        raise TaskError(f"--data {data}: {unknown_name('split', split, files)}")
    return files[split]


def listing(folder: Path, most: int = 12) -> str:
    """Name what a folder holds, for a message."""
    names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in folder.iterdir())
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") or "nothing"


def read_records(path: Path, *, is_quoted: bool | None = None) -> Records:
    """Read a CSV, TSV or JSONL file whose first line, or whose keys, name its columns.

    Args:
        path: Its ending says what it is.
        is_quoted: Whether a cell in quote characters is what is between them, as spreadsheets write it. By default so
            in CSV, and in TSV if every cell that begins with a quote character is written so and one of them has a
            doubled one inside; ``quoted_cells`` counts them then.

    Raises:
        TaskError: naming file and line: for text that is not UTF-8, a file without rows, names that repeat, or more
            malformed lines than ``MALFORMED_SHARE``.
    """
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson", ".json"):
        return _read_json_lines(path)
    delimiter = "," if suffix == ".csv" else "\t"
    num_quoted = _num_quoted(path) if suffix != ".csv" and is_quoted is None else 0
    if is_quoted or (is_quoted is None and suffix == ".csv") or num_quoted:
        cells = list(_quoted(path, delimiter))
    else:
        cells = list(_plain(path, delimiter))
    if not cells or not any(cells[0][1]):
        raise TaskError(f"{path}: its first line is empty: it has to name the columns")
    names = tuple(name.strip() for name in cells[0][1])
    records = as_records(path, names, cells[1:])
    return replace(records, counts={**records.counts, "quoted_cells": num_quoted}) if num_quoted else records


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line) of a file, without the ends of lines.

    Raises:
        TaskError: for a file that cannot be read or is not UTF-8.
    """
    # Not splitlines(), which also breaks at characters that are text here (U+0085, U+2028, form feed, a lone CR).
    lines = _text(path).split("\n")
    for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, start=1):
        yield number, line.removesuffix("\r")


def read_tsv(path: Path) -> list[tuple[int, tuple[str, ...]]]:
    """Read (line number, cells) of a TSV file in which quote characters are text.

    Raises:
        TaskError: for a file that cannot be read or is not UTF-8.
    """
    return list(_plain(path, "\t"))


def as_records(path: Path | str, names: Sequence[str], cells: Sequence[tuple[int, Sequence[str]]]) -> Records:
    """Keep the rows that have as many cells as there are names, and count the others.

    Args:
        path: For messages.
        names: Of the columns.
        cells: (line number, cells) of each line.

    Raises:
        TaskError: naming file and line: for no rows, names that repeat, or too many malformed lines.
    """
    if repeated := next((name for at, name in enumerate(names) if name in names[:at]), None):
        raise TaskError(f"{path}: two columns are called {repeated!r}: rename one")
    filled = [(line, tuple(row)) for line, row in cells if any(row)]
    kept = [(line, row) for line, row in filled if len(row) == len(names)]
    odd = next(((line, len(row)) for line, row in filled if len(row) != len(names)), None)
    if odd is not None and len(filled) - len(kept) > MALFORMED_SHARE * len(filled):
        raise TaskError(
            f"{path}:{odd[0]}: {len(names)} columns are wanted and {odd[1]} found, and so in {len(filled) - len(kept)} "
            f"of {len(filled)} lines: mend them (up to {MALFORMED_SHARE:.0%} are left out and counted)"
        )
    if not kept:
        raise TaskError(f"{path}: no rows")
    counts = {"malformed_lines": len(filled) - len(kept), "blank_lines": len(cells) - len(filled)}
    lines, rows = zip(*kept, strict=True)
    return Records(path, tuple(names), rows, lines, {name: number for name, number in counts.items() if number})


def cell(value: object) -> str | None:
    """Write a JSON value as a cell; None for what is neither text, number, truth nor nothing.

    Example:
        >>> [cell(value) for value in ("a", 1, 0.5, True, None, [1])]
        ['a', '1', '0.5', 'true', '', None]
    """
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value) if isinstance(value, bool | int | float) else None


def _split_of(file: Path) -> str:
    known = {name: split for split, names in SPLIT_NAMES.items() for name in names}
    ending, last_word = file.suffix.lower()[1:], re.split(r"[-_.]", file.stem.lower())[-1]
    return known.get(ending) or known.get(last_word) or file.stem


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise TaskError(f"{path}:{line}: not UTF-8 ({error.reason}): convert the file") from error


def _plain(path: Path, delimiter: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    for number, line in read_lines(path):
        yield number, tuple(line.split(delimiter))


def _num_quoted(path: Path) -> int:
    """Cells of a TSV file in quote characters, if all that begin with one are well formed and one shows it inside."""
    quoted = [cell for _, row in _plain(path, "\t") for cell in row if cell.startswith('"')]
    is_shown = any('""' in cell[1:-1] for cell in quoted)
    return len(quoted) if is_shown and all(_QUOTED.fullmatch(cell) for cell in quoted) else 0


def _quoted(path: Path, delimiter: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    reader = csv.reader(io.StringIO(_text(path), newline=""), delimiter=delimiter, strict=True)
    first = 1
    try:
        for row in reader:
            yield first, tuple(row)
            first = reader.line_num + 1
    except csv.Error as error:
        raise TaskError(f"{path}:{first}: {error}: {csv_remedy(error)}") from error


def csv_remedy(error: csv.Error) -> str:
    """What to do about a row that csv cannot read, in words."""
    if "field limit" in str(error):
        return f"a quote is open in the row that begins here, or a text has over {csv.field_size_limit():,} signs"
    return "mend the quotes of the row that begins here"


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
        except ValueError as error:
            broken.append((number, f"not JSON ({error})"))
            continue
        if isinstance(value, dict):
            rows.append((number, value))
        else:
            broken.append((number, f"an object is wanted on each line, not {type(value).__name__}"))
    num_lines = len(rows) + len(broken)
    if broken and _text(path).lstrip().startswith("["):
        raise TaskError(f"{path}: a JSON array: one object a line is wanted (jq -c '.[]' FILE > {path.stem}.jsonl)")
    if len(broken) > MALFORMED_SHARE * num_lines:
        raise TaskError(f"{path}:{broken[0][0]}: {broken[0][1]}, and so in {len(broken)} of {num_lines} lines")
    # What is a list or an object in every row is no column; one that some rows lack has empty cells there.
    names = tuple(dict.fromkeys(name for _, row in rows for name, value in row.items() if cell(value) is not None))
    for number, row in rows:
        if odd := next((name for name in names if cell(row.get(name)) is None), None):
            raise TaskError(f"{path}:{number}: {odd!r} is {type(row[odd]).__name__} here, text or a number elsewhere")
    cells = [(number, tuple(cell(row.get(name)) or "" for name in names)) for number, row in rows]
    records = as_records(path, names, cells)
    counts = {"malformed_lines": len(broken), "blank_lines": num_blank + records.counts.get("blank_lines", 0)}
    return Records(path, names, records.rows, records.lines, {name: n for name, n in counts.items() if n})


def _nearby(path: Path) -> str:
    return f"{path.parent} holds {listing(path.parent)}" if path.parent.is_dir() else f"no folder {path.parent} either"
