"""Build a corpus on many machines: each tokenizes some of the files, and one merges the pieces.

``out/parts`` holds the tokenizer, a piece for each file, and ``plan.json``: the inputs of the corpus, which every
process compares with its own arguments. A piece does not depend on the process that made it, so the corpus is byte for
byte the one that ``build_corpus`` makes, and a killed part resumes with the files that are left, even with another
number of parts.
"""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from trueneg.corpus.build import (
    Recipe,
    is_built,
    load_encoder,
    parse_valid,
    prepare,
    store,
    uniform,
    units,
)
from trueneg.corpus.encoding import TokenizedTexts, single_threaded
from trueneg.corpus.files import user_errors
from trueneg.corpus.journal import changes, read_journal, write_journal
from trueneg.corpus.overlap import Overlap, warn_of_overlap
from trueneg.corpus.pieces import Piece, Task, check_piece, read_description, read_piece, task_path, write_piece
from trueneg.corpus.sources import pieces_of, read_documents
from trueneg.corpus.sources import read_piece as read_text
from trueneg.corpus.store import INFO_FILE, PARTS, CorpusInfo, Split
from trueneg.errors import CorpusError, TruenegWarning
from trueneg.files.digests import fingerprint_of
from trueneg.files.lock import locked
from trueneg.files.text import LONGEST_TEXT
from trueneg.lexicon.tagging import make_tagger
from trueneg.tokenizer import load_tokenizer, save_tokenizer

PLAN = "plan.json"
DOCUMENTS = "documents"
"""Kind of a plan whose pieces tasks make from a pipeline's documents."""
T = TypeVar("T")

_AGAIN = "run the same part again to go on from there"


@dataclass(frozen=True)
class Plan:
    """The plan that all parts share.

    Attributes:
        kind: "corpus", with a piece for each file, "documents" or "annotations".
        inputs: what they are made from, JSON-ready.
        pieces: names of the pieces in order; for a pipeline's documents, of its tasks.
    """

    kind: str
    inputs: dict[str, Any]
    pieces: tuple[str, ...]


def agree(folder: Path, plan: Plan, begin: Callable[[Path], object] = lambda folder: None) -> None:
    """Write a plan, or check that the one that another process wrote is the same.

    Args:
        folder: The folder of the parts.
        plan: The plan of this process.
        begin: Writes what else all parts share; several processes may call it at once.

    Raises:
        CorpusError: if the folder holds parts of another plan, naming what differs.
    """
    path = folder / PLAN
    folder.mkdir(parents=True, exist_ok=True)
    begin(folder)
    if not path.exists():
        own = folder / f".{secrets.token_hex(8)}.plan"
        write_journal(own, asdict(plan))
        with suppress(FileExistsError):  # another process was first
            os.link(own, path)
        own.unlink()
    stored = read_plan(folder)
    assert stored is not None
    found = changes(asdict(stored), asdict(plan))
    if found:
        raise CorpusError(
            f"'{folder}' holds parts made otherwise ({'; '.join(found)}): give the same again to go on, remove that "
            f"folder to start anew, or choose another --out"
        )


def read_plan(folder: Path) -> Plan | None:
    """Read the plan that all parts share; None if there are no parts.

    Raises:
        CorpusError: if it is damaged.
    """
    return read_journal(Plan, folder / PLAN)


def part_of(part: str) -> tuple[int, int]:
    """Parse a part, such as "3/16", into its number and the number of parts.

    Raises:
        CorpusError: if it is not of this form.

    Example:
        >>> part_of("3/16")
        (3, 16)
    """
    number, _, count = part.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise CorpusError(f"--part {part}: name one of several, such as 3/16, the first being 1/16")
    return int(number), int(count)


def build_part(
    sources: Sequence[str],
    tokenizer: str | Path,
    out: str | Path,
    part: str,
    *,
    valid: str | float | None = None,
    seed: int = 0,
    shard_tokens: int = 1 << 26,
    text_field: str = "text",
    lines: bool = False,
    max_document_mib: float = LONGEST_TEXT >> 20,
    tagger: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Tokenize some of the files of a corpus; ``finish`` then merges all parts.

    Part 3 of 16 takes the third file of every sixteen. Files that are done, in this or an earlier run, are left as
    they are.

    Args:
        sources: as in ``build_corpus``, like all arguments but ``part``.
        tokenizer: a folder or hub name.
        out: the folder of the corpus, the same for all parts.
        part: number of the part and number of parts: "3/16".
        valid: held-out text.
        seed: chooses the documents held out.
        shard_tokens: tokens per shard.
        text_field: field or column of the text.
        lines: make every line a document.
        max_document_mib: maximum MiB of a line or of a record's text.
        tagger: name of the part-of-speech tagger.
        progress: called with the number of UTF-8 bytes of text processed since the last call.

    Returns:
        The number of files that this call tokenized.

    Raises:
        CorpusError: as ``build_corpus``, and if the folder holds parts of another plan.
        BusyError: if another process is working on one of the files.
    """
    number, count = part_of(part)
    folder, parts, tell = Path(out), Path(out) / PARTS, progress or (lambda _: None)
    is_first = not (parts / PLAN).exists()
    recipe = prepare(
        *(sources, tokenizer, valid, seed, shard_tokens, text_field, lines),
        max_document_mib=max_document_mib,
        tagger=tagger,
        is_checked=is_first,  # which reads the beginning of every file: once is enough
    )
    if is_built(folder, recipe):
        return 0
    refuse_others(folder)
    fraction, valid_source = parse_valid(valid)
    named: list[tuple[Split, str]] = [("train", source) for source in sources]
    named += [("valid", valid_source)] if valid_source else []
    pieces = [(split, source, piece) for split, source in named for piece in pieces_of(source)]
    names = tuple(f"{source}, file {piece}" if isinstance(piece, int) else str(piece) for _, source, piece in pieces)
    read = functools.partial(read_text, text_field=text_field, lines=lines, max_document_mib=max_document_mib)
    num_made = 0
    with user_errors(f"building '{folder}'", "the files that are done are kept", _AGAIN):
        writer = PieceWriter(parts, recipe, Plan("corpus", recipe.inputs, names))
        overlap = None
        for place in range(number - 1, len(pieces), count):
            split, source, piece = pieces[place]
            if writer.has(place):
                continue
            if valid_source is not None and overlap is None and split == "train":
                overlap = _held_out(valid_source, text_field, lines, max_document_mib)

            def documents() -> Iterator[tuple[Split, str]]:
                for text in read(source, piece):  # noqa: B023, used up before the next turn
                    if overlap is not None and split == "train":  # noqa: B023
                        overlap.see(text)  # noqa: B023
                    is_held_out = fraction is not None and uniform(text, seed) < fraction
                    yield "valid" if is_held_out else split, text  # noqa: B023

            num_made += writer.write(place, documents(), overlap if split == "train" else None, tell)
    return num_made


def _held_out(source: str, text_field: str, lines: bool, max_document_mib: float) -> Overlap:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruenegWarning)  # reading it as a source of its own warns
        return Overlap(read_documents(source, text_field=text_field, lines=lines, max_document_mib=max_document_mib))


def refuse_others(folder: Path) -> None:
    """Check that a folder may hold parts.

    Raises:
        CorpusError: if it holds something else.
    """
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if found and PARTS not in found:
        kind = "a finished corpus" if INFO_FILE in found else "something else"
        raise CorpusError(f"'{folder}' holds {kind}: choose another --out")


class PieceWriter:
    """Writes pieces of a corpus, while other processes write others.

    Args:
        parts: their folder.
        recipe: the recipe of the corpus.
        plan: the plan of all parts.
    """

    def __init__(self, parts: Path, recipe: Recipe, plan: Plan) -> None:
        self._parts, self._recipe, self._plan = parts, recipe, plan
        self._inputs = fingerprint_of(plan.inputs)
        agree(parts, plan, self._save_tokenizer)
        self._encode = load_encoder(parts / "tokenizer" / "tokenizer.json", recipe.tagger)

    def _save_tokenizer(self, parts: Path) -> None:
        if (parts / "tokenizer").exists():
            return
        own = parts / f".{secrets.token_hex(8)}.tokenizer"
        save_tokenizer(self._recipe.tokenizer, own)
        try:
            own.rename(parts / "tokenizer")
        except OSError:  # another process was first
            shutil.rmtree(own)

    def has(self, place: int) -> bool:
        """Whether the piece at a place in the plan exists."""
        return read_description(piece_path(self._parts, f"{place:08d}")) is not None

    def write(
        self,
        place: int,
        documents: Iterator[tuple[Split, str]],
        overlap: Overlap | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> bool:
        """Write a piece of the plan, unless another process has just done so; return whether it was written."""
        name = f"{place:08d}"
        with locked(self._parts, f"part {self._plan.pieces[place]}", name=f".lock-{name}"):
            if self.has(place):
                return False
            if overlap is not None:
                overlap.forget()
            self.write_as(name, self._plan.pieces[place], documents, overlap, progress)
        return True

    def write_as(
        self,
        name: str,
        title: str,
        documents: Iterator[tuple[Split, str]],
        overlap: Overlap | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Write a piece under a given name."""

        def encoded() -> Iterator[tuple[Split, TokenizedTexts]]:
            for unit in units(documents, dict.fromkeys(self._recipe.splits, 0), progress):
                with single_threaded():
                    texts = self._encode(unit.texts)
                yield unit.split, texts
                progress(unit.num_bytes)

        def describe(digest: str, num_documents: int) -> Piece:
            found = overlap.found if overlap is not None else ()
            num_held_out = overlap.num_held_out if overlap is not None else 0
            return Piece(title, self._inputs, digest, num_documents, found, num_held_out)

        write_piece(piece_path(self._parts, name), encoded(), describe)


def piece_path(parts: Path, name: str) -> Path:
    """The path of a piece's records."""
    return parts / f"{name}.piece"


def finish_corpus(out: str | Path, progress: Callable[[int], None] | None = None) -> CorpusInfo:
    """Merge the pieces of all parts into the corpus that ``build_corpus`` makes of the same text.

    It only copies: no text is read or tokenized. After a kill, the same call resumes from the finished shards. At
    the end the parts are removed.

    Args:
        out: the folder.
        progress: called with the number of bytes of pieces processed since the last call.

    Raises:
        CorpusError: if a part is missing, damaged, or was made from something else.
    """
    folder, parts = Path(out), Path(out) / PARTS
    plan = read_plan(parts)
    if plan is None:
        if (folder / INFO_FILE).is_file():
            info = CorpusInfo.read(folder)
            shutil.rmtree(parts, ignore_errors=True)  # what a kill has left of them
            return info
        raise CorpusError(f"'{folder}' holds no parts: make them with 'trueneg corpus build … --part 1/4'")
    with ExitStack() as cleanup:
        cleanup.enter_context(
            user_errors(f"finishing '{folder}'", "the finished shards are kept", "run the same again to go on")
        )
        cleanup.enter_context(locked(folder, "corpus finish"))
        pieces = _task_pieces(parts, plan) if plan.kind == DOCUMENTS else _file_pieces(parts, plan)
        for path, piece in pieces:
            if piece.inputs != fingerprint_of(plan.inputs):
                raise CorpusError(
                    f"'{path}' (of '{piece.name}') was made from something else than '{parts / PLAN}' says: remove it "
                    f"and run its part again"
                )
        inputs = plan.inputs
        if plan.kind == DOCUMENTS:
            inputs = {**inputs, "sources": [[piece.name, None, ""] for _, piece in pieces]}
        tagger = inputs.get("tagger")
        tags = make_tagger(tagger["name"]) if tagger else None
        recipe = Recipe(inputs, load_tokenizer(parts / "tokenizer"), tags)
        if is_built(folder, recipe):  # by an earlier call that was killed
            info = CorpusInfo.read(folder)
        else:
            encoded = functools.partial(_documents, pieces, progress or (lambda _: None))
            info = store(folder, recipe, encoded, own=(PARTS,))
            _warn(pieces)
        (parts / PLAN).unlink()
        shutil.rmtree(parts)
    return info


def _file_pieces(parts: Path, plan: Plan) -> list[tuple[Path, Piece]]:
    paths = [piece_path(parts, f"{place:08d}") for place in range(len(plan.pieces))]
    found = complete(parts, plan, [read_description(path) for path in paths])
    return list(zip(paths, found, strict=True))


def _task_pieces(parts: Path, plan: Plan) -> list[tuple[Path, Piece]]:
    """The pieces of all tasks, in the order of the files that the documents are from."""
    tasks = complete(parts, plan, [read_journal(Task, task_path(parts, rank)) for rank in range(len(plan.pieces))])
    names = sorted(
        (file, rank, number, name) for rank, task in enumerate(tasks) for number, (file, name) in enumerate(task.pieces)
    )
    paths = [piece_path(parts, name) for *_, name in names]
    described = [(path, read_description(path)) for path in paths]
    for path, piece in described:
        if piece is None:
            raise CorpusError(f"'{path}' is missing: remove '{parts}' and run the pipeline again")
    return [(path, piece) for path, piece in described if piece is not None]


def complete(parts: Path, plan: Plan, found: Sequence[T | None]) -> list[T]:
    """Refuse to finish without all parts, naming the first that is missing."""
    missing = [name for name, one in zip(plan.pieces, found, strict=True) if one is None]
    if missing:
        raise CorpusError(
            f"{len(missing):,} of {len(found):,} pieces are missing in '{parts}', the first is that of '{missing[0]}': "
            f"run the parts that have not ended again, then finish"
        )
    return [one for one in found if one is not None]


def _documents(
    pieces: Sequence[tuple[Path, Piece]], progress: Callable[[int], None], done: Mapping[Split, int]
) -> Iterator[tuple[Split, TokenizedTexts]]:
    left = dict(done)
    for path, piece in pieces:
        check_piece(path, piece)
        for split, texts in read_piece(path):
            skipped = min(left[split], len(texts.lengths))
            left[split] -= skipped
            if skipped < len(texts.lengths):
                yield split, texts.without_first(skipped) if skipped else texts
        progress(path.stat().st_size)


def _warn(pieces: Iterable[tuple[Path, Piece]]) -> None:
    described = [piece for _, piece in pieces]
    if empty := [piece for piece in described if not piece.num_documents]:
        warnings.warn(
            f"{len(empty)} of {len(described)} files hold no document and are passed over, such as '{empty[0].name}'",
            TruenegWarning,
            stacklevel=3,
        )
    if num_held_out := max((piece.num_held_out for piece in described), default=0):
        warn_of_overlap(len({digest for piece in described for digest in piece.held_out}), num_held_out)
