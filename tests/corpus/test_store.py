from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus, CorpusInfo
from trueneg.errors import CorpusError
from trueneg.files import verified
from trueneg.files.digests import checksum, fingerprint_of


@pytest.fixture
def copy(corpus: Corpus, tmp_path: Path) -> Path:
    return Path(shutil.copytree(corpus.path, tmp_path / "copy"))


def test_tokens_run_on_across_shards(corpus: Corpus) -> None:
    assert len(corpus.shards) > 2
    everything = corpus.tokens(0, corpus.num_tokens)
    assert everything.dtype == np.uint16
    assert np.array_equal(everything, np.concatenate([corpus.document(i) for i in range(corpus.num_documents)]))
    edge = corpus.shards[0].num_tokens
    for start, stop in [(0, 0), (edge, edge), (edge - 1, edge), (edge - 3, edge + 3), (edge, corpus.num_tokens)]:
        assert np.array_equal(corpus.tokens(start, stop), everything[start:stop])
    assert corpus.tokens(corpus.num_tokens, corpus.num_tokens).size == 0


def test_gathered_tokens_are_those_asked_for(corpus: Corpus) -> None:
    places = np.random.default_rng(0).integers(0, corpus.num_tokens, 500)
    ids, starts = corpus.gather(places)
    assert np.array_equal(ids, corpus.tokens(0, corpus.num_tokens)[places])
    assert np.array_equal(starts, corpus.gather(np.arange(corpus.num_tokens))[1][places])


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 10**9)])
def test_tokens_that_are_not_there(corpus: Corpus, start: int, stop: int) -> None:
    with pytest.raises(IndexError):
        corpus.tokens(start, stop)


def test_another_tokenizer_is_refused(corpus: Corpus) -> None:
    right = corpus.info.tokenizer_fingerprint
    Corpus.open(corpus.path, expect=right).check_tokenizer(right)
    with pytest.raises(CorpusError, match=rf"tokenizer {right}, not 0123.*tokenizer'"):
        Corpus.open(corpus.path, expect="0123")


def test_a_missing_corpus_or_split_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no corpus at .*trueneg corpus build"):
        Corpus.open(tmp_path)
    with pytest.raises(CorpusError, match=r"no split 'valid', only train: .*--valid"):
        Corpus.open(corpus.path, "valid")


def test_a_missing_or_short_file_is_refused_by_name(copy: Path) -> None:
    file = copy / "train" / "00001.words.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorpusError, match=r"00001\.words\.bin' has [\d,]+ bytes, not"):
        Corpus.open(copy)
    file.unlink()
    with pytest.raises(CorpusError, match=r"00001\.words\.bin' is missing"):
        Corpus.open(copy)


@pytest.mark.parametrize("part", ["tokens", "offsets", "words"])
def test_a_changed_byte_is_found_by_verifying(copy: Path, part: str) -> None:
    file = copy / "train" / f"00001.{part}.bin"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorpusError, match=rf"00001\.{part}\.bin' is damaged"):
        Corpus.open(copy)
    with pytest.raises(CorpusError, match=rf"00001\.{part}\.bin' is damaged"):
        Corpus.open(copy, verify=False).verify()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 99}, "format version 99"),
        ({"vocab_size": 7}, "changed after it was written"),
        ({"fingerprint": "0" * 16}, "changed after it was written"),
        ({"splits": 3}, "damaged"),
        ({"surprise": 3}, "damaged"),
    ],
)
def test_a_changed_description_is_refused(copy: Path, change: dict[str, object], message: str) -> None:
    path = copy / "corpus.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CorpusError, match=message):
        Corpus.open(copy)


@pytest.mark.parametrize("text", ["", "[]", '{"format_version": 1}', "{"])
def test_a_torn_description_is_refused(copy: Path, text: str) -> None:
    (copy / "corpus.json").write_text(text)
    with pytest.raises(CorpusError, match="damaged"):
        CorpusInfo.read(copy)


def describe(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a corpus's description, and give it the checksums and the fingerprint that belong to it."""
    record = json.loads((folder / "corpus.json").read_text())
    for number, shard in enumerate(record["splits"]["train"]["shards"]):
        for part in shard["checksums"]:
            shard["checksums"][part] = checksum(folder / "train" / f"{number:05d}.{part}.bin")
    change(record)
    record["fingerprint"] = fingerprint_of(record | {"sources": None, "fingerprint": None})
    (folder / "corpus.json").write_text(json.dumps(record))


def first_shard(record: dict[str, Any]) -> dict[str, Any]:
    return record["splits"]["train"]["shards"][0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda r: r.update(dtype="O"), "dtype"),
        (lambda r: r.update(dtype="float64"), "dtype"),
        (lambda r: r.update(dtype=None), "dtype"),
        (lambda r: r["splits"].update({"../../out": r["splits"]["train"]}), "splits"),
        (lambda r: r["splits"].pop("train"), "train"),
        (lambda r: r["splits"]["train"].update(shards={}), "splits.train.shards"),
        (lambda r: r["splits"]["train"].update(num_documents="9"), "splits.train.num_documents"),
        (lambda r: first_shard(r).pop("num_tokens"), "num_tokens"),
        (lambda r: first_shard(r).update(num_tokens=-1), "tokens"),
        (lambda r: r["splits"]["train"].update(num_tokens=r["splits"]["train"]["num_tokens"] + 1), "num_tokens"),
        (lambda r: first_shard(r)["checksums"].pop("words"), "checksums"),
        (lambda r: first_shard(r)["checksums"].update({"../words": ""}), "checksums"),
        (lambda r: r.update(vocab_size=2), "vocabulary"),
        (lambda r: r.update(special_ids={}), "special token"),
        (lambda r: r.update(special_ids=[]), "special_ids"),
        (lambda r: r.update(sources=[{"name": 3, "num_bytes": None}]), "sources.0.name"),
    ],
)
def test_a_description_that_cannot_be_true_is_refused(
    copy: Path, change: Callable[[dict[str, Any]], object], named: str
) -> None:
    describe(copy, lambda record: None)
    Corpus.open(copy)
    describe(copy, change)
    with pytest.raises(CorpusError, match=rf"corpus\.json' is damaged.*{named}.*: build the corpus again"):
        Corpus.open(copy, verify=False)


def test_ids_beyond_the_vocabulary_are_refused(copy: Path) -> None:
    file = copy / "train" / "00001.tokens.bin"
    tokens = np.fromfile(file, dtype=np.uint16)
    tokens[7] = 60_000
    tokens.tofile(file)
    describe(copy, lambda record: None)
    with pytest.raises(CorpusError, match=r"00001\.tokens\.bin' is damaged \(the id 60000"):
        Corpus.open(copy)
    rows = RowIndex(Corpus.open(copy, verify=False), 20)
    with pytest.raises(CorpusError, match=r"the id 60000 .*trueneg corpus info .*--verify"):
        rows.read(np.arange(len(rows)))


@pytest.mark.parametrize(("place", "value"), [(0, 1), (1, 10**9), (2, -1), (1, 0), (-1, 5), (1, 2**63 - 1)])
def test_offsets_that_do_not_ascend_are_refused(copy: Path, place: int, value: int) -> None:
    file = copy / "train" / "00001.offsets.bin"
    offsets = np.fromfile(file, dtype=np.int64)
    offsets[place] = value
    offsets.tofile(file)
    describe(copy, lambda record: None)
    with pytest.raises(CorpusError, match=r"00001\.offsets\.bin' is damaged \(its numbers do not ascend"):
        Corpus.open(copy)
    with pytest.raises(CorpusError, match=r"00001\.offsets\.bin' is damaged \(its numbers do not ascend"):
        RowIndex(Corpus.open(copy, verify=False), 20)


def test_another_tokenizer_in_the_corpus_is_refused(copy: Path) -> None:
    Corpus.open(copy).load_tokenizer()
    file = copy / "tokenizer" / "tokenizer.json"
    file.write_text(file.read_text().replace('"##n"', '"##N"'))
    with pytest.raises(CorpusError, match=r"tokenizer' is not the tokenizer that .* was built with"):
        Corpus.open(copy).load_tokenizer()


def test_what_was_verified_is_not_read_again(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in copy.rglob("*.bin"):
        os.utime(file, (0, 0))
    read: list[str] = []

    def counting(path: Path) -> str:
        read.append(path.name)
        return checksum(path)

    monkeypatch.setattr(verified, "checksum", counting)
    num_files = 3 * len(Corpus.open(copy).shards)
    assert len(read) == num_files
    Corpus.open(copy)
    assert len(read) == num_files
    Corpus.open(copy, verify=False).verify()
    assert len(read) == 2 * num_files
    (copy / "train" / "00001.words.bin").touch()
    Corpus.open(copy)
    assert read[2 * num_files :] == ["00001.words.bin"]
