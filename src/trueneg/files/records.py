"""Decode untrusted JSON of a known schema into typed records, with errors that name file, field and remedy.

Schemas are dataclasses, typed dictionaries or plain types, validated by pydantic without any coercion: a count given as
text, an unknown key, invalid UTF-8, numbers of 5,000 digits and arrays nested 100,000 deep all raise the same error
class, which the caller chooses.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from trueneg.errors import TruenegError

if TYPE_CHECKING:
    from pydantic import ValidationError

LONGEST_SHOWN = 40
"""Maximum characters of a value that a message shows."""

T = TypeVar("T")


def parse_record(
    kind: type[T],
    content: bytes | str,
    where: str,
    error: type[TruenegError],
    remedy: str,
    *,
    ignores_others: bool = False,
) -> T:
    """Decode one JSON text.

    Args:
        kind: A dataclass whose fields define the schema, or any other type that pydantic validates:
            ``dict[str, float]``, ``list[str]``. Unknown keys of dataclasses are refused, at any depth.
        content: The text.
        where: Beginning of messages: the file's name in quotes, with the line number if it has several records.
        error: Class of the errors raised.
        remedy: What the user can do, as an imperative: "build the corpus again".
        ignores_others: Ignore unknown keys of dataclasses, for a file of which only a part is needed.

    Raises:
        TruenegError: of class ``error``, naming the field.

    Example:
        >>> from trueneg.errors import CorpusError
        >>> parse_record(dict[str, int], '{"cat": 3}', "'counts.json'", CorpusError, "count again")
        {'cat': 3}
        >>> parse_record(dict[str, int], '{"cat": "3"}', "'counts.json'", CorpusError, "count again")
        Traceback (most recent call last):
        trueneg.errors.CorpusError: 'counts.json' is damaged: 'cat' should be a valid integer, got "3": count again
    """
    from pydantic import ValidationError

    content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    try:
        (record,) = _validator(cast(Hashable, kind), ignores_others).validate_json(b"[" + content + b"]", strict=True)
        return cast(T, record)
    except ValidationError as invalid:
        raise error(f"{where} is damaged: {_first_fault(invalid)}: {remedy}") from invalid


def parse_json(content: bytes | str, where: str, error: type[TruenegError], remedy: str) -> Any:
    """Decode JSON whose schema the caller checks, such as that of data sets; lone surrogates are accepted.

    Raises:
        TruenegError: of class ``error``: for invalid JSON, numbers of thousands of digits, or too deep nesting.

    Example:
        >>> from trueneg.errors import CorpusError
        >>> parse_json("[" * 100_000, "lines.jsonl:3", CorpusError, "fix the line")
        Traceback (most recent call last):
        trueneg.errors.CorpusError: lines.jsonl:3: not JSON (nested too deeply): fix the line
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise error(f"{where}: not JSON (nested too deeply): {remedy}") from None
    except ValueError as failed:  # from JSON, UTF-8 or numbers
        reason = str(failed).partition(";")[0]  # what follows is advice to programmers
        raise error(f"{where}: not JSON ({reason}): {remedy}") from failed


def read_record(
    kind: type[T], path: Path, error: type[TruenegError], remedy: str, *, ignores_others: bool = False
) -> T:
    """Decode a JSON file: see ``parse_record``.

    Raises:
        TruenegError: of class ``error``, also for a file that is missing or cannot be read.
    """
    content = _content(path, error, remedy)
    return parse_record(kind, content, f"'{path}'", error, remedy, ignores_others=ignores_others)


def read_versioned(kind: type[T], path: Path, schema: int, error: type[TruenegError], remedy: str) -> T:
    """Decode a JSON file that states its schema version in the field ``schema``: see ``parse_record``.

    Raises:
        TruenegError: of class ``error``; another version is reported before any other fault.
    """
    found = read_record(dict[str, Any], path, error, remedy).get("schema")
    if found != schema:
        is_newer = isinstance(found, int) and found > schema
        how = f"upgrade trueneg, or {remedy}" if is_newer else remedy
        raise error(f"'{path}': 'schema' is {found!r}, and this version of trueneg reads {schema}: {how}")
    return read_record(kind, path, error, remedy)


def read_record_lines(kind: type[T], path: Path, error: type[TruenegError], remedy: str) -> Iterator[tuple[int, T]]:
    """Decode a file with one JSON record per line; blank lines are skipped.

    Yields:
        The line's number, from 1, and its record.

    Raises:
        TruenegError: of class ``error``, naming the line.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, parse_record(kind, line, f"'{path}', line {number},", error, remedy)
    except OSError as failed:
        raise error(f"cannot read '{path}' ({failed.strerror or failed}): {remedy}") from failed


def _content(path: Path, error: type[TruenegError], remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as failed:
        raise error(f"cannot read '{path}' ({failed.strerror or failed}): {remedy}") from failed


@cache
def _validator(kind: Any, ignores_others: bool) -> Any:
    from pydantic import ConfigDict, TypeAdapter

    # pydantic applies a configuration to a dataclass only through an enclosing type.
    return TypeAdapter(tuple[kind], config=ConfigDict(extra="ignore" if ignores_others else "forbid"))


def _first_fault(invalid: ValidationError) -> str:
    fault = invalid.errors(include_url=False)[0]
    place = ".".join(str(part) for part in fault["loc"][1:])
    if fault["type"] == "json_invalid":
        return f"it is no JSON ({fault['ctx']['error']})"
    if fault["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return f"'{place}' is missing" if place else "it is empty"
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"nobody knows '{place}'"
    found = json.dumps(fault["input"], default=repr)
    shown = found if len(found) <= LONGEST_SHOWN else found[:LONGEST_SHOWN] + "…"
    return f"{repr(place) if place else 'it'} {fault['msg'].removeprefix('Input ')}, got {shown}"
