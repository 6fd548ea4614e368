"""Read documents from files, folders, globs, URLs and hub data sets, one at a time."""

from __future__ import annotations

import functools
import glob
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path, PurePosixPath

from trueneg.corpus.formats import ENDINGS, KNOWN, PLAIN_TEXT, TextOptions, format_of, is_known, read_file
from trueneg.corpus.hub import HUB_NAME, hub_state, read_hub
from trueneg.corpus.remote import TextFile, as_local, is_remote, remote_files, shown, size_of
from trueneg.errors import CorpusError, TruenegWarning
from trueneg.files.text import LONGEST_TEXT
from trueneg.files.tree import files_below, is_regular

_SURROGATE = re.compile("[\ud800-\udfff]")


def read_documents(
    source: str,
    *,
    text_field: str = "text",
    split: str = "train",
    lines: bool = False,
    max_document_mib: float = LONGEST_TEXT >> 20,
) -> Iterator[str]:
    r"""Read the documents of a source in a fixed order, in constant memory, however well it is compressed.

    Plain text (``.txt``): a blank line ends a document; its lines are paragraphs and stay separated by
    ``\n``. JSON lines (``.jsonl``, ``.ndjson``, ``.json``): one object per line. Tables (``.csv``, ``.tsv``): one
    document per row, the first line names the columns; in CSV they are separated by commas, or by the delimiter that
    the first line has instead, and cells may be quoted. All of these may be compressed (``.gz``, ``.xz``, ``.zst``).
    Parquet (``.parquet``): one document per row. Folders are read recursively, folders and globs in sorted order;
    files without a document are skipped and counted in a warning. A URL (``s3://``, ``hf://``, ``https://``, any that
    fsspec supports) is read like a file, folder or glob, streamed without a local copy. Anything else is taken for a
    data set of the Hugging Face hub, ``owner/name`` or ``owner/name:configuration``, and streamed. A lone surrogate,
    which JSON can express but UTF-8 cannot, becomes U+FFFD; a warning says how many there were.

    Args:
        source: file, folder, glob, URL or data set name.
        text_field: the JSON field or the column that holds the text. A null there counts as an empty text.
        split: the split to read; hub data sets only.
        lines: make every line of a document, except blank ones, a document of its own.
        max_document_mib: maximum MiB of a line or of a record's text.

    Yields:
        The text of a document, which is never empty in plain text files.

    Raises:
        CorpusError: for a source that does not exist, is empty, is damaged, is not UTF-8, has a text that is too
            long, or lacks the text field, naming the file and the line, byte or column.
    """
    options = TextOptions(text_field, lines, int(max_document_mib * (1 << 20)))
    found = _source_files(source)
    if found is None:
        documents = read_hub(source, split, options)
    else:
        files, unknown = found
        _tell_unknown(source, files, unknown)
        documents = _read_files(source, files, options)
    yield from as_texts(source, documents, lines)


def read_piece(
    source: str,
    piece: TextFile | int,
    *,
    text_field: str = "text",
    lines: bool = False,
    max_document_mib: float = LONGEST_TEXT >> 20,
) -> Iterator[str]:
    """Read one file of a source, or one file of a hub data set by its number, as ``read_documents`` reads all."""
    options = TextOptions(text_field, lines, int(max_document_mib * (1 << 20)))
    documents = read_hub(source, "train", options, piece) if isinstance(piece, int) else read_file(piece, options)
    return as_texts(str(source if isinstance(piece, int) else piece), documents, lines)


def _tell_unknown(source: str, files: Sequence[TextFile], unknown: Sequence[TextFile]) -> None:
    if unknown:
        warnings.warn(
            f"'{shown(source)}': {len(unknown)} of {len(files) + len(unknown)} files are of no known format and are "
            f"not read, such as '{unknown[0]}': known are {KNOWN}",
            TruenegWarning,
            stacklevel=3,
        )


def pieces_of(source: str) -> list[TextFile] | list[int]:
    """The pieces in which a source can be read: its files, or the file numbers of a hub data set."""
    found = _source_files(source)
    if found is None:
        return list(range(hub_state(source)[1]))
    _tell_unknown(source, *found)
    return found[0]


def as_texts(source: str, documents: Iterable[str], lines: bool = False) -> Iterator[str]:
    """Documents as they are stored: without lone surrogates and, with ``lines``, line by line."""
    texts = _without_surrogates(source, documents)
    yield from (line for text in texts for line in text.split("\n") if line.strip()) if lines else texts


def check_files(
    source: str, files: Sequence[TextFile], text_field: str, max_document_mib: float = LONGEST_TEXT >> 20
) -> None:
    """Read the first document of every file of a source, so that faulty files are found before all are read.

    Raises:
        CorpusError: as ``read_documents``.
    """
    options = TextOptions(text_field, False, int(max_document_mib * (1 << 20)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruenegWarning)  # reading all of it warns
        has_text = [_has_document(path, options) for path in files]
    if not any(has_text):
        raise _empty(source, files)


def source_files(source: str) -> list[TextFile] | None:
    """List the files of a source in the order they are read; None for a hub data set.

    Raises:
        CorpusError: if it does not exist, a part of it cannot be read, or a file's extension is unknown.
    """
    found = _source_files(source)
    return None if found is None else found[0]


def _source_files(source: str) -> tuple[list[TextFile], list[TextFile]] | None:
    """The files to read, and the files of unknown format next to them; None for a hub data set."""
    if is_remote(source):
        is_file = is_known(PurePosixPath(source.partition("?")[0]))
        remote: list[TextFile] = [*remote_files(source, is_file=is_file)]
        return _known_first(source, remote)
    source = as_local(source)
    path = Path(source)
    if path.is_file():
        format_of(path)
        return [path], []
    if path.is_dir():
        return _known_first(source, _files_at(path))
    if glob.has_magic(source):
        _refuse_unreadable(source)
        matches = map(Path, glob.glob(source, recursive=True))  # noqa: PTH207
        files = {file for match in matches for file in _files_at(match)}  # "**" matches folders and what they hold
        return _known_first(source, sorted(files, key=str))
    looks_local = source.startswith((".", "/", "~")) or Path(source).suffix in ENDINGS
    if looks_local or not HUB_NAME.fullmatch(source):
        raise CorpusError(f"no such file or folder: '{source}'")
    return None


def _files_at(path: Path) -> list[TextFile]:
    """The file, or the files below the folder that are not hidden."""
    tell = functools.partial(_refuse, path)
    if is_regular(path, tell):
        return [path]
    below = files_below(path, tell) if path.is_dir() else []
    return [file for file in below if not _is_hidden(file.relative_to(path))]


def _refuse(folder: Path, error: OSError) -> None:
    """Refuse what is in a folder and cannot be read, since it may be text; what is hidden is not read anyway."""
    path = Path(error.filename)
    if _is_hidden(path.relative_to(folder)):
        return
    remedy = "let it be read, or give a glob that leaves it out"
    if isinstance(error, FileNotFoundError):
        remedy = "fetch what this link leads to, as with 'git annex get' or 'dvc pull', or remove it"
    raise CorpusError(f"'{path}' cannot be read ({error.strerror}): {remedy}") from error


def _refuse_unreadable(pattern: str) -> None:
    """Refuse a folder that a glob would look into and cannot, which the library passes over."""
    parts = Path(pattern).parts
    for number, part in enumerate(parts):
        if not glob.has_magic(part) and "**" not in parts[number - 1 : number]:
            continue
        for folder in glob.glob(f"{Path(*parts[:number])}{os.sep}", recursive=True):  # noqa: PTH207
            try:
                os.scandir(folder).close()
            except OSError as error:
                _refuse(Path(folder), error)


def text_bytes(sources: Iterable[str]) -> int | None:
    """Bytes of text in the sources, for a progress bar; None if unknown.

    Known, apart from blank lines and line ends, for plain text that is not compressed; None for anything else, and for
    files whose server does not state their size.

    Raises:
        CorpusError: as ``source_files``.
    """
    total = 0
    for source in sources:
        files = source_files(source)
        if files is None or any(path.suffix.lower() not in PLAIN_TEXT for path in files):
            return None
        sizes = [size_of(path) for path in files]
        if None in sizes:
            return None
        total += sum(size for size in sizes if size is not None)
    return total


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _known_first(source: str, paths: list[TextFile]) -> tuple[list[TextFile], list[TextFile]]:
    known = [path for path in paths if is_known(path)]
    if not known:
        raise CorpusError(f"'{shown(source)}' matches no text file: known are {KNOWN}")
    return known, [path for path in paths if not is_known(path)]


def _without_surrogates(source: str, documents: Iterable[str]) -> Iterator[str]:
    num_replaced = 0
    for document in documents:
        if document.isascii():
            yield document
            continue
        text, num_found = _SURROGATE.subn("\N{REPLACEMENT CHARACTER}", document)
        num_replaced += num_found
        yield text
    if num_replaced:
        warnings.warn(
            f"'{shown(source)}' has half a surrogate pair (\\ud800 to \\udfff), which is no character, "
            f"{num_replaced:,} times: each is read as U+FFFD",
            TruenegWarning,
            stacklevel=3,
        )


def _read_files(source: str, files: Sequence[TextFile], options: TextOptions) -> Iterator[str]:
    empty: list[TextFile] = []
    for path in files:
        documents = read_file(path, options)
        if (first := next(documents, None)) is None:
            empty.append(path)
        else:
            yield first
            yield from documents
    if len(empty) == len(files):
        raise _empty(source, files)
    if empty:
        warnings.warn(
            f"'{shown(source)}': {len(empty)} of {len(files)} files hold no document and are passed over, such as "
            f"'{empty[0]}'",
            TruenegWarning,
            stacklevel=3,
        )


def _has_document(path: TextFile, options: TextOptions) -> bool:
    with closing(read_file(path, options)) as documents:
        return next(documents, None) is not None


def _empty(source: str, files: Sequence[TextFile]) -> CorpusError:
    names = f"'{files[0]}' is empty" if len(files) == 1 else f"all {len(files)} files of '{shown(source)}' are empty"
    return CorpusError(f"{names}: there is no document to read")
