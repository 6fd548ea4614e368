"""A lock that lets one process at a time write into a folder."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trueneg.errors import BusyError, ConfigError, TruenegWarning
from trueneg.files.records import parse_record

LOCK = ".lock"
_UNSUPPORTED = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}


@contextmanager
def locked(folder: Path, doing: str, name: str = LOCK) -> Iterator[None]:
    """Lock a folder for this process; it is created if missing, and removed again if nothing was written into it.

    The system releases the lock however the process ends, so no lock is ever left behind. On a file system without
    locks, a warning is issued and nothing is locked.

    Args:
        folder: The folder to write into.
        doing: What this process does, such as "pretrain", for the message that other processes get.
        name: Name of the lock file, for folders with several kinds of work at once.

    Raises:
        BusyError: if another process holds the lock, naming that process.
        ConfigError: if ``folder`` is a file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder), "pretrain"):
        ...     (Path(folder) / LOCK).exists()
        True
    """
    is_new, path = not folder.exists(), folder / name
    descriptor = _held(path, folder)
    try:
        about = {"pid": os.getpid(), "host": socket.gethostname(), "doing": doing, "since": time.strftime("%F %T")}
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(about).encode(), 0)
        yield
    finally:
        # Unlinked while locked: a process that has opened this very file finds its name gone, and opens a new one.
        path.unlink(missing_ok=True)
        if is_new:
            with suppress(OSError):  # not empty any more
                folder.rmdir()
        os.close(descriptor)


def _held(path: Path, folder: Path) -> int:
    if folder.is_file():
        raise ConfigError(f"--out {folder} is a file: name a folder")
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the process that made the folder has just removed it
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise BusyError(
                f"'{folder}': {holder} writes here: wait until it ends, stop it, or name another folder"
            ) from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                os.close(descriptor)
                raise
            warnings.warn(
                f"'{folder}' is on a file system without locks: make sure that nothing else writes there",
                TruenegWarning,
                stacklevel=4,
            )
        try:
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    try:
        about = parse_record(dict[str, str | int], os.pread(descriptor, 4096, 0), "the lock", BusyError, "wait")
        return f"process {about['pid']} on {about['host']} ({about['doing']}, since {about['since']})"
    except (OSError, BusyError, KeyError):
        return "another process"
