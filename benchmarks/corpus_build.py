"""Corpus build against the tokenizer's own batch call on the same text, one process, in turns.

    python benchmarks/corpus_build.py TEXT TOKENIZER_FOLDER --rounds 3

Prints the ratio of their speeds, by processor time: what reading, cutting, writing and checksums cost. Held to
at least 0.8.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from tokenizers import Tokenizer

from trueneg.corpus.build import build_corpus
from trueneg.corpus.sources import read_documents


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("tokenizer")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = Tokenizer.from_file(f"{options.tokenizer}/tokenizer.json")
    documents = list(read_documents(options.text))
    rounds = []
    for _ in range(options.rounds):
        started = time.process_time()
        num_tokens = sum(
            len(encoding)
            for first in range(0, len(documents), 1000)
            for encoding in tokenizer.encode_batch(documents[first : first + 1000], add_special_tokens=False)
        )
        alone = time.process_time() - started
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            info = build_corpus([options.text], options.tokenizer, Path(folder) / "corpus")
            built = time.process_time() - started
        assert info.num_tokens == num_tokens
        rounds.append({"encode_batch": num_tokens / alone, "build": num_tokens / built, "ratio": alone / built})
    median = statistics.median(entry["ratio"] for entry in rounds)
    print(json.dumps({"tokens": num_tokens, "median_ratio": median, "rounds": rounds}, indent=1))


if __name__ == "__main__":
    main()
