"""A corpus of web text with datatrove: filtered, without near-duplicates, tokenized, by several processes.

    python examples/large_corpus.py texts/ tok/ corpus/ --work work/ --tasks 8 --workers 4

Filters and deduplication are datatrove's own; trueneg has the last two steps. Needs datatrove and spaCy, which counts
the words: ``pip install 'trueneg[large-corpora]' spacy``. Run again, it goes on with the tasks that have not ended.
On a cluster take ``SlurmPipelineExecutor`` or ``RayPipelineExecutor`` in the place of ``LocalPipelineExecutor``.
"""

from __future__ import annotations

import argparse
from typing import Any

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.filters import GopherQualityFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.hashing import HashConfig

from trueneg.integrations.datatrove import Finish, TokenizeDocuments

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", help="a folder or URL of .jsonl files, which may be compressed")
    parser.add_argument("tokenizer")
    parser.add_argument("out", help="folder of the corpus")
    parser.add_argument("--work", required=True, help="folder of what lies between the steps")
    parser.add_argument("--tasks", type=int, default=8, help="the same in every run: datatrove counts by tasks")
    parser.add_argument("--workers", type=int, default=1, help="processes at once")
    parser.add_argument("--valid", type=float, default=0.01, help="fraction of documents to hold out")
    options = parser.parse_args()
    work = options.work
    minhash = MinhashConfig(hash_config=HashConfig(hash_fc="sha1"))  # its other one needs xxhash 3

    def run(step: str, pipeline: list[Any], tasks: int = options.tasks) -> None:
        """Run the tasks of a step that have not ended."""
        logs = f"{work}/logs/{step}"
        LocalPipelineExecutor(pipeline, tasks=tasks, workers=options.workers, logging_dir=logs).run()

    kept = f"{work}/filtered"
    run("filter", [JsonlReader(options.texts), GopherQualityFilter(), JsonlWriter(kept)])
    run("signatures", [JsonlReader(kept), MinhashDedupSignature(f"{work}/signatures", minhash)])
    buckets = MinhashDedupBuckets(f"{work}/signatures", f"{work}/buckets", config=minhash)
    run("buckets", [buckets], minhash.num_buckets)
    run("clusters", [MinhashDedupCluster(f"{work}/buckets", f"{work}/remove", config=minhash)], 1)
    last = TokenizeDocuments(options.tokenizer, options.out, valid=options.valid)
    run("tokenize", [JsonlReader(kept), MinhashDedupFilter(f"{work}/remove"), last])
    run("finish", [Finish(options.out)], 1)
