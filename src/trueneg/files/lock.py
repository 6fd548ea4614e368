"""One process at a time writes into a folder."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trueneg.errors import BusyError, TruenegWarning

LOCK = ".lock"
_UNSUPPORTED = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """Hold a folder for this process; it is made if it is not there.

    The system lets go of it when the process ends in any way, so no lock is ever left behind. A file system without
    locks warns once and locks nothing.

    Args:
        folder: What is written into.
        doing: What the other one is told: "pretrain".

    Raises:
        BusyError: if another process holds it, naming that one.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder), "pretrain"):
        ...     (Path(folder) / LOCK).exists()
        True
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    descriptor = _held(path, folder)
    try:
        about = {"pid": os.getpid(), "host": socket.gethostname(), "doing": doing, "since": time.strftime("%F %T")}
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(about).encode(), 0)
        yield
    finally:
        # Unlinked while it is held: whoever waits for this very file finds that its name is gone, and takes a new one.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _held(path: Path, folder: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise BusyError(
                f"'{folder}': {holder} writes here: wait until it ends or stop it, or give another --out"
            ) from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                os.close(descriptor)
                raise
            warnings.warn(
                f"'{folder}' lies on a file system without locks: make sure that nothing else writes there",
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
        about = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {about['pid']} on {about['host']} ({about['doing']}, since {about['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
