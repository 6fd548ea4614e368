"""Get WordNet without root rights: from NLTK's data on the web, or from a local archive."""

from __future__ import annotations

import bz2
import gzip
import http.client
import io
import lzma
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast
from urllib.parse import urlsplit

import zstandard

from trueneg.errors import LexiconError
from trueneg.files.digests import checksum
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import COUNTS, FILES, LARGEST_FILE, fetched_wordnet

NLTK_URL = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/wordnet.zip"
"""NLTK's copy of WordNet 3.0, 10 MB."""

NLTK_SHA256 = "cbda5ea6eef7f36a97a43d4a75f85e07fccbb4f23657d27b4ccbc93e2646ab59"
"""SHA-256 of that copy, which has not changed for years."""

_ALTERNATIVES = (
    "without a network, copy the archive here and run  trueneg lexicon fetch --archive FILE , "
    "or run  apt-get install --no-install-recommends wordnet-base"
)
_LICENCES = ("LICENSE", "COPYING", "README", "copyright")
_LARGEST_ARCHIVE = 64 << 20  # bytes; Princeton's has 12 MB, NLTK's 11 MB, Debian's 3 MB
_LARGEST_CONTENT = 256 << 20  # bytes of all members; Princeton's have 60 MB
_MOST_MEMBERS = 2000  # Princeton's has some 200
_HIGHEST_RATIO = 100  # of a member's size to its compressed size; WordNet's files have 4
_SCHEMES = ("https",)
_TIMEOUT = 60.0  # seconds without an answer
_BROKEN = (
    *(OSError, EOFError, RuntimeError, zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError),
    zstandard.ZstdError,
)


def fetch_wordnet(
    out: Path | None = None, url: str | None = None, archive: Path | None = None, sha256: str | None = None
) -> Path:
    """Put WordNet into a folder that :func:`~trueneg.lexicon.wordnet_location.find_wordnet` searches.

    The folder appears whole or not at all, once its files have been loaded without error: NLTK's copy must have the
    known SHA-256, any other archive must be a WordNet. Names and sizes of an archive's members are checked first;
    only WordNet's files and its licence are then unpacked.

    Args:
        out: the folder to make; ``wordnet`` in the cache folder if not given. A folder that already holds a
            WordNet is kept if neither ``url`` nor ``archive`` is given, else replaced.
        url: where to download an archive from, by https only; NLTK's copy if not given.
        archive: a local archive, to use without a network.
        sha256: the archive's expected SHA-256, 64 hexadecimal digits.

    Archives may be zip, tar (compressed in any way) or Debian's ``wordnet-base`` package.

    Returns:
        The folder.

    Raises:
        LexiconError: if the archive cannot be fetched, is not the expected one, is not WordNet, or is too large to be
            it, or if ``out`` holds something else.
    """
    if url is not None and archive is not None:
        raise LexiconError("give --url or --archive, not both")
    if sha256 is not None and url is None and archive is None:
        raise LexiconError("--sha256 is of an archive: give --url or --archive")
    out = Path(out) if out is not None else fetched_wordnet()
    if out.exists():
        kept = _held(out)
        if url is None and archive is None:
            return kept
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
            source = Path(archive) if archive is not None else Path(scratch) / "download"
            origin = str(archive) if archive is not None else url or NLTK_URL
            if archive is None:
                _download(origin, source)
            _check_digest(source, origin, sha256 or (NLTK_SHA256 if origin == NLTK_URL else None))
            fresh = Path(scratch) / "wordnet"
            fresh.mkdir()
            _unpack(source, fresh, origin)
            WordNet.load(fresh)
            if out.exists():
                out.rename(Path(scratch) / "replaced")
            fresh.rename(out)
    except OSError as error:
        raise LexiconError(f"cannot write WordNet to {out}: {error}; name another folder with --out") from error
    return out


def _held(out: Path) -> Path:
    """The folder itself if it is a WordNet; anything else must not be replaced."""
    try:
        WordNet.load(out)
    except LexiconError as error:
        raise LexiconError(f"{out} exists and is not WordNet ({error}): remove it or name another --out") from error
    return out


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_scheme(url: str) -> None:
    if urlsplit(url).scheme not in _SCHEMES:
        raise ValueError(f"'{url}' is no https address, and others are not read")


def _download(url: str, target: Path) -> None:
    try:
        _check_scheme(url)
        with urllib.request.build_opener(_Redirects).open(url, timeout=_TIMEOUT) as answer, target.open("wb") as file:
            while block := answer.read(1 << 16):
                if file.tell() + len(block) > _LARGEST_ARCHIVE:
                    raise ValueError(f"over {_LARGEST_ARCHIVE:,} bytes come, which WordNet has not")
                file.write(block)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LexiconError(f"cannot download WordNet from {url}: {error}; {_ALTERNATIVES}") from error


def _check_digest(archive: Path, origin: str, wanted: str | None) -> None:
    if wanted is not None and archive.is_file() and (found := checksum(archive)) != wanted.lower():
        raise LexiconError(
            f"{origin} has the SHA-256 {found}, not {wanted.lower()}: it was changed or is another one; {_ALTERNATIVES}"
        )


def _unpack(archive: Path, folder: Path, origin: str) -> None:
    """Write the archive's WordNet files into ``folder``, by their bare names, so that none is written outside it."""
    names: set[str] = set()
    try:
        if (size := archive.stat().st_size) > _LARGEST_ARCHIVE:
            raise LexiconError(f"{origin} has {size:,} bytes: too many for WordNet; {_ALTERNATIVES}")
        for member, size, read in _members(archive):
            name = PurePosixPath(member).name
            if name not in (*FILES, COUNTS, *_LICENCES):
                continue
            if size > LARGEST_FILE:
                raise LexiconError(f"{origin}: {member} has {size:,} bytes: not WordNet")
            if name in names and name in FILES:
                raise LexiconError(f"{origin} holds {name} twice: unpack it and name one folder with --wordnet")
            if name not in names:
                (folder / name).write_bytes(read())
            names.add(name)
    except _BROKEN as error:
        reason = str(error).splitlines()[0].rstrip(":") if str(error) else type(error).__name__
        raise LexiconError(f"cannot unpack {origin}: {reason}; {_ALTERNATIVES}") from error
    if missing := [name for name in FILES if name not in names]:
        raise LexiconError(f"{origin} is not WordNet: it lacks {', '.join(missing)}; {_ALTERNATIVES}")


def _members(archive: Path) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Path and size of each regular file, and a function that reads it; nothing is read before both are known.

    Raises:
        RuntimeError: for more members, or larger ones, than WordNet can have.
    """
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            files = [info for info in zipped.infolist() if not info.is_dir()]
            _check_sizes(len(files), sum(info.file_size for info in files))
            for info in files:
                if info.file_size > _HIGHEST_RATIO * max(info.compress_size, 1 << 10):
                    raise RuntimeError(
                        f"{info.filename} is a bomb: {info.compress_size:,} bytes for {info.file_size:,}"
                    )
                yield info.filename, info.file_size, lambda info=info: zipped.read(info)  # type: ignore[misc]
        return
    with tarfile.open(fileobj=_Limited(_decompressed(_payload(archive.read_bytes()))), mode="r|") as tarred:
        total = 0
        for number, entry in enumerate(tarred, start=1):
            total += entry.size
            _check_sizes(number, total)
            if entry.isfile():
                yield entry.name, entry.size, lambda entry=entry: cast(IO[bytes], tarred.extractfile(entry)).read()  # type: ignore[misc]


def _check_sizes(num_members: int, num_bytes: int) -> None:
    if num_members > _MOST_MEMBERS or num_bytes > _LARGEST_CONTENT:
        raise RuntimeError(f"it has {num_members:,} members of {num_bytes:,} bytes or more, which WordNet has not")


def _decompressed(content: bytes) -> IO[bytes]:
    file = io.BytesIO(content)
    openers: dict[bytes, Any] = {
        b"\x1f\x8b": gzip.open,
        b"BZh": bz2.open,
        b"\xfd7zXZ\x00": lzma.open,
        b"\x28\xb5\x2f\xfd": zstandard.ZstdDecompressor().stream_reader,
    }
    opener = next((opener for magic, opener in openers.items() if content.startswith(magic)), None)
    return file if opener is None else cast(IO[bytes], opener(file))


class _Limited(io.RawIOBase):
    """A stream that raises an error once too many bytes are read, whatever its headers say."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._left = stream, _LARGEST_CONTENT

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise RuntimeError(f"over {_LARGEST_CONTENT:,} bytes come out of it, which WordNet has not")
        return content


def _payload(content: bytes) -> bytes:
    """The tar file inside a Debian package (an ``ar`` archive, deb(5)); any other content as it is."""
    if not content.startswith(b"!<arch>\n"):
        return content
    at = 8
    while at + 60 <= len(content):
        name, size = content[at : at + 16].decode("ascii", "replace").strip(" /"), content[at + 48 : at + 58]
        if not size.strip().isdigit():
            break
        if name.startswith("data.tar"):
            return content[at + 60 : at + 60 + int(size)]
        at += 60 + int(size) + int(size) % 2
    raise tarfile.ReadError("a Debian package without data.tar")
