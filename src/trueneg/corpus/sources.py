"""Documents out of files, folders, globs and hub data sets, one at a time."""

from __future__ import annotations

import glob
import gzip
import io
import json
import lzma
import re
import warnings
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, cast

from trueneg.errors import CorpusError, TruenegWarning

_COMPRESSIONS = (".gz", ".xz", ".zst")
_TEXT, _JSON, _PARQUET = (".txt",), (".jsonl", ".ndjson", ".json"), (".parquet",)
_KNOWN = ", ".join((*_TEXT, *_JSON)) + f" (each also {', '.join(_COMPRESSIONS)}), {_PARQUET[0]}"
_LONGEST_DOCUMENT = 1 << 23  # of a text file: more than any book has, and little beside a machine's memory
_SURROGATE = re.compile("[\ud800-\udfff]")
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+)?")


def read_documents(
    source: str, *, text_field: str = "text", split: str = "train", lines: bool = False
) -> Iterator[str]:
    r"""Read the documents of a source in a fixed order, in constant memory.

    Plain text (``.txt``): a blank line ends a document; its lines are paragraphs and stay separated by
    ``\n``. JSON lines (``.jsonl``, ``.ndjson``, ``.json``): one object a line. Both may be compressed
    (``.gz``, ``.xz``, ``.zst``). Parquet (``.parquet``): one row a document. A folder is read recursively and
    a glob as it matches, both in sorted order. Anything else is taken for a data set of the Hugging Face hub,
    ``owner/name`` or ``owner/name:configuration``, and streamed. Half a surrogate pair, which JSON can spell and
    no file can hold, becomes U+FFFD; a warning says how many there were.

    Args:
        source: file, folder, glob or data set name.
        text_field: the JSON field or the column that holds the text. A null there counts as an empty text.
        split: the split to read; hub data sets only.
        lines: make every line of a document, but for blank ones, a document of its own.

    Yields:
        The text of a document; empty where a JSON, Parquet or hub document is.

    Raises:
        CorpusError: for a source that does not exist, is empty, is damaged, is not UTF-8, or lacks the
            text field, with the file and the line, byte or column.
    """
    if lines:
        for document in read_documents(source, text_field=text_field, split=split):
            yield from (line for line in document.split("\n") if line.strip())
        return
    files = source_files(source)
    documents = _read_hub(source, text_field, split) if files is None else _read_files(files, text_field)
    yield from _without_surrogates(source, documents)


def check_files(files: Sequence[Path], text_field: str) -> None:
    """Read the first document of every file, so that one without any is found before the others are read.

    Raises:
        CorpusError: as ``read_documents``.
    """
    for path in files:
        with closing(_read_file(path, text_field)) as documents:
            _first(path, documents)


def source_files(source: str) -> list[Path] | None:
    """The files a source stands for, in the order they are read, or None for a hub data set.

    Raises:
        CorpusError: if it is none of them, or a file's extension says nothing of its format.
    """
    path = Path(source)
    if path.is_file():
        _format_of(path)
        return [path]
    if path.is_dir():
        visible = (p for p in path.rglob("*") if p.is_file() and not _is_hidden(p.relative_to(path)))
        return _known_only(source, sorted(visible))
    if glob.has_magic(source):
        matches = map(Path, sorted(glob.glob(source, recursive=True)))  # noqa: PTH207
        return _known_only(source, [match for match in matches if match.is_file()])
    looks_local = source.startswith((".", "/", "~")) or Path(source).suffix in (
        *_COMPRESSIONS,
        *_TEXT,
        *_JSON,
        *_PARQUET,
    )
    if looks_local or not _HUB_NAME.fullmatch(source):
        raise CorpusError(f"no such file or folder: '{source}'")
    return None


def text_bytes(sources: Iterable[str]) -> int | None:
    """Bytes of text that the sources hold, as a progress bar wants to know, or None.

    Known, but for blank lines and line ends, for plain text that is not compressed; None for anything else.

    Raises:
        CorpusError: as ``source_files``.
    """
    total = 0
    for source in sources:
        files = source_files(source)
        if files is None or any(path.suffix.lower() not in _TEXT for path in files):
            return None
        total += sum(path.stat().st_size for path in files)
    return total


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _known_only(source: str, paths: list[Path]) -> list[Path]:
    known = [path for path in paths if _is_known(path)]
    if not known:
        raise CorpusError(f"'{source}' matches no text file: known are {_KNOWN}")
    if len(known) < len(paths):
        unknown = next(path for path in paths if not _is_known(path))
        warnings.warn(
            f"'{source}': {len(paths) - len(known)} of {len(paths)} files are of no known format and are not "
            f"read, such as '{unknown}': known are {_KNOWN}",
            TruenegWarning,
            stacklevel=3,
        )
    return known


def _is_known(path: Path) -> bool:
    try:
        _format_of(path)
    except CorpusError:
        return False
    return True


def _format_of(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PARQUET:
        return _PARQUET[0]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    if suffixes and suffixes[-1] in (*_TEXT, *_JSON):
        return _TEXT[0] if suffixes[-1] in _TEXT else _JSON[0]
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
            f"'{source}' has half a surrogate pair (\\ud800 to \\udfff), which is no character, {num_replaced:,} "
            f"times: each is read as U+FFFD",
            TruenegWarning,
            stacklevel=3,
        )


def _read_files(files: Sequence[Path], text_field: str) -> Iterator[str]:
    for path in files:
        documents = _read_file(path, text_field)
        yield _first(path, documents)
        yield from documents


def _first(path: Path, documents: Iterator[str]) -> str:
    for document in documents:
        return document
    raise CorpusError(f"'{path}' is empty: it holds no document")


def _read_file(path: Path, text_field: str) -> Generator[str, None, None]:
    kind = _format_of(path)
    if path.stat().st_size == 0:
        return
    if kind == _PARQUET[0]:
        yield from _read_parquet(path, text_field)
        return
    import zstandard

    read = _read_text if kind == _TEXT[0] else _read_json_lines
    try:
        with _open(path) as file:
            yield from read(path, file, text_field)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
        raise CorpusError(f"'{path}' is damaged or cut short ({error}): fetch or compress it again") from error


def _open(path: Path) -> BinaryIO:
    match path.suffix.lower():
        case ".gz":
            return cast(BinaryIO, gzip.open(path))
        case ".xz":
            return cast(BinaryIO, lzma.open(path))
        case ".zst":
            return cast(BinaryIO, io.BufferedReader(_ZstandardFile(path), buffer_size=1 << 20))
        case _:
            return path.open("rb")


class _ZstandardFile(io.RawIOBase):
    """Every frame of a Zstandard file; the library's own reader takes a file cut short for a whole one."""

    def __init__(self, path: Path) -> None:
        import zstandard

        self._file = path.open("rb")
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
            if not (block := self._rest or self._file.read(1 << 17)):
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


def _decoded_lines(path: Path, file: Iterable[bytes]) -> Iterator[str]:
    offset = 0
    for line in file:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"'{path}' is not UTF-8 at byte {offset + error.start}: convert it, as with 'iconv -f latin1 -t utf-8'"
            ) from error
        yield text.removeprefix("\ufeff") if offset == 0 else text
        offset += len(line)


def _read_text(path: Path, file: BinaryIO, _: str) -> Iterator[str]:
    paragraphs: list[str] = []
    num_characters = num_cuts = 0
    for line in _decoded_lines(path, file):
        if text := line.rstrip():
            paragraphs.append(text)
            num_characters += len(text)
        is_too_long = num_characters >= _LONGEST_DOCUMENT
        if paragraphs and (not text or is_too_long):
            yield "\n".join(paragraphs)
            paragraphs.clear()
            num_characters, num_cuts = 0, num_cuts + is_too_long
    if num_cuts:
        warnings.warn(
            f"'{path}' has documents of more than {_LONGEST_DOCUMENT:,} characters, cut {num_cuts:,} times at a line's "
            f"end: in a text file a blank line ends a document",
            TruenegWarning,
            stacklevel=2,
        )
    if paragraphs:
        yield "\n".join(paragraphs)


def _read_json_lines(path: Path, file: BinaryIO, text_field: str) -> Iterator[str]:
    for number, line in enumerate(_decoded_lines(path, file), start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise CorpusError(f"{place}: not JSON ({error.msg}): one object a line is needed") from error
        if not isinstance(record, dict):
            raise CorpusError(f"{place}: a JSON {type(record).__name__}: one object a line is needed")
        if text_field not in record:
            raise CorpusError(_missing(place, "field", text_field, record))
        yield _text(place, text_field, record[text_field])


def _read_parquet(path: Path, text_field: str) -> Iterator[str]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path, memory_map=True) as file:
            if text_field not in file.schema_arrow.names:
                raise CorpusError(_missing(f"'{path}'", "column", text_field, file.schema_arrow.names))
            batches = file.iter_batches(batch_size=256, columns=[text_field])
            values = (value for batch in batches for value in batch.column(0).to_pylist())
            for row, value in enumerate(values, start=1):
                yield _text(f"'{path}', row {row}", text_field, value)
    except (pyarrow.ArrowException, OSError) as error:
        raise CorpusError(f"'{path}' cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _read_hub(name: str, text_field: str, split: str) -> Iterator[str]:
    import datasets

    place = f"data set '{name}'"
    repository, _, configuration = name.partition(":")
    try:
        rows = datasets.load_dataset(repository, configuration or None, split=split, streaming=True)
        for number, record in enumerate(rows):
            if text_field not in record:
                raise CorpusError(_missing(place, "column", text_field, record))
            yield _text(f"{place}, row {number}", text_field, record[text_field])
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CorpusError(
            f"no such file or folder: '{name}', nor can it be read from the hub ({reason}): check the name "
            f"and the connection, or download it and give the folder"
        ) from error


def _missing(place: str, kind: str, name: str, names: Iterable[str]) -> str:
    return f"{place}: no {kind} '{name}': there are {', '.join(sorted(names))}; choose one with --text-field"


def _text(place: str, text_field: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise CorpusError(f"{place}: '{text_field}' holds a {type(value).__name__}, not text: see --text-field")
    return value
