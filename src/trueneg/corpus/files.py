"""Files of a folder that takes hours to fill: refused when they are torn, and what a user can do about errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from trueneg.errors import CorpusError, Interrupted, TruenegError
from trueneg.files.digests import fingerprint_of
from trueneg.files.records import read_record


class Description:
    """What a finished folder says of itself: base of frozen dataclasses with ``fingerprint`` and ``format_version``.

    Fields are each class's own, as their order is that of the file.
    """

    FORMAT_VERSION: ClassVar[int] = 1
    NOT_IN_FINGERPRINT: ClassVar[tuple[str, ...]] = ()

    fingerprint: str

    def with_fingerprint(self) -> Self:
        """The same, with the fingerprint that follows from the content."""
        fields = cast(Any, self)
        content = dataclasses.asdict(fields) | dict.fromkeys(("fingerprint", *self.NOT_IN_FINGERPRINT))
        return cast(Self, dataclasses.replace(fields, fingerprint=fingerprint_of(content)))

    def fault(self) -> str | None:
        """Say what is impossible in it, None if nothing is."""
        return None

    @classmethod
    def read_file(cls, path: Path, remedy: str) -> Self:
        """Read it from a JSON file.

        Args:
            path: The file.
            remedy: What the user can do, as an order.

        Raises:
            CorpusError: if it is missing, damaged, changed or of another version.
        """
        found = read_record(dict[str, Any], path, CorpusError, remedy).get("format_version", cls.FORMAT_VERSION)
        if found != cls.FORMAT_VERSION:
            raise CorpusError(f"'{path}' has format version {found}, not {cls.FORMAT_VERSION}: {remedy}")
        info = read_record(cls, path, CorpusError, remedy)
        if info.with_fingerprint().fingerprint != info.fingerprint:
            raise CorpusError(f"'{path}' was changed after it was written: {remedy}")
        if fault := info.fault():
            raise CorpusError(f"'{path}' is damaged ({fault}): {remedy}")
        return info


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
