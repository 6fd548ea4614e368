"""Journals of folders that take hours to fill: whether a call starts anew or resumes an earlier one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from trueneg.config.codec import flatten
from trueneg.corpus.store import PARTS
from trueneg.errors import CorpusError
from trueneg.files.digests import fingerprint_of
from trueneg.files.lock import LOCK
from trueneg.files.records import parse_record, read_record
from trueneg.files.whole import PART, write_json

T = TypeVar("T")

ANEW = "choose another --out, or pass --overwrite to start anew"
"""Advice for unfinished work that cannot be resumed."""


@dataclass(frozen=True)
class _Sealed:
    """A journal as it is stored: its counts are trusted, so a checksum protects them."""

    checksum: str
    content: dict[str, Any]


def write_journal(path: Path, content: Mapping[str, Any]) -> None:
    """Save the progress of the work, with a checksum."""
    write_json(path, {"checksum": fingerprint_of(content), "content": content})


def read_journal(kind: type[T], path: Path) -> T | None:
    """Read what ``write_journal`` wrote, as a dataclass; None if there is none.

    Raises:
        CorpusError: if it is damaged.
    """
    if not path.exists():
        return None
    sealed = read_record(_Sealed, path, CorpusError, ANEW)
    if fingerprint_of(sealed.content) != sealed.checksum:
        raise CorpusError(f"'{path}' was changed after it was written: {ANEW}")
    return parse_record(kind, json.dumps(sealed.content), f"'{path}'", CorpusError, ANEW)


def goes_on(
    folder: Path,
    kind: str,
    *,
    finished: str,
    journal: str,
    stored: Mapping[str, Any] | CorpusError | None,
    inputs: Mapping[str, Any],
    overwrite: bool,
    own: Collection[str] = (),
) -> bool:
    """Whether a folder holds unfinished work to resume; otherwise it is free for new work.

    Data that were written are discarded only with ``overwrite``.

    Args:
        folder: The folder of the work; it need not exist.
        kind: What the work makes, such as "corpus".
        finished: Name of the file that is written last.
        journal: Name of the file that is kept until then.
        stored: The inputs recorded in the folder's journal, None without a journal; or an error if the journal or the
            files that it names are damaged.
        inputs: The inputs of this work, JSON-ready.
        overwrite: Whether work that is finished, or was begun with other inputs, may be discarded.
        own: Names of other files that the folder may already hold.

    Raises:
        CorpusError: if the folder holds something else, finished work, damaged work, or work with other inputs,
            naming what differs.
    """
    if (folder / finished).exists():  # with a journal too: killed right after it, or while overwriting
        if not overwrite:
            raise CorpusError(f"'{folder}' holds the finished {kind}: choose another --out, or pass --overwrite")
        return False
    if not (folder / journal).exists():
        # A kill during the very first write leaves the journal's temporary file.
        others = {path.name for path in folder.iterdir()} - {LOCK, journal + PART, *own} if folder.exists() else set()
        if PARTS in others:
            raise CorpusError(
                f"'{folder}' holds parts of a {kind}: put them together with 'trueneg corpus finish {folder}', or "
                f"choose another --out"
            )
        if others:
            raise CorpusError(f"'{folder}' is not empty and holds no {kind}: choose another --out")
        return False
    found = changes(stored, inputs) if isinstance(stored, Mapping) else []
    if isinstance(stored, Mapping) and not found:
        return True
    has_content = any(file.stat().st_size for file in folder.glob("*/*.bin"))
    if has_content and not overwrite:
        if isinstance(stored, CorpusError):
            raise stored
        raise CorpusError(
            f"'{folder}' holds the unfinished {kind} of other inputs ({'; '.join(found)}): give the same again to "
            f"go on, {ANEW}"
        )
    return False


def clear(folder: Path, *names: str) -> None:
    """Remove files of a folder, and the folders of its splits."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    for split in ("train", "valid"):
        if (folder / split).is_dir():
            shutil.rmtree(folder / split)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """List what differs between a stored description and another one, with both values."""
    ours, theirs = (flatten(json.loads(json.dumps(description))) for description in (before, after))
    names = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
    pairs = [_first_difference(ours.get(name), theirs.get(name)) for name in names]
    return [f"{name}: {old} -> {new}" for name, (old, new) in zip(names, pairs, strict=True)]


def _first_difference(before: Any, after: Any) -> tuple[Any, Any]:
    """Of lists, the first items that differ: a corpus may have thousands of sources."""
    if not (isinstance(before, list) and isinstance(after, list)):
        return before, after
    return next((old, new) for old, new in zip_longest(before, after) if old != new)
