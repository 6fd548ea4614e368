"""Helpers for folders that take hours to fill: reject damaged files, and tell users what to do about errors."""

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
    """Description of a finished folder: base of frozen dataclasses with ``fingerprint`` and ``format_version``.

    Each class declares all fields itself, as their order is that of the file.
    """

    FORMAT_VERSION: ClassVar[int] = 1
    NOT_IN_FINGERPRINT: ClassVar[tuple[str, ...]] = ()

    fingerprint: str

    def with_fingerprint(self) -> Self:
        """Return a copy with the fingerprint of the content."""
        fields = cast(Any, self)
        content = dataclasses.asdict(fields) | dict.fromkeys(("fingerprint", *self.NOT_IN_FINGERPRINT))
        return cast(Self, dataclasses.replace(fields, fingerprint=fingerprint_of(content)))

    def fault(self) -> str | None:
        """Return what is inconsistent in it, None if nothing is."""
        return None

    @classmethod
    def read_file(cls, path: Path, remedy: str) -> Self:
        """Read it from a JSON file.

        Args:
            path: The file.
            remedy: What the user can do, as an imperative.

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
    """Refuse a file that is missing or does not have this many bytes.

    Raises:
        CorpusError: with the fault and the remedy.
    """
    found = file.stat().st_size if file.is_file() else None
    if found != size:
        state = "is missing" if found is None else f"has {found:,} bytes, not {size:,}"
        raise CorpusError(f"'{file}' {state}: {remedy}")


@contextmanager
def user_errors(doing: str, kept: str, again: str) -> Iterator[None]:
    """Turn errors of the system, and Ctrl-C, into errors that tell the user what to do.

    Args:
        doing: The work in progress, for "cannot go on …".
        kept: What is kept after Ctrl-C, as a clause: "what is annotated is kept".
        again: How to continue, as an imperative.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"{kept}: {again}") from None
    except TruenegError:
        raise
    except OSError as error:
        raise CorpusError(f"cannot go on {doing} ({error}): fix that, then {again}") from error
