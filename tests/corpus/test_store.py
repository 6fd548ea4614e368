from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from folders import KINDS

from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.errors import CorpusError
from trueneg.files import verified
from trueneg.files.digests import checksum


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


def test_ids_beyond_the_vocabulary_are_refused(copy: Path) -> None:
    file = copy / "train" / "00001.tokens.bin"
    tokens = np.fromfile(file, dtype=np.uint16)
    tokens[7] = 60_000
    tokens.tofile(file)
    KINDS["corpus"].describe(copy)
    rows = RowIndex(Corpus.open(copy, verify=False), 20)
    with pytest.raises(CorpusError, match=r"the id 60000 .*trueneg corpus info .*--verify"):
        rows.read(np.arange(len(rows)))


@pytest.mark.parametrize(("place", "value"), [(0, 1), (1, 10**9), (2, -1), (1, 0), (-1, 5), (1, 2**63 - 1)])
def test_offsets_that_do_not_ascend_are_refused(copy: Path, place: int, value: int) -> None:
    file = copy / "train" / "00001.offsets.bin"
    offsets = np.fromfile(file, dtype=np.int64)
    offsets[place] = value
    offsets.tofile(file)
    KINDS["corpus"].describe(copy)
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
