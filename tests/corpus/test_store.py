from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trueneg.corpus.store import Corpus, CorpusInfo
from trueneg.errors import CorpusError


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
        Corpus.open(copy).verify()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 99}, "format version 99"),
        ({"vocab_size": 7}, "changed after it was written"),
        ({"fingerprint": "0" * 16}, "changed after it was written"),
        ({"splits": 3}, "torn"),
        ({"surprise": 3}, "torn"),
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
    with pytest.raises(CorpusError, match="torn"):
        CorpusInfo.read(copy)


def test_reading_a_corpus_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, trueneg.corpus as c; c.Corpus, c.RowIndex, c.rows_at, c.build_corpus, c.read_documents, "
        "c.train_tokenizer; print({'torch', 'transformers', 'datasets'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_an_unknown_name_of_the_package() -> None:
    import trueneg.corpus

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = trueneg.corpus.nothing
    assert all(getattr(trueneg.corpus, name) for name in trueneg.corpus.__all__)
