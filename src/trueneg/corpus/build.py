"""Text to a corpus on disk: in parallel, resumable after a kill, the same bytes for any number of workers."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import multiprocessing
import os
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from trueneg.corpus.encoding import CorpusTokenizer, TokenizedTexts, is_uncased, single_threaded, token_dtype
from trueneg.corpus.files import user_errors
from trueneg.corpus.journal import ANEW, clear, goes_on, read_journal, write_journal
from trueneg.corpus.overlap import Overlap, refuse_same_files
from trueneg.corpus.sources import check_files, read_documents, source_files
from trueneg.corpus.store import (
    INFO_FILE,
    JOURNAL_FILE,
    SHARD_PARTS,
    CorpusInfo,
    ShardInfo,
    SourceInfo,
    Split,
    SplitInfo,
    TokenType,
    shard_path,
)
from trueneg.corpus.tags import PARTS as TAG_PARTS
from trueneg.corpus.tags import TAGS_FILE, ShardTags, TagsInfo, forms_to_bytes
from trueneg.errors import CorpusError, TruenegWarning
from trueneg.files.digests import fingerprint_of
from trueneg.files.lock import locked
from trueneg.files.records import read_record
from trueneg.files.text import LONGEST_TEXT
from trueneg.files.verified import Expected, verify
from trueneg.files.whole import flush, write_json
from trueneg.lexicon.tagging import Tagger, make_tagger
from trueneg.lexicon.wordnet_location import verified_folder
from trueneg.tokenizer import fingerprint, load_tokenizer, save_tokenizer, special_ids
from trueneg.workers import follow_parent

_UNIT_CHARACTERS = 1 << 20  # of text to one call of the tokenizer: large against its overhead, small in memory
_MOST_UNKNOWN = 0.01
_BUILT_FILE = "built.json"  # next to a finished corpus: the fingerprint of its inputs
_AGAIN = "run the same command again to go on from the finished shards"


def build_corpus(
    sources: Sequence[str],
    tokenizer: str | Path,
    out: str | Path,
    *,
    workers: int = 1,
    valid: str | float | None = None,
    seed: int = 0,
    shard_tokens: int = 1 << 26,
    text_field: str = "text",
    lines: bool = False,
    max_document_mib: float = LONGEST_TEXT >> 20,
    tagger: str | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> CorpusInfo:
    """Tokenize sources into a corpus folder.

    The files written depend on the text, the tokenizer, ``valid``, ``seed``, ``shard_tokens``, ``lines`` and the
    tagger only, and those that every corpus has do not depend on the tagger. A build that is killed or
    interrupted keeps its finished shards, and the same call goes on from them; one that is finished is kept as it is.
    A call with other inputs is refused.

    Args:
        sources: files, folders, globs or hub data sets, in the order to store them.
        tokenizer: a folder or hub name; a copy is kept in ``out/tokenizer``.
        out: the folder to write; absent, empty, or with an unfinished build.
        workers: processes that tokenize.
        valid: a source of validation text, or the fraction of documents to hold out, chosen by a hash of
            ``seed`` and the document's text, so that equal documents fall on the same side.
        seed: chooses the documents held out.
        shard_tokens: a shard ends with the document that reaches so many tokens; a killed build loses at
            most the last shard of each split.
        text_field: field or column of the text in JSON, Parquet and hub sources.
        lines: make every line a document of its own, as line-by-line benchmarks have it.
        max_document_mib: most MiB of a line, a row or a text; longer ones are refused.
        tagger: name of who tags the words with their parts of speech, see ``trueneg.corpus.tags``; None: nobody.
        overwrite: replace a corpus in ``out`` that is finished, or was begun with other inputs.
        progress: called with the number of UTF-8 bytes of text dealt with since the last call; those that an
            earlier, killed build had stored count as well.

    Returns:
        The description written to ``corpus.json``.

    Raises:
        CorpusError: for text that cannot be read, a folder that holds something else, a corpus finished or begun
            with other inputs, validation files that are also to be trained on, a fraction that is none, no text at
            all, or a full disk.
        ModelError: for a tokenizer that cannot be used.
        ConfigError, MissingExtraError, LexiconError: for a tagger that is unknown or not installed.
        Interrupted: after Ctrl-C; finished shards are kept.
    """
    if workers < 1 or shard_tokens < 1:
        raise CorpusError(f"workers ({workers}) and shard tokens ({shard_tokens}) must be at least 1")
    if not sources:
        raise CorpusError("no source to build a corpus from: name a file, folder, glob or hub data set")
    fraction, valid_source = _parse_valid(valid)
    fast = load_tokenizer(tokenizer)
    tags = make_tagger(tagger) if tagger else None
    ids = {role: i for role, i in special_ids(fast).items() if i is not None}
    vocab_size = max(fast.get_vocab().values()) + 1
    dtype = token_dtype(vocab_size)
    splits: tuple[Split, ...] = ("train",) if valid is None else ("train", "valid")
    named = [*sources, valid_source] if valid_source else sources
    files = [entry for source in named for entry in _describe_source(source, text_field, max_document_mib)]
    if valid_source:
        refuse_same_files(
            [path for source in sources for path in source_files(source) or ()], source_files(valid_source) or ()
        )
    inputs = {
        "format_version": CorpusInfo.FORMAT_VERSION,
        "tokenizer": fingerprint(fast),
        "sources": files,
        "named": list(named),
        "valid": valid,
        "seed": seed,
        "shard_tokens": shard_tokens,
        "text_field": text_field,
        "lines": lines,
    }
    if tags is not None:
        inputs["tagger"] = {"name": tags.name, **tags.provenance}
    folder = Path(out)
    if not overwrite and _is_built(folder, inputs):
        return CorpusInfo.read(folder)
    read = functools.partial(read_documents, text_field=text_field, lines=lines, max_document_mib=max_document_mib)
    with user_errors(f"building '{folder}'", "what is finished is kept", _AGAIN), ExitStack() as cleanup:
        cleanup.enter_context(locked(folder, "corpus build"))
        journal = _Journal.open(folder, inputs, splits, overwrite=overwrite)
        save_tokenizer(fast, folder / "tokenizer")
        writers = {
            name: cleanup.enter_context(_SplitWriter(journal, name, dtype, shard_tokens, fast.unk_token_id))
            for name in splits
        }
        done = {name: split.num_documents + split.num_empty_documents for name, split in journal.splits.items()}
        documents = _documents(sources, valid_source, fraction, seed, read)
        units = _units(documents, done, progress or (lambda _: None))
        tokenizer_file = folder / "tokenizer" / "tokenizer.json"
        for unit, encoded in _encoded(units, tokenizer_file, tags, workers):
            writers[unit.split].write(encoded)
            if progress is not None:
                progress(unit.num_bytes)
        for writer in writers.values():
            writer.close_shard()
        info = CorpusInfo(
            tokenizer_fingerprint=fingerprint(fast),
            vocab_size=vocab_size,
            special_ids=ids,
            dtype=cast(TokenType, dtype.name),
            splits={name: writer.info for name, writer in writers.items()},
            sources=tuple(SourceInfo(name, num_bytes) for name, num_bytes, _ in files),
        ).with_fingerprint()
        _check_content(info, valid)
        if tags is not None:
            _write_tags_info(folder, info, tags, is_uncased(fast.backend_tokenizer), journal.tags)
        write_json(folder / _BUILT_FILE, {"inputs": fingerprint_of(inputs)})
        write_json(folder / INFO_FILE, dataclasses.asdict(info))
        (folder / JOURNAL_FILE).unlink()
    return info


def _is_built(folder: Path, inputs: dict[str, Any]) -> bool:
    """Whether a folder holds the finished corpus of the same inputs."""
    if not (folder / _BUILT_FILE).is_file() or not (folder / INFO_FILE).is_file() or (folder / JOURNAL_FILE).exists():
        return False
    built = read_record(dict[str, str], folder / _BUILT_FILE, CorpusError, "remove it, or pass --overwrite")
    return built.get("inputs") == fingerprint_of(inputs)


def _write_tags_info(
    folder: Path, info: CorpusInfo, tagger: Tagger, is_uncased: bool, splits: dict[Split, tuple[ShardTags, ...]]
) -> None:
    tags = TagsInfo(info.fingerprint, tagger.name, dict(tagger.provenance), is_uncased, splits)
    write_json(folder / TAGS_FILE, dataclasses.asdict(tags.with_fingerprint()))


def _parse_valid(valid: str | float | None) -> tuple[float | None, str | None]:
    if valid is None:
        return None, None
    if isinstance(valid, str) and Path(valid).exists():
        return None, valid
    try:
        fraction = float(valid)
    except ValueError:
        return None, str(valid)
    if not 0 < fraction < 1:
        raise CorpusError(f"--valid {valid}: a fraction must be in (0, 1), and no file has this name")
    return fraction, None


def _describe_source(source: str, text_field: str, max_document_mib: float) -> list[tuple[str, int | None, int]]:
    """Name, size and time of change of every file: what tells an unchanged source from a changed one."""
    files = source_files(source)
    if files is None:
        return [(source, None, 0)]
    check_files(source, files, text_field, max_document_mib)
    stats = [(path, path.stat()) for path in files]
    return [(path.as_posix(), stat.st_size, stat.st_mtime_ns) for path, stat in stats]


def _documents(
    sources: Sequence[str],
    valid_source: str | None,
    fraction: float | None,
    seed: int,
    read: Callable[[str], Iterator[str]],
) -> Iterator[tuple[Split, str]]:
    """All documents in order, each with its split."""
    overlap = None
    if valid_source is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruenegWarning)  # reading it again says it
            overlap = Overlap(read(valid_source))
    for source in sources:
        for text in read(source):
            is_held_out = fraction is not None and _uniform(text, seed) < fraction
            if overlap is not None:
                overlap.see(text)
            yield "valid" if is_held_out else "train", text
    if valid_source is not None and overlap is not None:
        overlap.warn()
        for text in read(valid_source):
            yield "valid", text


def _uniform(text: str, seed: int) -> float:
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=(seed % (1 << 64)).to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little") / (1 << 64)


@dataclass
class _Unit:
    """Documents of one split that are encoded together."""

    split: Split
    texts: list[str] = field(default_factory=list)
    num_characters: int = 0
    num_bytes: int = 0


def _units(
    documents: Iterator[tuple[Split, str]], done: dict[Split, int], skipped: Callable[[int], None]
) -> Iterator[_Unit]:
    """Group documents, in order within each split, without the first ``done`` ones, which are stored."""
    left = dict(done)
    open_units = {split: _Unit(split) for split in done}
    for split, text in documents:
        num_bytes = len(text.encode())
        if left[split] > 0:
            left[split] -= 1
            skipped(num_bytes)
            continue
        unit = open_units[split]
        unit.texts.append(text)
        unit.num_characters += len(text)
        unit.num_bytes += num_bytes
        if unit.num_characters >= _UNIT_CHARACTERS:
            yield unit
            open_units[split] = _Unit(split)
    yield from (unit for unit in open_units.values() if unit.texts)


def _encoded(
    units: Iterator[_Unit], tokenizer_file: Path, tagger: Tagger | None, workers: int
) -> Iterator[tuple[_Unit, TokenizedTexts]]:
    """Encode units, in order, with the given number of processes and a bounded number of units in memory."""
    if workers == 1:
        encoder = _load_encoder(tokenizer_file, tagger)
        for unit in units:
            with single_threaded():
                encoded = encoder(unit.texts)
            yield unit, encoded
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare_worker)
    waiting: deque[tuple[_Unit, Future[TokenizedTexts]]] = deque()
    try:
        for unit in units:
            name = tagger.name if tagger is not None else None
            waiting.append((unit, pool.submit(_encode_in_worker, str(tokenizer_file), name, unit.texts)))
            if len(waiting) > 2 * workers:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()
    except BrokenProcessPool as error:
        raise CorpusError(
            "a process that tokenizes died, likely for lack of memory: run the same again with fewer workers"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _load_encoder(tokenizer_file: Path, tagger: Tagger | None) -> CorpusTokenizer:
    from tokenizers import Tokenizer

    return CorpusTokenizer(Tokenizer.from_file(str(tokenizer_file)), tagger)


def _prepare_worker() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    follow_parent()


@functools.cache
def _worker_encoder(tokenizer_file: str, tagger: str | None) -> CorpusTokenizer:
    return _load_encoder(Path(tokenizer_file), make_tagger(tagger) if tagger else None)


def _encode_in_worker(tokenizer_file: str, tagger: str | None, texts: list[str]) -> TokenizedTexts:
    return _worker_encoder(tokenizer_file, tagger)(texts)


@dataclass(frozen=True)
class _Begun:
    """What a journal says: the inputs, and what is finished."""

    inputs: dict[str, Any]
    splits: dict[Split, SplitInfo]
    tags: dict[Split, tuple[ShardTags, ...]]

    def files(self, folder: Path) -> list[Expected]:
        """Of the finished shards."""
        of_files = [(name, [shard.checksums for shard in split.shards]) for name, split in self.splits.items()]
        of_files += [(name, [shard.checksums for shard in those]) for name, those in self.tags.items()]
        return [
            Expected(shard_path(folder, name, number, part), digest)
            for name, parts_of in of_files
            for number, parts in enumerate(parts_of)
            for part, digest in parts.items()
        ]


@dataclass
class _Journal:
    """What an unfinished build has finished, kept in ``build.json``."""

    folder: Path
    inputs: dict[str, Any]
    splits: dict[Split, SplitInfo]
    tags: dict[Split, tuple[ShardTags, ...]]
    """Of the shards, where they are tagged."""

    @classmethod
    def open(cls, folder: Path, inputs: dict[str, Any], splits: Sequence[Split], *, overwrite: bool) -> _Journal:
        stored: _Begun | CorpusError | None
        try:
            stored = read_journal(_Begun, folder / JOURNAL_FILE)
            verify(stored.files(folder) if stored else (), CorpusError, ANEW, verified_folder())
        except CorpusError as error:
            stored = error
        begun = stored.inputs if isinstance(stored, _Begun) else stored
        names = {"finished": INFO_FILE, "journal": JOURNAL_FILE}
        is_begun = goes_on(folder, "corpus", **names, stored=begun, inputs=inputs, overwrite=overwrite)
        if is_begun and isinstance(stored, _Begun):
            return cls(folder, inputs, stored.splits, stored.tags)
        folder.mkdir(parents=True, exist_ok=True)
        journal = cls(folder, inputs, {split: SplitInfo() for split in splits}, dict.fromkeys(splits, ()))
        journal.save()  # first: a folder with both files is an unfinished build
        clear(folder, INFO_FILE, TAGS_FILE, _BUILT_FILE)
        return journal

    def save(self) -> None:
        content = dataclasses.asdict(_Begun(self.inputs, self.splits, self.tags))
        write_journal(self.folder / JOURNAL_FILE, content)


class _SplitWriter:
    """Writes a split shard by shard: part files, renamed once they are whole, then noted in the journal."""

    def __init__(
        self, journal: _Journal, split: Split, dtype: np.dtype[Any], shard_tokens: int, unknown_id: int | None
    ) -> None:
        self._journal = journal
        self._split = split
        self._dtype = dtype
        self._shard_tokens = shard_tokens
        self._unknown_id = unknown_id
        self._begin()

    @property
    def info(self) -> SplitInfo:
        return self._journal.splits[self._split]

    def __enter__(self) -> _SplitWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts.values():
            part.file.close()

    def _begin(self) -> None:
        self._parts: dict[str, _PartFile] = {}
        self._lengths: list[npt.NDArray[np.int64]] = []
        self._bits = np.empty(0, dtype=bool)
        self._forms: Counter[tuple[str, int]] = Counter()
        self._num_tokens = self._num_documents = self._num_empty = self._num_unknown = 0

    def write(self, encoded: TokenizedTexts) -> None:
        """Append documents, ending a shard once it is full."""
        ends = np.cumsum(encoded.lengths)
        document = token = 0
        while document < len(ends):
            missing = token + self._shard_tokens - self._num_tokens
            stop = min(int(np.searchsorted(ends, missing)) + 1, len(ends))
            end = int(ends[stop - 1])
            self._append(encoded, slice(token, end), slice(document, stop))
            if self._num_tokens >= self._shard_tokens:
                self.close_shard()
            document, token = stop, end

    def _append(self, encoded: TokenizedTexts, those: slice, documents: slice) -> None:
        """Append documents of a unit, which have those of its tokens."""
        tokens, lengths, tagged = encoded.tokens[those], encoded.lengths[documents], encoded.tagged
        if not self._parts:
            parts = SHARD_PARTS if tagged is None else (*SHARD_PARTS, *TAG_PARTS)
            paths = {part: shard_path(self._journal.folder, self._split, len(self.info.shards), part) for part in parts}
            paths["tokens"].parent.mkdir(exist_ok=True)
            self._parts = {part: _PartFile(path) for part, path in paths.items()}
        self._parts["tokens"].write(tokens.tobytes())
        if tagged is not None:
            self._parts["tags"].write(tagged.tags[those].tobytes())
            self._forms.update(tagged.counts(those.start, those.stop))
        bits = np.concatenate([self._bits, encoded.is_word_start[those]])
        whole = len(bits) // 8 * 8
        self._parts["words"].write(np.packbits(bits[:whole]).tobytes())
        self._bits = bits[whole:]
        kept = lengths[lengths > 0]
        self._lengths.append(kept)
        self._num_tokens += len(tokens)
        self._num_documents += len(kept)
        self._num_empty += len(lengths) - len(kept)
        if self._unknown_id is not None:
            self._num_unknown += int(np.count_nonzero(tokens == self._unknown_id))

    def close_shard(self) -> None:
        """Finish the shard begun, if any, and note it and everything counted in the journal."""
        shards = self.info.shards
        if self._num_documents:
            self._parts["words"].write(np.packbits(self._bits).tobytes())
            offsets = np.cumsum(np.concatenate([[0], *self._lengths]), dtype="<i8")
            self._parts["offsets"].write(offsets.tobytes())
            forms = forms_to_bytes(self._forms)
            if "forms" in self._parts:
                self._parts["forms"].write(forms)
            checksums = {part: file.finish() for part, file in self._parts.items()}
            of_tags = {part: checksums.pop(part) for part in TAG_PARTS if part in checksums}
            shards = (*shards, ShardInfo(self._num_documents, self._num_tokens, checksums))
            if of_tags:
                found = ShardTags(self._forms.total(), len(self._forms), len(forms), of_tags)
                self._journal.tags[self._split] = (*self._journal.tags[self._split], found)
        else:
            for file in self._parts.values():
                file.discard()
        self._journal.splits[self._split] = SplitInfo(
            num_documents=self.info.num_documents + self._num_documents,
            num_tokens=self.info.num_tokens + self._num_tokens,
            num_empty_documents=self.info.num_empty_documents + self._num_empty,
            num_unknown_tokens=self.info.num_unknown_tokens + self._num_unknown,
            shards=shards,
        )
        self._begin()
        self._journal.save()


class _PartFile:
    """A file under a provisional name until it is finished, with its checksum computed on the way."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._provisional = path.with_suffix(".part")
        self._digest = hashlib.sha256()
        self.file: IO[bytes] = self._provisional.open("wb")

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self._digest.update(data)

    def finish(self) -> str:
        with self.file:
            flush(self.file)
        self._provisional.replace(self._path)
        return self._digest.hexdigest()

    def discard(self) -> None:
        self.file.close()
        self._provisional.unlink()


def _check_content(info: CorpusInfo, valid: str | float | None) -> None:
    if not info.splits["train"].num_tokens:
        raise CorpusError("the sources hold no text for training: every document is empty or held out")
    if "valid" in info.splits and not info.splits["valid"].num_tokens:
        num = info.splits["train"].num_documents
        found = f"there {'is 1 document' if num == 1 else f'are {num:,} documents'}"
        raise CorpusError(
            f"--valid {valid} holds out no text: {found}: if every line is one, pass --lines, or raise the fraction, "
            f"or name a file with text"
        )
    num_unknown = sum(split.num_unknown_tokens for split in info.splits.values())
    if num_unknown > _MOST_UNKNOWN * info.num_tokens:
        warnings.warn(
            f"{num_unknown / info.num_tokens:.1%} of the tokens are unknown to the tokenizer: is it made for "
            f"this text? Train one with 'trueneg tokenizer train'",
            TruenegWarning,
            stacklevel=3,
        )
