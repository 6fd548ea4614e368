"""On a full or read-only disk every verb says so in a line; given room, it makes what it makes."""

from __future__ import annotations

import errno
import random
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from faults.kills import Reference, fresh, reference
from faults.outcome import difference, outcome
from faults.processes import Fault, run
from faults.world import RESUMABLE, VERBS, Verb, World

EPS = 1 << 13
"""Bytes that a file can have on a full disk: what the process itself says goes into files, too."""
FULL, NO_SPACE, READ_ONLY = "files end early", "no space", "read-only"
KINDS = (FULL, NO_SPACE, READ_ONLY)


@dataclass
class Tally:
    """What became of a verb."""

    trials: int = 0
    refused: int = 0
    """The rest ended well: what they wrote was small enough, or the room ran out behind them."""
    faults: list[str] = field(default_factory=list)


def fill_all(
    world: World, place: Path, each: int, seed: int, verbs: Sequence[str] = tuple(VERBS)
) -> Iterator[tuple[str, Tally]]:
    """Have every verb meet ``each`` bad disks of every kind."""
    for number, name in enumerate(verbs):
        choose, verb = random.Random(f"{seed} {name} disk"), VERBS[name]
        whole = reference(world, verb, place / f"verb-{number}")
        tally = Tally()
        for kind in KINDS * max(1, each // verb.cost):
            tally.trials += 1
            complaint = _trial(world, verb, place / f"verb-{number}" / "trial", whole, kind, choose, tally)
            tally.faults += [complaint] if complaint else []
        yield name, tally


def _trial(
    world: World, verb: Verb, place: Path, whole: Reference, kind: str, choose: random.Random, tally: Tally
) -> str:
    """What went wrong, or nothing."""
    out = fresh(world, verb, place)
    out.mkdir(exist_ok=True)
    said = [kind]
    if verb.name in RESUMABLE and choose.random() < 0.5:  # earlier work
        ended = run(verb.command(world, out), out, _kill(whole, choose), **world.environment)
        said.append(f"after {ended.last_words}")
    if kind == READ_ONLY:
        _set_modes(out, 0o555, 0o444)
    ended = run(verb.command(world, out), out, _fault(kind, whole, choose, place), **world.environment)
    if kind == READ_ONLY:
        _set_modes(out, 0o755, 0o644)
    said.append(ended.last_words)
    tally.refused += ended.code != 0
    if not ended.is_alone:
        return f"left processes behind: {'; '.join(said)}"
    if ended.code != 0 and not ended.refusal:
        return f"no line of a user's error: {'; '.join(said)}"
    if ended.code != 0:
        ended = run(verb.command(world, out), out, **world.environment)
        said.append(ended.last_words)
        if ended.code != 0 and "finished" not in ended.refusal:
            return f"cannot go on: {'; '.join(said)}"
    if found := difference(whole.outcome, outcome(out)):
        return f"ended elsewhere ({found}): {'; '.join(said)}"
    shutil.rmtree(place)
    return ""


def _kill(whole: Reference, choose: random.Random) -> Fault:
    return Fault(choose.randint(1, max(1, whole.num_events)), signal.SIGKILL)


def _fault(kind: str, whole: Reference, choose: random.Random, place: Path) -> Fault:
    if kind == READ_ONLY:
        return Fault(is_read_only=True)
    if kind == NO_SPACE:
        return Fault(choose.randint(1, max(1, whole.num_events)), error=errno.ENOSPC)
    sizes = [path.stat().st_size for path in (place.parent / "whole").rglob("*") if path.is_file()]
    return Fault(file_limit=choose.randint(EPS, max(EPS, *sizes)))


def _set_modes(folder: Path, of_folders: int, of_files: int) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(of_folders if path.is_dir() else of_files)
