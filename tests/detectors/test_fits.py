"""Fitting as text and on tensors: the same verdicts, over a whole vocabulary."""

from __future__ import annotations

import pytest
import torch
from tiny_encoders import TEXT, TOKENIZERS, WORDNET, at, encode_rows, masked_at

from trueneg.config.objective_options import CorrectionConfig
from trueneg.detectors import make_detector, make_scorer
from trueneg.detectors.specification import Resources
from trueneg.lexicon.compatibility import Compatibility
from trueneg.lexicon.surface import surfaces
from trueneg.lexicon.wordnet import WordNet


def test_the_scorer_says_what_fits() -> None:
    scorer = make_scorer("fits", Resources(wordnet=str(WORDNET)))
    asked = [at(TEXT[0], "large", "big"), at(TEXT[0], "large", "small"), at(TEXT[0], "mouse", "house of cards")]
    assert scorer.scores(asked).tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_detector_agrees_with_it_on_every_pair_of_words(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]()
    fit, entries = Compatibility(WordNet.load(WORDNET)), surfaces(tokenizer)
    words = [token for token, entry in enumerate(entries) if entry.starts_word and len(entry.word) > 2]
    detector = make_detector(CorrectionConfig(detector="fits", wordnet=str(WORDNET)), tokenizer)
    batch = masked_at(encode_rows(tokenizer, [[TEXT[0]]]), [[1]])
    gold, other = (
        pairs.reshape(1, -1) for pairs in torch.meshgrid(torch.tensor(words), torch.tensor(words), indexing="ij")
    )
    credit = detector.credit(gold, other, batch)[0].tolist()
    expected = [
        float(fit.fits(entries[a].word, entries[b].word))
        for a, b in zip(gold[0].tolist(), other[0].tolist(), strict=True)
        if a != b
    ]
    given = [c for c, a, b in zip(credit, gold[0].tolist(), other[0].tolist(), strict=True) if a != b]
    assert given == expected and 0 < sum(expected) < len(expected)


def test_tokens_beyond_the_vocabulary_fit_nowhere() -> None:
    tokenizer = TOKENIZERS["wordpiece"]()
    detector = make_detector(CorrectionConfig(detector="fits", wordnet=str(WORDNET)), tokenizer)
    batch = masked_at(encode_rows(tokenizer, [[TEXT[0]]]), [[2]])
    assert detector.credit(batch.gold, torch.full_like(batch.gold, 10**6), batch).tolist() == [[0.0]]
