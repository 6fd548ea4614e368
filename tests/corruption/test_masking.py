"""Masking: how much, how often, and what stands there instead."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, chisquare

import tiny
from trueneg.config.objective_options import MaskingConfig
from trueneg.corruption.keyed import example_keys
from trueneg.corruption.masking import Masking, num_slots
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.errors import ConfigError, ModelError
from trueneg.objectives.mlm import MaskedLM


def same_rows(num_rows: int, length: int, words: list[int] | None = None) -> Rows:
    """The same row many times under different keys; ``words`` are the tokens of each word, in order."""
    rows = tiny.make_rows([[length - 2]], length)
    if words is not None:
        starts = [False, *(column == 0 for word in words for column in range(word)), False]
        rows = replace(rows, is_word_start=torch.tensor([starts]))
    return replace(tiny.select(rows, [0] * num_rows), keys=example_keys(5, torch.arange(num_rows)))


def columns(masked: MaskedRows, row: int) -> list[int]:
    return sorted(masked.positions[row][masked.is_masked[row]].tolist())


@pytest.mark.parametrize("rate", [0.15, 0.25, 0.3, 0.4, 0.5])
@pytest.mark.parametrize("unit", ["token", "span"])
def test_count_is_exact(rate: float, unit: str) -> None:
    """``max(1, round(rate * n))`` for every n that a row of 128 can hold, in rows with padding."""
    rows = tiny.make_rows([[size] for size in range(127)], 128)
    num_masked = tiny.make_masking(rate=rate, unit=unit)(rows).is_masked.sum(1).tolist()
    assert num_masked[0] == 0
    assert num_masked[1:] == [max(1, round(rate * size)) for size in range(1, 127)]


def test_full_rows_use_all_slots_at_any_rate() -> None:
    """Static shapes waste nothing: slots are exactly as many as a full row needs."""
    for rate in np.linspace(0.01, 0.99, 99):
        for length in (3, 8, 64, 128, 512):
            masked = tiny.make_masking(rate=float(rate))(tiny.make_rows([[length - 2]], length))
            assert masked.is_masked.all()
            assert masked.positions.shape == (1, num_slots(length, float(rate)))


@pytest.mark.parametrize(("mask_share", "random_share"), [(0.8, 0.1), (0.85, 0.0), (1.0, 0.0), (0.0, 1.0)])
def test_shares(mask_share: float, random_share: float) -> None:
    masking = tiny.make_masking(rate=0.5, mask_share=mask_share, random_share=random_share)
    masked = masking(same_rows(1000, 64))
    shown = masked.input_ids.gather(1, masked.positions)
    total = shown.numel()
    num_mask = int((shown == tiny.MASK).sum())
    num_random = int(((shown != tiny.MASK) & (shown != masked.gold)).sum())
    num_ordinary = tiny.VOCAB_SIZE - len(tiny.SPECIAL)
    # A random token is gold once in a while.
    for found, share in ((num_mask, mask_share), (num_random, random_share * (1 - 1 / num_ordinary))):
        assert binomtest(found, total, share).pvalue > 1e-3


def test_random_tokens_are_all_ordinary_ones_alike() -> None:
    masked = tiny.make_masking(rate=0.5, mask_share=0.0, random_share=1.0)(same_rows(2000, 64))
    counts = masked.input_ids.gather(1, masked.positions).flatten().bincount(minlength=tiny.VOCAB_SIZE)
    assert counts[: len(tiny.SPECIAL)].sum() == 0
    assert chisquare(counts[len(tiny.SPECIAL) :].numpy()).pvalue > 1e-3


def test_special_ids_may_stand_anywhere() -> None:
    masking = Masking(MaskingConfig(rate=0.9, mask_share=0.0, random_share=1.0), 299, 300, [0, 17, 298, 299])
    masked = masking(same_rows(500, 64))
    drawn = set(masked.input_ids.gather(1, masked.positions).flatten().tolist())
    assert drawn == set(range(300)) - {0, 17, 298, 299}


def test_every_position_is_as_likely() -> None:
    masked = tiny.make_masking(rate=0.15)(same_rows(4000, 42))
    counts = masked.positions.flatten().bincount(minlength=42)
    assert counts[0] == counts[41] == 0
    # Draws without replacement vary less than independent ones, but not as little as a fixed pattern.
    assert 1e-3 < chisquare(counts[1:41].numpy()).pvalue < 1 - 1e-6


def test_what_is_shown_does_not_depend_on_what_is_chosen() -> None:
    """Streams are apart: the share of masks is the same at every position."""
    masked = tiny.make_masking(rate=0.5, mask_share=0.5, random_share=0.0)(same_rows(2000, 22))
    is_mask = masked.input_ids == tiny.MASK
    chosen = torch.zeros_like(is_mask).scatter(1, masked.positions, masked.is_masked)
    for column in range(1, 21):
        assert binomtest(int(is_mask[:, column].sum()), int(chosen[:, column].sum()), 0.5).pvalue > 1e-3


def test_slots_of_a_row_are_independent() -> None:
    """The number of mask tokens in a row is binomial, not all or none."""
    masked = tiny.make_masking(rate=0.5, mask_share=0.5, random_share=0.0)(same_rows(4000, 22))
    found = (masked.input_ids == tiny.MASK).sum(1).bincount(minlength=11)[1:10]  # 0 and 10 are too rare
    expected = binom.pmf(np.arange(1, 10), 10, 0.5)
    assert chisquare(found.numpy(), expected / expected.sum() * int(found.sum())).pvalue > 1e-3


def test_whole_words_are_masked_whole() -> None:
    words = [1, 2, 3, 1, 4, 2, 1, 1, 3, 2]
    masked = tiny.make_masking(rate=0.3, unit="word")(same_rows(500, sum(words) + 2, words))
    ends = np.cumsum(words)
    spans = [set(range(end - size + 1, end + 1)) for end, size in zip(ends, words, strict=True)]
    for row in range(500):
        chosen = set(columns(masked, row))
        assert all(word <= chosen or not word & chosen for word in spans)
        # No more than the budget, and short of it by less than the word that did not fit.
        assert 6 - max(words) < len(chosen) <= 6


def test_word_that_does_not_fit_is_begun() -> None:
    """A row of one long word still has something to learn from: its first tokens."""
    masked = tiny.make_masking(rate=0.2, unit="word")(same_rows(20, 12, [10]))
    assert all(columns(masked, row) == [1, 2] for row in range(20))


def test_words_of_a_row_without_special_tokens_stay_apart() -> None:
    """Even where every column starts a word, and nothing frames them."""
    ids = torch.arange(5, 15).repeat(300, 1)
    yes, no = torch.ones_like(ids, dtype=torch.bool), torch.zeros_like(ids, dtype=torch.bool)
    rows = Rows(ids, torch.ones_like(ids), no, yes, yes, example_keys(0, torch.arange(300)))
    masked = tiny.make_masking(rate=0.1, unit="word")(rows)
    counts = torch.tensor([columns(masked, row)[0] for row in range(300)]).bincount(minlength=10)
    assert chisquare(counts.numpy()).pvalue > 1e-3


def test_word_ends_with_its_document() -> None:
    """A second document that begins within a word does not lengthen the first one's last."""
    rows = tiny.make_rows([[2, 2]], 8)
    starts = torch.tensor([[False, True, False, False, False, False, False, False]])
    rows = replace(tiny.select(replace(rows, is_word_start=starts), [0] * 50), keys=example_keys(5, torch.arange(50)))
    masked = tiny.make_masking(rate=0.5, unit="word")(rows)
    chosen = {tuple(columns(masked, row)) for row in range(50)}
    assert chosen == {(1, 2), (5, 6)}


def runs(chosen: list[int]) -> list[int]:
    """Lengths of the runs of neighbours."""
    breaks = np.flatnonzero(np.diff(chosen) > 1) + 1
    return [len(part) for part in np.split(np.array(chosen), breaks)]


def reference_spans(num_words: int, budget: int, mean: float, longest: int, dice: random.Random) -> list[int]:
    """SpanBERT's procedure: spans of geometric length at uniform places until the budget is spent."""
    chosen: set[int] = set()
    while len(chosen) < budget:
        length = 1
        while dice.random() > 1 / mean:
            length += 1
        start = dice.randrange(num_words)
        for word in range(start, min(start + min(length, longest), num_words)):
            if len(chosen) < budget:
                chosen.add(word)
    return sorted(chosen)


@pytest.mark.parametrize(("mean", "longest"), [(3.8, 10), (2.0, 10), (6.0, 4)])
def test_spans_are_as_long_as_in_the_plain_procedure(mean: float, longest: int) -> None:
    num_words, rate = 400, 0.1
    rows = same_rows(400, num_words + 2, [1] * num_words)
    masked = tiny.make_masking(rate=rate, unit="span", mean_span=mean, max_span=longest)(rows)
    ours = [length for row in range(400) for length in runs(columns(masked, row))]
    dice = random.Random(0)
    theirs = [length for _ in range(400) for length in runs(reference_spans(num_words, 40, mean, longest, dice))]
    assert np.mean(ours) == pytest.approx(np.mean(theirs), rel=0.04)
    assert np.std(ours) == pytest.approx(np.std(theirs), rel=0.08)


def test_spans_of_mean_1_are_single_words() -> None:
    rows = same_rows(300, 202, [1] * 200)
    spans = tiny.make_masking(rate=0.05, unit="span", mean_span=1.0)(rows)
    words = tiny.make_masking(rate=0.05, unit="word")(rows)
    assert torch.equal(spans.positions, words.positions)


def test_spans_cut_no_word_but_the_last() -> None:
    words = [1, 2, 3] * 20
    ends = np.cumsum(words)
    spans = [set(range(end - size + 1, end + 1)) for end, size in zip(ends, words, strict=True)]
    masked = tiny.make_masking(rate=0.2, unit="span")(same_rows(200, 122, words))
    for row in range(200):
        chosen = set(columns(masked, row))
        assert sum(0 < len(word & chosen) < len(word) for word in spans) <= 1


def test_gold_and_whole_words_are_those_of_the_positions() -> None:
    batch = tiny.padded_batch()
    for row in range(len(batch.positions)):
        for slot, position in enumerate(batch.positions[row].tolist()):
            assert batch.gold[row, slot] == batch.rows.input_ids[row, position]
            assert batch.is_whole_word[row, slot] == batch.rows.is_whole_word[row, position]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"rate": 0.0}, "rate"),
        ({"rate": 1.0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"mask_share": 0.8, "random_share": 0.3}, "random_share"),
        ({"mask_share": -0.1}, "mask_share"),
        ({"mean_span": 0.5}, "mean_span"),
        ({"max_span": 0}, "max_span"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, float], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        tiny.make_masking(**options)


def test_vocabulary_of_special_tokens_only_is_refused() -> None:
    with pytest.raises(ModelError, match="special tokens"):
        Masking(MaskingConfig(), 1, 3, [0, 1, 2])


# ---- what masking never does, whatever the rows: padded, packed, tiny, or without an ordinary token ----

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


def is_chosen_in(masked: MaskedRows) -> torch.Tensor:
    """Bool ``[batch, length]``."""
    return torch.zeros_like(masked.rows.is_special).scatter(1, masked.positions, masked.is_masked)


@settings(deadline=None, max_examples=200)
@given(batches(), MASKINGS)
def test_invariants(rows: Rows, masking: Masking) -> None:
    masked = masking(rows)
    is_chosen = is_chosen_in(masked)
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
    is_chosen = is_chosen_in(masked)
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
