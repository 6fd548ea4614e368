from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_text import RING
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor

from tiny import MASK, SPECIAL_IDS, make_rows
from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.config.objective_options import MaskingConfig
from trueneg.corpus.build import build_corpus
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corruption.masking import Masking
from trueneg.corruption.rows import MaskedRows
from trueneg.errors import ConfigError
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.recipes.planted_corpus import SHARES, UNSPLIT, Placebo, PlantedDetector, PlantedRows, Planting
from trueneg.tokenizer import load_tokenizer

LENGTH = 24


@pytest.fixture(scope="module")
def corpus(ring_corpus: Path) -> Corpus:
    return Corpus.open(ring_corpus)


@pytest.fixture(scope="module")
def planting(corpus: Corpus) -> Planting:
    tokenizer = load_tokenizer(corpus.path / "tokenizer")
    return Planting.of_most_frequent(RowIndex(corpus, LENGTH), tokenizer, len(RING), "any")


def test_the_most_frequent_words_are_split(corpus: Corpus, planting: Planting) -> None:
    tokenizer = load_tokenizer(corpus.path / "tokenizer")
    assert set(tokenizer.convert_ids_to_tokens(planting.spellings[:, 0].tolist())) == set(RING)
    new = planting.spellings[:, 1:]
    assert sorted(new.flatten()) == list(range(len(tokenizer), len(tokenizer) + 3 * len(RING)))
    rows = RowIndex(corpus, LENGTH).read(np.arange(len(RowIndex(corpus, LENGTH))))
    is_planted = np.isin(rows.input_ids, planting.spellings[:, 0]) & rows.is_whole_word
    assert planting.share == pytest.approx(is_planted.sum() / (~rows.is_special).sum())


def test_content_words_are_no_stop_words(corpus: Corpus) -> None:
    tokenizer, index = load_tokenizer(corpus.path / "tokenizer"), RowIndex(corpus, LENGTH)
    content = [word for word in RING if word not in STOP_WORDS]
    assert len(content) < len(RING)
    chosen = Planting.of_most_frequent(index, tokenizer, len(content), "content").spellings[:, 0]
    assert set(tokenizer.convert_ids_to_tokens(chosen.tolist())) == set(content)
    with pytest.raises(ConfigError, match=r"num_words=500: the corpus has only \d+ words"):
        Planting.of_most_frequent(index, tokenizer, 500, "content")


def test_spelling_changes_whole_planted_words_and_nothing_else(corpus: Corpus, planting: Planting) -> None:
    plain, spelt = RowIndex(corpus, LENGTH), PlantedRows(corpus, LENGTH, planting, seed=1)
    numbers = np.arange(len(plain))
    before, after = plain.read(numbers), spelt.read(numbers)
    classes = planting.classes().numpy()
    assert (classes[after.input_ids] == before.input_ids).all()
    is_changed = after.input_ids != before.input_ids
    can_change = np.isin(before.input_ids, planting.spellings[:, 0]) & before.is_whole_word
    assert is_changed.any() and not is_changed[~can_change].any()
    assert (np.isin(before.input_ids, planting.spellings[:, 0]) & ~can_change).any(), "a word that begins another"
    for field in ("segments", "is_word_start", "is_whole_word", "is_special"):
        assert (getattr(before, field) == getattr(after, field)).all()
    spelling = (
        after.input_ids[can_change, None] == planting.spellings[planting.words()[after.input_ids[can_change]]]
    ).argmax(1)
    found = np.bincount(spelling, minlength=4) / can_change.sum()
    assert found == pytest.approx(SHARES, abs=0.02)


def test_a_spelling_depends_on_seed_and_place_only(corpus: Corpus, planting: Planting) -> None:
    rows = PlantedRows(corpus, LENGTH, planting, seed=1)
    together = rows.read(np.array([5, 9, 5])).input_ids
    assert (together == np.concatenate([rows.read(np.array([n])).input_ids for n in (5, 9, 5)])).all()
    other = PlantedRows(corpus, LENGTH, planting, seed=2).read(np.array([5, 9, 5])).input_ids
    assert (together != other).any()


def test_the_ceiling_is_the_text_itself(corpus: Corpus, planting: Planting) -> None:
    numbers = np.arange(50)
    unsplit = PlantedRows(corpus, LENGTH, planting, 1, UNSPLIT).read(numbers).input_ids
    assert (unsplit == RowIndex(corpus, LENGTH).read(numbers).input_ids).all()


def test_a_class_has_the_probability_of_all_its_spellings(planting: Planting) -> None:
    logits = torch.randn(7, len(planting.words()), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    probabilities = logits.softmax(-1)
    by_class = planting.class_logits(logits).softmax(-1)
    expected = torch.zeros_like(by_class).index_add_(1, planting.classes(), probabilities)
    torch.testing.assert_close(by_class, expected)


def test_every_spelling_has_a_tokenizer_entry(corpus: Corpus, planting: Planting) -> None:
    tokenizer = load_tokenizer(corpus.path / "tokenizer")
    planting.extend(tokenizer)
    assert len(tokenizer) == len(planting.words())
    row = planting.spellings[0].tolist()
    word = tokenizer.convert_ids_to_tokens(row[0])
    assert tokenizer.convert_ids_to_tokens(row) == [word, f"{word}~2", f"{word}~3", f"{word}~4"]
    with pytest.raises(ConfigError, match="entries such as"):
        planting.extend(tokenizer)


def test_words_look_alike_that_keep_the_same_company(tmp_path: Path) -> None:
    """``river`` and ``stream`` stand between the same neighbours, with the frequent ones in other places."""
    text = "the red river runs deep and the red stream runs deep while old songs old songs sound"
    (tmp_path / "text.txt").write_text("\n\n".join([text] * 20))
    backend = Tokenizer(models.WordLevel(numbered([*SPECIAL, *sorted(set(text.split()))]), unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = wrapped(backend)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    build_corpus([str(tmp_path / "text.txt")], tmp_path / "tokenizer", tmp_path / "corpus")
    index = RowIndex(Corpus.open(tmp_path / "corpus"), LENGTH)
    planting = Planting.of_most_frequent(index, tokenizer, len(set(text.split())), "any")
    words = tokenizer.convert_ids_to_tokens(planting.spellings[:, 0].tolist())
    likest = {word: words[other] for word, other in zip(words, planting.lookalikes[:, 0], strict=True)}
    assert (likest["river"], likest["stream"]) == ("stream", "river")
    for number, others in enumerate(planting.lookalikes):
        assert sorted([number, *others]) == list(range(len(words)))


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
