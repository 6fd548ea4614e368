from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import struct
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import zstandard
from tiny_lexicon import TINY_WORDNET

from trueneg.errors import LexiconError
from trueneg.lexicon import fetch
from trueneg.lexicon.fetch import fetch_wordnet
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import FILES, find_wordnet


def zip_of(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tar_of(members: dict[str, bytes], mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def tar_head(name: str, kind: bytes, size: int) -> bytes:
    head = tarfile.TarInfo(name)
    head.type, head.size = kind, size
    return head.tobuf(tarfile.GNU_FORMAT)


def deb_of(members: dict[str, bytes], kind: str = "xz") -> bytes:
    data = tar_of(members, "w:xz") if kind == "xz" else zstandard.compress(tar_of(members, "w"))

    def part(name: str, content: bytes) -> bytes:
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        return head + content + b"\n" * (len(content) % 2)

    return (
        b"!<arch>\n" + part("debian-binary", b"2.0\n") + part("control.tar.xz", b"odd") + part(f"data.tar.{kind}", data)
    )


def tiny(folder: str = "wordnet") -> dict[str, bytes]:
    return {f"{folder}/{name}": (TINY_WORDNET / name).read_bytes() for name in FILES}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of http, which is let pass here only."""
    monkeypatch.setattr(fetch, "_SCHEMES", ("http",))
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "wordnet.zip").write_bytes(zip_of(tiny()))
    (tmp_path / "www" / "page.zip").write_text("<html>not here</html>")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(tmp_path / "www"))) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_a_downloaded_wordnet_is_found(server: str, nowhere: Path) -> None:
    out = fetch_wordnet(url=f"{server}/wordnet.zip")
    assert out == nowhere / "cache" / "wordnet" == find_wordnet()
    assert [p.name for p in out.parent.iterdir()] == ["wordnet"]
    assert len(WordNet.load()) == len(WordNet.load(TINY_WORDNET))


@pytest.mark.parametrize(
    "content",
    [
        zip_of({**tiny(), "wordnet/README": b"licence", "wordnet/odd": b"?"}),
        zip_of(tiny(".")),
        tar_of(tiny("WordNet-3.0/dict"), "w:gz"),
        tar_of(tiny("dict"), "w"),
        deb_of(tiny("./usr/share/wordnet")),
        deb_of(tiny("./usr/share/wordnet"), "zst"),
        zstandard.compress(tar_of(tiny("dict"), "w")),
    ],
    ids=["zip", "flat", "tar.gz", "tar", "deb", "deb of today", "tar.zst"],
)
def test_archives_of_every_kind(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(content)
    out = fetch_wordnet(tmp_path / "out", archive=tmp_path / "archive")
    assert {p.name for p in out.iterdir()} - {"README"} == set(FILES)
    assert WordNet.load(out).synonyms("mice") == {"mouse"}


def test_no_member_leaves_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    evil = {"../../evil": b"x", "/tmp/evil-absolute": b"x", "../README": b"licence"}
    (tmp_path / "in" / "evil.zip").write_bytes(zip_of({**evil, **tiny()}))
    (tmp_path / "in" / "evil.tar").write_bytes(tar_of({**evil, **tiny()}, "w"))
    for kind in ("zip", "tar"):
        out = fetch_wordnet(tmp_path / "deep" / kind, archive=tmp_path / "in" / f"evil.{kind}")
        assert {p.name for p in out.iterdir()} == {*FILES, "README"}
    assert {p.name for p in tmp_path.iterdir()} == {"in", "deep"}
    assert not Path("/tmp/evil-absolute").exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("dict/index.noun")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    (tmp_path / "links.tar").write_bytes(buffer.getvalue())
    with pytest.raises(LexiconError, match=r"lacks index\.noun"):
        fetch_wordnet(tmp_path / "out", archive=tmp_path / "links.tar")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zip_of({"wordnet/index.noun": b"x"}), "is not WordNet: it lacks data.noun"),
        (zip_of({**tiny("a"), **tiny("b")}), "holds index.noun twice"),
        (zip_of({**tiny(), "wordnet/index.verb": b"walk v 1\n"}), "index.verb, line 1"),
        (b"no archive", "cannot unpack"),
        (zip_of(tiny())[:-100], "cannot unpack"),
        (tar_of(tiny(), "w:gz")[:-600], "cannot unpack"),
        (b"!<arch>\n", "cannot unpack .*without data.tar"),
    ],
    ids=["lacking", "twice", "malformed", "text", "torn zip", "torn tar", "empty deb"],
)
def test_a_bad_archive_leaves_nothing_behind(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(content)
    with pytest.raises(LexiconError, match=message):
        fetch_wordnet(tmp_path / "out", archive=tmp_path / "archive")
    assert [p.name for p in tmp_path.iterdir()] == ["archive"]


def test_offline_the_error_names_the_other_ways(server: str, tmp_path: Path) -> None:
    for url in ("http://127.0.0.1:1/wordnet.zip", f"{server}/none.zip", "odd"):
        with pytest.raises(LexiconError, match=r"cannot download .*--archive FILE.*apt-get install"):
            fetch_wordnet(tmp_path / "out", url=url)
    with pytest.raises(LexiconError, match="cannot unpack"):  # a portal's page instead of the archive
        fetch_wordnet(tmp_path / "out", url=f"{server}/page.zip")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/wordnet.zip", "ftp://127.0.0.1:1/wordnet.zip", "FILE"])
def test_only_https_is_read(url: str, tmp_path: Path) -> None:
    (tmp_path / "wordnet.zip").write_bytes(zip_of(tiny()))
    with pytest.raises(LexiconError, match="is no https address"):
        fetch_wordnet(tmp_path / "out", url=url.replace("FILE", (tmp_path / "wordnet.zip").as_uri()))


def test_a_redirection_to_anything_else_is_refused(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def redirect(handler: SimpleHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", f"ftp://{server.removeprefix('http://')}/wordnet.zip")
        handler.end_headers()

    monkeypatch.setattr(SimpleHTTPRequestHandler, "do_GET", redirect)
    with pytest.raises(LexiconError, match=r"'ftp://.*' is no https address"):
        fetch_wordnet(tmp_path / "out", url=f"{server}/wordnet.zip")


def test_an_endless_download_is_stopped(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_LARGEST_ARCHIVE", 1 << 17)
    (tmp_path / "www" / "large.zip").write_bytes(bytes(1 << 20))
    with pytest.raises(LexiconError, match="over 131,072 bytes come"):
        fetch_wordnet(tmp_path / "out", url=f"{server}/large.zip")
    assert {path.name for path in tmp_path.iterdir()} == {"www"}


def test_an_archive_must_be_the_one_that_is_known(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "NLTK_URL", f"{server}/wordnet.zip")
    with pytest.raises(LexiconError, match=f"has the SHA-256 [0-9a-f]{{64}}, not {fetch.NLTK_SHA256}"):
        fetch_wordnet(tmp_path / "out")
    archive = tmp_path / "www" / "wordnet.zip"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    with pytest.raises(LexiconError, match="SHA-256"):
        fetch_wordnet(tmp_path / "out", archive=archive, sha256="0" * 64)
    assert not (tmp_path / "out").exists()
    fetch_wordnet(tmp_path / "out", archive=archive, sha256=digest.upper())
    with pytest.raises(LexiconError, match="--sha256 is of an archive"):
        fetch_wordnet(tmp_path / "out", sha256=digest)


def overlapping(num: int, size: int) -> bytes:
    """A zip archive of so many entries that are all the same compressed bytes, under other names."""
    whole = zip_of({"0000000": bytes(size)}, zipfile.ZIP_DEFLATED)
    at = whole.index(b"PK\x01\x02")
    entry = whole[at : whole.index(b"PK\x05\x06")]
    directory = b"".join(entry.replace(b"0000000", b"%07d" % number) for number in range(num))
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, num, num, len(directory), at, 0)
    return whole[:at] + directory + end


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (overlapping(20_000, 1 << 14), "20,000 members of"),
        (zip_of({f"{number}": b"" for number in range(3000)}), "3,000 members of"),
        (tar_of({f"{number}": b"" for number in range(3000)}, "w:gz"), "2,001 members of"),
        (zip_of({**tiny(), "wordnet/README": bytes(1 << 20)}, zipfile.ZIP_DEFLATED), "README is a bomb"),
        (tar_of({"wordnet/index.noun": bytes(3 << 20)}, "w:gz"), "index.noun has 3,145,728 bytes"),
        (tar_of({"odd": bytes(9 << 20)}, "w:gz"), "of 9,437,184 bytes or more"),
        (gzip.compress(tar_head("././@LongLink", b"L", 10 << 20) + bytes(10 << 20), 1), "over 8,388,608 bytes"),
    ],
    ids=["overlapping", "zip names", "tar names", "ratio", "member", "tar", "long name"],
)
def test_a_bomb_is_refused_before_it_is_unpacked(
    content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_LARGEST_CONTENT", 8 << 20)
    monkeypatch.setattr(fetch, "LARGEST_FILE", 2 << 20)
    (tmp_path / "archive").write_bytes(content)
    with pytest.raises(LexiconError, match=message):
        fetch_wordnet(tmp_path / "out", archive=tmp_path / "archive")
    assert [p.name for p in tmp_path.iterdir()] == ["archive"]


def test_an_existing_folder_is_kept_replaced_or_refused(tmp_path: Path) -> None:
    (tmp_path / "archive.zip").write_bytes(zip_of(tiny()))
    out = Path(shutil.copytree(TINY_WORDNET, tmp_path / "out"))
    (out / "mine").touch()
    assert fetch_wordnet(out) == out and (out / "mine").exists()  # no download, or this would fail
    fetch_wordnet(out, archive=tmp_path / "archive.zip")
    assert not (out / "mine").exists() and len(WordNet.load(out)) > 0
    (tmp_path / "other").mkdir()
    with pytest.raises(LexiconError, match="exists and is not WordNet"):
        fetch_wordnet(tmp_path / "other", archive=tmp_path / "archive.zip")
    with pytest.raises(LexiconError, match="not both"):
        fetch_wordnet(out, url="http://127.0.0.1:1/", archive=tmp_path / "archive.zip")


def test_counts_of_senses_are_kept_where_there_are_some(tmp_path: Path) -> None:
    (tmp_path / "with.zip").write_bytes(zip_of(tiny() | {"wordnet/cntlist.rev": b"cat%1:05:00:: 1 18\n"}))
    out = fetch_wordnet(tmp_path / "out", archive=tmp_path / "with.zip")
    assert (out / "cntlist.rev").read_bytes() == b"cat%1:05:00:: 1 18\n"
