"""Killed or told to stop at random, a command given again until it has finished leaves what it always leaves."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from faults.outcome import difference, outcome
from faults.processes import Ended, Fault, run, start
from faults.world import RESUMABLE, Verb, World

MOST_KILLS = 3
"""Of one trial, which is a command given again until it has finished."""
STOPPED = 130
SAVING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class Tally:
    """What became of a verb."""

    trials: int = 0
    hits: int = 0
    """Signals that reached a process."""
    at_file_events: int = 0
    same: int = 0
    """Trials that ended as the uninterrupted command."""
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Reference:
    """The uninterrupted command."""

    outcome: dict[str, str]
    seconds: float
    num_events: int


def reference(world: World, verb: Verb, place: Path) -> Reference:
    """Run a command without any fault."""
    out = fresh(world, verb, place / "whole")
    ended = run(verb.command(world, out), out, **world.environment)
    assert ended.code == 0, f"{verb.name}: {ended.last_words}"
    return Reference(outcome(out), ended.seconds, ended.num_events)


def fresh(world: World, verb: Verb, place: Path) -> Path:
    """The folder of a command that has not been given yet: every one has the same name, which goes into cards."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    verb.prepare(world, place / "out")
    return place / "out"


def kill_all(
    world: World,
    place: Path,
    num: int,
    seed: int,
    signals: Sequence[int] = (signal.SIGKILL,),
    verbs: Sequence[str] = tuple(RESUMABLE),
    most: int = MOST_KILLS,
) -> Iterator[tuple[str, Tally]]:
    """Deal ``num`` signals out over verbs, ``most`` of them to a trial, and tell of each verb what became of it."""
    # Each is dealt its part of what is left, so that all are dealt out.
    weights = [1 / RESUMABLE[name].cost for name in verbs]
    for number, name in enumerate(verbs):
        share = round(num * weights[number] / sum(weights[number:]))
        num -= share
        if share:
            choose = random.Random(f"{seed} {name} {list(signals)}")
            yield name, _kill_verb(world, RESUMABLE[name], place / f"verb-{number}", share, choose, signals, most)


def _kill_verb(
    world: World, verb: Verb, place: Path, num: int, choose: random.Random, signals: Sequence[int], most: int
) -> Tally:
    whole = reference(world, verb, place)
    tally = Tally()
    while tally.hits < num and tally.trials < 3 * num + 12:
        wanted = min(choose.randint(1, most), num - tally.hits)
        _trial(world, verb, place / f"trial-{tally.trials}", whole, wanted, choose, signals, tally)
        tally.trials += 1
    return tally


def _trial(
    world: World,
    verb: Verb,
    place: Path,
    whole: Reference,
    wanted: int,
    choose: random.Random,
    signals: Sequence[int],
    tally: Tally,
) -> None:
    out = fresh(world, verb, place)
    said: list[str] = []
    for _ in range(wanted):
        number, is_event = choose.choice(signals), choose.random() < 0.5
        # Of many kills each comes early, or the first few would be all that the command lives to see.
        share = min(1.0, MOST_KILLS / wanted)
        event = choose.randint(1, max(1, round(share * whole.num_events)))
        moment = choose.uniform(0, share * whole.seconds)
        said.append(f"{signal.Signals(number).name} at {f'file event {event}' if is_event else f'{moment:.3f} s'}")
        fault = Fault(event, number) if is_event else Fault()
        process = start(verb.command(world, out), out, fault, **world.environment)
        if not is_event:
            process.process.join(moment)
            if process.process.is_alive():
                os.kill(process.process.pid, number)
        ended = process.ending()
        said.append(ended.last_words)
        tally.hits += ended.code in (-number, STOPPED)
        tally.at_file_events += is_event and ended.code in (-number, STOPPED)
        if complaint := _complaint(ended, number):
            tally.faults.append(f"{complaint}: {'; '.join(said)}")
            return
        if ended.code == 0:
            break
    ended = run(verb.command(world, out), out, **world.environment)
    said.append(ended.last_words)
    # A command that makes one thing refuses to make it again: it had been killed behind its last step.
    if ended.code != 0 and "finished" not in ended.refusal:
        tally.faults.append(f"cannot go on: {'; '.join(said)}")
    elif found := difference(whole.outcome, outcome(out)):
        tally.faults.append(f"ended elsewhere ({found}): {'; '.join(said)}")
    else:
        tally.same += 1
        shutil.rmtree(place)


def _complaint(ended: Ended, number: int) -> str:
    """What is wrong with how a process ended that was sent a signal."""
    if not ended.is_alone:
        return "left processes behind"
    if number == signal.SIGKILL:
        is_right = ended.code in (0, -number) or "finished" in ended.refusal
    else:
        is_right = ended.code in (0, STOPPED) or "finished" in ended.refusal
    return "" if is_right and not ended.is_raw else "ended badly"
