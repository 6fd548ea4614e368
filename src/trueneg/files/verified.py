"""Verify the checksums of files once: the result is recorded, and holds as long as a file does not change."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from trueneg.errors import TruenegError, TruenegWarning
from trueneg.files.digests import checksum, fingerprint_of
from trueneg.files.records import read_record
from trueneg.files.whole import write_json

_SETTLED_NS = 10 * 10**9
"""A file changed more recently than this is not recorded: it may change again within one tick of its clock."""
_MOST_THREADS = 8  # hashing releases the GIL


@dataclass(frozen=True)
class Expected:
    """The expected content of a file.

    Attributes:
        path: its path.
        checksum: SHA-256, in hexadecimal digits.
        rule: identifies what ``fault`` checks and its limits; results recorded under another rule do not count.
        fault: returns what is wrong with content that has this checksum, None if nothing is; called right after the
            file was read.
    """

    path: Path
    checksum: str
    rule: str = ""
    fault: Callable[[], str | None] = lambda: None


def verify(
    files: Sequence[Expected], error: type[TruenegError], remedy: str, notes: Path, *, again: bool = False
) -> None:
    """Check the checksums and the content of files; files that were verified before are skipped.

    A file counts as unchanged if its size, its modification and change times and its inode are unchanged.

    Args:
        files: Files that belong together, and are recorded together.
        error: Class of the errors raised.
        remedy: What the user can do, as an imperative.
        notes: Folder for the results. If it cannot be written to, a warning is issued.
        again: Read every file, even if it was verified before.

    Raises:
        TruenegError: of class ``error``, naming the first file that is not as expected.

    Example:
        >>> import tempfile
        >>> from trueneg.errors import CorpusError
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "file"
        ...     _ = file.write_bytes(b"abc")
        ...     expected = Expected(file, checksum(file))
        ...     verify([expected], CorpusError, "build it again", Path(folder) / "notes")
        ...     _ = file.write_bytes(b"abd")
        ...     verify([expected], CorpusError, "build it again", Path(folder) / "notes")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        trueneg.errors.CorpusError: '...file' is damaged (checksum): build it again
    """
    path = notes / f"{fingerprint_of([_key(file) for file in files])}.json"
    noted = {} if again else _read_notes(path)
    now = time.time_ns()
    try:
        stats = [(file, file.path.stat()) for file in files]
        stamps = {_key(file): _stamp(file, stat) for file, stat in stats}
        unread = [file for file in files if noted.get(_key(file)) != stamps[_key(file)]]
        if not unread:
            return
        _compare(unread, error, remedy)
    except OSError as failed:
        raise error(f"cannot read '{failed.filename}' ({failed.strerror or failed}): {remedy}") from failed
    settled = [file for file, stat in stats if now - stat.st_mtime_ns > _SETTLED_NS]
    _write_notes(path, {_key(file): stamps[_key(file)] for file in settled})


def _compare(files: Sequence[Expected], error: type[TruenegError], remedy: str) -> None:
    pool = ThreadPoolExecutor(min(_MOST_THREADS, len(files), os.cpu_count() or 1))
    try:
        for file, fault in zip(files, pool.map(_fault, files), strict=True):
            if fault:
                raise error(f"'{file.path}' is damaged ({fault}): {remedy}")
    finally:
        pool.shutdown(cancel_futures=True)


def _fault(file: Expected) -> str | None:
    return file.fault() if checksum(file.path) == file.checksum else "checksum"


def _key(file: Expected) -> str:
    return str(file.path.absolute())


def _stamp(file: Expected, stat: os.stat_result) -> str:
    times = f"{stat.st_mtime_ns} {stat.st_ctime_ns}"
    return f"{stat.st_size} {times} {stat.st_dev} {stat.st_ino} {file.checksum} {file.rule}"


def _read_notes(path: Path) -> Mapping[str, str]:
    """The files verified before; none if the notes are missing or damaged, as they can be made again."""
    try:
        return read_record(dict[str, str], path, TruenegError, "read the files again")
    except TruenegError:
        return {}


def _write_notes(path: Path, stamps: Mapping[str, str]) -> None:
    if not stamps:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, stamps, shared=True)
    except OSError as failed:
        warnings.warn(
            f"cannot note in '{path.parent}' what was verified ({failed.strerror or failed}): it is read again each "
            f"time; give a folder that can be written with TRUENEG_CACHE",
            TruenegWarning,
            stacklevel=3,
        )
