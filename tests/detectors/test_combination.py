"""Combined scorers accept where logic says so, and combined detectors list each token once."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_encoders import WORDNET, WrittenDetector, WrittenScorer, at, encode_rows, masked_at, wordpiece
from torch import nn

import tiny
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors import make_detector
from trueneg.detectors.combination import CombinedDetector, CombinedScorer
from trueneg.detectors.specification import Resources
from trueneg.detectors.table import TableDetector

CREDIT = st.dictionaries(st.integers(0, 9), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1)
OPERATORS: dict[Literal["!", "&", "|"], object] = {"|": max, "&": min}


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 0.9), st.floats(0.1, 0.9))
def test_scorers_accept_as_logic_says(first: float, second: float, lower: float, higher: float) -> None:
    asked = [at("a big film", "big", "large")]
    scorers = [WrittenScorer({("big", "large"): s}, t) for s, t in ((first, lower), (second, higher))]
    says = [first >= lower, second >= higher]
    assert (CombinedScorer("|", scorers).acceptance(asked)[0] >= 0.5) == any(says)
    assert (CombinedScorer("&", scorers).acceptance(asked)[0] >= 0.5) == all(says)
    opposite = CombinedScorer("!", scorers[:1]).acceptance(asked)[0]
    assert (opposite >= 0.5) == (scorers[0].acceptance(asked)[0] <= 0.5)


def test_scorers_are_on_one_scale_before_they_are_compared() -> None:
    asked = [at("a big film", "big", word) for word in ("large", "small")]
    strict = WrittenScorer({("big", "large"): 0.9, ("big", "small"): 0.5}, threshold=0.9)
    easy = WrittenScorer({("big", "large"): 0.1, ("big", "small"): 0.2}, threshold=0.1)
    np.testing.assert_allclose(CombinedScorer("&", [strict, easy]).scores(asked), [0.5, 0.5 * 0.5 / 0.9])
    np.testing.assert_allclose(CombinedScorer("|", [strict, easy]).scores(asked), [0.5, 0.5 + 0.1 / 1.8])
    assert CombinedScorer("&", [strict, easy]).provenance == {"0.written": "by hand", "1.written": "by hand"}


def test_combined_scorers_go_to_the_device_together() -> None:
    class Moved(WrittenScorer):
        def to(self, device: torch.device) -> None:
            self.device = device

    parts = [Moved({}), Moved({})]
    CombinedScorer("&", [parts[0], CombinedScorer("!", parts[1:])]).to(torch.device("meta"))
    assert [part.device for part in parts] == [torch.device("meta")] * 2


def test_a_veto_by_a_scorer_rejects_what_it_knows_and_nothing_else(tmp_path: Path) -> None:
    """Short words and stop words, which scorers are not asked about, stay."""
    tokenizer = wordpiece()
    words = [word for word in tokenizer.get_vocab() if word.isalpha()]
    matrix = np.random.default_rng(0).random((len(words), 8))
    lines = (f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, matrix, strict=True))
    (tmp_path / "v.txt").write_text("".join(lines))
    near = f"neighbours:{tmp_path / 'v.txt'}[top=50,among=whole-vocabulary]"
    detectors = [
        make_detector(text, tokenizer, Resources(wordnet=str(WORDNET)))
        for text in (near, f"!antonym & {near}", "antonym")
    ]
    ids = torch.tensor([tokenizer.convert_tokens_to_ids(word) for word in words])
    rows = encode_rows(tokenizer, [[" ".join(words)]], length=len(words) + 2)
    batch = masked_at(rows, [list(range(1, len(words) + 1))])
    gold, tokens = batch.gold.unsqueeze(-1), ids.expand(*batch.gold.shape, len(ids))
    before, after, opposite = ((one.credit(gold, tokens, batch) >= 0.5) & (tokens != gold) for one in detectors)
    assert torch.equal(after, before & ~opposite)
    is_short = torch.tensor([len(word) < 3 for word in words])
    assert after[..., is_short].any() and (before & opposite).any()


def test_credit_of_detectors() -> None:
    batch = tiny.padded_batch()
    first, second = (WrittenDetector({token: value}) for token, value in ((5, 0.25), (5, 0.75)))
    predicted = torch.full_like(batch.gold, 5)
    for operator, wanted in (("|", 0.75), ("&", 0.25)):
        credit = CombinedDetector(operator, [first, second]).credit(batch.gold, predicted, batch)  # type: ignore[arg-type]
        assert (credit == wanted).all()
    opposite = CombinedDetector("!", [first]).credit(batch.gold, predicted, batch)
    assert torch.equal(opposite, 0.75 * batch.is_whole_word)
    assert 0 < batch.is_whole_word.sum() < batch.is_whole_word.numel()


def listed(detector: CombinedDetector, predicted: int) -> dict[int, float]:
    """Substitutes of one slot that have credit; each of them once."""
    batch = tiny.padded_batch()
    slot = tuple(batch.is_whole_word.nonzero()[0].tolist())
    tokens, credit = detector.propose(batch.gold, torch.full_like(batch.gold, predicted), batch)[1:]
    assert tokens.shape == credit.shape and credit.dtype == torch.float32
    pairs = [(t, c) for t, c in zip(tokens[slot].tolist(), credit[slot].tolist(), strict=True) if c > 0]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def without_nothing(credit: dict[int, float]) -> dict[int, float]:
    return {token: value for token, value in credit.items() if value > 0}


@settings(deadline=None)
@given(CREDIT, CREDIT, CREDIT)
def test_substitutes_are_the_best_or_the_worst_of_what_is_listed(
    first: dict[int, float], second: dict[int, float], third: dict[int, float]
) -> None:
    parts = [WrittenDetector(credit) for credit in (first, second, third)]
    tokens = {*first, *second, *third}
    best = {t: max(c.get(t, 0.0) for c in (first, second, third)) for t in tokens}
    worst = {t: min(c.get(t, 0.0) for c in (first, second, third)) for t in tokens}
    assert listed(CombinedDetector("|", parts), 0) == without_nothing(best)
    assert listed(CombinedDetector("&", parts), 0) == without_nothing(worst)


@settings(deadline=None)
@given(CREDIT, CREDIT, st.booleans())
def test_a_veto_takes_off_what_it_lists(credit: dict[int, float], vetoed: dict[int, float], is_first: bool) -> None:
    veto = CombinedDetector("!", [WrittenDetector(vetoed)])
    parts = [WrittenDetector(credit), veto]
    wanted = {token: min(value, 1 - vetoed.get(token, 0.0)) for token, value in credit.items()}
    assert listed(CombinedDetector("&", parts[::-1] if is_first else parts), 0) == without_nothing(wanted)


def test_a_part_that_lists_the_prediction_only() -> None:
    table, asked = WrittenDetector({1: 1.0, 2: 1.0}), WrittenDetector({2: 0.75, 3: 0.75}, lists=False)
    assert listed(CombinedDetector("&", [table, asked]), 2) == {2: 0.75}
    assert listed(CombinedDetector("&", [table, asked]), 3) == {2: 0.75}, "it is asked about what the other lists"
    assert listed(CombinedDetector("|", [table, asked]), 3) == {1: 1.0, 2: 1.0, 3: 0.75}
    assert listed(CombinedDetector("!", [asked]), 2) == {2: 0.25}
    assert listed(CombinedDetector("!", [table]), 3) == {3: 1.0}


def test_parts_of_and_are_asked_only_about_what_those_before_them_credit() -> None:
    """A scorer that reads costs for every question."""

    class Counting(WrittenDetector):
        num_asked = 0

        def credit(self, gold: torch.Tensor, predicted: torch.Tensor, batch: MaskedRows) -> torch.Tensor:
            self.num_asked += int((gold != predicted).sum())
            return super().credit(gold, predicted, batch)

    first, second = WrittenDetector({1: 1.0, 2: 0.0}), Counting({1: 0.75, 2: 1.0})
    batch = tiny.padded_batch()
    predicted = torch.where(torch.arange(batch.gold.numel()).view_as(batch.gold) % 2 == 0, 1, 2)
    credit = CombinedDetector("&", [first, second]).credit(batch.gold, predicted, batch)
    assert torch.equal(credit, torch.where(predicted == 1, 0.75, 0.0))
    assert second.num_asked == int((predicted == 1).sum())


def test_the_parts_see_the_model() -> None:
    parts = [WrittenDetector({1: 1.0}), WrittenDetector({2: 1.0})]
    combined, model = CombinedDetector("|", [CombinedDetector("!", parts[:1]), parts[1]]), nn.Linear(1, 1)
    combined.attach(model)
    combined.after_step(model)
    for part in parts:
        assert part.seen == [("attach", model), ("after_step", model)]


@pytest.mark.parametrize("operator", ["|", "&"])
def test_tables_are_combined_on_the_device_they_are_moved_to(operator: Literal["|", "&"]) -> None:
    tables = [
        TableDetector(tiny.make_table([(10, 20), (10, 21)])),
        TableDetector(tiny.make_table([(10, 21), (11, 22)])),
    ]
    combined = CombinedDetector(operator, tables)
    assert len(list(combined.buffers())) == 2 and not combined.state_dict()
