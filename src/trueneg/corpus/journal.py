"""A folder that takes hours to fill: whether a call begins in it, or goes on from where an earlier one stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trueneg.decoding import flatten
from trueneg.errors import CorpusError
from trueneg.files.lock import LOCK


def goes_on(
    folder: Path,
    kind: str,
    *,
    finished: str,
    journal: str,
    stored: Mapping[str, Any] | None,
    inputs: Mapping[str, Any],
    overwrite: bool,
) -> bool:
    """Whether a folder holds the beginning of the same work; otherwise it is free for a new beginning.

    Nothing that was written is given up unless it may be overwritten.

    Args:
        folder: Of the work; it need not exist.
        kind: What the work makes: "corpus".
        finished: Name of the file that is written last.
        journal: Name of the file that is kept until then.
        stored: What the journal in the folder says its work was begun with; None if it cannot be trusted.
        inputs: What this work is begun with, JSON-ready.
        overwrite: Whether what is finished, or was begun with something else, may go.

    Raises:
        CorpusError: for a folder of something else, what is finished, or a beginning with other inputs,
            naming what differs.
    """
    if (folder / finished).exists():  # with a journal too: killed just after it or on overwriting
        if not overwrite:
            raise CorpusError(f"'{folder}' holds the finished {kind}: choose another --out, or pass --overwrite")
        return False
    if not (folder / journal).exists():
        if folder.exists() and any(path.name != LOCK for path in folder.iterdir()):
            raise CorpusError(f"'{folder}' is not empty and holds no {kind}: choose another --out")
        return False
    changes = [] if stored is None else _changes(stored, json.loads(json.dumps(inputs)))
    if stored is not None and not changes:
        return True
    has_content = any(file.stat().st_size for file in folder.glob("*/*.bin"))
    if has_content and not overwrite:
        remedies = "choose another --out, or pass --overwrite to start anew"
        if stored is None:
            raise CorpusError(f"'{folder}' holds unfinished work whose '{journal}' or files are torn: {remedies}")
        raise CorpusError(
            f"'{folder}' holds the unfinished {kind} of other inputs ({'; '.join(changes)}): give the same again to "
            f"go on, {remedies}"
        )
    return False


def clear(folder: Path, *names: str) -> None:
    """Remove files of a folder, and its splits."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    for split in ("train", "valid"):
        if (folder / split).is_dir():
            shutil.rmtree(folder / split)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Names of what differs, with both values."""
    ours, theirs = flatten(before), flatten(after)
    names = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
    pairs = [_first_difference(ours.get(name), theirs.get(name)) for name in names]
    return [f"{name}: {old} -> {new}" for name, (old, new) in zip(names, pairs, strict=True)]


def _first_difference(before: Any, after: Any) -> tuple[Any, Any]:
    """Of lists, the first items that differ: a corpus may have thousands of sources."""
    if not (isinstance(before, list) and isinstance(after, list)):
        return before, after
    return next((old, new) for old, new in zip_longest(before, after) if old != new)
