"""Build a corpus from the documents of another tool's pipeline: each of its tasks writes some of the pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from trueneg.corpus.build import Recipe, uniform
from trueneg.corpus.files import user_errors
from trueneg.corpus.journal import write_journal
from trueneg.corpus.parts import DOCUMENTS, PieceWriter, Plan, refuse_others
from trueneg.corpus.pieces import Task, task_path
from trueneg.corpus.sources import as_texts
from trueneg.corpus.store import PARTS, CorpusInfo, Split
from trueneg.errors import CorpusError
from trueneg.files.lock import locked
from trueneg.lexicon.tagging import make_tagger
from trueneg.tokenizer import fingerprint, load_tokenizer


def write_task(
    documents: Iterable[tuple[str, str]],
    tokenizer: str | Path,
    out: str | Path,
    rank: int,
    num_tasks: int,
    *,
    valid: float | None = None,
    seed: int = 0,
    shard_tokens: int = 1 << 26,
    tagger: str | None = None,
) -> None:
    """Tokenize the documents of a task; ``finish_corpus`` merges the output of all tasks.

    The corpus holds the documents in the order of the names of their files, so it is the same for any number of
    tasks as long as each file's documents are in one task.

    Args:
        documents: the name of each document's file, and its text.
        tokenizer: a folder or hub name.
        out: the folder of the corpus, the same for all tasks.
        rank: index of the task, from 0.
        num_tasks: number of tasks.
        valid: the fraction of documents to hold out.
        seed: chooses the documents held out.
        shard_tokens: tokens per shard.
        tagger: name of the part-of-speech tagger.

    Raises:
        CorpusError: if the folder holds something else, or parts made from other inputs.
        BusyError: if another process writes the same task.
    """
    if valid is not None and not (isinstance(valid, float) and 0 < valid < 1):
        raise CorpusError(f"valid={valid!r}: of a pipeline's documents a fraction in (0, 1) can be held out")
    if shard_tokens < 1:
        raise CorpusError(f"shard tokens ({shard_tokens}) must be at least 1")
    folder, parts = Path(out), Path(out) / PARTS
    fast = load_tokenizer(tokenizer)
    tags = make_tagger(tagger) if tagger else None
    inputs: dict[str, Any] = {
        "format_version": CorpusInfo.FORMAT_VERSION,
        "tokenizer": fingerprint(fast),
        "sources": [],  # known when all tasks have ended
        "valid": valid,
        "seed": seed,
        "shard_tokens": shard_tokens,
    }
    if tags is not None:
        inputs["tagger"] = {"name": tags.name, **tags.provenance}

    def split_of(texts: Iterator[str]) -> Iterator[tuple[Split, str]]:
        for text in texts:
            yield ("valid" if valid is not None and uniform(text, seed) < valid else "train"), text

    refuse_others(folder)
    with user_errors(f"building '{folder}'", "the tasks that have ended are kept", "run this task again"):
        plan = Plan(DOCUMENTS, inputs, tuple(f"task {task} of {num_tasks}" for task in range(num_tasks)))
        writer = PieceWriter(parts, Recipe(inputs, fast, tags), plan)
        with locked(parts, f"task {rank}", name=f".lock-task-{rank:05d}"):
            record, pieces = task_path(parts, rank), []
            record.unlink(missing_ok=True)  # a task that is run again may be given other documents
            for number, (file, those) in enumerate(groupby(documents, key=lambda document: document[0])):
                name, title = f"{rank:05d}-{number:06d}", file or f"task {rank:05d}"
                writer.write_as(name, title, split_of(as_texts(title, (text for _, text in those))))
                pieces.append((title, name))
            write_journal(record, asdict(Task(tuple(pieces))))
