from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from trueneg.corpus import rows as rows_module
from trueneg.corpus.build import build_corpus
from trueneg.corpus.permutation import rows_at
from trueneg.corpus.rows import RowBatch, RowIndex, describe
from trueneg.corpus.store import Corpus
from trueneg.errors import CorpusError

LENGTHS = [3, 4, 10, 11, 33, 128]


def whole(rows: RowIndex) -> RowBatch:
    return rows.read(np.arange(len(rows)))


def pieces(batch: RowBatch) -> Iterator[tuple[int, int, np.ndarray]]:
    """Row, segment and columns of every piece."""
    for row, segments in enumerate(batch.segments):
        for segment in range(1, segments.max() + 1):
            yield row, segment, np.flatnonzero(segments == segment)


def reference_layout(sizes: list[int], length: int, least: int, pack: bool) -> list[list[tuple[int, int, int]]]:
    """Rows as lists of (document, first token, size), the slow way: token by token would say the same."""
    rows: list[list[tuple[int, int, int]]] = []
    room = 0
    for document, size in enumerate(sizes):
        begun = 0
        if not pack:
            room = 0
        while begun < size:
            if room < 1 or (begun == 0 and room < min(size, least)):
                rows.append([])
                room = length - 2
            taken = min(room, size - begun)
            rows[-1].append((document, begun, taken))
            begun += taken
            room -= taken + 2
    return rows


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_are_those_of_a_plain_loop(corpus: Corpus, length: int, pack: bool) -> None:
    rows = RowIndex(corpus, length, pack=pack)
    expected = reference_layout(np.diff(corpus.offsets).tolist(), length, 8, pack)
    batch = whole(rows)
    special = corpus.info.special_ids
    assert len(rows) == len(expected)
    for row, parts in enumerate(expected):
        ids: list[int] = []
        for document, begun, size in parts:
            ids += [special["start"], *corpus.document(document)[begun : begun + size].tolist(), special["end"]]
        assert batch.input_ids[row].tolist() == ids + [special["pad"]] * (length - len(ids))
        assert (batch.segments[row] > 0).sum() == len(ids)
        assert batch.segments[row].max() == len(parts)
    assert rows.mean_fill == pytest.approx((batch.segments > 0).mean())
    assert rows.is_full == (not pack and bool((batch.segments > 0).all())) == (not pack and length == 3)


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_the_most_pieces_of_a_batch_are_those_of_its_rows(corpus: Corpus, length: int, pack: bool) -> None:
    rows = RowIndex(corpus, length, pack=pack)
    num_pieces = whole(rows).segments.max(axis=1)
    for size in (1, 8, 512):
        usual, most = rows.max_pieces(size)
        assert most == size * (num_pieces.max() + 1)
        expected = np.ceil(size * (num_pieces.mean() + 1) + 8 * num_pieces.std() * np.sqrt(size))
        assert usual == min(most, expected) >= size


@pytest.mark.parametrize("block", [1, 7, 200])
def test_the_blocks_that_documents_are_packed_by_change_nothing(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    at_once = [whole(RowIndex(corpus, length, pack=True)) for length in LENGTHS]
    monkeypatch.setattr(rows_module, "_BLOCK", block)
    for expected, length in zip(at_once, LENGTHS, strict=True):
        found = whole(RowIndex(corpus, length, pack=True))
        assert np.array_equal(found.input_ids, expected.input_ids)
        assert np.array_equal(found.segments, expected.segments)


@pytest.mark.parametrize("pack", [False, True])
def test_a_document_takes_little_memory(pack: bool) -> None:
    num_documents = 100_000
    sizes = np.random.default_rng(0).geometric(1 / 300, num_documents)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    corpus = cast(Corpus, SimpleNamespace(offsets=offsets, num_tokens=int(offsets[-1])))
    tracemalloc.start()
    rows = RowIndex(corpus, 128, pack=pack)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(rows) > num_documents
    assert kept < 36 * num_documents
    assert most < 80 * num_documents


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_every_token_is_in_one_row_and_in_order(corpus: Corpus, length: int, pack: bool) -> None:
    batch = whole(RowIndex(corpus, length, pack=pack))
    assert np.array_equal(batch.input_ids[~batch.is_special], corpus.tokens(0, corpus.num_tokens))
    places = np.arange(corpus.num_tokens)
    starts = corpus.gather(places)[1]
    assert np.array_equal(batch.is_word_start[~batch.is_special], starts)
    goes_on = np.append(~starts[1:], False)
    goes_on[corpus.offsets[1:] - 1] = False
    assert np.array_equal(batch.is_whole_word[~batch.is_special], starts & ~goes_on)
    assert not (batch.is_special & (batch.is_word_start | batch.is_whole_word)).any()


@pytest.mark.parametrize("pack", [False, True])
def test_every_piece_is_framed(corpus: Corpus, pack: bool) -> None:
    batch = whole(RowIndex(corpus, 40, pack=pack))
    special = corpus.info.special_ids
    num_pieces = 0
    for row, _, columns in pieces(batch):
        num_pieces += 1
        assert np.array_equal(columns, np.arange(columns[0], columns[-1] + 1))
        assert len(columns) >= 3
        framed = batch.input_ids[row, columns[[0, -1]]]
        assert framed.tolist() == [special["start"], special["end"]]
        assert batch.is_special[row, columns].tolist() == [True, *[False] * (len(columns) - 2), True]
    assert batch.is_special.sum() == 2 * num_pieces + (batch.segments == 0).sum()
    assert (batch.input_ids[batch.segments == 0] == special["pad"]).all()
    assert pack or batch.segments.max() == 1


def test_packing_fills_rows(corpus: Corpus) -> None:
    single, packed = RowIndex(corpus, 100), RowIndex(corpus, 100, pack=True)
    assert len(packed) < len(single)
    assert packed.mean_fill > 0.97 > single.mean_fill
    assert whole(packed).segments.max() > 2


def test_short_documents_are_what_the_tokenizer_makes_of_them(
    corpus: Corpus, texts: list[str], wordpiece: Path
) -> None:
    rows = RowIndex(corpus, 800)
    assert len(rows) == len(texts)
    expected = AutoTokenizer.from_pretrained(str(wordpiece))(texts, padding="max_length", max_length=800)
    batch = whole(rows)
    assert batch.input_ids.tolist() == expected["input_ids"]
    assert (batch.segments > 0).astype(int).tolist() == expected["attention_mask"]


def test_a_cut_word_is_neither_begun_nor_whole(corpus: Corpus) -> None:
    starts = corpus.gather(np.arange(corpus.num_tokens))[1]
    document = next(i for i in range(corpus.num_documents) if not starts[corpus.offsets[i] + 1])
    assert starts[corpus.offsets[document]]  # its first word has several pieces, and a row of one token cuts it
    rows = RowIndex(corpus, 3)
    first = int(corpus.offsets[document])
    batch = rows.read(np.array([first, first + 1]))
    assert batch.is_word_start[:, 1].tolist() == [True, False]
    assert batch.is_whole_word[:, 1].tolist() == [False, False]


@given(data=st.data())
@settings(deadline=None, max_examples=30)
def test_a_row_does_not_depend_on_its_company(corpus: Corpus, data: st.DataObject) -> None:
    rows = RowIndex(corpus, data.draw(st.sampled_from(LENGTHS)), pack=data.draw(st.booleans()))
    indices = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)), dtype=np.int64)
    everything, some = whole(rows), rows.read(indices)
    for name in ("input_ids", "segments", "is_word_start", "is_whole_word", "is_special"):
        found = getattr(some, name)
        assert np.array_equal(found, getattr(everything, name)[indices])
        assert found.dtype == getattr(everything, name).dtype
    assert some.input_ids.dtype == np.int64
    assert some.segments.dtype == np.int32


def test_an_epoch_holds_every_token_once(corpus: Corpus) -> None:
    rows = RowIndex(corpus, 50, pack=True)
    for epoch in range(2):
        order = rows_at(3, np.arange(len(rows)) + epoch * len(rows), len(rows))
        batch = rows.read(order)
        counts = np.bincount(batch.input_ids[~batch.is_special], minlength=corpus.info.vocab_size)
        assert np.array_equal(
            counts, np.bincount(corpus.tokens(0, corpus.num_tokens), minlength=corpus.info.vocab_size)
        )


def test_rows_that_are_not_there(corpus: Corpus) -> None:
    rows = RowIndex(corpus, 20)
    for index in (-1, len(rows)):
        with pytest.raises(IndexError):
            rows.read(np.array([index]))


def test_a_corpus_shorter_than_a_row_is_refused(tmp_path: Path, wordpiece: Path) -> None:
    (tmp_path / "a.txt").write_text("the river in winter\n\nthe village", encoding="utf-8")
    num_tokens = build_corpus([str(tmp_path / "a.txt")], wordpiece, tmp_path / "out").num_tokens
    corpus = Corpus.open(tmp_path / "out")
    assert len(RowIndex(corpus, num_tokens + 2)) == 2
    with pytest.raises(CorpusError, match=rf"has {num_tokens} tokens.* row of {num_tokens + 3}"):
        RowIndex(corpus, num_tokens + 3)
    with pytest.raises(CorpusError, match="at least 3"):
        RowIndex(corpus, 2)


def test_a_description_says_what_rows_hold(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    (tmp_path / "valid.txt").write_text("the river", encoding="utf-8")
    info = build_corpus([str(text_file)], wordpiece, tmp_path / "out", valid=str(tmp_path / "valid.txt"))
    shown = describe(tmp_path / "out", length=64)
    train = shown["splits"]["train"]
    rows = RowIndex(Corpus.open(tmp_path / "out"), 64, pack=True)
    assert shown["fingerprint"] == info.fingerprint
    assert train["num_tokens"] == info.splits["train"].num_tokens
    assert train["num_rows"]["packed"] == len(rows)
    assert train["row_fill"]["packed"] == rows.mean_fill > train["row_fill"]["single"]
    assert shown["splits"]["valid"]["num_rows"] == {}
