"""Lookup table of a tokenizer: built cold, and read from the cache.

    python benchmarks/lookup_table.py TOKENIZER_FOLDER --rounds 5

Times include reading WordNet, not loading the tokenizer. Held to at most 3 s cold and 0.1 s from the cache for
30,522 tokens.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time

from trueneg.lexicon.table import FORMS, cached_table
from trueneg.tokenizer import load_tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    tokenizer = load_tokenizer(options.tokenizer)
    result: dict[str, object] = {"entries": len(tokenizer)}
    for forms in FORMS:
        cold, cached = [], []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                for seconds in (cold, cached):
                    started = time.perf_counter()
                    table = cached_table(tokenizer, forms=forms, cache_dir=folder)
                    seconds.append(time.perf_counter() - started)
        result[forms] = {
            "pairs": len(table),
            "cold_median_s": statistics.median(cold),
            "cached_median_s": statistics.median(cached),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
