"""Text that does not lie on this machine: URLs of any file system, and data sets that are streamed."""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from folders import contents
from servers import Served, http_server, make_local

from trueneg.corpus import build
from trueneg.corpus.build import build_corpus
from trueneg.corpus.sources import read_documents, text_bytes
from trueneg.corpus.store import CorpusInfo
from trueneg.corpus.tokenizer_training import train_tokenizer
from trueneg.errors import CorpusError, MissingExtraError, TruenegWarning

TEXT = "One text.\nIts second line.\n\nAnother, with café.\n"
DOCUMENTS = ["One text.\nIts second line.", "Another, with café."]


@pytest.fixture
def bucket() -> Iterator[str]:
    """A folder of its own in memory."""
    name = uuid.uuid4().hex
    yield f"memory://{name}"
    filesystem = fsspec.filesystem("memory")
    if filesystem.exists(name):
        filesystem.rm(name, recursive=True)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "served").mkdir()
    with http_server(tmp_path / "served") as server:
        yield server


def put(url: str, data: bytes) -> str:
    with fsspec.open(url, "wb", compression=None) as file:
        file.write(data)
    return url


PACKED = {
    ".txt": TEXT.encode(),
    ".txt.gz": gzip.compress(TEXT.encode()),
    ".txt.xz": lzma.compress(TEXT.encode()),
    ".txt.zst": zstandard.compress(TEXT.encode()),
    ".jsonl": "".join(json.dumps({"text": text}) + "\n" for text in DOCUMENTS).encode(),
}


def parquet(texts: list[str]) -> bytes:
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table({"text": texts}), sink, row_group_size=7)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("suffix", [*PACKED, ".parquet"])
def test_a_file_of_any_format_behind_a_url(bucket: str, served: Served, tmp_path: Path, suffix: str) -> None:
    data = PACKED.get(suffix) or parquet(DOCUMENTS)
    assert list(read_documents(put(f"{bucket}/deep/a{suffix}", data))) == DOCUMENTS
    (tmp_path / "served" / f"a{suffix}").write_bytes(data)
    assert list(read_documents(f"{served.url}/a{suffix}")) == DOCUMENTS
    assert list(read_documents(f"{served.url}/a{suffix}?signature=secret")) == DOCUMENTS


def test_a_url_of_this_machine_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    assert list(read_documents(f"file://{tmp_path}")) == DOCUMENTS


def test_folders_and_globs_behind_urls_are_read_in_sorted_order(bucket: str) -> None:
    for name in ("b.txt", "a/z.txt", "c.jsonl", ".hidden.txt"):
        put(f"{bucket}/{name}", json.dumps({"text": name}).encode() if name.endswith("l") else name.encode())
    assert list(read_documents(bucket)) == ["a/z.txt", "b.txt", "c.jsonl"]
    assert list(read_documents(f"{bucket}/**/*.txt")) == ["a/z.txt", "b.txt"]
    put(f"{bucket}/notes.docx", b"x")
    with pytest.warns(TruenegWarning, match=r"1 of 4 files are of no known format .*notes\.docx"):
        assert len(list(read_documents(bucket))) == 3


def test_folders_that_a_glob_behind_a_url_matches_are_read(bucket: str) -> None:
    for name in ("a.txt", "b/c/z.txt", "b/a.txt", "b/.hidden.txt"):
        put(f"{bucket}/{name}", name.encode())
    assert list(read_documents(f"{bucket}/*")) == ["a.txt", "b/a.txt", "b/c/z.txt"]
    assert list(read_documents(f"{bucket}/**")) == ["a.txt", "b/a.txt", "b/c/z.txt"]


def test_what_is_named_is_read_even_if_it_is_hidden(bucket: str) -> None:
    for name in (".hidden.txt", ".cache/a.txt", ".cache/.b.txt"):
        put(f"{bucket}/{name}", name.encode())
    assert list(read_documents(f"{bucket}/.hidden.txt")) == [".hidden.txt"]
    assert (
        list(read_documents(f"{bucket}/.cache")) == list(read_documents(f"{bucket}/.cache/*.txt")) == [".cache/a.txt"]
    )


def test_the_size_of_remote_text_is_known_beforehand(bucket: str) -> None:
    assert text_bytes([put(f"{bucket}/a.txt", TEXT.encode())]) == len(TEXT.encode())
    assert text_bytes([put(f"{bucket}/b.txt.gz", PACKED[".txt.gz"])]) is None


def test_a_corpus_of_urls_is_that_of_the_files(
    bucket: str, served: Served, tmp_path: Path, texts: list[str], wordpiece: Path
) -> None:
    data = "\n\n".join(texts).encode()
    options: dict[str, Any] = {"shard_tokens": 2000, "valid": 0.2}
    (tmp_path / "served" / "a.txt").write_bytes(data)
    whole = build_corpus([str(tmp_path / "served" / "a.txt")], wordpiece, tmp_path / "local", **options)
    urls = {"memory": put(f"{bucket}/a.txt", data), "http": f"{served.url}/a.txt?token=secret"}
    for name, url in urls.items():
        assert build_corpus([url], wordpiece, tmp_path / name, workers=2, **options).fingerprint == whole.fingerprint
        assert [s.name for s in CorpusInfo.read(tmp_path / name).sources] == [url.partition("?")[0]]
        unequal = {"corpus.json", "built.json"}  # which name the sources
        first, second = contents(tmp_path / "local"), contents(tmp_path / name)
        assert {k: v for k, v in first.items() if k not in unequal} == {
            k: v for k, v in second.items() if k not in unequal
        }
        assert build_corpus([url], wordpiece, tmp_path / name, **options).fingerprint == whole.fingerprint  # kept
    put(urls["memory"], data + b"\n\nMore text.")
    with pytest.raises(CorpusError, match="holds the finished corpus"):
        build_corpus([urls["memory"]], wordpiece, tmp_path / "memory", **options)


def test_a_tokenizer_is_trained_on_urls(bucket: str, tmp_path: Path, text_file: Path) -> None:
    train_tokenizer([put(f"{bucket}/a.txt", text_file.read_bytes())], tmp_path / "tok", vocab_size=110)
    train_tokenizer([str(text_file)], tmp_path / "same", vocab_size=110)
    assert contents(tmp_path / "tok") == contents(tmp_path / "same")


@pytest.mark.parametrize("has_ranges", [True, False])
@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_a_url_that_vanishes_half_way_is_named_and_the_build_goes_on(
    served: Served,
    tmp_path: Path,
    texts: list[str],
    wordpiece: Path,
    suffix: str,
    has_ranges: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "_UNIT_CHARACTERS", 1000)
    served.has_ranges = has_ranges
    half = len(texts) // 2
    for name, part in (("a", texts[:half]), ("b", texts[half:])):
        data = "\n\n".join(part).encode()
        path = tmp_path / "served" / f"{name}{suffix}"
        path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    urls = [f"{served.url}/{name}{suffix}" for name in "ab"]
    build_corpus(urls, wordpiece, tmp_path / "whole", shard_tokens=1000)
    served.num_gets.clear()
    size = (tmp_path / "served" / f"b{suffix}").stat().st_size
    served.breaks[f"b{suffix}"] = size * 2 // 3
    with pytest.raises(CorpusError, match=rf"cannot read '{urls[1]}' .*run the same again"):
        build_corpus(urls, wordpiece, tmp_path / "out", shard_tokens=1000)
    assert not (tmp_path / "out" / "corpus.json").exists()
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("train/*.bin")}
    assert len(kept) >= 3 * 4
    served.breaks.clear()
    build_corpus(urls, wordpiece, tmp_path / "out", shard_tokens=1000)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # not written again
    (tmp_path / "served" / f"b{suffix}").unlink()
    with pytest.raises(CorpusError, match=rf"cannot read '{urls[1]}' \(404"):
        build_corpus(urls, wordpiece, tmp_path / "other")


def test_a_file_that_shrinks_while_it_is_read_is_refused(bucket: str) -> None:
    urls = [put(f"{bucket}/{name}.txt", TEXT.encode()) for name in "ab"]
    documents = read_documents(bucket)
    assert next(documents) == DOCUMENTS[0]
    put(urls[1], TEXT.encode()[:20])
    with pytest.raises(CorpusError, match=r"b\.txt' \(it ends at byte 20 of 49\)"):
        list(documents)


def test_parquet_behind_a_server_without_ranges_is_refused(served: Served, tmp_path: Path) -> None:
    served.has_ranges = False
    (tmp_path / "served" / "a.parquet").write_bytes(parquet(DOCUMENTS))
    with pytest.raises(CorpusError, match=r"a\.parquet': no part of it can be asked for"):
        list(read_documents(f"{served.url}/a.parquet"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s4://bucket/a.txt", r"unknown protocol 's4': did you mean 's3'"),
        ("memory://no/such.txt", "no such file or folder: 'memory://no/such.txt'"),
        ("simplecache::http://u:secret@127.0.0.1:9/a.txt?sig=secret", r"^'simplecache::http://127\.0\.0\.1:9/a\.txt' "),
        ("http://user:secret@127.0.0.1:9/a.txt", r"cannot read 'http://127\.0\.0\.1:9/a\.txt' \((?!.*secret)"),
    ],
)
def test_a_url_that_is_none_is_refused(url: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        list(read_documents(url))


def test_a_protocol_names_the_package_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("s3fs", "aiohttp", "fsspec.implementations.http"):
        monkeypatch.setitem(sys.modules, module, None)
    loaded = sys.modules["fsspec.registry"].__dict__["_registry"]
    for protocol in ("s3", "http", "https"):
        monkeypatch.delitem(loaded, protocol, raising=False)
    with pytest.raises(CorpusError, match=r"'s3://bucket/a.txt': the protocol 's3' needs .*Install s3fs"):
        list(read_documents("s3://bucket/a.txt"))
    with pytest.raises(MissingExtraError, match=r"'aiohttp': run  pip install .*\[urls\]"):
        list(read_documents("https://example.org/a.txt"))


def test_a_hub_data_set_is_streamed_in_a_fixed_order(
    tmp_path: Path, texts: list[str], wordpiece: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        (folder / f"p{number}.parquet").write_bytes(parquet(texts[number * 60 : number * 60 + 60]))
    make_local(monkeypatch, "owner/name", folder)
    assert list(read_documents("owner/name")) == texts[:180]
    build_corpus(["owner/name"], wordpiece, tmp_path / "streamed", shard_tokens=2000, workers=2)
    build_corpus([str(folder)], wordpiece, tmp_path / "local", shard_tokens=2000)
    streamed, local = CorpusInfo.read(tmp_path / "streamed"), CorpusInfo.read(tmp_path / "local")
    assert streamed.fingerprint == local.fingerprint
    assert streamed.sources[0].num_bytes is None
    build_corpus(["owner/name"], wordpiece, tmp_path / "streamed", shard_tokens=2000)  # kept
    (folder / "p3.parquet").write_bytes(parquet(texts[180:]))
    with pytest.raises(CorpusError, match="holds the finished corpus"):  # of another revision
        build_corpus(["owner/name"], wordpiece, tmp_path / "streamed", shard_tokens=2000)


def test_a_hub_data_set_that_breaks_off_is_named(
    tmp_path: Path, texts: list[str], wordpiece: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(2):
        rows = (json.dumps({"text": text}) + "\n" for text in texts[number * 100 : number * 100 + 100])
        (folder / f"p{number}.jsonl").write_text("".join(rows))
    make_local(monkeypatch, "owner/name", folder)
    good = (folder / "p1.jsonl").read_text()
    build_corpus(["owner/name"], wordpiece, tmp_path / "whole", shard_tokens=1000)
    from datasets.packaged_modules.json.json import Json

    generate = Json._generate_tables

    def breaks(self: Any, *arguments: Any, **options: Any) -> Iterator[Any]:
        yield from list(generate(self, *arguments, **options))[:1]
        raise ConnectionResetError("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Json, "_generate_tables", breaks)
        with pytest.raises(CorpusError, match=r"data set 'owner/name': cannot be read beyond row 99 .*server is gone"):
            build_corpus(["owner/name"], wordpiece, tmp_path / "out", shard_tokens=1000)
    assert (tmp_path / "out" / "build.json").exists()
    assert good == (folder / "p1.jsonl").read_text()
    build_corpus(["owner/name"], wordpiece, tmp_path / "out", shard_tokens=1000)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
