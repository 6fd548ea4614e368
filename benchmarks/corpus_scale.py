"""Memory of a corpus build as its text grows, and its time with one worker and with two.

    python benchmarks/corpus_scale.py TEXT TOKENIZER_FOLDER --megabytes 10 100 1000

The text is repeated to each size. Every build is a process of its own, of which the peak of memory is told, as is that
of ``corpus finish`` after ``corpus build --part 1/1``. Of the second size, the time with two workers too. Memory of
the largest size is held to 1.2 times that of the smallest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from trueneg.corpus.sources import read_documents


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("tokenizer")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--shard-tokens", type=int, default=1 << 22)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, rounds = Path(temporary), []
        for megabytes in options.megabytes:
            text = folder / "text.txt"
            grow(options.text, text, megabytes * 1_000_000)
            build = ["build", str(text), "--tokenizer", options.tokenizer, "--shard-tokens", str(options.shard_tokens)]
            entry = {"megabytes": megabytes}
            entry |= measured("build", [*build, "--out", f"{folder}/whole"])
            entry |= measured("part", [*build, "--out", f"{folder}/parts", "--part", "1/1"])
            entry |= measured("finish", ["finish", f"{folder}/parts"])
            if megabytes == options.megabytes[min(1, len(options.megabytes) - 1)]:
                entry |= measured("two_workers", [*build, "--out", f"{folder}/two", "--workers", "2"])
                entry["two_workers_speedup"] = entry["build_seconds"] / entry["two_workers_seconds"]
            subprocess.run(["diff", "-r", folder / "whole", folder / "parts"], check=True)
            for name in ("whole", "parts", "two"):
                subprocess.run(["rm", "-rf", folder / name], check=True)
            print(json.dumps(entry), flush=True)
            rounds.append(entry)
    growth = {verb: rounds[-1][f"{verb}_mib"] / rounds[0][f"{verb}_mib"] for verb in ("build", "part", "finish")}
    print(json.dumps({"growth_of_memory": growth}))
    assert max(growth.values()) < 1.2, growth


def grow(source: str, path: Path, size: int) -> None:
    """Repeat the documents of a source up to a size; each time they begin with a number, so that none is the same."""
    written = turn = 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            turn += 1
            for document in read_documents(source):
                written += file.write(f"{turn} {document}\n\n")
                if written >= size:
                    break


def measured(name: str, arguments: list[str]) -> dict[str, float]:
    """Run ``trueneg corpus`` and tell its time, and the peak of its memory in MiB, of its largest process."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "trueneg", "corpus", *arguments, "--quiet"])
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, arguments
    return {f"{name}_seconds": time.perf_counter() - started, f"{name}_mib": usage.ru_maxrss / 1024}


if __name__ == "__main__":
    main()
