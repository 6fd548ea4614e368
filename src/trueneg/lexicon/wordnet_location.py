"""Find WordNet on a machine, and check that all of its files are there."""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from trueneg.errors import LexiconError

PartOfSpeech = Literal["n", "v", "a", "r"]
"""Noun, verb, adjective (satellites included), adverb."""

PARTS_OF_SPEECH: tuple[PartOfSpeech, ...] = ("n", "v", "a", "r")

SUFFIX: dict[PartOfSpeech, str] = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}

FILES: tuple[str, ...] = tuple(name for s in SUFFIX.values() for name in (f"index.{s}", f"data.{s}", f"{s}.exc"))
"""The files of a WordNet folder: an index, the synsets and the irregular forms of each part of speech."""

COUNTS = "cntlist.rev"
"""How often each sense occurs in WordNet's tagged text; optional, but required for frequent senses."""

LARGEST_FILE = 64 << 20
"""Maximum bytes of a file; WordNet's largest one has 15 MB."""

DEBIAN = Path("/usr/share/wordnet")
"""Where Debian's and Ubuntu's package ``wordnet-base`` puts it."""

SYSTEM_NLTK = tuple(Path(p, "nltk_data") for p in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib"))
"""Where NLTK looks for its data, apart from a user's own folders."""

HOW_TO_GET = (
    "run  apt-get install --no-install-recommends wordnet-base  or  trueneg lexicon fetch , "
    "or name its folder with --wordnet"
)


def find_wordnet(path: str | Path | None = None) -> Path:
    """Find WordNet on this machine.

    The first of: ``path``; the environment variable ``WNSEARCHDIR``; Debian's package; NLTK's data (unpacked
    or as ``wordnet.zip``); the folder ``trueneg lexicon fetch`` fills. A place named by ``path`` or the
    variable must be WordNet; the others are tried in turn.

    Args:
        path: a folder with the files of ``FILES``, one that has them in ``dict/`` or ``corpora/wordnet/``,
            or a zip archive of them.

    Returns:
        The folder or zip archive that holds the files.

    Raises:
        LexiconError: if a named place lacks files (it says which), or if there is no WordNet.
    """
    for named, origin in ((path, "--wordnet"), (os.environ.get("WNSEARCHDIR"), "$WNSEARCHDIR")):
        if named:
            return _resolve(Path(named).expanduser(), origin)
    places = [DEBIAN, *_nltk_places(), fetched_wordnet()]
    for place in places:
        if place.exists() and not _missing(place):
            return place
    raise LexiconError(f"WordNet not found: {HOW_TO_GET}")


def fetched_wordnet() -> Path:
    """Where ``trueneg lexicon fetch`` puts WordNet: ``wordnet`` in the cache folder."""
    return cache_folder() / "wordnet"


def cache_folder() -> Path:
    """The folder for files that can be made again: ``$TRUENEG_CACHE`` or ``~/.cache/trueneg``."""
    return Path(os.environ.get("TRUENEG_CACHE") or "~/.cache/trueneg").expanduser()


def verified_folder() -> Path:
    """The folder that records which files were verified: ``verified`` in the cache folder."""
    return cache_folder() / "verified"


def wordnet_digest(path: Path) -> str:
    """Digest of the content of a WordNet that :func:`find_wordnet` found, without reading all of it (10 ms).

    Returns:
        16 hexadecimal digits over the bytes of the index and exception files and the sizes of the data files.
        That is enough: an index holds every lemma with the byte offsets of its synsets, so different
        synsets come with a different index. For a zip archive, over the recorded sizes and checksums of these files.
    """
    digest = hashlib.blake2b(digest_size=8)
    if path.is_dir():
        for name in FILES:
            file = path / name
            content = str(file.stat().st_size).encode() if name.startswith("data.") else file.read_bytes()
            digest.update(f"{name} {len(content)}\n".encode())
            digest.update(content)
    else:
        with zipfile.ZipFile(path) as archive:
            members = {Path(info.filename).name: info for info in archive.infolist()}
        digest.update("".join(f"{n} {members[n].file_size} {members[n].CRC}\n" for n in FILES).encode())
    return digest.hexdigest()


def read_files(place: Path) -> dict[str, bytes]:
    """The bytes of each of ``FILES``, from a folder or zip archive that :func:`find_wordnet` found.

    Raises:
        LexiconError: for a member of an archive that is too large to be of WordNet.
    """
    if place.is_dir():
        return {name: (place / name).read_bytes() for name in FILES}
    with zipfile.ZipFile(place) as archive:
        members = {Path(info.filename).name: info for info in archive.infolist()}
        if large := next((name for name in FILES if members[name].file_size > LARGEST_FILE), None):
            raise LexiconError(f"{place}: {large} has {members[large].file_size:,} bytes: not WordNet; {HOW_TO_GET}")
        return {name: archive.read(members[name]) for name in FILES}


def _nltk_places() -> Iterator[Path]:
    roots = [Path(p) for p in os.environ.get("NLTK_DATA", "").split(os.pathsep) if p]
    roots += [Path("~/nltk_data").expanduser(), Path(sys.prefix) / "nltk_data"]
    for root in (*roots, *SYSTEM_NLTK):
        yield root / "corpora" / "wordnet"
        yield root / "corpora" / "wordnet.zip"


def _resolve(place: Path, origin: str) -> Path:
    if not place.exists():
        raise LexiconError(f"{origin} {place}: no such folder; {HOW_TO_GET}")
    for candidate in (
        place,
        place / "dict",
        place / "corpora" / "wordnet",
        place / "corpora" / "wordnet.zip",
    ):
        if candidate.exists() and not _missing(candidate):
            return candidate
    missing = ", ".join(_missing(place))
    raise LexiconError(f"{origin} {place} is not WordNet: it lacks {missing}; {HOW_TO_GET}")


def _missing(place: Path) -> list[str]:
    """The files of ``FILES`` that a folder or zip archive lacks."""
    if place.is_dir():
        return [name for name in FILES if not (place / name).is_file()]
    try:
        with zipfile.ZipFile(place) as archive:
            present = {Path(name).name for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError):
        present = set()
    return [name for name in FILES if name not in present]
