"""Atomic writes: files are flushed to disk, then renamed into place, so that a kill leaves them whole or absent."""

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
"""Suffix of a file's name until it is complete."""


def flush(file: IO[Any]) -> None:
    """Flush a file to disk."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def whole_file(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """Yield a temporary path next to ``path`` to write to; the result then replaces ``path``.

    The file gets the mode of a new file under the umask, whatever library wrote it. After an error nothing is left
    and ``path`` is unchanged; after a kill ``<name>.part`` is left, which the next writer replaces.

    Args:
        path: The file.
        shared: Several processes may write the file at once, as in a cache: each has a temporary file of its own,
            which a kill leaves behind, and the last one wins.

    Raises:
        OSError: if writing fails.
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
    """Give files below a folder the mode of a new file under the umask: some libraries write for one user only.

    Raises:
        OSError: if writing fails.
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
    """Check, before hours of work, that a file can be written.

    Raises:
        OSError: if it cannot.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    probe = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PART}")
    probe.touch()
    probe.unlink()


def replace_folder(path: Path, fill: Callable[[Path], object]) -> None:
    """Replace a folder with a new one by two renames; if it is a symbolic link, the folder that it leads to.

    A kill at any moment leaves the old or the new folder at ``path`` or, between the two renames, none there and the
    old one next to it as ``.<name>.old``, which ``restore_folder`` moves back.

    Args:
        path: The folder; it need not exist.
        fill: Writes the new content into a new, empty folder.

    Raises:
        OSError: if writing fails; ``path`` is then unchanged.
    """
    path = path.resolve()  # "." has no name
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
        remove_folder(new, ignore_errors=True)
        restore_folder(path)
        raise
    remove_folder(old, ignore_errors=True)


def restore_folder(path: Path) -> None:
    """Clean up after a kill within ``replace_folder``: move the old folder back, remove a half-written new one."""
    path = path.resolve()
    new, old = path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")
    remove_folder(new, ignore_errors=True)
    if not old.exists():
        return
    if path.exists():
        remove_folder(old, ignore_errors=True)
    else:
        old.rename(path)


def remove_folder(folder: Path, *, ignore_errors: bool = False) -> None:
    """Remove a folder; if it is a symbolic link, only the link."""
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=ignore_errors)
