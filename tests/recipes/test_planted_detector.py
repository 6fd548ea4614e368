from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tiny import MASK, SPECIAL_IDS, make_rows
from trueneg.config.options import MaskingConfig
from trueneg.corruption.masking import Masking
from trueneg.corruption.rows import MaskedRows
from trueneg.recipes.planted_corpus import Placebo, PlantedDetector, Planting

NUM_WORDS, VOCAB_SIZE = 60, 300
WORDS = np.arange(100, 100 + NUM_WORDS)
OTHERS = (np.arange(NUM_WORDS)[:, None] + np.arange(1, NUM_WORDS)) % NUM_WORDS  # each looks most like the next one
SPELLINGS = np.column_stack([WORDS, VOCAB_SIZE + np.arange(3 * NUM_WORDS).reshape(-1, 3)])
PLANTING = Planting(SPELLINGS, OTHERS, VOCAB_SIZE, 0.5)
TOTAL = VOCAB_SIZE + 3 * NUM_WORDS
WORD = torch.from_numpy(PLANTING.words())


def batch(seed: int) -> tuple[MaskedRows, Tensor]:
    """Masked rows, and predictions that are gold's class, another planted word or anything, a third each."""
    random = torch.Generator().manual_seed(seed)
    rows = make_rows([[30]] * 40, length=32, seed=seed)
    ids = torch.randint(5, TOTAL, rows.input_ids.shape, generator=random)
    rows.input_ids.copy_(torch.where(rows.is_special, rows.input_ids, ids))
    masked = Masking(MaskingConfig(rate=0.5, mask_share=1.0), MASK, TOTAL, SPECIAL_IDS)(rows)
    spellings = torch.from_numpy(PLANTING.spellings)
    kind = torch.randint(3, masked.gold.shape, generator=random)
    of_class = spellings[WORD[masked.gold].clamp(min=0), torch.randint(4, masked.gold.shape, generator=random)]
    planted = spellings.flatten()[torch.randint(4 * NUM_WORDS, masked.gold.shape, generator=random)]
    anything = torch.randint(5, TOTAL, masked.gold.shape, generator=random)
    return masked, torch.where(kind == 0, of_class, torch.where(kind == 1, planted, anything))


def is_true(place: MaskedRows, predicted: Tensor) -> Tensor:
    word = torch.where(place.is_whole_word, WORD[place.gold], -1)
    return (word >= 0) & (WORD[predicted] == word) & (predicted != place.gold) & place.is_masked


def test_the_oracle_credits_other_spellings_and_nothing_else() -> None:
    place, predicted = batch(0)
    detector = PlantedDetector(PLANTING)
    credit = detector.credit(place.gold, predicted, place)
    assert torch.equal(credit == 1, is_true(place, predicted))
    assert set(credit.unique().tolist()) == {0.0, 1.0}
    readings = detector.readings()
    assert (readings["precision"], readings["recall"]) == (1.0, 1.0)
    assert readings["num_credited"] == is_true(place, predicted).sum()


def test_the_oracle_lists_the_spellings_of_whole_words() -> None:
    place, predicted = batch(1)
    tokens, credit = PlantedDetector(PLANTING).propose(place.gold, predicted, place)[1:]
    assert tokens.shape == (*place.gold.shape, 4)
    is_planted = place.is_whole_word & (WORD[place.gold] >= 0)
    assert torch.equal(credit[is_planted], torch.ones_like(credit[is_planted]))
    assert not credit[~is_planted].any()
    assert (WORD[tokens[is_planted]] == WORD[place.gold[is_planted]].unsqueeze(-1)).all()


@settings(max_examples=25, deadline=None)
@given(st.floats(0.1, 1), st.floats(0.1, 1), st.integers(0, 2**40), st.sampled_from([0.5, 1.0]))
def test_a_prediction_has_the_credit_that_its_list_gives_it(
    precision: float, recall: float, seed: int, given_credit: float
) -> None:
    detector = PlantedDetector(PLANTING, precision, recall, seed, given_credit)
    for number in range(2):
        place, predicted = batch(number)
        credit = detector.credit(place.gold, predicted, place)
        tokens, accepted = detector.propose(place.gold, predicted, place)[1:]
        listed = (accepted * (tokens == predicted.unsqueeze(-1))).sum(-1)
        is_asked = (predicted != place.gold) & place.is_masked
        assert torch.equal(credit[is_asked], listed[is_asked])


def lists(detector: PlantedDetector) -> tuple[Tensor, Tensor, Tensor]:
    """Every planted token as gold, in a row of whole words: the tokens, their lists, and what these accept."""
    gold = torch.from_numpy(SPELLINGS).flatten()[None]
    whole = torch.ones_like(gold, dtype=torch.bool)
    place = MaskedRows(make_rows([[4]], 6), gold, gold, gold, whole, whole, torch.zeros(gold.shape))
    tokens, accepted = detector.propose(gold, gold, place)[1:]
    return gold[0], tokens[0], accepted[0] * (tokens[0] != gold[0][:, None])


@pytest.mark.parametrize("recall", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("precision", [0.25, 0.5, 0.75, 0.9, 1.0])
def test_lists_have_the_precision_and_recall_that_were_asked_for(precision: float, recall: float) -> None:
    gold, tokens, accepted = lists(PlantedDetector(PLANTING, precision, recall, seed=3))
    is_right = WORD[tokens] == WORD[gold][:, None]
    num_right, num_accepted = (accepted * is_right).sum(), accepted.sum()
    assert num_right / num_accepted == pytest.approx(precision, abs=0.03)
    assert num_right / (3 * len(gold)) == pytest.approx(recall, abs=0.03)


def test_what_is_wrongly_accepted_are_the_words_that_look_most_alike() -> None:
    gold, tokens, accepted = lists(PlantedDetector(PLANTING, precision=0.3))  # 1.75 false words
    distance = (WORD[tokens] - WORD[gold][:, None]) % NUM_WORDS
    found = torch.where(accepted > 0, distance, 0)
    assert found.max() == 2
    for word in range(NUM_WORDS):
        mine = found[WORD[gold] == word]
        assert (mine == 1).sum() == 16, "the likest, in all spellings, to every spelling of gold"
        assert (mine == 2).sum() in (0, 16)


def test_readings_are_of_what_was_credited() -> None:
    detector = PlantedDetector(PLANTING, 0.3, 0.5)
    num_right = num_credited = num_true = 0
    for number in range(3):
        place, predicted = batch(number)
        is_credited = detector.credit(place.gold, predicted, place) == 1
        truth = is_true(place, predicted)
        num_right += int((is_credited & truth).sum())
        num_credited += int(is_credited.sum())
        num_true += int(truth.sum())
    readings = detector.readings()
    found = (readings["precision"], readings["recall"], readings["num_credited"])
    assert found == pytest.approx((num_right / num_credited, num_right / num_true, num_credited))
    assert readings["precision"] < 1


def test_what_is_known_and_confused_stays_so() -> None:
    place, predicted = batch(3)
    first = PlantedDetector(PLANTING, 1.0, 0.5, seed=1).credit(place.gold, predicted, place)
    again = PlantedDetector(PLANTING, 1.0, 0.5, seed=1).credit(place.gold, predicted, place)
    other = PlantedDetector(PLANTING, 1.0, 0.5, seed=2).credit(place.gold, predicted, place)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_placebo_credits_as_many_elsewhere() -> None:
    place, predicted = batch(4)
    oracle = PlantedDetector(PLANTING).credit(place.gold, predicted, place)
    placebo = Placebo(PlantedDetector(PLANTING)).credit(place.gold, predicted, place)
    assert placebo.sum() == oracle.sum() > 0
    assert ((predicted != place.gold) & place.is_masked)[placebo == 1].all()
    num_mispredicted = int(((predicted != place.gold) & place.is_masked).sum())
    by_chance = float(oracle.sum()) ** 2 / num_mispredicted
    assert float((placebo * oracle).sum()) == pytest.approx(by_chance, rel=0.3)
