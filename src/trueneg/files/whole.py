"""Files that survive a kill: flushed to disk, then put in place by a rename, so that they are whole or not there."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

PART = ".part"
"""What the name of a file ends in until it is whole."""


def flush(file: IO[Any]) -> None:
    """Have the disk hold what was written."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def whole_file(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """Give a name next to ``path`` to write to; the result then replaces ``path``.

    The mode is what the umask makes of a new file, whatever library wrote it. After an error nothing is left and
    ``path`` is what it was; after a kill ``<name>.part`` is left, which the next writer replaces.

    Args:
        path: The file.
        shared: Several processes may write it at once, as they do in a cache: each has a part of its own, the last
            one stays.

    Raises:
        OSError: as writing does.
    """
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PART}" if shared else path.name + PART)
    try:
        part.unlink(missing_ok=True)
        part.touch()
        mode = part.stat().st_mode & 0o777
        yield part
        part.chmod(mode)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def follow_umask(folder: Path) -> None:
    """Give each file below a folder the mode that the umask makes of a new one: some libraries write for one user only.

    Raises:
        OSError: as writing does.
    """
    probe = folder / PART
    probe.touch()
    mode = probe.stat().st_mode & 0o777
    probe.unlink()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)


def write_whole(path: Path, content: str | bytes, *, shared: bool = False) -> None:
    """Write text (as UTF-8) or bytes, whole or not at all: see ``whole_file``."""
    with whole_file(path, shared=shared) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def write_json(path: Path, record: Mapping[str, Any], *, shared: bool = False) -> None:
    """Write JSON, whole or not at all: see ``whole_file``."""
    write_whole(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n", shared=shared)


def check_writable(path: Path) -> None:
    """Find out, before hours of work, whether a file can be written.

    Raises:
        OSError: if it cannot.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    probe = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PART}")
    probe.touch()
    probe.unlink()


def replace_folder(path: Path, fill: Callable[[Path], object]) -> None:
    """Put a folder in the place of another one by two renames.

    A kill at any moment leaves ``path`` as it was, as it will be, or, between the two renames, missing with the old
    one next to it as ``.<name>.old``: ``restore_folder`` puts that back.

    Args:
        path: The folder; it may be there or not.
        fill: Writes what it shall hold into a new, empty folder.

    Raises:
        OSError: as writing does; ``path`` is then what it was.
    """
    new, old = path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")
    restore_folder(path)
    try:
        new.mkdir(parents=True)
        fill(new)
        follow_umask(new)
        if path.exists():
            path.rename(old)
        new.rename(path)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        restore_folder(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def restore_folder(path: Path) -> None:
    """Undo what a kill within ``replace_folder`` left: an old folder next to its place, or a half-written new one."""
    new, old = path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")
    shutil.rmtree(new, ignore_errors=True)
    if not old.exists():
        return
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.rename(path)
