"""Standard output and error that outlive their reader: ``| head``, a closed terminal."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast


class LastingStream:
    """A stream that discards its output once the reader is gone, instead of raising an error.

    Args:
        stream: The stream to write to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, unless the reader is gone.

        Raises:
            OSError: for any reason other than a lost reader.
        """
        try:
            return self._stream.write(text)
        except OSError as error:
            self._silence(error)
            return len(text)

    def flush(self) -> None:
        """Flush, unless the reader is gone.

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
        # Buffered text is discarded, too, or the interpreter would report an error at exit.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)

    def _has_lost_reader(self, error: OSError) -> bool:
        if error.errno == errno.EIO:  # on a terminal: it was closed; on a file: a broken disk
            return stat.S_ISCHR(os.fstat(self._stream.fileno()).st_mode)
        return error.errno == errno.EPIPE


def lasting(stream: TextIO) -> TextIO:
    """Wrap a stream so that it discards its output once the reader is gone."""
    return cast(TextIO, LastingStream(stream))


@contextmanager
def lasting_streams() -> Iterator[None]:
    """Keep running when the reader of standard output or error is gone."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(lasting, before)
    try:
        yield
    finally:
        with suppress(OSError):  # the failed write has reported it
            sys.stdout.flush()
        sys.stdout, sys.stderr = before
