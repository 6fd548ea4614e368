"""What a command left, without the clock: two folders of the same work are compared by it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open

CLOCK = {"seconds", "tokens_per_second", "revision", "since", "examples_per_second"}
CLOCK |= {"positions_per_second", "mfu", "data_wait", "seconds_left"}
"""Readings of the clock, and of the code's state."""


def outcome(folder: Path) -> dict[str, str]:
    """Digests of all files by name: of tensors, of readings without the clock's, of bytes. Of checkpoints the last.

    A file that is there only because something went wrong counts like any other, but for a lock's (a kill leaves it,
    nobody holds it, and the next one who wants it takes it) and what a process of ``corpus build --part`` had under its
    own name (another machine may be at it; ``corpus finish`` removes it with all parts).
    """
    checkpoints = sorted(folder.rglob("checkpoints/step-*"))
    last = {path.parent: path for path in checkpoints}
    found = {}
    files = [folder] if folder.is_file() else [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(file for file in files if not file.name.endswith(".lock")):
        if re.search(r"^parts/\.[0-9a-f]{16}\.", str(path.relative_to(folder) if path != folder else path.name)):
            continue
        run = next((parent for parent in path.parents if parent.name == "checkpoints"), None)
        if run in last and last[run] not in path.parents:
            continue
        found[str(path.relative_to(folder))] = hashlib.sha256(repr(_content(path, folder)).encode()).hexdigest()[:16]
    return found


def difference(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """The files in which two outcomes differ; nothing if they are the same."""
    names = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
    say = {(True, False): "missing", (False, True): "extra", (True, True): "other"}
    return ", ".join(f"{say[name in ours, name in theirs]} {name}" for name in sorted(names))


def _content(path: Path, folder: Path) -> Any:
    if path.suffix == ".safetensors":
        with safe_open(str(path), framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
        return [(name, str(tensor.dtype), tensor.shape, tensor.tobytes()) for name, tensor in tensors.items()]
    if path.suffix == ".json":
        return list(_timeless(json.loads(_text(path, folder)), is_state=path.name == "state.json"))
    if path.suffix == ".jsonl":
        return [list(_timeless(json.loads(line))) for line in _text(path, folder).splitlines()]
    if path.suffix == ".md":
        return re.sub(r"(\d+(\.\d+)?) (s|seconds|minutes|tokens a second)\b", "TIME", _text(path, folder))
    return path.read_bytes()


def _text(path: Path, folder: Path) -> str:
    return path.read_text(encoding="utf-8").replace(str(folder), "OUT")


def _timeless(value: Any, *, is_state: bool = False) -> Iterator[Any]:
    """A JSON value, flat, without the readings of the clock, nor the digests of a state that cover them."""
    if isinstance(value, dict):
        for name in sorted(value.keys() - CLOCK - ({"digest", "digests"} if is_state else set())):
            yield name
            yield from _timeless(value[name], is_state=is_state)
    elif isinstance(value, list):
        yield len(value)
        for entry in value:
            yield from _timeless(entry, is_state=is_state)
    else:
        yield value
