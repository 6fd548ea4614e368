"""Two processes on one folder: the second is refused by name, the first ends as if alone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from faults.kills import fresh, reference
from faults.outcome import difference, outcome
from faults.processes import Started, run, start
from faults.world import RESUMABLE, World


@dataclass
class Tally:
    """What became of a verb."""

    trials: int = 0
    faults: list[str] = field(default_factory=list)


def both_all(world: World, place: Path, verbs: Sequence[str] = tuple(RESUMABLE)) -> Iterator[tuple[str, Tally]]:
    """Give every verb twice."""
    for number, name in enumerate(verbs):
        complaint = _both(world, name, place / f"verb-{number}")
        yield name, Tally(1, [complaint] if complaint else [])


def _both(world: World, name: str, place: Path) -> str:
    verb, whole = RESUMABLE[name], reference(world, RESUMABLE[name], place)
    out = fresh(world, verb, place / "both")
    first = start(verb.command(world, out), out, **world.environment)
    if not _wait_for_lock(first, out):
        first.ending()
        return "wrote without holding the folder"
    # It stands still, so that it holds the folder for as long as the second one asks.
    os.kill(first.process.pid, signal.SIGSTOP)
    try:
        second = run(verb.command(world, out), out, **world.environment)
    finally:
        os.kill(first.process.pid, signal.SIGCONT)
    ended = first.ending()
    if f"process {first.process.pid}" not in second.refusal:
        return f"the second: {second.last_words}"
    if ended.code != 0:
        return f"the first: {ended.last_words}"
    found = difference(whole.outcome, outcome(out))
    return f"the first ended elsewhere: {found}" if found else ""


def _wait_for_lock(first: Started, out: Path) -> bool:
    """Whether a process comes to hold a folder; it names itself a moment after."""
    while first.process.is_alive():
        for folder, _, files in os.walk(out):
            for name in files:
                with contextlib.suppress(FileNotFoundError):
                    if name.endswith(".lock") and (Path(folder) / name).stat().st_size:
                        return True
        time.sleep(0.0005)
    return False
