"""What masking never does, whatever the rows: padded, packed, tiny, or without an ordinary token."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from trueneg.corruption.masking import Masking
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.objectives.mlm import MaskedLM

PIECES = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=3), min_size=1, max_size=4)
MASKINGS = st.builds(
    tiny.make_masking,
    rate=st.floats(0.01, 0.99),
    unit=st.sampled_from(["token", "word", "span"]),
    mask_share=st.sampled_from([0.0, 0.8, 1.0]),
    random_share=st.just(0.0),
    mean_span=st.floats(1, 12),
    max_span=st.integers(1, 20),
) | st.builds(tiny.make_masking, rate=st.floats(0.01, 0.99), mask_share=st.just(0.0), random_share=st.just(1.0))


@st.composite
def batches(draw: st.DrawFn) -> Rows:
    pieces = draw(PIECES)
    longest = max(sum(size + 2 for size in sizes) for sizes in pieces)
    length = longest + draw(st.integers(0, 5))
    return tiny.make_rows(pieces, length, seed=draw(st.integers(0, 1000)))


def chosen(masked: MaskedRows) -> torch.Tensor:
    """Bool ``[batch, length]``."""
    return torch.zeros_like(masked.rows.is_special).scatter(1, masked.positions, masked.is_masked)


@settings(deadline=None, max_examples=200)
@given(batches(), MASKINGS)
def test_invariants(rows: Rows, masking: Masking) -> None:
    masked = masking(rows)
    is_chosen = chosen(masked)
    assert not (is_chosen & rows.is_special).any()
    assert torch.equal(masked.input_ids[~is_chosen], rows.input_ids[~is_chosen])
    for positions in masked.positions.tolist():
        assert len(set(positions)) == len(positions)
    used = [row[:n] for row, n in zip(masked.positions.tolist(), masked.is_masked.sum(1).tolist(), strict=True)]
    assert used == [sorted(row) for row in used]
    assert torch.equal(masked.gold, rows.input_ids.gather(1, masked.positions))
    shown = masked.input_ids[is_chosen]
    assert not torch.isin(shown, torch.tensor([tiny.PAD, tiny.UNKNOWN, tiny.START, tiny.END])).any()
    num_ordinary = (~rows.is_special).sum(1)
    num_chosen = is_chosen.sum(1)
    assert torch.equal(num_chosen > 0, num_ordinary > 0)
    wanted = [min(n, max(1, round(masking.config.rate * n))) for n in num_ordinary.tolist()]
    if masking.config.unit == "word":
        assert all(n <= limit for n, limit in zip(num_chosen.tolist(), wanted, strict=True))
    else:
        assert num_chosen.tolist() == wanted


@settings(deadline=None, max_examples=100)
@given(batches(), MASKINGS, st.randoms(use_true_random=False))
def test_a_row_is_masked_alike_in_any_company(rows: Rows, masking: Masking, dice: object) -> None:
    together = masking(rows)
    order = list(range(len(rows.keys)))
    dice.shuffle(order)  # type: ignore[attr-defined]
    some = order[: max(1, len(order) - 1)]
    apart = masking(tiny.select(rows, some))
    for name in ("input_ids", "positions", "gold", "is_masked", "is_whole_word"):
        assert torch.equal(getattr(apart, name), getattr(together, name)[some])


@settings(deadline=None, max_examples=100)
@given(batches(), st.floats(0.01, 0.99))
def test_words_are_never_cut(rows: Rows, rate: float) -> None:
    """But in a row whose first word does not fit, where it is begun and nothing else is masked."""
    masked = tiny.make_masking(rate=rate, unit="word")(rows)
    word = (rows.is_word_start | rows.is_special).long().cumsum(1)
    is_chosen = chosen(masked)
    for row in range(len(rows.keys)):
        words = set(word[row][is_chosen[row]].tolist())
        cut = {
            w
            for w in words
            if not is_chosen[row][word[row] == w].logical_or(rows.is_special[row][word[row] == w]).all()
        }
        assert not cut or (words == cut and len(cut) == 1)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 3), st.integers(2, 6), st.sampled_from(["token", "word", "span"]))
def test_rows_of_special_tokens_only(num_rows: int, length: int, unit: str) -> None:
    masked = tiny.make_masking(unit=unit)(tiny.make_rows([[0]] * num_rows, length))
    assert not masked.is_masked.any()
    assert torch.equal(masked.input_ids, masked.rows.input_ids)
    assert MaskedLM(tiny.make_masking()).counts(masked)["mlm"] == 0
