"""Read a file of text in any known format: plain text, JSON lines, tables, Parquet, compressed or not."""

from __future__ import annotations

import gzip
import io
import lzma
import warnings
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from trueneg.corpus.remote import TextFile, open_binary, size_of
from trueneg.errors import CorpusError, TruenegWarning
from trueneg.files.records import parse_json
from trueneg.files.text import conversion, csv_rows, delimiter_of, foreign_encoding

PLAIN_TEXT = (".txt", ".raw")
_COMPRESSIONS = (".gz", ".xz", ".zst")
_JSON, _TABLE, _PARQUET = (".jsonl", ".ndjson", ".json"), (".csv", ".tsv"), (".parquet",)
_EXTENSIONS = (*PLAIN_TEXT, *_JSON, *_TABLE)
ENDINGS = (*_COMPRESSIONS, *_EXTENSIONS, *_PARQUET)
"""Extensions of known files."""
KNOWN = ", ".join(_EXTENSIONS) + f" (each also {', '.join(_COMPRESSIONS)}), {_PARQUET[0]}"
"""The same, for messages."""

_LONGEST_DOCUMENT = 1 << 23  # characters of a document in a text file: more than any book has, but little memory
_MANY_LINES = 1000  # a text file of so many without a blank line among them is likely to have one text per line
_ZSTANDARD_BLOCK = 1 << 10  # compressed bytes read at once, of which 4 may expand to 128 KiB: at most 32 MiB
_ZSTANDARD_WINDOW = 1 << 31  # what "zstd --long=31" uses; the library refuses more than 128 MiB by itself


@dataclass(frozen=True)
class TextOptions:
    """How files are read."""

    text_field: str
    lines: bool
    longest: int
    """Maximum bytes of a line, which may be a whole document, and characters of a document of any other format."""

    def too_long(self, place: str) -> CorpusError:
        """Make the error for a text that is too long."""
        return CorpusError(
            f"{place}: a text of more than {self.longest / (1 << 20):g} MiB: split it, or allow more with "
            f"--max-document-mib"
        )


def is_known(path: TextFile | PurePosixPath) -> bool:
    """Whether a file's name has a known extension."""
    try:
        format_of(path)
    except CorpusError:
        return False
    return True


def format_of(path: TextFile | PurePosixPath) -> str:
    """Get a file's format from its name, as the first of the extensions of this format.

    Raises:
        CorpusError: if its extension is unknown.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PARQUET:
        return _PARQUET[0]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    if suffixes and suffixes[-1] in _EXTENSIONS:
        return next(kinds[0] for kinds in (PLAIN_TEXT, _JSON, _TABLE) if suffixes[-1] in kinds)
    raise CorpusError(f"'{path}': the extension says nothing of the format: known are {KNOWN}")


def read_file(path: TextFile, options: TextOptions) -> Generator[str, None, None]:
    """Read the documents of a file in order; none if it is empty.

    Raises:
        CorpusError: for a file that is damaged, is not UTF-8, has a text that is too long, or lacks the text field,
            naming the line, byte or column.
    """
    kind = format_of(path)
    if size_of(path) == 0:
        return
    if kind == _PARQUET[0]:
        yield from _read_parquet(path, options)
        return
    import zstandard

    read = {PLAIN_TEXT[0]: _read_text, _JSON[0]: _read_json_lines, _TABLE[0]: _read_table}[kind]
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
    """Reads every frame of a Zstandard file; the library's own reader does not notice a truncated file."""

    def __init__(self, path: TextFile) -> None:
        import zstandard

        self._file = open_binary(path)
        self._new_frame = zstandard.ZstdDecompressor(max_window_size=_ZSTANDARD_WINDOW).decompressobj
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


def _decoded_lines(path: TextFile, file: BinaryIO, options: TextOptions) -> Iterator[str]:
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


def _read_text(path: TextFile, lines: Iterator[str], options: TextOptions) -> Iterator[str]:
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


def _read_json_lines(path: TextFile, lines: Iterator[str], options: TextOptions) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        record = parse_json(line, place, CorpusError, "one object a line is needed")
        if not isinstance(record, dict):
            raise CorpusError(f"{place}: a JSON {type(record).__name__}: one object a line is needed")
        if options.text_field not in record:
            raise CorpusError(missing_field(place, "field", options.text_field, record))
        yield text_of(place, record[options.text_field], options)


def _read_table(path: TextFile, lines: Iterator[str], options: TextOptions) -> Iterator[str]:
    header = next(lines, "")
    is_tsv = ".tsv" in [suffix.lower() for suffix in path.suffixes[-2:]]
    cells: Iterator[tuple[int, list[str]]]
    if is_tsv:  # in which quotes are text
        cells = enumerate((line.rstrip("\r\n").split("\t") for line in chain([header], lines)), start=1)
    else:
        cells = csv_rows(path, chain([header], lines), delimiter_of(header), CorpusError, longest=options.longest)
    names: list[str] = []
    for number, row in cells:
        if not names:
            names = [name.strip() for name in row]
            if options.text_field not in names:
                raise CorpusError(missing_field(f"{path}:{number}", "column", options.text_field, names))
        elif len(row) == len(names):
            yield row[names.index(options.text_field)]
        elif any(row):
            raise CorpusError(
                f"{path}:{number}: expected {len(names)} columns, got {len(row)}, separated by "
                f"{chr(9) if is_tsv else delimiter_of(header)!r}: fix the line, or quote its texts"
            )


def _read_parquet(path: TextFile, options: TextOptions) -> Iterator[str]:
    import pyarrow
    import pyarrow.parquet

    name = options.text_field
    try:
        with _parquet_source(path) as source:
            is_local = isinstance(source, Path)
            names = pyarrow.parquet.read_schema(source, memory_map=is_local).names
            if name not in names:
                raise CorpusError(missing_field(f"'{path}'", "column", name, names))
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
                yield text_of(place, text, options)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: for column names
        raise CorpusError(f"'{path}' cannot be read as Parquet: {str(error).splitlines()[0]}") from error


@contextmanager
def _parquet_source(path: TextFile) -> Iterator[Path | BinaryIO]:
    if isinstance(path, Path):
        yield path
        return
    with path.open() as source:
        yield source


def _check_row_groups(path: TextFile, metadata: Any, options: TextOptions) -> None:
    """Refuse row groups whose texts are too long even on average, before decompressing them."""
    for number in range(metadata.num_row_groups):
        # Of all columns: asking pyarrow for the size of one ends the process if the file is damaged.
        group = metadata.row_group(number)
        if group.total_byte_size > (group.num_rows + 1) * options.longest:
            raise options.too_long(f"'{path}', row group {number + 1}")


def missing_field(place: str, kind: str, name: str, names: Iterable[str]) -> str:
    """Message for a missing text field, with the fields that exist."""
    return f"{place}: no {kind} '{name}': there are {', '.join(sorted(names))}; choose one with --text-field"


def text_of(place: str, value: object, options: TextOptions) -> str:
    """Return a record's value as text; None is an empty text.

    Raises:
        CorpusError: if it is anything else, or too long.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise CorpusError(f"{place}: '{options.text_field}' holds a {type(value).__name__}, not text: see --text-field")
    if len(value) > options.longest:
        raise options.too_long(place)
    return value
