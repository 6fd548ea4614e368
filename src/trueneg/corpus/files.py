"""Files that survive a kill: flushed to disk, written whole or not at all, and refused when they are torn."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from trueneg.errors import CorpusError, Interrupted, TruenegError


def flush(file: IO[Any]) -> None:
    """Have the disk hold what was written."""
    file.flush()
    os.fsync(file.fileno())


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    provisional = path.with_suffix(".part")
    with provisional.open("w", encoding="utf-8") as file:
        file.write(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        flush(file)
    provisional.replace(path)


def fingerprint_of(content: Any) -> str:
    """A name for a description, as JSON has it: 16 hexadecimal digits of a SHA-256 over it as JSON."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
def explained(doing: str, stopped: str, again: str) -> Iterator[None]:
    """Turn what the system says into what the user can do.

    Args:
        doing: What is under way, for "cannot go on …".
        stopped: What is said after Ctrl-C.
        again: What to do then.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"{stopped}: {again}") from None
    except TruenegError:
        raise
    except OSError as error:
        raise CorpusError(f"cannot go on {doing} ({error}): mend that, then {again}") from error
