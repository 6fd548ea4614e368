"""Files of a folder that takes hours to fill: refused when they are torn, and what a user can do about errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from trueneg.errors import CorpusError, Interrupted, TruenegError
from trueneg.files.records import read_record

T = TypeVar("T")


def read_description(kind: type[T], path: Path, version: int, remedy: str) -> T:
    """Read what a finished folder says of itself.

    Args:
        kind: A dataclass.
        path: The JSON file.
        version: The ``format_version`` that is understood.
        remedy: What the user can do, as an order.

    Raises:
        CorpusError: if it is missing, damaged or of another version.
    """
    found = read_record(dict[str, Any], path, CorpusError, remedy).get("format_version", version)
    if found != version:
        raise CorpusError(f"'{path}' has format version {found}, not {version}: {remedy}")
    return read_record(kind, path, CorpusError, remedy)


def check_size(file: Path, size: int, remedy: str) -> None:
    """Refuse a file that is missing or has not so many bytes.

    Raises:
        CorpusError: saying which of the two, and the remedy.
    """
    found = file.stat().st_size if file.is_file() else None
    if found != size:
        state = "is missing" if found is None else f"has {found:,} bytes, not {size:,}"
        raise CorpusError(f"'{file}' {state}: {remedy}")


@contextmanager
def user_errors(doing: str, kept: str, again: str) -> Iterator[None]:
    """Turn what the system says into what the user can do.

    Args:
        doing: What is under way, for "cannot go on …".
        kept: What is there after Ctrl-C: what was annotated.
        again: What to do then.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"{kept}: {again}") from None
    except TruenegError:
        raise
    except OSError as error:
        raise CorpusError(f"cannot go on {doing} ({error}): fix that, then {again}") from error
