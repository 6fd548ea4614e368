"""The same formats under a fuzzer that coverage guides: ``python -m faults.fuzz --seconds 60``; it is the extra fuzz.

Inputs are whole files; half of the mutations are of their fields, the rest libFuzzer's own. What is neither accepted
nor refused is told by its type and place, once.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import conftest  # noqa: F401  (what every test runs under)

SAVED_EVERY = 500
LONGEST = 1 << 16


def main() -> int:
    """Fuzz formats one after another, each in a process of its own, as libFuzzer ends its process."""
    parser = argparse.ArgumentParser(prog="python -m faults.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", action="append", help="some formats only; repeatable")
    parser.add_argument("--out", type=Path, help="also write the counts as JSON")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        name, place, result = given.one
        _fuzz(name, Path(place), Path(result), given.seconds, given.seed)
    from faults.formats import FORMATS
    from faults.world import World

    report, num_faults = {}, 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        world = World(Path(folder) / "world")
        for number, name in enumerate(given.format or [name for name, each in FORMATS.items() if each.cost == 1]):
            world / Path(FORMATS[name].file).parts[0]  # made here, before anything is instrumented
            result = Path(folder) / f"{number}.json"
            common = [sys.executable, "-m", "faults.fuzz", "--seconds", str(given.seconds), "--seed", str(given.seed)]
            ended = subprocess.run([*common, "--one", name, folder, str(result)], capture_output=True, check=False)
            found = json.loads(result.read_text()) if result.exists() else {}
            found |= {"exit": ended.returncode}
            report[name] = found
            num_faults += len(found.get("faults", [0])) or ended.returncode != 0
            print(f"{name}: {found}", flush=True)
    if given.out:
        given.out.write_text(json.dumps(report, indent=1) + "\n")
    return int(num_faults > 0)


def _fuzz(name: str, folder: Path, result: Path, seconds: int, seed: int) -> None:
    """Fuzz a format until the time is up; does not return."""
    import atheris

    with atheris.instrument_imports(include=["trueneg"]):
        from faults.formats import FORMATS, Place
        from faults.mutations import as_text, mutated_value
        from faults.world import World

        place = Place(World(folder / "world"), FORMATS[name], folder / f"place of {result.stem}")
        place.check()  # imports what reads it
    counts: Counter[str] = Counter()
    faults: dict[str, str] = {}

    def save() -> None:
        result.write_text(json.dumps({**counts, "faults": faults}))

    def one(data: bytes) -> None:
        found = place.read(data)
        known = found in ("accepted", "refused")
        counts["inputs"] += 1
        counts[found if known else "neither"] += 1
        if not known:
            faults.setdefault(found.partition(":")[0], f"{found} <- {data[:200]!r}")
        if counts["inputs"] % SAVED_EVERY == 0:
            save()

    def mutate(data: bytes, longest: int, number: int) -> bytes:
        choose = random.Random(number)
        data = place.content if choose.random() < 0.3 else data
        if choose.random() < 0.5:
            lines = data.splitlines() if place.format.lines else [data]
            at = choose.randrange(len(lines)) if lines else 0
            try:
                lines[at : at + 1] = [as_text(mutated_value(json.loads(lines[at]), choose))]
                return b"\n".join(lines)[:longest]
            except (ValueError, RecursionError, IndexError):  # no JSON any more
                pass
        return bytes(atheris.Mutate(data, longest))

    seeds = folder / f"seeds of {result.stem}"
    seeds.mkdir()
    (seeds / "valid").write_bytes(place.content)
    options = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-max_len={LONGEST}",
        "-rss_limit_mb=8000",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(seeds)], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
