"""Documents out of files, folders, globs, URLs and hub data sets, one at a time."""

from __future__ import annotations

import glob
import gzip
import io
import lzma
import re
import warnings
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from trueneg.corpus.remote import TextFile, as_local, is_remote, open_binary, remote_files, shown, size_of
from trueneg.errors import CorpusError, TruenegWarning
from trueneg.files.records import parse_json
from trueneg.files.text import LONGEST_TEXT, conversion, csv_rows, delimiter_of, foreign_encoding
from trueneg.files.tree import files_below

_COMPRESSIONS = (".gz", ".xz", ".zst")
_TEXT, _JSON, _TABLE, _PARQUET = (".txt", ".raw"), (".jsonl", ".ndjson", ".json"), (".csv", ".tsv"), (".parquet",)
_EXTENSIONS = (*_TEXT, *_JSON, *_TABLE)
_KNOWN = ", ".join(_EXTENSIONS) + f" (each also {', '.join(_COMPRESSIONS)}), {_PARQUET[0]}"
_LONGEST_DOCUMENT = 1 << 23  # of lines of a text file: more than any book has, and little of a machine's memory
_MANY_LINES = 1000  # a text file of so many without a blank line among them is likely to have a text a line
_ZSTANDARD_BLOCK = 1 << 10  # of compressed bytes, of which 4 may stand for 128 KiB: 32 MiB at once at the most
_SURROGATE = re.compile("[\ud800-\udfff]")
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+)?")


@dataclass(frozen=True)
class _Options:
    """How files are read."""

    text_field: str
    lines: bool
    longest: int
    """Bytes of a line, which may be a whole document, and of a document of any other format."""

    def too_long(self, place: str) -> CorpusError:
        return CorpusError(
            f"{place}: a text of more than {self.longest / (1 << 20):g} MiB: split it, or allow more with "
            f"--max-document-mib"
        )


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
    ``\n``. JSON lines (``.jsonl``, ``.ndjson``, ``.json``): one object a line. Tables (``.csv``, ``.tsv``): one row
    a document, the first line names the columns; in CSV they are separated by commas, or by what the first line has
    instead, and cells may be quoted. All of these may be compressed (``.gz``, ``.xz``, ``.zst``). Parquet
    (``.parquet``): one row a document. A folder is read recursively and a glob as it matches, both in sorted order;
    files without a document are passed over and counted in a warning. A URL (``s3://``, ``hf://``, ``https://``, what
    fsspec knows) is read as a file, folder or glob is, as it comes, without a copy. Anything else is taken for a data
    set of the Hugging Face hub, ``owner/name`` or ``owner/name:configuration``, and streamed. Half a surrogate pair,
    which JSON can spell and no file can hold, becomes U+FFFD; a warning says how many there were.

    Args:
        source: file, folder, glob, URL or data set name.
        text_field: the JSON field or the column that holds the text. A null there counts as an empty text.
        split: the split to read; hub data sets only.
        lines: make every line of a document, but for blank ones, a document of its own.
        max_document_mib: most MiB of a line, a row or a text.

    Yields:
        The text of a document; empty where a JSON, Parquet or hub document is.

    Raises:
        CorpusError: for a source that does not exist, is empty, is damaged, is not UTF-8, has too long a text, or
            lacks the text field, with the file and the line, byte or column.
    """
    options = _Options(text_field, lines, int(max_document_mib * (1 << 20)))
    found = _source_files(source)
    if found is None:
        documents = _read_hub(source, split, options)
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
    """Read one file of a source, or the file of this number of a hub data set, as ``read_documents`` reads all."""
    options = _Options(text_field, lines, int(max_document_mib * (1 << 20)))
    documents = _read_hub(source, "train", options, piece) if isinstance(piece, int) else _read_file(piece, options)
    return as_texts(str(source if isinstance(piece, int) else piece), documents, lines)


def _tell_unknown(source: str, files: Sequence[TextFile], unknown: Sequence[TextFile]) -> None:
    if unknown:
        warnings.warn(
            f"'{shown(source)}': {len(unknown)} of {len(files) + len(unknown)} files are of no known format and are "
            f"not read, such as '{unknown[0]}': known are {_KNOWN}",
            TruenegWarning,
            stacklevel=3,
        )


def pieces_of(source: str) -> list[TextFile] | list[int]:
    """What a source can be read in: its files, or the numbers of those of a hub data set."""
    found = _source_files(source)
    if found is None:
        return list(range(hub_state(source)[1]))
    _tell_unknown(source, *found)
    return found[0]


def as_texts(source: str, documents: Iterable[str], lines: bool = False) -> Iterator[str]:
    """Documents as they are stored: of whole characters, and maybe line by line."""
    texts = _without_surrogates(source, documents)
    yield from (line for text in texts for line in text.split("\n") if line.strip()) if lines else texts


def check_files(
    source: str, files: Sequence[TextFile], text_field: str, max_document_mib: float = LONGEST_TEXT >> 20
) -> None:
    """Read the first document of every file of a source, so that what is wrong with one is found before all are read.

    Raises:
        CorpusError: as ``read_documents``.
    """
    options = _Options(text_field, False, int(max_document_mib * (1 << 20)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruenegWarning)  # reading all of it says it
        has_text = [_has_document(path, options) for path in files]
    if not any(has_text):
        raise _empty(source, files)


def source_files(source: str) -> list[TextFile] | None:
    """List the files of a source in the order they are read; None for a hub data set.

    Raises:
        CorpusError: if it is none of them, or a file's extension says nothing of its format.
    """
    found = _source_files(source)
    return None if found is None else found[0]


def _source_files(source: str) -> tuple[list[TextFile], list[TextFile]] | None:
    """Files that are read, and files of no known format next to them."""
    if is_remote(source):
        is_file = _is_known(PurePosixPath(source.partition("?")[0]))
        remote: list[TextFile] = [*remote_files(source, is_file=is_file)]
        return _known_first(source, remote)
    source = as_local(source)
    path = Path(source)
    if path.is_file():
        _format_of(path)
        return [path], []
    if path.is_dir():
        return _known_first(source, [p for p in files_below(path) if not _is_hidden(p.relative_to(path))])
    if glob.has_magic(source):
        matches = map(Path, sorted(glob.glob(source, recursive=True)))  # noqa: PTH207
        return _known_first(source, [match for match in matches if match.is_file()])
    looks_local = source.startswith((".", "/", "~")) or Path(source).suffix in (
        *_COMPRESSIONS,
        *_EXTENSIONS,
        *_PARQUET,
    )
    if looks_local or not _HUB_NAME.fullmatch(source):
        raise CorpusError(f"no such file or folder: '{source}'")
    return None


def text_bytes(sources: Iterable[str]) -> int | None:
    """Bytes of text that the sources hold, as a progress bar wants to know, or None.

    Known, but for blank lines and line ends, for plain text that is not compressed; None for anything else, and for
    files whose server does not say their size.

    Raises:
        CorpusError: as ``source_files``.
    """
    total = 0
    for source in sources:
        files = source_files(source)
        if files is None or any(path.suffix.lower() not in _TEXT for path in files):
            return None
        sizes = [size_of(path) for path in files]
        if None in sizes:
            return None
        total += sum(size for size in sizes if size is not None)
    return total


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _known_first(source: str, paths: list[TextFile]) -> tuple[list[TextFile], list[TextFile]]:
    known = [path for path in paths if _is_known(path)]
    if not known:
        raise CorpusError(f"'{shown(source)}' matches no text file: known are {_KNOWN}")
    return known, [path for path in paths if not _is_known(path)]


def _is_known(path: TextFile | PurePosixPath) -> bool:
    try:
        _format_of(path)
    except CorpusError:
        return False
    return True


def _format_of(path: TextFile | PurePosixPath) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PARQUET:
        return _PARQUET[0]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    if suffixes and suffixes[-1] in _EXTENSIONS:
        return next(kinds[0] for kinds in (_TEXT, _JSON, _TABLE) if suffixes[-1] in kinds)
    raise CorpusError(f"'{path}': the extension says nothing of the format: known are {_KNOWN}")


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


def _read_files(source: str, files: Sequence[TextFile], options: _Options) -> Iterator[str]:
    empty: list[TextFile] = []
    for path in files:
        documents = _read_file(path, options)
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


def _has_document(path: TextFile, options: _Options) -> bool:
    with closing(_read_file(path, options)) as documents:
        return next(documents, None) is not None


def _empty(source: str, files: Sequence[TextFile]) -> CorpusError:
    names = f"'{files[0]}' is empty" if len(files) == 1 else f"all {len(files)} files of '{shown(source)}' are empty"
    return CorpusError(f"{names}: there is no document to read")


def _read_file(path: TextFile, options: _Options) -> Generator[str, None, None]:
    kind = _format_of(path)
    if size_of(path) == 0:
        return
    if kind == _PARQUET[0]:
        yield from _read_parquet(path, options)
        return
    import zstandard

    read = {_TEXT[0]: _read_text, _JSON[0]: _read_json_lines, _TABLE[0]: _read_table}[kind]
    try:
        with _open(path) as file:
            yield from read(path, _decoded_lines(path, file, options), options)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
        raise CorpusError(f"'{path}' is damaged or cut short ({error}): fetch or compress it again") from error


def _open(path: TextFile) -> BinaryIO:
    match path.suffix.lower():
        case ".gz":
            return cast(BinaryIO, gzip.open(path if isinstance(path, Path) else path.open()))
        case ".xz":
            return cast(BinaryIO, lzma.open(path if isinstance(path, Path) else path.open()))
        case ".zst":
            return cast(BinaryIO, io.BufferedReader(_ZstandardFile(path), buffer_size=1 << 20))
        case _:
            return open_binary(path)


class _ZstandardFile(io.RawIOBase):
    """Every frame of a Zstandard file; the library's own reader takes a file cut short for a whole one."""

    def __init__(self, path: TextFile) -> None:
        import zstandard

        self._file = open_binary(path)
        self._new_frame = zstandard.ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._rest = b""
        self._decoded = memoryview(b"")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while not self._decoded:
            if not (block := self._rest or self._file.read(_ZSTANDARD_BLOCK)):
                if self._frame is not None:
                    raise EOFError("the last frame has no end")
                return 0
            frame = self._frame or self._new_frame()
            self._decoded = memoryview(frame.decompress(block))
            self._rest = frame.unused_data
            self._frame = None if frame.eof else frame
        count = min(len(buffer), len(self._decoded))
        buffer[:count] = self._decoded[:count]
        self._decoded = self._decoded[count:]
        return count


def _decoded_lines(path: TextFile, file: BinaryIO, options: _Options) -> Iterator[str]:
    offset, start = 0, b""
    for number, line in enumerate(iter(partial(file.readline, options.longest + 1), b""), start=1):
        if len(line) > options.longest:
            raise options.too_long(f"{path}:{number}")
        start = start or line[:4096]
        try:
            if number == 1 and foreign_encoding(start):
                raise UnicodeDecodeError("utf-8", line, 0, 1, "")
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CorpusError(f"'{path}' is not UTF-8 at byte {offset + error.start}: {conversion(start)}") from error
        yield text.removeprefix("\ufeff") if offset == 0 else text
        offset += len(line)


def _read_text(path: TextFile, lines: Iterator[str], options: _Options) -> Iterator[str]:
    paragraphs: list[str] = []
    num_lines = num_characters = num_cuts = num_documents = 0
    for line in lines:
        if text := line.rstrip():
            paragraphs.append(text)
            num_lines += 1
            num_characters += len(text)
        is_too_long = num_characters >= _LONGEST_DOCUMENT
        if paragraphs and (not text or is_too_long):
            yield "\n".join(paragraphs)
            paragraphs.clear()
            num_characters, num_cuts, num_documents = 0, num_cuts + is_too_long, num_documents + (not is_too_long)
    if paragraphs:
        yield "\n".join(paragraphs)
        num_documents += 1
    if options.lines:
        return
    if num_documents <= 1 and num_lines >= _MANY_LINES:
        warnings.warn(
            f"'{path}' has no blank line among {num_lines:,}, so that it is one document: if every line is a text of "
            f"its own, pass --lines",
            TruenegWarning,
            stacklevel=2,
        )
    if num_cuts:
        warnings.warn(
            f"'{path}' has documents of more than {_LONGEST_DOCUMENT:,} characters, cut {num_cuts:,} times at a line's "
            f"end: in a text file a blank line ends a document",
            TruenegWarning,
            stacklevel=2,
        )


def _read_json_lines(path: TextFile, lines: Iterator[str], options: _Options) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        record = parse_json(line, place, CorpusError, "one object a line is needed")
        if not isinstance(record, dict):
            raise CorpusError(f"{place}: a JSON {type(record).__name__}: one object a line is needed")
        if options.text_field not in record:
            raise CorpusError(_missing(place, "field", options.text_field, record))
        yield _text(place, record[options.text_field], options)


def _read_table(path: TextFile, lines: Iterator[str], options: _Options) -> Iterator[str]:
    header = next(lines, "")
    is_tsv = ".tsv" in [suffix.lower() for suffix in path.suffixes[-2:]]
    cells: Iterator[tuple[int, list[str]]]
    if is_tsv:  # where quotes are text
        cells = enumerate((line.rstrip("\r\n").split("\t") for line in chain([header], lines)), start=1)
    else:
        cells = csv_rows(path, chain([header], lines), delimiter_of(header), CorpusError, longest=options.longest)
    names: list[str] = []
    for number, row in cells:
        if not names:
            names = [name.strip() for name in row]
            if options.text_field not in names:
                raise CorpusError(_missing(f"{path}:{number}", "column", options.text_field, names))
        elif len(row) == len(names):
            yield row[names.index(options.text_field)]
        elif any(row):
            raise CorpusError(
                f"{path}:{number}: expected {len(names)} columns, got {len(row)}, separated by "
                f"{chr(9) if is_tsv else delimiter_of(header)!r}: fix the line, or quote its texts"
            )


def _read_parquet(path: TextFile, options: _Options) -> Iterator[str]:
    import pyarrow
    import pyarrow.parquet

    name = options.text_field
    try:
        with _parquet_source(path) as source:
            is_local = isinstance(source, Path)
            names = pyarrow.parquet.read_schema(source, memory_map=is_local).names
            if name not in names:
                raise CorpusError(_missing(f"'{path}'", "column", name, names))
            # As a dictionary, and one value at a time: thousands of equal texts take no more room than in the file.
            file = pyarrow.parquet.ParquetFile(source, memory_map=is_local, read_dictionary=[name])
            _check_row_groups(path, file.metadata, options)
            batches = file.iter_batches(batch_size=256, columns=[name])
            values = (value for batch in batches for value in batch.column(0))
            for row, value in enumerate(values, start=1):
                place = f"'{path}', row {row}"
                try:
                    text = value.as_py()
                except UnicodeDecodeError as error:
                    raise CorpusError(
                        f"{place}: '{name}' is not UTF-8 at byte {error.start}: write the file again with text in it"
                    ) from error
                yield _text(place, text, options)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: of names
        raise CorpusError(f"'{path}' cannot be read as Parquet: {str(error).splitlines()[0]}") from error


@contextmanager
def _parquet_source(path: TextFile) -> Iterator[Path | BinaryIO]:
    if isinstance(path, Path):
        yield path
        return
    with path.open() as source:
        yield source


def _check_row_groups(path: TextFile, metadata: Any, options: _Options) -> None:
    """Refuse texts that are too long even on average before they are decompressed."""
    for number in range(metadata.num_row_groups):
        # Of all columns: what pyarrow says of one ends the process where the file is damaged.
        group = metadata.row_group(number)
        if group.total_byte_size > (group.num_rows + 1) * options.longest:
            raise options.too_long(f"'{path}', row group {number + 1}")


def _read_hub(name: str, split: str, options: _Options, piece: int | None = None) -> Iterator[str]:
    place, num_read = f"data set '{name}'" + (f", file {piece}" if piece is not None else ""), 0
    try:
        rows = _hub_data_set(name).as_streaming_dataset(split=split)
        if piece is not None:
            rows = rows.shard(num_shards=rows.num_shards, index=piece)
        for num_read, record in enumerate(rows):
            if options.text_field not in record:
                raise CorpusError(_missing(place, "column", options.text_field, record))
            yield _text(f"{place}, row {num_read}", record[options.text_field], options)
    except CorpusError:
        raise
    except Exception as error:  # of whatever library fetches and decodes the files
        if not num_read:
            raise _unread(name, error) from error
        raise CorpusError(
            f"{place}: cannot be read beyond row {num_read} ({_reason(error)}): see that it can be reached, then run "
            f"the same again: what is finished is kept"
        ) from error


def hub_state(name: str, split: str = "train") -> tuple[str, int]:
    """The revision of a hub data set, and the number of files that a split is streamed from.

    Raises:
        CorpusError: if it cannot be reached.
    """
    try:
        found = _hub_data_set(name)
        return str(found.hash), int(found.as_streaming_dataset(split=split).num_shards)
    except Exception as error:
        raise _unread(name, error) from error


def _hub_data_set(name: str) -> Any:
    import datasets

    repository, _, configuration = name.partition(":")
    return datasets.load_dataset_builder(repository, configuration or None)


def _unread(name: str, error: Exception) -> CorpusError:
    return CorpusError(
        f"no such file or folder: '{name}', nor can it be read from the hub ({_reason(error)}): check the name "
        f"and the connection, or download it and give the folder"
    )


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _missing(place: str, kind: str, name: str, names: Iterable[str]) -> str:
    return f"{place}: no {kind} '{name}': there are {', '.join(sorted(names))}; choose one with --text-field"


def _text(place: str, value: object, options: _Options) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise CorpusError(f"{place}: '{options.text_field}' holds a {type(value).__name__}, not text: see --text-field")
    if len(value) > options.longest:
        raise options.too_long(place)
    return value
