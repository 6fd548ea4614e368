"""Deal out all faults, and say what came of them: ``python -m faults --kills 200 --seed 1 --out faults.json``."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import conftest  # noqa: F401  (what every test runs under)
from faults.both import both_all
from faults.disk import fill_all
from faults.flips import flip_all
from faults.formats import mutate_all
from faults.kills import MOST_KILLS, SAVING, kill_all
from faults.world import RESUMABLE, World

Part = Callable[[World, Path, argparse.Namespace], Iterator[tuple[str, Any]]]
PARTS: dict[str, Part] = {
    "kills": lambda world, place, given: _killed(world, place, given, given.kills, (signal.SIGKILL,)),
    "signals": lambda world, place, given: _killed(world, place, given, given.signals, SAVING),
    "two processes": lambda world, place, given: both_all(world, place),
    "disks": lambda world, place, given: fill_all(world, place, given.disks, given.seed),
    "flips": lambda world, place, given: flip_all(world, place, given.flips, given.seed),
    "json": lambda world, place, given: mutate_all(world, place, given.inputs, given.seed),
}


def _killed(
    world: World, place: Path, given: argparse.Namespace, num: int, signals: Sequence[int]
) -> Iterator[tuple[str, Any]]:
    return kill_all(world, place, num, given.seed, signals, given.verb or tuple(RESUMABLE), given.most)


def main() -> int:
    """Run; how many faults were found is the exit status, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=200, help="SIGKILLs, over all verbs")
    parser.add_argument("--signals", type=int, default=60, help="SIGTERM, SIGINT and SIGHUP, over all verbs")
    parser.add_argument(
        "--verb", action="append", choices=list(RESUMABLE), help="send signals to some only; repeatable"
    )
    parser.add_argument(
        "--most", type=int, default=MOST_KILLS, help="most signals to one command, which is given again"
    )
    parser.add_argument("--disks", type=int, default=2, help="bad disks of each of three kinds, for each verb")
    parser.add_argument("--flips", type=int, default=10, help="for each kind of file")
    parser.add_argument("--inputs", type=int, default=2000, help="mutated files, for each format")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="some parts only; repeatable")
    parser.add_argument("--out", type=Path, help="also write the counts, and every fault, as JSON")
    given = parser.parse_args()
    report: dict[str, Any] = {"seed": given.seed, "date": time.strftime("%F")}
    num_faults = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        world = World(Path(folder) / "world")
        for number, part in enumerate(given.only or PARTS):
            print(f"\n{part}", flush=True)
            start, tallies = time.monotonic(), {}
            for name, tally in PARTS[part](world, Path(folder) / f"part-{number}", given):
                tallies[name] = asdict(tally)
                num_faults += len(tally.faults)
                print(f"  {name}: {_counts(tallies[name])}", flush=True)
                for fault in tally.faults[:5]:
                    print(f"    FAULT {fault[:800]}", flush=True)
            total = _total(list(tallies.values()))
            print(f"  all: {_counts(total)} in {time.monotonic() - start:.0f} s", flush=True)
            report[part] = {"all": total, "by name": tallies, "seconds": round(time.monotonic() - start)}
    if given.out:
        given.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(f"\n{num_faults} faults found")
    return min(num_faults, 1)


def _total(tallies: list[dict[str, Any]]) -> dict[str, Any]:
    names = tallies[0] if tallies else {}
    return {
        name: [fault for tally in tallies for fault in tally[name]]
        if name == "faults"
        else sum(t[name] for t in tallies)
        for name in names
    }


def _counts(tally: dict[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {len(value) if name == 'faults' else value}" for name, value in tally.items()
    )


if __name__ == "__main__":
    sys.exit(main())
