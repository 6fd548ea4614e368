"""Counts of words and their neighbours, against a Counter over the texts themselves."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trueneg.corpus import bigrams
from trueneg.corpus.bigrams import BOUNDARY, Bigrams, count_bigrams
from trueneg.corpus.build import build_corpus
from trueneg.corpus.store import Corpus
from trueneg.errors import CorpusError
from trueneg.terminal.progress import no_progress

TEXT = """The big cat's sat, and the big dog sat!

A big cat sat.

The big cat's well-known."""


@pytest.fixture(scope="module", params=[("wordpiece", 48), ("bpe", 265)])
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    from trueneg.corpus.tokenizer_training import train_tokenizer

    folder = tmp_path_factory.mktemp("bigrams")
    text = folder / "text.txt"
    text.write_text(TEXT)
    kind, size = request.param
    train_tokenizer([str(text)], folder / "tok", vocab_size=size, kind=kind, lowercase=False)
    build_corpus([str(text)], folder / "tok", folder / "corpus")
    return Corpus.open(folder / "corpus")


def counted() -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """By hand: marks are set apart with spaces."""
    documents = [
        "the big cat ' s sat , and the big dog sat !",
        "a big cat sat .",
        "the big cat ' s well - known .",
    ]
    words, pairs = Counter[str](), Counter[tuple[str, str]]()
    for document in documents:
        words.update(document.split())
        pairs.update(pairwise([BOUNDARY, *document.split(), BOUNDARY]))
    return words, pairs


def test_words_and_pairs_are_counted(small: Corpus) -> None:
    words, pairs = counted()
    found = count_bigrams(small, min_count=1)
    assert set(found.words) == {*words, BOUNDARY}
    assert found.of_words([*words, BOUNDARY, "zebra"]).tolist() == [*words.values(), 3, 0]
    first, second = zip(*pairs, strict=True)
    assert found.of_pairs(first, second).tolist() == list(pairs.values())
    assert found.of_pairs(["cat", "zebra", "the", BOUNDARY], ["big", "cat", "zebra", BOUNDARY]).tolist() == [0, 0, 0, 0]
    assert len(found.pairs) == len(pairs)


def test_rare_pairs_are_left_out(small: Corpus) -> None:
    frequent = {pair: count for pair, count in counted()[1].items() if count >= 2}
    found = count_bigrams(small)
    assert len(found.pairs) == len(frequent)
    assert found.of_pairs(*zip(*frequent, strict=True)).tolist() == list(frequent.values())
    assert found.of_pairs(["dog"], ["sat"]).tolist() == [0]
    with pytest.raises(CorpusError, match="no pair of words occurs 9 times"):
        count_bigrams(small, min_count=9)


def test_counts_do_not_depend_on_how_much_is_read_at_once(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = count_bigrams(corpus)
    monkeypatch.setattr(bigrams, "_DOCUMENTS", 3)
    monkeypatch.setattr(bigrams, "_PAIRS", 50)
    told: list[tuple[int, int | None]] = []
    parts = count_bigrams(corpus, progress=lambda done, total: told.append((done, total)))
    assert parts.digest == whole.digest
    assert told[-1] == (corpus.num_documents, corpus.num_documents) and len(told) > 10


def test_long_documents_are_read_few_at_once(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = count_bigrams(corpus)
    tokenizer, sizes = corpus.load_tokenizer(), list[int]()
    decode = tokenizer.batch_decode

    def spy(ids: list[list[int]], **options: Any) -> list[str]:
        sizes.append(sum(map(len, ids)))
        return decode(ids, **options)

    longest = int(np.diff(corpus.offsets).max())
    limit = longest - 1  # which one document exceeds
    monkeypatch.setattr(bigrams, "_TOKENS", limit)
    monkeypatch.setattr(bigrams, "_PAIRS", 2)
    monkeypatch.setattr(tokenizer, "batch_decode", spy)
    monkeypatch.setattr(Corpus, "load_tokenizer", lambda _: tokenizer)
    counted = [len(numbers) - 2 for numbers in bigrams._chunks(corpus, {BOUNDARY: 0}, no_progress)]
    assert max(sizes) == longest and sum(sizes) == corpus.num_tokens
    assert sum(size > limit // 2 for size in sizes) > len(sizes) // 2  # blocks are full
    assert len(counted) == corpus.num_documents  # each more pairs than are counted at once
    assert count_bigrams(corpus).digest == whole.digest


def test_counts_are_read_as_they_were_written(corpus: Corpus, tmp_path: Path) -> None:
    found = count_bigrams(corpus)
    found.save(tmp_path / "b.safetensors")
    again = Bigrams.load(tmp_path / "b.safetensors")
    assert (again.words, again.digest) == (found.words, found.digest)
    assert again.provenance == {"corpus": corpus.info.fingerprint, "min_count": "2", "bigrams": "b.safetensors"}


@pytest.mark.parametrize(
    ("pairs", "fault"),
    [([], "0,"), ([3, 1], "ascend"), ([1, 1 << 40], "unknown words"), ([-1, 1], "ascend")],
)
def test_damaged_counts_are_refused(pairs: list[int], fault: str, tmp_path: Path) -> None:
    def made(pairs: list[int]) -> Bigrams:
        counts = np.array(pairs, np.int64)
        return Bigrams(("a", "b"), np.array([1, 1]), counts, counts)

    with pytest.raises(CorpusError, match=fault):
        made(pairs)
    good = made([1, 2])
    good.save(tmp_path / "b.safetensors")
    raw = (tmp_path / "b.safetensors").read_bytes()
    (tmp_path / "b.safetensors").write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(CorpusError, match=r"b\.safetensors.*make it with 'trueneg detect bigrams'"):
        Bigrams.load(tmp_path / "b.safetensors")
