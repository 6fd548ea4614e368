"""Rows with words replaced are what one would write by hand, word by word."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.corruption.views.rewriting import Words, choose_by_share, hashes_of, rewrite, words_of

PAD, START, END = 0, 2, 3

ROW = st.lists(st.lists(st.integers(10, 99), min_size=1, max_size=3), min_size=0, max_size=5)
"""Words of a row, each of its pieces."""


def build(rows: list[list[list[int]]], length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ids, segments, word starts and specials of ``[CLS] words [SEP]``, padded; a row is cut where it must be."""
    ids, segments = np.full((len(rows), length), PAD, dtype=np.int64), np.zeros((len(rows), length), dtype=np.int32)
    starts, special = np.zeros((len(rows), length), dtype=bool), np.ones((len(rows), length), dtype=bool)
    for number, words in enumerate(rows):
        text = [piece for word in words for piece in word][: length - 2]
        begins = [n == 0 for word in words for n in range(len(word))][: length - 2]
        ids[number, : len(text) + 2] = [START, *text, END]
        segments[number, : len(text) + 2] = 1
        starts[number, 1 : len(text) + 1] = begins
        special[number, 1 : len(text) + 1] = False
    return ids, segments, starts, special


@settings(max_examples=200)
@given(st.lists(ROW, min_size=1, max_size=4), st.data())
def test_rewriting_is_writing_by_hand(rows: list[list[list[int]]], data: st.DataObject) -> None:
    length = data.draw(st.integers(3, 20))
    ids, segments, starts, special = build(rows, length)
    words = words_of(starts, special)
    chosen = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(words.line), max_size=len(words.line))), dtype=bool
    )
    new = [data.draw(st.lists(st.integers(100, 199), min_size=1, max_size=4)) for _ in range(int(chosen.sum()))]
    picked = Words(words.line[chosen], words.start[chosen], words.size[chosen])
    sizes = np.array([len(pieces) for pieces in new], dtype=np.int64)
    flat = np.array([piece for pieces in new for piece in pieces], dtype=np.int32)
    found = rewrite(ids, segments, picked, flat, np.cumsum(sizes) - sizes, sizes, PAD)
    for line in range(len(rows)):
        text: list[tuple[int, int, bool]] = []
        column = 1
        while not special[line, column]:
            at = np.flatnonzero((picked.line == line) & (picked.start == column))
            if len(at):
                text += [(piece, column, True) for piece in new[at[0]]]
                column += int(picked.size[at[0]])
            else:
                text.append((int(ids[line, column]), column, False))
                column += 1
        assert found.num_cut[line] == max(0, len(text) - (length - 2))
        text = [(START, 0, False), *text[: length - 2], (END, column, False)]
        padding = length - len(text)
        assert found.input_ids[line].tolist() == [piece for piece, _, _ in text] + [PAD] * padding
        assert found.source[line].tolist() == [source for _, source, _ in text] + [-1] * padding
        assert found.is_replaced[line].tolist() == [is_new for _, _, is_new in text] + [False] * padding
        assert found.segments[line].tolist() == [1] * len(text) + [0] * padding


@given(st.lists(ROW, min_size=1, max_size=4), st.integers(3, 20))
def test_words_are_those_of_the_row(rows: list[list[list[int]]], length: int) -> None:
    ids, _, starts, special = build(rows, length)
    words = words_of(starts, special)
    found = [
        (int(line), ids[line, start : start + size].tolist())
        for line, start, size in zip(words.line, words.start, words.size, strict=True)
    ]
    expected = []
    for line, given_words in enumerate(rows):
        room = length - 2
        for word in given_words:
            if room > 0:
                expected.append((line, word[:room]))
            room -= len(word)
    assert found == expected


def test_a_word_that_goes_on_in_the_next_row_is_left_out() -> None:
    starts = np.array([[False, True, False, True, False]])
    special = np.array([[True, False, False, False, True]])
    is_cut = np.array([[False, False, False, True, False]])
    assert words_of(starts, special, is_cut).start.tolist() == [1]
    assert words_of(starts, special).start.tolist() == [1, 3]


def test_documents_of_a_packed_row_keep_their_numbers() -> None:
    ids = np.array([[START, 11, 12, END, START, 13, END, PAD]])
    segments = np.array([[1, 1, 1, 1, 2, 2, 2, 0]], dtype=np.int32)
    words = Words(np.array([0, 0]), np.array([1, 5]), np.array([1, 1]))
    found = rewrite(
        ids, segments, words, np.array([21, 22, 23], dtype=np.int32), np.array([0, 2]), np.array([2, 1]), PAD
    )
    assert found.input_ids.tolist() == [[START, 21, 22, 12, END, START, 23, END]]
    assert found.segments.tolist() == [[1, 1, 1, 1, 1, 2, 2, 2]]


@given(st.lists(st.lists(st.integers(0, 500), min_size=1, max_size=5), max_size=30))
def test_hashes_tell_sequences_apart(sequences: list[list[int]]) -> None:
    sizes = np.array([len(s) for s in sequences], dtype=np.int64)
    flat = np.array([piece for s in sequences for piece in s], dtype=np.int32)
    hashes = hashes_of(flat, np.cumsum(sizes) - sizes, sizes).tolist()
    for left, one in zip(sequences, hashes, strict=True):
        for right, other in zip(sequences, hashes, strict=True):
            assert (one == other) == (left == right)


def test_words_are_chosen_until_the_share_is_reached() -> None:
    line = np.array([0, 0, 0, 0, 1, 1, 2])
    size = np.array([1, 2, 1, 1, 3, 1, 1])
    order = np.array([0.4, 0.1, 0.3, 0.2, 0.5, 0.9, 0.5])
    chosen = choose_by_share(line, size, order, np.array([4, 1, 0]))
    # Row 0: the words of 2, 1 and 1 tokens; row 1: three tokens would overshoot one by two; row 2: none.
    assert chosen.tolist() == [False, True, True, True, False, False, False]


@given(st.data())
def test_a_share_is_met_as_nearly_as_the_order_allows(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))
    wanted = data.draw(st.integers(0, 20))
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(sizes)).astype(float)
    chosen = choose_by_share(np.zeros(len(sizes), dtype=np.int64), np.array(sizes), order, np.array([wanted]))
    ranked = np.array(sizes)[np.argsort(order)]
    is_taken = chosen[np.argsort(order)]
    assert not np.any(~is_taken[:-1] & is_taken[1:]), "a beginning of the order"
    total = int(ranked[is_taken].sum())
    if not is_taken.all():
        following = int(ranked[is_taken.sum()])
        assert abs(total - wanted) <= abs(total + following - wanted)


@pytest.mark.parametrize("num", [0, 3])
def test_nothing_to_replace_changes_nothing(num: int) -> None:
    ids, segments, _, _ = build([[[11], [12, 13]]] * num, 6)
    nothing = np.zeros(0, dtype=np.int64)
    found = rewrite(ids, segments, Words(nothing, nothing, nothing), np.zeros(0, np.int32), nothing, nothing, PAD)
    assert np.array_equal(found.input_ids, ids) and np.array_equal(found.segments, segments)
    assert not found.is_replaced.any() and not found.num_cut.any()
