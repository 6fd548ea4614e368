"""Build a corpus on disk from text: in parallel, resumable, with the same bytes for any number of workers."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import multiprocessing
import os
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trueneg.corpus.encoding import CorpusTokenizer, TokenizedTexts, is_uncased, single_threaded, token_dtype
from trueneg.corpus.files import user_errors
from trueneg.corpus.hub import hub_state
from trueneg.corpus.overlap import Overlap, refuse_same_files
from trueneg.corpus.remote import RemoteFile, TextFile
from trueneg.corpus.shard_writer import BUILT_FILE, BuildJournal, SplitWriter
from trueneg.corpus.sources import check_files, read_documents, source_files
from trueneg.corpus.store import (
    INFO_FILE,
    JOURNAL_FILE,
    CorpusInfo,
    SourceInfo,
    Split,
    TokenType,
)
from trueneg.corpus.tags import TAGS_FILE, ShardTags, TagsInfo
from trueneg.errors import CorpusError, TruenegWarning
from trueneg.files.digests import fingerprint_of
from trueneg.files.lock import locked
from trueneg.files.records import read_record
from trueneg.files.text import LONGEST_TEXT, is_unicode
from trueneg.files.whole import write_json
from trueneg.lexicon.tagging import Tagger, make_tagger
from trueneg.tokenizer import fingerprint, load_tokenizer, save_tokenizer, special_ids
from trueneg.workers import follow_parent

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_UNIT_CHARACTERS = 1 << 20  # of text per call of the tokenizer: large against its overhead, small in memory
_MOST_UNKNOWN = 0.01
_AGAIN = "run the same command again to go on from the finished shards"

_Described = tuple[str, int | None, int | str]
"""Name and size of a file, and its modification time or, for a remote file, its version."""


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

    The files written depend only on the text, the tokenizer, ``valid``, ``seed``, ``shard_tokens``, ``lines`` and the
    tagger, and the files that every corpus has do not depend on the tagger. A build that is killed or interrupted
    keeps its finished shards, and the same call resumes from them; a finished build is kept as it is. A call with
    other inputs is refused.

    Args:
        sources: files, folders, globs, URLs or hub data sets, in the order to store them.
        tokenizer: a folder or hub name; a copy is kept in ``out/tokenizer``.
        out: the folder to write; absent, empty, or with an unfinished build.
        workers: number of processes that tokenize.
        valid: a source of validation text, or the fraction of documents to hold out, chosen by a hash of
            ``seed`` and the document's text, so that equal documents go to the same split.
        seed: chooses the documents held out.
        shard_tokens: a shard ends with the document that reaches this many tokens; a killed build loses at
            most the last shard of each split.
        text_field: field or column of the text in JSON, Parquet and hub sources.
        lines: make every line a document of its own, as in line-by-line benchmarks.
        max_document_mib: maximum MiB of a line or of a record's text; longer ones are refused. A document of several
            lines in a ``.txt`` file is cut at 8,388,608 characters instead, with a warning.
        tagger: name of the part-of-speech tagger, see ``trueneg.corpus.tags``; None for no tags.
        overwrite: replace a corpus in ``out`` that is finished, or was begun with other inputs.
        progress: called with the number of UTF-8 bytes of text processed since the last call, including those
            that an earlier, killed build had stored.

    Returns:
        The description written to ``corpus.json``.

    Raises:
        CorpusError: for text that cannot be read, a folder that holds something else, a corpus finished or begun
            with other inputs, validation files that are also training files, an invalid fraction, no text at
            all, or a full disk.
        ModelError: for a tokenizer that cannot be used.
        ConfigError, MissingExtraError, LexiconError: for a tagger that is unknown or not installed.
        Interrupted: after Ctrl-C; finished shards are kept.
    """
    if workers < 1:
        raise CorpusError(f"workers ({workers}) must be at least 1")
    recipe = prepare(
        sources,
        tokenizer,
        valid,
        seed,
        shard_tokens,
        text_field,
        lines,
        max_document_mib=max_document_mib,
        tagger=tagger,
    )
    folder, tell = Path(out), progress or (lambda _: None)
    if not overwrite and is_built(folder, recipe):
        return CorpusInfo.read(folder)
    read = functools.partial(read_documents, text_field=text_field, lines=lines, max_document_mib=max_document_mib)
    fraction, valid_source = parse_valid(valid)

    def encoded(done: Mapping[Split, int]) -> Iterator[tuple[Split, TokenizedTexts]]:
        documents = _documents(sources, valid_source, fraction, seed, read)
        tokenizer_file = folder / "tokenizer" / "tokenizer.json"
        for unit, texts in _encoded(units(documents, done, tell), tokenizer_file, recipe.tagger, workers):
            yield unit.split, texts
            tell(unit.num_bytes)

    with (
        user_errors(f"building '{folder}'", "what is finished is kept", _AGAIN),
        locked(folder, "corpus build"),
    ):
        return store(folder, recipe, encoded, overwrite=overwrite)


@dataclass(frozen=True)
class Recipe:
    """What determines the bytes of a corpus.

    Attributes:
        inputs: JSON-ready: the files and the options.
        tokenizer: the tokenizer of all texts.
        tagger: the tagger of their words; None without tags.
    """

    inputs: dict[str, Any]
    tokenizer: PreTrainedTokenizerFast
    tagger: Tagger | None

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits of the corpus."""
        return ("train",) if self.inputs["valid"] is None else ("train", "valid")


def prepare(
    sources: Sequence[str],
    tokenizer: str | Path,
    valid: str | float | None,
    seed: int,
    shard_tokens: int,
    text_field: str,
    lines: bool,
    *,
    max_document_mib: float,
    tagger: str | None,
    is_checked: bool = True,
) -> Recipe:
    """Load what ``build_corpus`` needs for its arguments, and inspect every source.

    With ``is_checked`` the first document of every file is read, so that faulty files are found early.
    """
    if shard_tokens < 1:
        raise CorpusError(f"shard tokens ({shard_tokens}) must be at least 1")
    if not sources:
        raise CorpusError("no source to build a corpus from: name a file, folder, glob, URL or hub data set")
    valid_source = parse_valid(valid)[1]
    fast = load_tokenizer(tokenizer)
    tags = make_tagger(tagger) if tagger else None
    named = [*sources, valid_source] if valid_source else sources
    check = functools.partial(check_files, text_field=text_field, max_document_mib=max_document_mib)
    files = [entry for source in named for entry in _describe_source(source, check if is_checked else None)]
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
    return Recipe(inputs, fast, tags)


def store(
    folder: Path,
    recipe: Recipe,
    encoded: Callable[[Mapping[Split, int]], Iterator[tuple[Split, TokenizedTexts]]],
    *,
    overwrite: bool = False,
    own: Collection[str] = (),
) -> CorpusInfo:
    """Write a corpus, resuming from the shards that are finished.

    Args:
        folder: The folder to write, which the caller has locked.
        recipe: What it is made from.
        encoded: Called with the number of documents per split that are already stored; yields the others in order,
            with their split.
        overwrite: Replace a corpus that is finished, or was begun with other inputs.
        own: Names of other files that the folder may already hold.
    """
    fast = recipe.tokenizer
    vocab_size = max(fast.get_vocab().values()) + 1
    dtype = token_dtype(vocab_size)
    with ExitStack() as cleanup:
        journal = BuildJournal.open(folder, recipe.inputs, recipe.splits, overwrite=overwrite, own=own)
        save_tokenizer(fast, folder / "tokenizer")
        writers = {
            name: cleanup.enter_context(
                SplitWriter(journal, name, dtype, recipe.inputs["shard_tokens"], fast.unk_token_id)
            )
            for name in recipe.splits
        }
        done = {name: split.num_documents + split.num_empty_documents for name, split in journal.splits.items()}
        for name, texts in encoded(done):
            writers[name].write(texts)
        for writer in writers.values():
            writer.close_shard()
        info = CorpusInfo(
            tokenizer_fingerprint=fingerprint(fast),
            vocab_size=vocab_size,
            special_ids={role: i for role, i in special_ids(fast).items() if i is not None},
            dtype=cast(TokenType, dtype.name),
            splits={name: writer.info for name, writer in writers.items()},
            sources=tuple(SourceInfo(name, num_bytes) for name, num_bytes, _ in recipe.inputs["sources"]),
        ).with_fingerprint()
        _check_content(info, recipe.inputs["valid"])
        if recipe.tagger is not None:
            _write_tags_info(folder, info, recipe.tagger, is_uncased(fast.backend_tokenizer), journal.tags)
        write_json(folder / BUILT_FILE, {"inputs": fingerprint_of(recipe.inputs)})
        write_json(folder / INFO_FILE, dataclasses.asdict(info))
        (folder / JOURNAL_FILE).unlink()
    return info


def is_built(folder: Path, recipe: Recipe) -> bool:
    """Whether a folder holds the finished corpus of the same inputs; if so, remove what a kill left of its journal."""
    if not (folder / BUILT_FILE).is_file() or not (folder / INFO_FILE).is_file():
        return False
    built = read_record(dict[str, str], folder / BUILT_FILE, CorpusError, "remove it, or pass --overwrite")
    if built.get("inputs") != fingerprint_of(recipe.inputs):
        return False
    (folder / JOURNAL_FILE).unlink(missing_ok=True)
    return True


def _write_tags_info(
    folder: Path, info: CorpusInfo, tagger: Tagger, is_uncased: bool, splits: dict[Split, tuple[ShardTags, ...]]
) -> None:
    tags = TagsInfo(info.fingerprint, tagger.name, dict(tagger.provenance), is_uncased, splits)
    write_json(folder / TAGS_FILE, dataclasses.asdict(tags.with_fingerprint()))


def parse_valid(valid: str | float | None) -> tuple[float | None, str | None]:
    """A fraction to hold out, or a source of held-out text, or neither."""
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


def _describe_source(source: str, check: Callable[[str, Sequence[TextFile]], None] | None) -> list[_Described]:
    """Name, size and state of every file, by which a changed source is detected."""
    files = source_files(source)
    if files is None:
        return [(source, None, hub_state(source)[0])]
    if check is not None:
        check(source, files)
    return [_describe(file) for file in files]


def _describe(file: TextFile) -> _Described:
    if isinstance(file, RemoteFile):
        return file.url, file.size, file.version
    if not is_unicode(str(file)):
        raise CorpusError(f"{str(file).encode(errors='surrogateescape')!r}: its name is not UTF-8: rename it")
    stat = file.stat()
    return file.as_posix(), stat.st_size, stat.st_mtime_ns


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
            warnings.simplefilter("ignore", TruenegWarning)  # the second reading warns
            overlap = Overlap(read(valid_source))
    for source in sources:
        for text in read(source):
            is_held_out = fraction is not None and uniform(text, seed) < fraction
            if overlap is not None:
                overlap.see(text)
            yield "valid" if is_held_out else "train", text
    if valid_source is not None and overlap is not None:
        overlap.warn()
        for text in read(valid_source):
            yield "valid", text


def uniform(text: str, seed: int) -> float:
    """A pseudo-random number in [0, 1) that depends on a text and a seed only."""
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=(seed % (1 << 64)).to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little") / (1 << 64)


@dataclass
class Unit:
    """Documents of one split that are encoded together."""

    split: Split
    texts: list[str] = field(default_factory=list)
    num_characters: int = 0
    num_bytes: int = 0


def units(
    documents: Iterator[tuple[Split, str]], done: Mapping[Split, int], skipped: Callable[[int], None]
) -> Iterator[Unit]:
    """Group documents, in order within each split, skipping the first ``done`` ones, which are stored already."""
    left = dict(done)
    open_units = {split: Unit(split) for split in done}
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
            open_units[split] = Unit(split)
    yield from (unit for unit in open_units.values() if unit.texts)


def _encoded(
    units: Iterator[Unit], tokenizer_file: Path, tagger: Tagger | None, workers: int
) -> Iterator[tuple[Unit, TokenizedTexts]]:
    """Encode units, in order, with the given number of processes and a bounded number of units in memory."""
    if workers == 1:
        encoder = load_encoder(tokenizer_file, tagger)
        for unit in units:
            with single_threaded():
                encoded = encoder(unit.texts)
            yield unit, encoded
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare_worker)
    waiting: deque[tuple[Unit, Future[TokenizedTexts]]] = deque()
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


def load_encoder(tokenizer_file: Path, tagger: Tagger | None) -> CorpusTokenizer:
    """Load the function that encodes texts."""
    from tokenizers import Tokenizer

    return CorpusTokenizer(Tokenizer.from_file(str(tokenizer_file)), tagger)


def _prepare_worker() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    follow_parent()


@functools.cache
def _worker_encoder(tokenizer_file: str, tagger: str | None) -> CorpusTokenizer:
    return load_encoder(Path(tokenizer_file), make_tagger(tagger) if tagger else None)


def _encode_in_worker(tokenizer_file: str, tagger: str | None, texts: list[str]) -> TokenizedTexts:
    return _worker_encoder(tokenizer_file, tagger)(texts)


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
