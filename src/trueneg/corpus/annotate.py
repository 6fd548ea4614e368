"""Annotate a corpus: run an annotator over all its rows and write the substitutes it accepts, resumably."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from trueneg.corpus.annotations import (
    FULL,
    INFO_FILE,
    JOURNAL_FILE,
    MOST,
    AnnotationsInfo,
    SplitAnnotations,
    block_starts,
    part_path,
    part_sizes,
    quantised,
)
from trueneg.corpus.files import user_errors
from trueneg.corpus.journal import ANEW, changes, clear, goes_on, read_journal, write_journal
from trueneg.corpus.parts import PLAN, Plan, agree, complete, part_of, read_plan, refuse_others
from trueneg.corpus.rows import RowBatch, RowIndex
from trueneg.corpus.store import PARTS, Corpus, CorpusInfo, Split
from trueneg.errors import CorpusError
from trueneg.files.digests import checksum
from trueneg.files.lock import locked
from trueneg.files.whole import flush, whole_file, write_json, write_whole

_AGAIN = "run the same command again to go on from there"
ANNOTATIONS = "annotations"
"""Kind of a plan whose parts are annotations."""
_DONE = "part.json"  # description of a part, written last
_SAVE_SECONDS = 30.0  # a killed run loses at most this much work
_GROWING = ("counts", "substitutes", "credits")  # written batch by batch; ``blocks`` follows from the counts
_STRETCH = 1 << 22  # bytes read at once

_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Accepted:
    """Accepted substitutes for tokens of a batch of rows, in any order.

    Attributes:
        rows: the row of each pair of token and substitute, int64 [num_pairs].
        columns: the token's column, int64 [num_pairs].
        substitutes: the substitute's id, int64 [num_pairs]: never the token itself, and none twice for a token.
        credit: how good it is in this context, float [num_pairs] in [0, 1]; 0 is the same as not listed.
    """

    rows: _Int64s
    columns: _Int64s
    substitutes: _Int64s
    credit: npt.NDArray[np.floating[Any]]


class Annotator(Protocol):
    """Lists the substitutes it accepts for the tokens of rows of text, special tokens excluded.

    It is called with rows ``[CLS] chunk [SEP]`` in the corpus's order, each a chunk of one document, so that every
    token of the corpus is annotated once, with the context of its row. Its result for a row must not depend on the
    other rows of the batch.
    """

    @property
    def detector(self) -> str:
        """Its name in the options."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """Where its resources and its threshold come from."""

    def __call__(self, batch: RowBatch) -> Accepted:
        """List the accepted substitutes."""


def write_annotations(
    corpus: str | Path,
    annotate: Annotator,
    out: str | Path,
    *,
    splits: Sequence[str] | None = None,
    most: int = 32,
    length: int = 128,
    batch_size: int = 256,
    max_rows: int | None = None,
    part: str | None = None,
    overwrite: bool = False,
    verify: bool = True,
    progress: Callable[[int], None] | None = None,
) -> AnnotationsInfo:
    """Run an annotator over every token of a corpus and write the substitutes it accepts.

    A run that is killed or interrupted keeps what it has written, and the same call resumes from there; a call with
    another corpus, detector or options is refused.

    Args:
        corpus: a corpus folder.
        annotate: the annotator.
        out: the folder to write; absent, empty, or with unfinished annotations.
        splits: names of splits; all by default.
        most: maximum number of substitutes kept for a token, the best ones; the rest are only counted.
        length: row length in tokens, including special tokens: the context of the annotator.
        batch_size: rows per call of the annotator; the files do not depend on it, except that an encoder in bfloat16
            rounds differently in other batches: of 10,876 pairs one was accepted with one size and not with another.
        max_rows: annotate only so many rows of each split, for a trial.
        part: annotate only a part of these rows, such as "3/16"; ``finish_annotations`` merges all parts into the
            files that one call without parts writes, except for such rounding.
        overwrite: replace annotations in ``out`` that are finished, or were begun with other inputs.
        verify: first compare the corpus's files with their checksums: see ``Corpus.open``.
        progress: called with the number of tokens annotated since the last call, including those of an earlier run.

    Returns:
        The description written to ``annotations.json``.

    Raises:
        CorpusError: for a corpus that cannot be opened, a split it does not have, limits below 1, a folder that
            holds something else, finished annotations or annotations of other inputs, or a full disk.
        ValueError: if the annotator returns an invalid substitute or credit.
        Interrupted: after Ctrl-C; what is written is kept.
    """
    if not 1 <= most <= MOST:
        raise CorpusError(f"the number of substitutes kept for a token ({most}) must lie between 1 and {MOST}")
    if batch_size < 1 or (max_rows is not None and max_rows < 1):
        raise CorpusError(f"the rows of a batch ({batch_size}) and of a split ({max_rows}) must be at least 1")
    described = CorpusInfo.read(corpus)
    corpora = [Corpus.open(corpus, name, verify=verify) for name in splits or described.splits]
    opened = {split.split: split for split in corpora}
    info = AnnotationsInfo(
        corpus=described.fingerprint,
        tokenizer_fingerprint=described.tokenizer_fingerprint,
        dtype=described.dtype,
        detector=annotate.detector,
        provenance=dict(sorted(annotate.provenance.items())),  # a table read from disk has another order than a new one
        most=most,
        length=length,
        splits={name: SplitAnnotations(split.num_tokens) for name, split in opened.items()},
    )
    folder, tell = Path(out), progress or (lambda _: None)
    number, count = (1, 1) if part is None else part_of(part)
    if part is not None:
        if overwrite:
            raise CorpusError(f"--overwrite with --part {part}: remove '{folder}' to start anew")
        if (folder / INFO_FILE).exists():
            raise CorpusError(f"'{folder}' holds the finished annotations: choose another --out")
        refuse_others(folder)
        names = tuple(f"{each}/{count}" for each in range(1, count + 1))
        agree(folder / PARTS, Plan(ANNOTATIONS, {**_inputs(info), "max_rows": max_rows}, names))
        folder = _part_folder(folder, number)
        done = read_journal(AnnotationsInfo, folder / _DONE)
        if done is not None:
            return done
    with (
        user_errors(f"annotating in '{folder}'", "what is annotated is kept", _AGAIN),
        locked(folder, "corpus annotate"),
    ):
        journal = _Journal.open(folder, info, overwrite=overwrite)
        for name, split in opened.items():
            # A split too small for a row is one row.
            rows = RowIndex(split, min(length, split.num_tokens + 2))
            with _SplitWriter(journal, name) as writer:
                tell(writer.done.num_annotated)
                num_rows = min(len(rows), max_rows or len(rows))
                first, end = num_rows * (number - 1) // count, num_rows * number // count
                for start in range(first + writer.done.num_rows, end, batch_size):
                    batch = rows.read(np.arange(start, min(start + batch_size, end)))
                    tell(writer.write(batch, _listed(batch, annotate(batch), described.vocab_size)))
        if part is not None:
            write_journal(folder / _DONE, dataclasses.asdict(journal.info))
            return journal.info
        return journal.finish()


def finish_annotations(out: str | Path) -> AnnotationsInfo:
    """Merge the parts of annotations into what one call of ``write_annotations`` writes; then remove the parts.

    Args:
        out: the folder.

    Raises:
        CorpusError: if a part is missing, damaged, or was made from other inputs.
    """
    folder, parts = Path(out), Path(out) / PARTS
    plan = read_plan(parts)
    if plan is None:
        return AnnotationsInfo.read(folder)
    with (
        user_errors(f"finishing '{folder}'", "the parts are kept", "run the same again"),
        locked(folder, "corpus finish"),
    ):
        places = [_part_folder(folder, number) for number in range(1, len(plan.pieces) + 1)]
        found = complete(parts, plan, [read_journal(AnnotationsInfo, place / _DONE) for place in places])
        expected = {name: value for name, value in plan.inputs.items() if name != "max_rows"}
        for place, info in zip(places, found, strict=True):
            if different := changes(expected, _inputs(info)):
                raise CorpusError(f"'{place}' was made otherwise ({'; '.join(different)}): remove it and run it again")
        journal = _Journal(folder, found[0])
        journal.save()
        for name in found[0].splits:
            journal.note(
                name, _joined(folder, name, [(p, info.splits[name]) for p, info in zip(places, found, strict=True)])
            )
        finished = journal.finish()
        (parts / PLAN).unlink()
        shutil.rmtree(parts)
    return finished


def _joined(folder: Path, split: Split, parts: Sequence[tuple[Path, SplitAnnotations]]) -> SplitAnnotations:
    """Concatenate the files of a split's parts; return their total counts."""
    checksums = {}
    for part in _GROWING:
        path = part_path(folder, split, part)
        path.parent.mkdir(exist_ok=True)
        with whole_file(path) as provisional, provisional.open("wb") as file:
            for place, done in parts:
                source = part_path(place, split, part)
                if not source.is_file() or checksum(source) != done.checksums[part]:
                    raise CorpusError(f"'{source}' is missing or damaged: remove '{place}' and run that part again")
                with source.open("rb") as opened:
                    shutil.copyfileobj(opened, file, _STRETCH)
        checksums[part] = checksum(path)
    counts = [done for _, done in parts]
    return SplitAnnotations(
        num_tokens=counts[0].num_tokens,
        num_annotated=sum(done.num_annotated for done in counts),
        num_rows=sum(done.num_rows for done in counts),
        num_with_substitutes=sum(done.num_with_substitutes for done in counts),
        num_pairs=sum(done.num_pairs for done in counts),
        num_left_out=sum(done.num_left_out for done in counts),
        most_found=max(done.most_found for done in counts),
        checksums=checksums,
    )


def _part_folder(folder: Path, number: int) -> Path:
    return folder / PARTS / f"{number:05d}"


def _listed(batch: RowBatch, accepted: Accepted, vocab_size: int) -> Accepted:
    """The substitutes with credit above 0, after checking that they can be stored."""
    if not ((accepted.credit >= 0) & (accepted.credit <= 1)).all():
        raise ValueError("the annotator gives credit outside [0, 1]")
    has_credit = accepted.credit > 0
    listed = Accepted(*(getattr(accepted, field.name)[has_credit] for field in dataclasses.fields(Accepted)))
    if batch.is_special[listed.rows, listed.columns].any():
        raise ValueError("the annotator lists a substitute of a special token")
    if (batch.input_ids[listed.rows, listed.columns] == listed.substitutes).any():
        raise ValueError("the annotator lists a token as a substitute of itself")
    if ((listed.substitutes < 0) | (listed.substitutes >= vocab_size)).any():
        raise ValueError(f"the annotator lists a substitute outside the vocabulary of {vocab_size}")
    return listed


@dataclass(frozen=True)
class _Packed:
    """Accepted substitutes of consecutive tokens, as they are stored."""

    counts: npt.NDArray[np.uint8]
    substitutes: _Int64s
    credits: npt.NDArray[np.uint8]
    num_left_out: int


def _pack(batch: RowBatch, accepted: Accepted, most: int) -> _Packed:
    """Sort pairs by token, then from best to worst, then by id, and keep the first ``most`` of each token."""
    is_token = ~batch.is_special
    place = accepted.rows * batch.input_ids.shape[1] + accepted.columns
    number = (np.cumsum(is_token) - 1)[place]
    if len(np.unique(number << 32 | accepted.substitutes)) != len(number):
        raise ValueError("the annotator lists a substitute twice for one token")
    reverse = FULL - quantised(accepted.credit).astype(np.int64)
    keys = np.sort(number << 40 | reverse << 32 | accepted.substitutes)
    counts = np.bincount(keys >> 40, minlength=int(is_token.sum()))
    rank = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
    keys = keys[rank < most]
    return _Packed(
        counts=np.minimum(counts, most).astype(np.uint8),
        substitutes=keys & 0xFFFFFFFF,
        credits=(FULL - (keys >> 32 & 0xFF)).astype(np.uint8),
        num_left_out=len(number) - len(keys),
    )


@dataclass
class _Journal:
    """What an unfinished run has written so far, kept in ``annotating.json``."""

    folder: Path
    info: AnnotationsInfo
    """Description of what is written: its splits grow."""

    @classmethod
    def open(cls, folder: Path, info: AnnotationsInfo, *, overwrite: bool) -> _Journal:
        stored: AnnotationsInfo | CorpusError | None
        try:
            stored = _read_journal(folder)
        except CorpusError as error:
            stored = error
        begun = _inputs(stored) if isinstance(stored, AnnotationsInfo) else stored
        names = {"finished": INFO_FILE, "journal": JOURNAL_FILE}
        if goes_on(folder, "annotations", **names, stored=begun, inputs=_inputs(info), overwrite=overwrite):
            return cls(folder, stored if isinstance(stored, AnnotationsInfo) else info)
        folder.mkdir(parents=True, exist_ok=True)
        journal = cls(folder, info)
        journal.save()  # first: a folder with both files is unfinished
        clear(folder, INFO_FILE)
        return journal

    def note(self, split: Split, done: SplitAnnotations) -> None:
        """Record the progress of a split, without saving it."""
        self.info = replace(self.info, splits={**self.info.splits, split: done})

    def save(self) -> None:
        write_journal(self.folder / JOURNAL_FILE, dataclasses.asdict(self.info))

    def finish(self) -> AnnotationsInfo:
        """Write the files derived from others, and the description."""
        for name, done in self.info.splits.items():
            path = part_path(self.folder, name, "blocks")
            write_whole(path, block_starts(part_path(self.folder, name, "counts")).astype("<i8").tobytes())
            self.note(name, replace(done, checksums={**done.checksums, "blocks": checksum(path)}))
        info = self.info.with_fingerprint()
        write_json(self.folder / INFO_FILE, dataclasses.asdict(info))
        (self.folder / JOURNAL_FILE).unlink()
        return info


def _inputs(info: AnnotationsInfo) -> dict[str, Any]:
    """The inputs of a run, independent of how much it has written."""
    splits = {name: SplitAnnotations(split.num_tokens) for name, split in info.splits.items()}
    return dataclasses.asdict(replace(info, splits=splits))


def _read_journal(folder: Path) -> AnnotationsInfo | None:
    """What an earlier run has written; None if there is none.

    Raises:
        CorpusError: if its journal or what it has written is damaged.
    """
    stored = read_journal(AnnotationsInfo, folder / JOURNAL_FILE)
    if stored is None:
        return None
    for name, done in stored.splits.items():
        sizes = part_sizes(done, np.dtype(stored.dtype))
        for part in _GROWING if done.num_rows else ():
            path = part_path(folder, name, part)
            if not path.is_file():
                raise CorpusError(f"'{path}' is missing: {ANEW}")
            if _digest(path, sizes[part]).hexdigest() != done.checksums.get(part):
                raise CorpusError(f"'{path}' is damaged (checksum): {ANEW}")
    return stored


def _digest(path: Path, size: int) -> Any:
    """SHA-256 of the first ``size`` bytes of a file, as a hash object that can be updated."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size and (stretch := file.read(min(size, _STRETCH))):
            digest.update(stretch)
            size -= len(stretch)
    return digest


class _SplitWriter:
    """Appends to a split's files and records in the journal how much of them is valid."""

    def __init__(self, journal: _Journal, split: Split) -> None:
        self._journal, self._split = journal, split
        self._dtype = np.dtype(journal.info.dtype)
        self._saved_at = time.monotonic()
        self._files: dict[str, BinaryIO] = {}
        self._written: tuple[SplitAnnotations, dict[str, Any]] = journal.info.splits[split], {}
        """What is done, and a digest of each file as far as that goes."""
        self._cleanup = ExitStack()

    @property
    def done(self) -> SplitAnnotations:
        return self._written[0]

    def __enter__(self) -> _SplitWriter:
        sizes = part_sizes(self.done, self._dtype)
        for part in _GROWING:
            path = part_path(self._journal.folder, self._split, part)
            path.parent.mkdir(exist_ok=True)
            path.touch()
            file = self._cleanup.enter_context(path.open("r+b"))
            file.truncate(sizes[part])  # anything beyond was written after the journal
            file.seek(sizes[part])
            self._files[part] = file
            self._written[1][part] = _digest(path, sizes[part])
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._cleanup:
            if kind is None or issubclass(kind, KeyboardInterrupt):
                self._save()

    def write(self, batch: RowBatch, accepted: Accepted) -> int:
        """Append the accepted substitutes of the next rows; return their number of tokens."""
        packed, done = _pack(batch, accepted, self._journal.info.most), self.done
        arrays = {
            "counts": packed.counts,
            "substitutes": packed.substitutes.astype(self._dtype),
            "credits": packed.credits,
        }
        digests = {part: digest.copy() for part, digest in self._written[1].items()}
        for part, values in arrays.items():
            data = values.tobytes()
            self._files[part].write(data)
            digests[part].update(data)
        now = replace(
            done,
            num_annotated=done.num_annotated + len(packed.counts),
            num_rows=done.num_rows + len(batch.input_ids),
            num_with_substitutes=done.num_with_substitutes + int(np.count_nonzero(packed.counts)),
            num_pairs=done.num_pairs + len(packed.credits),
            num_left_out=done.num_left_out + packed.num_left_out,
            most_found=max(done.most_found, int(packed.counts.max())),
        )
        self._written = now, digests  # at once: an interruption saves what is here
        if time.monotonic() - self._saved_at > _SAVE_SECONDS:
            self._save()
        return len(packed.counts)

    def _save(self) -> None:
        for file in self._files.values():
            flush(file)
        done, digests = self._written
        self._journal.note(
            self._split, replace(done, checksums={part: digest.hexdigest() for part, digest in digests.items()})
        )
        self._journal.save()
        self._saved_at = time.monotonic()
