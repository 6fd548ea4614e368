"""Pieces of a corpus that is being built: the tokenized text of one file each, whole or not there.

A piece is a file of records, each a few arrays of consecutive documents of one split, and a description, written last.
Any process can make any piece; the pieces in order make the corpus, whichever process made them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from trueneg.corpus.encoding import EncodedTags, TokenizedTexts
from trueneg.corpus.journal import read_journal, write_journal
from trueneg.corpus.store import Split
from trueneg.errors import CorpusError
from trueneg.files.digests import checksum
from trueneg.files.whole import whole_file

_SPLITS: tuple[Split, ...] = ("train", "valid")


@dataclass(frozen=True)
class Piece:
    """Description of a piece.

    Attributes:
        name: the file that it was made from.
        inputs: fingerprint of the corpus's inputs.
        checksum: SHA-256 of its records.
        num_documents: documents read, empty ones included.
        held_out: digests of held-out documents that are also in the piece.
        num_held_out: number of held-out documents that were looked for.
    """

    name: str
    inputs: str
    checksum: str
    num_documents: int
    held_out: tuple[str, ...] = ()
    num_held_out: int = 0


@dataclass(frozen=True)
class Task:
    """The output of a pipeline's task, written once the task has ended.

    Attributes:
        pieces: the file that each piece's documents are from, and the piece's name, in the order they were made.
    """

    pieces: tuple[tuple[str, str], ...]


def task_path(parts: Path, rank: int) -> Path:
    """The path of a task's record."""
    return parts / f"task-{rank:05d}.json"


def write_piece(
    path: Path, texts: Iterable[tuple[Split, TokenizedTexts]], describe: Callable[[str, int], Piece]
) -> Piece:
    """Write a piece.

    Args:
        path: File of its records; the description is written next to it.
        texts: Documents in order, with their split.
        describe: Makes the description from checksum and number of documents, once all texts are written.
    """
    num_documents = 0
    with whole_file(path) as part, part.open("wb") as file:
        for split, encoded in texts:
            num_documents += len(encoded.lengths)
            for array in _arrays(split, encoded):
                np.lib.format.write_array(file, array, allow_pickle=False)
    piece = describe(checksum(path), num_documents)
    write_journal(_description(path), asdict(piece))
    return piece


def read_description(path: Path) -> Piece | None:
    """Read the description of a piece; None if the piece is not finished.

    Raises:
        CorpusError: if it is damaged.
    """
    return read_journal(Piece, _description(path))


def check_piece(path: Path, piece: Piece) -> None:
    """Compare a piece's records with their checksum.

    Raises:
        CorpusError: if they are missing or damaged.
    """
    if not path.is_file() or checksum(path) != piece.checksum:
        raise CorpusError(f"'{path}' is missing or damaged: remove '{_description(path)}' and make the part again")


def read_piece(path: Path) -> Iterator[tuple[Split, TokenizedTexts]]:
    """Read the documents of a piece, as they were written."""
    with path.open("rb") as file:
        while file.peek(1):
            yield _record(file)


def _description(path: Path) -> Path:
    return path.with_suffix(".json")


def _arrays(split: Split, encoded: TokenizedTexts) -> list[npt.NDArray[Any]]:
    tagged = encoded.tagged
    head = np.array([_SPLITS.index(split), tagged is not None], dtype="<i8")
    arrays = [head, encoded.tokens, np.packbits(encoded.is_word_start), encoded.lengths.astype("<i8")]
    if tagged is not None:
        forms = "".join(f"{text}\t{tag}\n" for text, tag in tagged.forms).encode()
        arrays += [
            tagged.tags,
            tagged.words.astype("<i8"),
            tagged.last_tokens.astype("<i8"),
            np.frombuffer(forms, dtype=np.uint8),
        ]
    return arrays


def _record(file: BinaryIO) -> tuple[Split, TokenizedTexts]:
    def array() -> npt.NDArray[Any]:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))

    split, is_tagged = array().tolist()
    tokens, bits, lengths = array(), array(), array()
    tagged = None
    if is_tagged:
        tags, words, last_tokens = array(), array(), array()
        lines = array().tobytes().decode().split("\n")[:-1]
        forms = tuple((text, int(tag)) for text, _, tag in (line.partition("\t") for line in lines))
        tagged = EncodedTags(tags, forms, words.astype(np.int64), last_tokens.astype(np.int64))
    is_word_start = np.unpackbits(bits, count=len(tokens)).astype(bool)
    return _SPLITS[split], TokenizedTexts(tokens, is_word_start, lengths, tagged)
