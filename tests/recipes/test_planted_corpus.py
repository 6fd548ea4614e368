from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from ring_text import RING
from tokenizers import Tokenizer, models, pre_tokenizers

from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.corpus.build import build_corpus
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.errors import ConfigError
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.recipes.planted_corpus import SHARES, UNSPLIT, PlantedRows, Planting
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
