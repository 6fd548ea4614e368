"""What annotations cost: rows read with and without them, in turns, and the look-up of credit; by processor time.

    python benchmarks/annotations.py CORPUS ANNOTATIONS --batch 32 --length 128 --rounds 40

Prints rows per second of both, the median over rounds of what annotations add to a row, and what the detector takes
for one. Training reads the next step's rows while it computes one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np

from trueneg.config.objective_options import MaskingConfig
from trueneg.corpus.annotations import Annotations
from trueneg.corpus.permutation import rows_at
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corruption.masking import Masking
from trueneg.corruption.rows import read_rows
from trueneg.detectors.annotated import AnnotatedDetector

STEPS = 20  # of a turn


def credit_seconds(index: RowIndex, batch: int, rounds: int = 200) -> float:
    """Time of the credit of a batch's masked positions."""
    numbers, special = np.arange(batch), index.corpus.info.special_ids
    masking = Masking(MaskingConfig(), special["mask"], index.corpus.info.vocab_size, list(special.values()))
    place = masking(read_rows(index, numbers, 1, numbers))
    predicted, detector = place.gold.roll(1, dims=1), AnnotatedDetector()
    times = []
    for _ in range(rounds):
        started = time.process_time()
        detector.credit(place.gold, predicted, place)
        times.append(time.process_time() - started)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("annotations")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    corpus = Corpus.open(options.corpus)
    annotations = Annotations.open(options.annotations, corpus)
    arms = {
        "plain": RowIndex(corpus, options.length, pack=options.pack),
        "annotated": RowIndex(corpus, options.length, pack=options.pack, annotations=annotations),
    }
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for round_number in range(options.rounds + 1):
        first = round_number * STEPS * options.batch
        positions = np.arange(first, first + STEPS * options.batch)
        numbers = rows_at(1, positions, len(arms["plain"]))
        for name in sorted(arms, reverse=bool(round_number % 2)):
            started = time.process_time()
            for step in range(STEPS):
                here = slice(step * options.batch, (step + 1) * options.batch)
                read_rows(arms[name], numbers[here], 1, positions[here])
            if round_number:  # the first one is for the caches
                seconds[name].append(time.process_time() - started)
    num_rows = STEPS * options.batch
    added = [annotated - plain for annotated, plain in zip(seconds["annotated"], seconds["plain"], strict=True)]
    result = {
        "batch": options.batch,
        "length": options.length,
        "width": annotations.width,
        "rows_per_second": {name: num_rows / statistics.median(times) for name, times in seconds.items()},
        "reading_adds_microseconds_a_row": 1e6 * statistics.median(added) / num_rows,
        "credit_microseconds_a_row": 1e6 * credit_seconds(arms["annotated"], options.batch) / options.batch,
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
