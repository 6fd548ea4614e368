"""Files behind a URL, through fsspec: listed in a fixed order, and read completely or with an error."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from trueneg.errors import CorpusError, MissingExtraError, unknown_name

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_VERSION_KEYS = (
    "ETag",
    "etag",
    "version_id",
    "blob_id",
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
    "created",
)
_SCHEME = re.compile(r"\w[\w+.-]*(://|::)")
_LOCAL = re.compile(r"(file|local)://")
_LOGIN = re.compile(r"(?<=://)[^/@]*@")
_BUFFER = 1 << 20
_HTTP = ("http", "https")


@dataclass(frozen=True)
class RemoteFile:
    """A file behind a URL.

    Attributes:
        url: where it is; without user, password and query, which may be secrets.
        path: its path in its file system.
        size: in bytes; None if the server does not state it.
        version: changes when the content does, as far as the server states: a checksum or a time.
        filesystem: its fsspec file system.
    """

    url: str
    path: str
    size: int | None
    version: str
    filesystem: AbstractFileSystem = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.url

    @property
    def suffixes(self) -> list[str]:
        """The suffixes of its name, as those of a path."""
        return PurePosixPath(self.url).suffixes

    @property
    def suffix(self) -> str:
        """The last suffix of its name."""
        return PurePosixPath(self.url).suffix

    def open(self) -> BinaryIO:
        """Open it; server errors and truncated content raise ``CorpusError``."""
        try:
            opened = self.filesystem.open(self.path, "rb", compression=None)
        except Exception as error:  # of any file system: see remote_files
            raise _lost(self.url, error) from error
        return cast(BinaryIO, io.BufferedReader(_Whole(self, opened), _BUFFER))


TextFile = Path | RemoteFile


def open_binary(file: TextFile) -> BinaryIO:
    """Open a local or a remote file."""
    return file.open("rb") if isinstance(file, Path) else file.open()


def size_of(file: TextFile) -> int | None:
    """Size of a file in bytes; None if a server does not state it."""
    return file.stat().st_size if isinstance(file, Path) else file.size


def as_local(source: str) -> str:
    """The path for a ``file://`` or ``local://`` URL; anything else unchanged.

    Example:
        >>> as_local("file:///data/a.txt"), as_local("s3://bucket/a.txt")
        ('/data/a.txt', 's3://bucket/a.txt')
    """
    return _LOCAL.sub("", source, count=1) if "::" not in source else source


def is_remote(source: str) -> bool:
    """Whether a source is the URL of a file, a folder or a glob on a file system other than this machine's.

    Example:
        >>> is_remote("s3://bucket/a.txt"), is_remote("owner/name:config"), is_remote("file:///data/a.txt")
        (True, False, False)
    """
    return _SCHEME.match(as_local(source)) is not None


def remote_files(url: str, *, is_file: bool) -> list[RemoteFile]:
    """List the files that a URL names, without hidden ones, in sorted order.

    Args:
        url: URL of a file, of a folder, which is listed recursively, or a glob of files and such folders.
        is_file: Whether its name says that it is a file; otherwise the file system is asked.

    Raises:
        CorpusError: for an unknown protocol, a missing file or folder, or a server that cannot be reached.
        MissingExtraError: for a protocol whose package is not installed.
    """
    from fsspec.core import url_to_fs

    try:
        filesystem, path = url_to_fs(url)
    except ImportError as error:
        raise _not_installed(url, error) from error
    except ValueError as error:
        if "rotocol" in str(error):
            from fsspec.registry import available_protocols

            raise CorpusError(unknown_name("protocol", _protocol(url), available_protocols())) from error
        raise _lost(url, error) from error
    magic = re.search(r"[*\[]" if _protocol(url) in _HTTP else r"[*\[?]", path)
    try:
        if magic:
            found = filesystem.glob(path, detail=True)
            # A final "**" matches what is below folders by itself: asking for each of them would take long.
            folders = [name for name, info in found.items() if info.get("type") == "directory"]
            for name in folders if not path.endswith("**") else ():
                found |= filesystem.find(name, detail=True)
        elif not is_file and filesystem.isdir(path):
            found = filesystem.find(path, detail=True)
        else:
            found = {path: filesystem.info(path)}
    except FileNotFoundError as error:
        if error.__cause__ is not None:  # the server's error, or that there is no server
            raise _lost(url, error.__cause__) from error
        raise CorpusError(f"no such file or folder: '{shown(url)}'") from error
    except Exception as error:  # every file system raises errors of its own
        raise _lost(url, error) from error
    root = path[: magic.start()].rpartition("/")[0] if magic else path  # what is named is read, even if hidden
    return [
        RemoteFile(
            shown(url if name == path else filesystem.unstrip_protocol(name)),
            name,
            info.get("size"),
            _version(info),
            filesystem,
        )
        for name, info in sorted(found.items())
        if info.get("type", "file") == "file" and "/." not in name.removeprefix(root)
    ]


class _Whole(io.RawIOBase):
    """A remote file that raises an error if it ends before its last byte."""

    def __init__(self, file: RemoteFile, opened: Any) -> None:
        self._file, self._opened, self._at = file, opened, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        try:
            self._at = int(self._opened.seek(offset, whence))
        except Exception as error:  # a server that can send it only from the beginning
            raise CorpusError(
                f"'{self._file.url}': no part of it can be asked for ({error}), which its format needs: download it "
                f"and give the file"
            ) from error
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._opened.read(len(buffer))
        except Exception as error:
            raise _lost(self._file.url, error) from error
        if not data and self._file.size is not None and self._at < self._file.size:
            raise _lost(self._file.url, EOFError(f"it ends at byte {self._at:,} of {self._file.size:,}"))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _lost(url: str, error: BaseException) -> CorpusError:
    reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return CorpusError(
        f"cannot read '{shown(url)}' ({reason}): see that it is there and can be reached, then run the same again: "
        f"what is finished is kept"
    )


def _not_installed(url: str, error: ImportError) -> Exception:
    from fsspec.registry import known_implementations

    protocol = _protocol(url)
    if protocol in _HTTP:
        return MissingExtraError("aiohttp", "urls", f"reading '{shown(url)}'")
    said = known_implementations.get(protocol, {}).get("err") or str(error)
    return CorpusError(f"'{shown(url)}': the protocol '{protocol}' needs another package: {said}")


def _version(info: dict[str, Any]) -> str:
    return str(next((info[key] for key in _VERSION_KEYS if info.get(key)), ""))


def _protocol(url: str) -> str:
    return re.split(r"::|://", url, maxsplit=1)[0]


def shown(url: str) -> str:
    """A URL without what may be secret: user and password, and the query of a signed URL."""
    is_http = any(part.partition("://")[0] in _HTTP for part in url.split("::"))  # simplecache::https://…
    return _LOGIN.sub("", url.partition("?")[0] if is_http else url)
