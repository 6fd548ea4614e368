"""The three kinds of folders that take hours to fill (corpora, their tags, annotations), and how to damage one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.corpus.annotate import Accepted
from trueneg.corpus.annotations import Annotations
from trueneg.corpus.rows import RowBatch
from trueneg.corpus.store import Corpus
from trueneg.corpus.tags import Tags
from trueneg.files.digests import checksum, fingerprint_of

Record = dict[str, Any]
Change = Callable[[Record], object]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def judged(token: int, column: int, vocab_size: int) -> list[tuple[int, float]]:
    """What the made-up annotator accepts of a token in a column: none to seven substitutes, some at no credit."""
    num = (7 * token + 3 * column) % 8
    return [((token + 1 + 3 * j) % vocab_size, ((token + 5 * j + column) % 11) / 10) for j in range(num)]


@dataclass(frozen=True)
class MadeUpAnnotator:
    """``judged``, in an order of its own."""

    vocab_size: int
    detector: str = "made-up"
    provenance: Mapping[str, str] = field(default_factory=lambda: {"source": "a formula"})

    def __call__(self, batch: RowBatch) -> Accepted:
        found = [
            (row, column, *pair)
            for row, column in zip(*np.nonzero(~batch.is_special), strict=True)
            for pair in judged(int(batch.input_ids[row, column]), int(column), self.vocab_size)
        ]
        rows, columns, substitutes, credit = (np.array(values) for values in zip(*reversed(found), strict=True))
        return Accepted(rows, columns, substitutes, credit)


@dataclass(frozen=True)
class Kind:
    """A kind of folder.

    Attributes:
        info: the name of its description.
        files: its files of the split "train", by part; of shards the second one.
        checksums: where its description has their checksums, with what each file's name begins with.
        open: opens it, verified or not, next to a corpus.
    """

    info: str
    files: dict[str, str]
    checksums: Callable[[Record], Iterator[tuple[dict[str, str], str]]]
    open: Callable[[Path, Path, bool], Corpus | Tags | Annotations]

    def describe(self, folder: Path, change: Change = lambda record: None) -> None:
        """Change a description, and give it the checksums and the fingerprint that belong to it."""
        record = json.loads((folder / self.info).read_text())
        for sums, start in self.checksums(record):
            sums |= {part: checksum(folder / "train" / f"{start}{part}.bin") for part in sums}
        change(record)
        others = {"fingerprint": None} | ({"sources": None} if self.info == "corpus.json" else {})
        record["fingerprint"] = fingerprint_of(record | others)
        (folder / self.info).write_text(json.dumps(record))


KINDS = {
    "corpus": Kind(
        "corpus.json",
        {part: f"00001.{part}.bin" for part in ("tokens", "offsets", "words")},
        lambda r: ((shard["checksums"], f"{n:05d}.") for n, shard in enumerate(r["splits"]["train"]["shards"])),
        lambda folder, corpus, verify: Corpus.open(folder, verify=verify),
    ),
    "tags": Kind(
        "tags.json",
        {part: f"00001.{part}.bin" for part in ("tags", "forms")},
        lambda r: ((shard["checksums"], f"{n:05d}.") for n, shard in enumerate(r["splits"]["train"])),
        lambda folder, corpus, verify: Tags.open(Corpus.open(folder, verify=verify)),
    ),
    "annotations": Kind(
        "annotations.json",
        {part: f"{part}.bin" for part in ("counts", "blocks", "substitutes", "credits")},
        lambda r: iter([(r["splits"]["train"]["checksums"], "")]),
        lambda folder, corpus, verify: Annotations.open(folder, Corpus.open(corpus, verify=verify)),
    ),
}
