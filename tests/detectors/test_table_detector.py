"""The lexical detector says what its table says, of whole words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import tiny
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.table import TableDetector
from trueneg.lexicon.table import LookupTable

PAIRS = st.sets(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=80)


def at(gold: Tensor, is_whole_word: Tensor | bool = True) -> MaskedRows:
    """Masked positions with these golds."""
    whole = torch.as_tensor(is_whole_word).expand(gold.shape)
    zeros = torch.zeros_like(gold)
    return MaskedRows(tiny.make_rows([[1]] * len(gold), 3), zeros, zeros, gold, torch.ones_like(whole), whole, zeros)


def every_pair(vocab_size: int) -> tuple[Tensor, Tensor]:
    """Each gold with each predicted token, ``[vocab, vocab]``."""
    tokens = torch.arange(vocab_size)
    return tokens.unsqueeze(1).expand(-1, vocab_size), tokens.expand(vocab_size, -1)


@settings(deadline=None)
@given(PAIRS)
def test_credit_is_membership(pairs: set[tuple[int, int]]) -> None:
    table = tiny.make_table(pairs, 30)
    gold, predicted = every_pair(30)
    credit = TableDetector(table).credit(gold, predicted, at(gold))
    assert credit.dtype == torch.float32
    np.testing.assert_array_equal(credit.numpy() == 1, table.contains(gold.numpy(), predicted.numpy()))
    assert {(int(g), int(p)) for g, p in credit.nonzero()} == pairs


@settings(deadline=None)
@given(PAIRS)
def test_substitutes_are_the_rows_of_the_table(pairs: set[tuple[int, int]]) -> None:
    table = tiny.make_table(pairs, 30)
    gold = torch.arange(30).unsqueeze(0)
    tokens, credit = TableDetector(table).propose(gold, gold, at(gold))[1:]
    assert tokens.shape == credit.shape
    assert ((tokens >= 0) & (tokens < 30)).all()
    for token in range(30):
        assert tokens[0, token][credit[0, token] == 1].tolist() == table.substitutes(token)
        assert tokens[0, token][credit[0, token] == 0].eq(token).all()


def test_pieces_of_words_are_never_credited() -> None:
    """Footnote 5."""
    detector = TableDetector(tiny.make_table([(10, 20), (10, 21)]))
    gold, predicted = torch.tensor([[10, 10]]), torch.tensor([[20, 20]])
    batch = at(gold, torch.tensor([[True, False]]))
    assert detector.credit(gold, predicted, batch).tolist() == [[1, 0]]
    assert detector.propose(gold, predicted, batch).acceptance.sum(-1).tolist() == [[2, 0]]


@pytest.mark.parametrize("gold", [0, 298, 299])
def test_ends_of_the_vocabulary(gold: int) -> None:
    others = [0, 7, 298, 299]
    table = tiny.make_table([(gold, other) for other in others if other != gold])
    detector = TableDetector(table)
    golds = torch.full((1, 4), gold)
    assert detector.credit(golds, torch.tensor([others]), at(golds)).tolist() == [[float(o != gold) for o in others]]
    tokens, credit = detector.propose(golds, golds, at(golds))[1:]
    assert tokens[0, 0][credit[0, 0] > 0].tolist() == [other for other in others if other != gold]


def test_empty_table() -> None:
    detector = TableDetector(LookupTable.empty(tiny.make_tokenizer()))
    gold, predicted = every_pair(tiny.VOCAB_SIZE)
    assert not detector.credit(gold, predicted, at(gold)).any()
    tokens, credit = detector.propose(gold, predicted, at(gold))[1:]
    assert not credit.any()
    assert torch.equal(tokens, gold.unsqueeze(-1))


def test_predictions_beyond_the_table_are_in_no_pair() -> None:
    """A model's padded output rows: 10 * 300 + 310 would be the key of (11, 10)."""
    table = tiny.make_table([(11, 10)])
    gold, predicted = torch.tensor([[10, 11]]), torch.tensor([[310, 10]])
    assert table.contains(gold.numpy(), predicted.numpy()).tolist() == [[False, True]]
    assert TableDetector(table).credit(gold, predicted, at(gold)).tolist() == [[0, 1]]


def test_large_vocabulary_does_not_overflow() -> None:
    """Keys of a vocabulary of 250,000 need 36 bits."""
    size = 250_002
    table = tiny.make_table([(size - 1, size - 2), (size - 1, 0), (70_000, 200_000)], size)
    gold = torch.tensor([[size - 1, size - 1, 70_000, 70_000]])
    predicted = torch.tensor([[size - 2, 0, 200_000, 200_001]])
    assert TableDetector(table).credit(gold, predicted, at(gold)).tolist() == [[1, 1, 1, 0]]


def test_table_given_is_not_changed() -> None:
    table = tiny.make_table([(1, 2)])
    detector = TableDetector(table)
    detector.get_buffer("_keys").zero_()
    assert table.contains(1, 2)
