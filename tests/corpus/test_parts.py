"""A corpus that several processes build file by file is the one that a single process builds."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from folders import contents
from servers import make_local

from trueneg.corpus import build, parts
from trueneg.corpus.build import build_corpus
from trueneg.corpus.parts import build_part, finish_corpus
from trueneg.corpus.store import Corpus, CorpusInfo
from trueneg.errors import BusyError, CorpusError, TruenegWarning
from trueneg.files.lock import locked

SHARD_TOKENS = 1500


@pytest.fixture
def texts_folder(tmp_path: Path, texts: list[str]) -> Path:
    """Seven files of three formats, one of them without a document."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(6):
        those = texts[number * 30 : number * 30 + 30]
        if number % 3 == 0:
            rows = "".join(json.dumps({"text": text}) + "\n" for text in ["", *those])
            (folder / f"{number}.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
        else:
            (folder / f"{number}.txt").write_text("\n\n".join(those), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_UNIT_CHARACTERS", 1500)


OPTIONS: list[dict[str, Any]] = [{}, {"valid": 0.2, "seed": 3}, {"tagger": "pattern"}, {"lines": True, "valid": "FILE"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("count", [1, 3])
def test_a_corpus_of_parts_is_that_of_one_build(
    tmp_path: Path, texts_folder: Path, texts: list[str], wordpiece: Path, options: dict[str, Any], count: int
) -> None:
    if options.get("valid") == "FILE":
        (tmp_path / "held-out.txt").write_text("\n\n".join(texts[180:]), encoding="utf-8")
        options = {**options, "valid": str(tmp_path / "held-out.txt")}
    options = {"shard_tokens": SHARD_TOKENS, **options}
    build_corpus([str(texts_folder)], wordpiece, tmp_path / "whole", **options)
    made = [
        build_part([str(texts_folder)], wordpiece, tmp_path / "out", f"{part}/{count}", **options)
        for part in reversed(range(1, count + 1))
    ]
    assert sum(made) == 6 + ("seed" not in options and "valid" in options)
    info = finish_corpus(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert len(info.splits["train"].shards) > 3
    # What is finished is kept, by parts and by a whole build alike.
    assert build_part([str(texts_folder)], wordpiece, tmp_path / "out", "1/2", **options) == 0
    assert (
        finish_corpus(tmp_path / "out")
        == info
        == build_corpus([str(texts_folder)], wordpiece, tmp_path / "out", **options)
    )


def test_a_killed_part_goes_on_with_the_files_that_are_left_in_any_number_of_parts(
    tmp_path: Path, texts_folder: Path, wordpiece: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"shard_tokens": SHARD_TOKENS, "tagger": "pattern"}
    build_corpus([str(texts_folder)], wordpiece, tmp_path / "whole", **options)
    read, out = parts.read_text, tmp_path / "out"

    def breaks(source: str, piece: Path, **given: Any) -> Iterator[str]:
        for number, text in enumerate(read(source, piece, **given)):
            if piece.name == "4.txt" and number == 20:
                raise OSError("the disk is gone")
            yield text

    with monkeypatch.context() as patch:
        patch.setattr(parts, "read_text", breaks)
        with pytest.raises(CorpusError, match=r"the disk is gone.*run the same part again"):
            build_part([str(texts_folder)], wordpiece, out, "1/2", **options)
    assert sorted(path.name for path in (out / "parts").glob("*.piece")) == ["00000000.piece", "00000002.piece"]
    with pytest.raises(CorpusError, match=r"4 of 6 pieces are missing .*'.*1\.txt'"):
        finish_corpus(out)
    with pytest.raises(CorpusError, match="is in parts: run 'trueneg corpus finish"):
        CorpusInfo.read(out)
    assert [build_part([str(texts_folder)], wordpiece, out, f"{part}/4", **options) for part in (1, 2, 3, 4)] == [
        1,
        2,
        0,
        1,
    ]
    finish_corpus(out)
    assert contents(out) == contents(tmp_path / "whole")


@pytest.mark.parametrize("fails_at", [1, 4])
def test_a_killed_finish_goes_on_from_its_shards(
    tmp_path: Path, texts_folder: Path, wordpiece: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    options: dict[str, Any] = {"shard_tokens": SHARD_TOKENS, "tagger": "pattern", "valid": 0.2}
    build_corpus([str(texts_folder)], wordpiece, tmp_path / "whole", **options)
    out = tmp_path / "out"
    build_part([str(texts_folder)], wordpiece, out, "1/1", **options)
    read, calls = parts.read_piece, iter(range(100))

    def breaks(path: Path) -> Iterator[Any]:
        if next(calls) == fails_at:
            raise OSError("the disk is full")
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(parts, "read_piece", breaks)
        with pytest.raises(CorpusError, match="the disk is full"):
            finish_corpus(out)
    kept = {path: path.stat().st_mtime_ns for path in out.glob("*/*.tokens.bin")}
    assert len(kept) >= fails_at - 1
    finish_corpus(out)
    assert contents(out) == contents(tmp_path / "whole")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_parts_of_different_configurations_are_refused(
    tmp_path: Path, texts_folder: Path, wordpiece: Path, bpe: Path
) -> None:
    sources, out = [str(texts_folder)], tmp_path / "out"
    build_part(sources, wordpiece, out, "1/2", valid=0.1)
    with pytest.raises(CorpusError, match=r"holds parts made otherwise .*inputs\.seed: 0 -> 1"):
        build_part(sources, wordpiece, out, "2/2", valid=0.1, seed=1)
    with pytest.raises(CorpusError, match=r"holds parts made otherwise .*inputs\.tokenizer"):
        build_part(sources, bpe, out, "2/2", valid=0.1)
    with pytest.raises(CorpusError, match=r"holds parts of a corpus: put them together with 'trueneg corpus finish"):
        build_corpus(sources, wordpiece, out, valid=0.1)
    other = tmp_path / "other"
    build_part(sources, wordpiece, other, "2/2", valid=0.1, seed=1)
    for path in (other / "parts").glob("*1.*"):
        shutil.copy(path, out / "parts" / path.name)
    build_part(sources, wordpiece, out, "2/2", valid=0.1)
    with pytest.raises(CorpusError, match=r"00000001\.piece' .*was made from something else"):
        finish_corpus(out)


def test_changed_text_is_noticed(tmp_path: Path, texts_folder: Path, wordpiece: Path) -> None:
    build_part([str(texts_folder)], wordpiece, tmp_path / "out", "1/2")
    (texts_folder / "5.txt").write_text("Something else.")
    with pytest.raises(CorpusError, match=r"holds parts made otherwise .*5\.txt"):
        build_part([str(texts_folder)], wordpiece, tmp_path / "out", "2/2")


def test_a_damaged_piece_is_refused(tmp_path: Path, texts_folder: Path, wordpiece: Path) -> None:
    out = tmp_path / "out"
    build_part([str(texts_folder)], wordpiece, out, "1/1")
    piece = out / "parts" / "00000002.piece"
    data = bytearray(piece.read_bytes())
    data[-9] ^= 1
    piece.write_bytes(data)
    with pytest.raises(CorpusError, match=r"00000002\.piece' is missing or damaged: remove"):
        finish_corpus(out)


def test_two_processes_at_one_file(tmp_path: Path, texts_folder: Path, wordpiece: Path) -> None:
    out = tmp_path / "out"
    build_part([str(texts_folder)], wordpiece, out, "6/6")
    with (
        locked(out / "parts", "another executor", name=".lock-00000000"),
        pytest.raises(BusyError, match="another executor"),
    ):
        build_part([str(texts_folder)], wordpiece, out, "1/6")


def _run(arguments: tuple[Any, ...]) -> int:
    sources, tokenizer, out, part = arguments
    return build_part(sources, tokenizer, out, part, shard_tokens=SHARD_TOKENS)


def test_all_parts_at_once(tmp_path: Path, texts_folder: Path, wordpiece: Path) -> None:
    """Also the first moments, where each may be the one that writes the plan."""
    build_corpus([str(texts_folder)], wordpiece, tmp_path / "whole", shard_tokens=SHARD_TOKENS)
    calls = [([str(texts_folder)], wordpiece, tmp_path / "out", f"{part}/3") for part in (1, 2, 3)]
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map(_run, calls, chunksize=1) == [2, 2, 2]
    finish_corpus(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_what_is_odd_in_the_text_is_told_at_the_end(
    tmp_path: Path, texts_folder: Path, texts: list[str], wordpiece: Path
) -> None:
    (texts_folder / "empty.txt").write_text("\n\n")
    held_out = tmp_path / "held-out.txt"
    held_out.write_text("\n\n".join(texts[:10] + texts[190:]), encoding="utf-8")
    out = tmp_path / "out"
    for part in (1, 2):
        build_part([str(texts_folder)], wordpiece, out, f"{part}/2", valid=str(held_out))
    with pytest.warns(TruenegWarning) as said:
        finish_corpus(out)
    assert [str(warning.message).split(":")[0] for warning in said] == [
        f"1 of 8 files hold no document and are passed over, such as '{texts_folder / 'empty.txt'}'",
        "10 of 20 different held-out documents are also among those to train on",
    ]


def test_the_files_of_a_hub_data_set_are_its_parts(
    tmp_path: Path, texts: list[str], wordpiece: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(4):
        rows = (json.dumps({"text": text}) + "\n" for text in texts[number * 50 : number * 50 + 50])
        (data / f"p{number}.jsonl").write_text("".join(rows), encoding="utf-8")
    make_local(monkeypatch, "owner/name", data)
    build_corpus(["owner/name"], wordpiece, tmp_path / "whole", shard_tokens=SHARD_TOKENS)
    made = [
        build_part(["owner/name"], wordpiece, tmp_path / "out", f"{n}/3", shard_tokens=SHARD_TOKENS) for n in (1, 2, 3)
    ]
    assert made == [2, 1, 1]
    finish_corpus(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert Corpus.open(tmp_path / "out").num_documents == 200


def test_files_of_no_known_format_are_told(tmp_path: Path, texts_folder: Path, wordpiece: Path) -> None:
    (texts_folder / "notes.pdf").write_bytes(b"x")
    with pytest.warns(TruenegWarning, match=r"1 of 7 files are of no known format .*notes\.pdf"):
        build_part([str(texts_folder)], wordpiece, tmp_path / "out", "1/6")


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "a/b", "-1/2", "1/0"])
def test_a_part_that_is_none(tmp_path: Path, texts_folder: Path, wordpiece: Path, part: str) -> None:
    with pytest.raises(CorpusError, match=f"--part {part}: name one of several"):
        build_part([str(texts_folder)], wordpiece, tmp_path / "out", part)


def test_a_folder_without_parts(tmp_path: Path, texts_folder: Path, wordpiece: Path) -> None:
    with pytest.raises(CorpusError, match="holds no parts: make them with"):
        finish_corpus(tmp_path / "out")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").write_text("mine")
    with pytest.raises(CorpusError, match="holds something else"):
        build_part([str(texts_folder)], wordpiece, tmp_path / "other", "1/1")
