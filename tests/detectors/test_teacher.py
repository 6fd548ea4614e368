"""A masked model's likelihood ratio, as transformers alone gives it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoders import TEXT, at
from transformers import AutoModelForMaskedLM, AutoTokenizer

from trueneg.detectors import make_scorer
from trueneg.detectors.scorers.base import Substitution
from trueneg.detectors.scorers.teacher import TeacherScorer
from trueneg.detectors.specification import Resources

TOLERANCE = 0.15
"""Of bfloat16, in nats; the ratios range over many."""


@cache
def loaded(path: str) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(path), AutoModelForMaskedLM.from_pretrained(path).eval()


def teacher_of(path: str, resources: Resources, options: str = "") -> TeacherScorer:
    scorer = make_scorer(f"teacher:{path}{options}", resources)
    assert isinstance(scorer, TeacherScorer)
    return scorer


@torch.no_grad()
def log_probabilities(path: str, ids: list[int]) -> torch.Tensor:
    found: torch.Tensor = loaded(path)[1](torch.tensor([ids])).logits[0].log_softmax(-1)
    return found


def seen(path: str, s: Substitution, substitute_id: int) -> float:
    """Log ratio where the text is read as it is."""
    tokenizer = loaded(path)[0]
    encoded = tokenizer(s.text)
    batch = encoded.char_to_token(s.start)
    found = log_probabilities(path, encoded.input_ids)[batch]
    return float(found[substitute_id] - found[encoded.input_ids[batch]])


def masked(path: str, s: Substitution, word_ids: list[int]) -> float:
    """Mean log probability of a word's pieces, as many masks in its place."""
    tokenizer = loaded(path)[0]
    left, right = (tokenizer(part, add_special_tokens=False).input_ids for part in (s.text[: s.start], s.text[s.end :]))
    ids = [tokenizer.cls_token_id, *left, *[tokenizer.mask_token_id] * len(word_ids), *right, tokenizer.sep_token_id]
    found = log_probabilities(path, ids)
    return float(np.mean([found[1 + len(left) + n, piece] for n, piece in enumerate(word_ids)]))


SINGLE = [
    at(TEXT[0], "large", "big"),
    at(TEXT[0], "large", "city"),
    at(TEXT[0], "city", "river"),
    at(TEXT[0], "old", "near"),
    at(TEXT[2], "animal", "mouse"),
]


def test_one_piece_for_another_is_a_ratio_of_two_probabilities(checkpoint: str, resources: Resources) -> None:
    tokenizer, scorer = loaded(checkpoint)[0], teacher_of(checkpoint, resources)
    vocabulary = tokenizer.get_vocab()
    ids = [vocabulary.get(f"Ġ{s.substitute}", vocabulary.get(s.substitute)) for s in SINGLE]
    wanted = np.array([seen(checkpoint, s, n) for s, n in zip(SINGLE, ids, strict=True)])
    assert np.ptp(wanted) > 1
    np.testing.assert_allclose(scorer.log_ratios(SINGLE), wanted, atol=TOLERANCE)
    probabilities = np.exp(wanted) / (1 + np.exp(wanted))  # p(substitute) / (p(substitute) + p(word))
    np.testing.assert_allclose(scorer.scores(SINGLE), probabilities, atol=TOLERANCE / 4)
    assert scorer.threshold == 0.5


def test_a_word_at_the_start_has_no_space_before_it(roberta: str, resources: Resources) -> None:
    vocabulary = loaded(roberta)[0].get_vocab()
    both = [letter for letter in "bcdefghijklmnopqrstuvwxyz" if f"Ġ{letter}" in vocabulary]
    text, asked = "a mouse sat", [at("a mouse sat", "a", letter) for letter in both]
    found = teacher_of(roberta, resources).log_ratios(asked)
    bare = [seen(roberta, at(text, "a", letter), vocabulary[letter]) for letter in both]
    after_space = [seen(roberta, at(text, "a", letter), vocabulary[f"Ġ{letter}"]) for letter in both]
    np.testing.assert_allclose(found, bare, atol=TOLERANCE)
    assert both and np.abs(found - after_space).max() > 3 * TOLERANCE


@pytest.mark.parametrize(
    ("word", "substitute"), [("large", "zebra"), ("zebra", "large"), ("zebra", "emu"), ("large", "big mouse")]
)
def test_several_pieces_are_compared_under_as_many_masks(
    bert: str, word: str, substitute: str, resources: Resources
) -> None:
    tokenizer, s = loaded(bert)[0], at(f"the {word} went near", word, substitute)
    ids = [tokenizer(text, add_special_tokens=False).input_ids for text in (substitute, word)]
    assert {len(ids[0]), len(ids[1])} != {1}
    wanted = masked(bert, s, ids[0]) - masked(bert, s, ids[1])
    np.testing.assert_allclose(teacher_of(bert, resources).log_ratios([s]), wanted, atol=TOLERANCE)


def test_masks_stand_where_the_word_stood(roberta: str, resources: Resources) -> None:
    tokenizer, s = loaded(roberta)[0], at("the large zebra went", "zebra", "mouse")
    ids = [tokenizer(f" {text}", add_special_tokens=False).input_ids for text in ("mouse", "zebra")]
    assert len(ids[0]) == 1 < len(ids[1])
    left, right = (tokenizer(text, add_special_tokens=False).input_ids for text in ("the large", " went"))
    total = 0.0
    for pieces, sign in zip(ids, (1, -1), strict=True):
        row = [tokenizer.cls_token_id, *left, *[tokenizer.mask_token_id] * len(pieces), *right, tokenizer.sep_token_id]
        found = log_probabilities(roberta, row)
        total += sign * float(np.mean([found[1 + len(left) + n, piece] for n, piece in enumerate(pieces)]))
    np.testing.assert_allclose(teacher_of(roberta, resources).log_ratios([s]), total, atol=TOLERANCE)


def test_the_same_word_scores_a_half(checkpoint: str, resources: Resources) -> None:
    asked = [Substitution(s.text, s.start, s.end, s.target) for s in [*SINGLE, at("the zebra sat", "zebra", "x")]]
    np.testing.assert_allclose(teacher_of(checkpoint, resources).scores(asked), 0.5)


@pytest.mark.parametrize(("word", "substitute"), [("mouse", "🐭"), ("🐭", "mouse"), ("🐭", "🐱"), ("mouse", "\x07")])
def test_what_the_teacher_does_not_know_scores_0(bert: str, word: str, substitute: str, resources: Resources) -> None:
    scorer, s = teacher_of(bert, resources), at(f"the {word} sat", word, substitute)
    assert scorer.log_ratios([s]).tolist() == [-np.inf] and scorer.scores([s]).tolist() == [0]


def test_bytes_are_known(roberta: str, resources: Resources) -> None:
    scores = teacher_of(roberta, resources).scores([at("the 🐭 sat", "🐭", "🐱"), at("the mouse sat", "mouse", "🐱")])
    assert ((scores > 0) & (scores < 1)).all()


def test_many_at_once_are_each_by_itself(checkpoint: str, resources: Resources) -> None:
    scorer = teacher_of(checkpoint, resources)
    asked = [*SINGLE, at("the zebra sat", "zebra", "mouse"), at(TEXT[0], "large", "zebra"), *SINGLE[:2]]
    alone = np.concatenate([scorer.log_ratios([s]) for s in asked])
    np.testing.assert_allclose(scorer.log_ratios(asked), alone, atol=TOLERANCE)


def test_a_long_text_is_read_around_the_word(checkpoint: str, resources: Resources) -> None:
    scorer = teacher_of(checkpoint, resources, "[window=20]")
    text = " ".join([*TEXT * 4, "the large animal went", *TEXT * 4])
    start = text.index("animal went")
    cut, begin, end = scorer.reader.cut((text, start, start + 6))
    assert len(cut) < len(text) / 4 and scorer.provenance["window"] == "20"
    long, short = Substitution(text, start, start + 6, "mouse"), Substitution(cut, begin, end, "mouse")
    np.testing.assert_allclose(scorer.log_ratios([long]), scorer.log_ratios([short]), atol=TOLERANCE)
    assert np.isfinite(scorer.log_ratios([Substitution(text, start, start + 6, "quizzicalities")])).all()


def test_a_window_is_no_longer_than_the_model(roberta: str, resources: Resources) -> None:
    scorer = teacher_of(roberta, resources, "[window=500]@0.1")
    assert scorer.threshold == 0.1 and scorer.reader.window == 64 - 1
    assert np.isfinite(scorer.log_ratios([at(" ".join(TEXT * 20), "film", "movie")])).all()
