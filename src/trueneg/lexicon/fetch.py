"""Get WordNet without root rights: from NLTK's data on the web, or from an archive already here."""

from __future__ import annotations

import http.client
import io
import lzma
import shutil
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from trueneg.errors import LexiconError
from trueneg.lexicon.places import COUNTS, FILES, fetched_wordnet
from trueneg.lexicon.wordnet import WordNet

NLTK_URL = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/wordnet.zip"
"""NLTK's copy of WordNet 3.0, 10 MB."""

NUM_ENTRIES = 155_287
"""Lemma and part-of-speech entries of WordNet 3.0, as Princeton counts them (wnstats(7WN))."""

_ALTERNATIVES = (
    "without a network, copy the archive here and run  trueneg lexicon fetch --archive FILE , "
    "or run  apt-get install --no-install-recommends wordnet-base"
)
_LICENCES = ("LICENSE", "COPYING", "README", "copyright")
_LARGEST = 64 << 20  # bytes of a member; WordNet's largest file has 15 MB
_TIMEOUT = 60.0  # seconds without an answer
_BROKEN = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError)


def fetch_wordnet(out: Path | None = None, url: str | None = None, archive: Path | None = None) -> Path:
    """Put WordNet into a folder that :func:`~trueneg.lexicon.places.find_wordnet` looks into.

    The folder appears whole or not at all, after what arrived was loaded: NLTK's copy must have the entries
    of WordNet 3.0, another one must be a WordNet. Only WordNet's files and its licence are unpacked, by name.

    Args:
        out: the folder to make; ``wordnet`` in the cache folder if not given. One that already holds a
            WordNet is kept if neither ``url`` nor ``archive`` is given, else replaced.
        url: where to download an archive from; NLTK's copy if not given.
        archive: an archive on this machine, to use without a network.

    Both archives may be zip, tar (compressed in any way) or Debian's ``wordnet-base`` package.

    Returns:
        The folder.

    Raises:
        LexiconError: if the archive cannot be had, or is not WordNet, or ``out`` holds something else.
    """
    if url is not None and archive is not None:
        raise LexiconError("give --url or --archive, not both")
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
            fresh = Path(scratch) / "wordnet"
            fresh.mkdir()
            _unpack(source, fresh, origin)
            num_entries = len(WordNet.load(fresh))
            if origin == NLTK_URL and num_entries != NUM_ENTRIES:
                raise LexiconError(
                    f"{origin} has {num_entries} entries, WordNet 3.0 has {NUM_ENTRIES}; {_ALTERNATIVES}"
                )
            if out.exists():
                out.rename(Path(scratch) / "replaced")
            fresh.rename(out)
    except OSError as error:
        raise LexiconError(f"cannot write WordNet to {out}: {error}; name another folder with --out") from error
    return out


def _held(out: Path) -> Path:
    """The folder itself if it is a WordNet; what else there is must not be replaced."""
    try:
        WordNet.load(out)
    except LexiconError as error:
        raise LexiconError(f"{out} exists and is not WordNet ({error}): remove it or name another --out") from error
    return out


def _download(url: str, target: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LexiconError(f"cannot download WordNet from {url}: {error}; {_ALTERNATIVES}") from error


def _unpack(archive: Path, folder: Path, origin: str) -> None:
    """Write the archive's WordNet files into ``folder``, by their bare names: no member can leave it."""
    try:
        for member, size, content in _members(archive):
            name = PurePosixPath(member).name
            if name not in (*FILES, COUNTS, *_LICENCES):
                continue
            if size > _LARGEST:
                raise LexiconError(f"{origin}: {member} has {size} bytes: not WordNet")
            if (folder / name).exists():
                if name in FILES:
                    raise LexiconError(f"{origin} holds {name} twice: unpack it and name one folder with --wordnet")
                continue
            (folder / name).write_bytes(content)
    except _BROKEN as error:
        reason = str(error).splitlines()[0].rstrip(":") if str(error) else type(error).__name__
        raise LexiconError(f"cannot unpack {origin}: {reason}; {_ALTERNATIVES}") from error
    if missing := [name for name in FILES if not (folder / name).exists()]:
        raise LexiconError(f"{origin} is not WordNet: it lacks {', '.join(missing)}; {_ALTERNATIVES}")


def _members(archive: Path) -> Iterator[tuple[str, int, bytes]]:
    """Path, size and bytes of each plain file; the bytes of overlong ones are left unread."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if not info.is_dir():
                    yield (
                        info.filename,
                        info.file_size,
                        zipped.read(info) if info.file_size <= _LARGEST else b"",
                    )
        return
    content = archive.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(_payload(content))) as tarred:
        for entry in tarred:
            file = tarred.extractfile(entry) if entry.isfile() else None
            if file is not None:
                yield entry.name, entry.size, file.read() if entry.size <= _LARGEST else b""


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
