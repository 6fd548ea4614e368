"""Speed of CLINE's views: words a second of processor time, and what a loader with views does beside one without.

    python benchmarks/views.py CORPUS --length 128 --batch-size 64 --rounds 5

CORPUS was built with ``--tag``. Replacements are compiled, or read from the cache, before anything is measured.
``--step-ms 20`` also takes steps of 20 ms that do nothing, the next one's rows being read meanwhile as in training, and
says what share of them training waits for its rows: without views, and with them.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np

from trueneg.config.objective_options import ViewsConfig
from trueneg.config.options import TrainConfig
from trueneg.corpus.permutation import rows_at
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corpus.tags import Tags
from trueneg.corruption.rows import ReadRows, read_rows
from trueneg.corruption.views.rows import ViewReader, make_substitution
from trueneg.tokenizer import load_tokenizer
from trueneg.training.batches import CorpusBatches
from trueneg.training.distributed import Processes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--step-ms", type=float, nargs="*", default=[])
    options = parser.parse_args()
    corpus = Corpus.open(options.corpus)
    tags = Tags.open(corpus)
    rows = RowIndex(corpus, options.length, tags=tags)
    started = time.process_time()
    reader = ViewReader(make_substitution(ViewsConfig(), tags, load_tokenizer(corpus.path / "tokenizer")))
    print(f"replacements and their pieces: {time.process_time() - started:.1f} s of processor time")
    seconds: dict[str, list[float]] = {"rows alone": [], "rows and views": []}
    num_words = 0
    for number in range(options.rounds):
        positions = np.arange(options.batches * options.batch_size) + number * options.batches * options.batch_size
        batches = np.split(positions, options.batches)
        for name, read in (("rows alone", read_rows), ("rows and views", reader)):
            started = time.process_time()
            for own in batches:
                found = read(rows, rows_at(1, own, len(rows)), 1, own)
            seconds[name].append(time.process_time() - started)
            num_words += int(getattr(found, "rows", found).is_word_start.sum()) * (name == "rows alone")
    words = num_words / options.rounds * options.batches
    for name, measured in seconds.items():
        per_round = median(measured)
        print(f"{name}: {words / per_round:,.0f} words/s, {per_round / options.batches * 1e3:.2f} ms a batch")
    for step in options.step_ms:
        shares = {
            name: median(waiting(rows, read, options.batch_size, step / 1e3, options.batches) for _ in range(3))
            for name, read in (("rows alone", read_rows), ("rows and views", reader))
        }
        print(f"steps of {step:g} ms: waits " + ", ".join(f"{share:.1%} ({name})" for name, share in shares.items()))


def waiting(rows: RowIndex, read: ReadRows, batch_size: int, seconds: float, steps: int) -> float:
    """Share of the time of steps that they wait for their rows, the first step left out."""
    order = CorpusBatches(rows, TrainConfig(batch_size=batch_size), Processes(), read)
    batches = order.from_step(0, steps + 1)
    next(batches)
    started = time.perf_counter()
    for _ in batches:
        time.sleep(seconds)
    return 1 - steps * seconds / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
