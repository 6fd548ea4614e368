"""BERTScore against its definition, written as loops."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from trueneg.evaluation.encoders.triplets import bert_score
from trueneg.models.text_reader import States

HIDDEN = 3


def made(lengths: list[int], seed: int, padding: int = 0) -> States:
    """Texts of so many words each, between two special tokens; layers of random states, padding of large ones."""
    longest = max(lengths) + 2 + padding
    hidden = torch.randn(2, len(lengths), longest, HIDDEN, generator=torch.Generator().manual_seed(seed))
    is_token = torch.arange(longest)[None] < torch.tensor(lengths)[:, None] + 2
    is_special = (torch.arange(longest)[None] == 0) | (
        torch.arange(longest)[None] == torch.tensor(lengths)[:, None] + 1
    )
    return States(hidden, is_token, is_special & is_token)


def by_definition(left: States, right: States, layer: int, row: int) -> tuple[float, float]:
    def tokens(states: States) -> list[tuple[torch.Tensor, bool]]:
        places = [place for place in range(states.is_token.shape[1]) if states.is_token[row, place]]
        return [(states.hidden[layer, row, place].double(), not states.is_special[row, place]) for place in places]

    def side(of: States, against: States) -> float:
        best = [
            max(float(x @ y / (x.norm() * y.norm())) for y, _ in tokens(against))
            for x, is_word in tokens(of)
            if is_word
        ]
        return sum(best) / len(best) if best else 0.0

    return side(left, right), side(right, left)


lengths = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=3)


@given(lengths, st.integers(0, 1000))
def test_it_is_what_the_paper_defines(sizes: list[tuple[int, int]], seed: int) -> None:
    left, right = made([a for a, _ in sizes], seed), made([b for _, b in sizes], seed + 1, padding=2)
    score = bert_score(left, right)
    for layer in range(2):
        for row in range(len(sizes)):
            precision, recall, f1 = (float(side[layer, row]) for side in (score.precision, score.recall, score.f1))
            expected = by_definition(left, right, layer, row)
            assert math.isclose(precision, expected[0], abs_tol=1e-5)
            assert math.isclose(recall, expected[1], abs_tol=1e-5)
            # Of what was found: F1 has no bounds where the two nearly cancel out.
            total = precision + recall
            assert math.isclose(f1, 2 * precision * recall / total if total else 0.0)


def test_a_text_matches_itself_and_padding_matches_nothing() -> None:
    states = made([3, 1], seed=0, padding=3)
    assert torch.allclose(bert_score(states, states).f1, torch.ones(2, 2).double())
    # Two words that point away from all tokens of the other text: padding's 0 would be a better match.
    left = States(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[True]]), torch.tensor([[False]]))
    right = States(
        torch.tensor([[[[-1.0, 0.0], [0.0, 0.0]]]]), torch.tensor([[True, False]]), torch.tensor([[False, False]])
    )
    score = bert_score(left, right)
    assert score.precision.item() == score.recall.item() == score.f1.item() == -1.0


def test_special_tokens_are_matched_but_do_not_count() -> None:
    """The only word of the left is like the right's [SEP]; the right's only word is like nothing."""
    left = States(torch.tensor([[[[1.0, 0.0, 0.0]]]]), torch.tensor([[True]]), torch.tensor([[False]]))
    right = States(
        torch.tensor([[[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]]]),
        torch.tensor([[True, True]]),
        torch.tensor([[False, True]]),
    )
    score = bert_score(left, right)
    assert (score.precision.item(), score.recall.item(), score.f1.item()) == (1.0, 0.0, 0.0)


def test_a_text_without_words_scores_nothing() -> None:
    empty, some = made([0], seed=0), made([2], seed=1)
    assert bert_score(empty, empty).f1.tolist() == [[0.0], [0.0]]
    assert bert_score(empty, some).precision.tolist() == [[0.0], [0.0]]
