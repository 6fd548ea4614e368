"""Standard output and error whose reader may leave before the work is done: ``| head``, a closed terminal."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast


class LastingStream:
    """A stream that goes silent when its reader is gone, where the stream itself would raise an error.

    Args:
        stream: What is written to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, if anybody reads.

        Raises:
            OSError: for any other reason than a lost reader.
        """
        try:
            return self._stream.write(text)
        except OSError as error:
            self._silence(error)
            return len(text)

    def flush(self) -> None:
        """Flush, if anybody reads.

        Raises:
            OSError: as ``write``.
        """
        try:
            self._stream.flush()
        except OSError as error:
            self._silence(error)

    def _silence(self, error: OSError) -> None:
        if not self._has_lost_reader(error):
            raise error
        # What is buffered goes the same way, or the interpreter would complain of it when it ends.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)

    def _has_lost_reader(self, error: OSError) -> bool:
        if error.errno == errno.EIO:  # of a terminal that was closed; of a file it is a broken disk
            return stat.S_ISCHR(os.fstat(self._stream.fileno()).st_mode)
        return error.errno == errno.EPIPE


def lasting(stream: TextIO) -> TextIO:
    """The stream, silent once its reader is gone."""
    return cast(TextIO, LastingStream(stream))


@contextmanager
def lasting_streams() -> Iterator[None]:
    """Let no lost reader of standard output or error end what is under way."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(lasting, before)
    try:
        yield
    finally:
        with suppress(OSError):  # the writer has reported it
            sys.stdout.flush()
        sys.stdout, sys.stderr = before
