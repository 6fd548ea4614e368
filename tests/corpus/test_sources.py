from __future__ import annotations

import csv
import errno
import gzip
import io
import json
import lzma
import os
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from trueneg.corpus.sources import read_documents, text_bytes
from trueneg.errors import CorpusError, TruenegWarning

TEXT = "First paragraph.\nSecond one.  \n\n\n \t\nAnother document.\r\n\r\nThe last, café\n"
DOCUMENTS = ["First paragraph.\nSecond one.", "Another document.", "The last, café"]


def two_frames(data: bytes) -> bytes:
    half = len(data) // 2
    return b"".join(zstandard.ZstdCompressor().compress(part) for part in (data[:half], data[half:]))


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": two_frames,
}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_plain_text(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(COMPRESS[suffix](TEXT.encode()))
    assert list(read_documents(str(path))) == DOCUMENTS


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json"])
def test_json_lines(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"{name}{suffix}"
    lines = [json.dumps({"id": i, "body": text}) for i, text in enumerate([*DOCUMENTS, "", None])]
    path.write_bytes(COMPRESS[suffix]("\n\n".join(lines).encode()))
    assert list(read_documents(str(path), text_field="body")) == [*DOCUMENTS, "", ""]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    many = [f"{i}" for i in range(1000)]
    pq.write_table(pa.table({"text": [*DOCUMENTS, None, *many]}), path, row_group_size=70)
    assert list(read_documents(str(path))) == [*DOCUMENTS, "", *many]


def test_lines_of_any_source_are_documents_of_their_own(tmp_path: Path) -> None:
    text, lines = tmp_path / "a.txt", tmp_path / "a.jsonl"
    text.write_text(TEXT)
    wanted = ["First paragraph.", "Second one.", "Another document.", "The last, café"]
    assert list(read_documents(str(text), lines=True)) == wanted
    lines.write_text("".join(json.dumps({"text": document}) + "\n" for document in [*DOCUMENTS, "", "a\n \nb"]))
    assert list(read_documents(str(lines), lines=True)) == [*wanted, "a", "b"]


@pytest.mark.parametrize("lines", [False, True])
def test_halves_of_surrogate_pairs_are_replaced_and_counted_once(tmp_path: Path, lines: bool) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "the dog \\ud83d ran"}\n{"text": "caf\\u00e9 \\ud83d\\ude00"}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "\\uDE00\\uD83D"}\n')
    with pytest.warns(TruenegWarning, match=r"half a surrogate pair .* 3 times: each is read as U\+FFFD") as told:
        found = list(read_documents(str(tmp_path), lines=lines))
    assert found == ["the dog \ufffd ran", "caf\u00e9 \U0001f600", "\ufffd\ufffd"]
    assert len(told) == 1
    assert str(tmp_path) in str(told[0].message)


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfHello\n")
    assert list(read_documents(str(path))) == ["Hello"]


def test_folders_and_globs_are_read_in_sorted_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "c.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"text": "c.jsonl"}' if name.endswith("jsonl") else name, encoding="utf-8")
    assert list(read_documents(str(tmp_path))) == ["a/z.txt", "b.txt", "c.jsonl"]
    assert list(read_documents(str(tmp_path / "**" / "*.txt"))) == ["a/z.txt", "b.txt"]


def test_linked_folders_are_read_and_no_loop_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.txt").write_text("b")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a.txt").write_text("a")
    (tmp_path / "here" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "here")
    assert list(read_documents(str(tmp_path / "here"))) == ["a", "b"]


def test_folders_that_a_glob_matches_are_read(tmp_path: Path) -> None:
    for name in ("a.txt", "b/c/z.txt", "b/a.txt", "b/.hidden.txt", "b-c.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    wanted = ["a.txt", "b-c.txt", "b/a.txt", "b/c/z.txt"]
    assert list(read_documents(str(tmp_path / "*"))) == wanted
    assert list(read_documents(str(tmp_path / "**"))) == wanted  # each once
    assert list(read_documents(str(tmp_path / "b*"))) == wanted[1:]


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "sub").mkdir()
    (tmp_path / ".#a.txt").symlink_to("nobody@nowhere")  # of an editor
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "b.txt").symlink_to("nowhere")
    assert list(read_documents(str(tmp_path))) == ["a"]
    (tmp_path / "sub" / "b.txt").symlink_to(tmp_path / ".git" / "annex" / "objects" / "b.txt")
    for source in ("", "*", "sub", "**/*.txt"):
        refused(tmp_path / source, r"sub/b\.txt' cannot be read \(No such file or directory\): fetch .*'git annex get'")
    assert list(read_documents(str(tmp_path / "*.txt"))) == ["a"]


def test_a_folder_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.txt", "closed/b.txt", ".trash/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    closed = {str(tmp_path / ".trash")}

    def scan(path: Any, of_root: Callable[..., Any] = os.scandir) -> Any:
        if str(path).rstrip("/") in closed:  # whoever runs the tests may read everything
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return of_root(path)

    monkeypatch.setattr(os, "scandir", scan)
    assert list(read_documents(str(tmp_path))) == ["a.txt", "closed/b.txt"]
    closed.add(str(tmp_path / "closed"))
    for source in ("", "*", "closed", "**/*.txt", "*/*.txt", "**/b.txt", "clos*/**/b.txt"):
        refused(tmp_path / source, r"closed' cannot be read \(Permission denied\): let it be read, or give a glob")
    assert list(read_documents(str(tmp_path / "*.txt"))) == ["a.txt"]


def test_files_of_a_folder_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    (tmp_path / "notes.docx").write_bytes(b"x")
    (tmp_path / ".hidden").write_bytes(b"x")
    with pytest.warns(TruenegWarning, match=r"1 of 2 files .*notes\.docx"):
        assert list(read_documents(str(tmp_path))) == ["x"]


def refused(source: object, message: str, **options: Any) -> None:
    with pytest.raises(CorpusError, match=re.compile(message)) as caught:
        list(read_documents(str(source), **options))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n \n\t\n"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_an_empty_file_is_refused_by_name(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name, rf"'.*{re.escape(name)}' is empty")


@pytest.mark.parametrize("content", [b"", b"\n \n\t\n"])
def test_an_empty_file_in_a_folder_is_passed_over_and_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    (tmp_path / "b.txt").write_bytes(content)
    with pytest.warns(TruenegWarning, match=r"1 of 2 files hold no document .*b\.txt"):
        assert list(read_documents(str(tmp_path))) == ["x"]
    (tmp_path / "a.txt").write_bytes(content)
    refused(tmp_path, "all 2 files .* are empty")


def test_an_empty_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array([], type=pa.string())}), path)
    refused(path, "is empty")


def test_other_encodings_are_refused_at_their_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("first line\nsecond: caf\xe9 x\n".encode("latin1"))
    refused(path, r"a\.txt' is not UTF-8 at byte 22")


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf16_is_refused_with_the_command_that_converts_it(tmp_path: Path, name: str, encoding: str) -> None:
    (tmp_path / name).write_bytes("two plain words\n\nand more\n".encode(encoding))
    named = encoding.replace("-le", "le").replace("-be", "be")
    refused(tmp_path / name, rf"not UTF-8 at byte 0: .*iconv -f {named} -t utf-8")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param('{"text": "x", "n": ' + "1" * 5000 + "}", r"a\.jsonl:3: not JSON \(.*digits", id="digits"),
        pytest.param("[" * 100_000, r"a\.jsonl:3: not JSON", id="deep"),
        ('{"text": "x"', r"a\.jsonl:3: not JSON"),
        ('["x"]', r"a\.jsonl:3: a JSON list"),
        ('{"text": 5}', r"a\.jsonl:3: 'text' holds a int"),
        ('{"b": "x", "a": 1}', r"a\.jsonl:3: no field 'text': there are a, b; .*--text-field"),
    ],
)
def test_a_bad_json_line_is_refused_at_its_number(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\n\n' + line + "\n", encoding="utf-8")
    refused(path, message)


def test_a_missing_column_is_refused_with_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"title": ["x"], "body": ["y"]}), path)
    refused(path, r"no column 'text': there are body, title")


def test_a_column_of_numbers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [1, 2]}), path)
    refused(path, r"row 1: 'text' holds a int")


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_compressed_file_cut_short_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(COMPRESS[suffix](TEXT.encode() * 50)[:-7])
    refused(path, "damaged or cut short")


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_compressed_file_that_is_none_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(TEXT.encode())
    refused(path, "damaged or cut short")


@pytest.mark.parametrize("window", [28, 31])
def test_zstandard_of_long_windows_is_read(tmp_path: Path, window: int) -> None:
    """A frame as ``zstd --long`` writes it, by hand, since compressing with such a window takes gigabytes."""
    text = b"One text."
    block = (len(text) << 3 | 1).to_bytes(3, "little") + text  # the last one, not compressed
    (tmp_path / "a.txt.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes([0, window - 10 << 3]) + block)
    assert list(read_documents(str(tmp_path / "a.txt.zst"))) == ["One text."]


def test_a_parquet_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"not a parquet file")
    refused(path, "cannot be read as Parquet")


def test_an_unknown_extension_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(b"x")
    refused(path, r"a\.docx.*known are \.txt")
    refused(tmp_path, "no text file")


@pytest.mark.parametrize("source", ["no/such/file.txt", "./nothing", "/no/where", "missing.jsonl.gz", "two words"])
def test_a_path_that_is_not_there_is_refused(source: str) -> None:
    refused(source, "no such file or folder")


def test_a_glob_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "*.txt", "no text file")


@pytest.mark.usefixtures("offline")
def test_a_hub_data_set_without_a_connection_is_refused() -> None:
    refused("nobody/nothing-at-all", "no such file or folder: 'nobody/nothing-at-all', nor .* from the hub")


def test_the_size_of_plain_text_is_known_beforehand(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT.encode())
    assert text_bytes([str(path), str(tmp_path)]) == 2 * len(TEXT.encode())
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"x"))
    assert text_bytes([str(tmp_path)]) is None
    assert text_bytes(["owner/name"]) is None


def test_a_text_without_blank_lines_is_cut_at_line_ends_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trueneg.corpus.formats._LONGEST_DOCUMENT", 20)
    path = tmp_path / "a.txt"
    path.write_text("".join(f"sentence {number}\n" for number in range(5)) + "\nend\n")
    with pytest.warns(TruenegWarning, match=r"a\.txt.*cut 2 times.*blank line"):
        documents = list(read_documents(str(path)))
    assert documents == ["sentence 0\nsentence 1", "sentence 2\nsentence 3", "sentence 4", "end"]


def test_tables(tmp_path: Path) -> None:
    rows = [["id", "body"], ["1", 'one, "two"\nand three'], ["2", ""], ["3", "café"]]
    for delimiter, name in ((",", "a.csv"), (";", "b.csv.gz"), ("\t", "c.csv")):
        file = io.StringIO(newline="")
        csv.writer(file, delimiter=delimiter).writerows(rows)
        content = file.getvalue().encode("utf-8-sig")
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        assert list(read_documents(str(tmp_path / name), text_field="body")) == ['one, "two"\nand three', "", "café"]
    (tmp_path / "d.tsv").write_text('id\ttext\n1\t"quoted" text\n\n2\tb\n')
    assert list(read_documents(str(tmp_path / "d.tsv"))) == ['"quoted" text', "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id;body\n1;x\n", r"a\.csv:1: no column 'text': there are body, id; .*--text-field"),
        ("id,text\n1,x\n2,y,z\n", r"a\.csv:3: expected 2 columns, got 3, separated by ','"),
        ('id,text\n1,x\n2,"y\n3,z\n', r"a\.csv:3: .*quotes of the row that begins here"),
    ],
)
def test_a_bad_row_of_a_table_is_refused_at_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    refused(tmp_path / "a.csv", message)


def bomb(suffix: str, num_mib: int) -> bytes:
    """So many MiB of one letter, compressed without ever being there."""
    chunks = [b"a" * (1 << 20)] * num_mib
    if suffix == ".gz":
        file = io.BytesIO()
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1) as zipped:
            zipped.writelines(chunks)
        return file.getvalue()
    made = lzma.LZMACompressor(preset=0) if suffix == ".xz" else zstandard.ZstdCompressor().compressobj()
    return b"".join([*map(made.compress, chunks), made.flush()])


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv"])
def test_a_decompression_bomb_is_refused_in_bounded_memory(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"{name}{suffix}"
    head = b"text\n" if name == "a.csv" else b""
    path.write_bytes(COMPRESS[suffix](head) + bomb(suffix, 100))
    tracemalloc.start()
    refused(path, rf"{re.escape(path.name)}:\d: .* 1 MiB: .*--max-document-mib", max_document_mib=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20


def test_many_short_lines_of_a_bomb_are_read_in_bounded_memory(tmp_path: Path) -> None:
    (tmp_path / "a.txt.zst").write_bytes(zstandard.ZstdCompressor().compress(b"a b\n\n" * (20 << 20)))
    documents = read_documents(str(tmp_path / "a.txt.zst"))
    tracemalloc.start()
    assert next(documents) == "a b"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20


def test_a_document_may_be_as_long_as_it_is_allowed_to_be(tmp_path: Path) -> None:
    text = "a" * (3 << 20)
    (tmp_path / "a.txt").write_text(text)
    refused(tmp_path / "a.txt", r"a\.txt:1: .*more than 2 MiB", max_document_mib=2)
    assert list(read_documents(str(tmp_path / "a.txt"), max_document_mib=4)) == [text]
    (tmp_path / "a.csv").write_text("text\n" + '"a\n",' * (1 << 20))
    refused(tmp_path / "a.csv", r"a\.csv:2: .*characters", max_document_mib=1)


def test_long_texts_of_parquet_are_refused_and_equal_ones_take_no_room(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x", "a" * (3 << 20)]}), path)
    refused(path, "row group 1.* 1 MiB", max_document_mib=1)
    refused(path, "row 2: .* 2 MiB", max_document_mib=2)
    text = "a" * (1 << 20)
    pq.write_table(pa.table({"text": pa.array([text] * 256).dictionary_encode()}), path)
    before = pa.total_allocated_bytes()
    assert next(read_documents(str(path))) == text
    assert pa.total_allocated_bytes() - before < 64 << 20


def test_parquet_that_is_not_utf8_is_refused_at_its_row(tmp_path: Path) -> None:
    offsets, content = pa.py_buffer(np.array([0, 4, 8], "<i4")), pa.py_buffer(b"goodbad\xff")
    texts = pa.StringArray.from_buffers(2, offsets, content)
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", r"a\.parquet', row 2: 'text' is not UTF-8 at byte 3")


def test_names_of_parquet_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"text", b"te\xff\xfe"))
    refused(path, r"a\.parquet' cannot be read as Parquet")


def test_text_of_one_line_a_text_asks_for_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a b c\n" * 2000)
    with pytest.warns(TruenegWarning, match="no blank line among 2,000, .*--lines"):
        assert len(list(read_documents(str(path)))) == 1
    assert len(list(read_documents(str(path), lines=True))) == 2000
    path.write_text("a b c\n" * 1000 + "\n" + "a b c\n" * 1000)
    assert len(list(read_documents(str(path)))) == 2
