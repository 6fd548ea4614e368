"""Reading a text once for all of its words gives what reading it for each does, and stops where it may."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoders import TEXT, byte_level
from transformers import AutoModel

import tiny
from trueneg.models.reading import TextEncoder, WholeTextReader, drop_layers_above


def places(text: str) -> list[tuple[int, int]]:
    found, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        found.append((start, start + len(word)))
        start += len(word)
    return found


LONG = " ".join(TEXT * 5)
TEXTS = [*TEXT, "zebra, (unheard) words!", LONG, ""]
WORDS = [places(text) for text in TEXTS]


@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("center", [True, False])
def test_each_word_is_as_if_read_by_itself(checkpoint: str, pooling: Any, center: bool) -> None:
    encoder = TextEncoder(checkpoint, (1,), pooling, center=center)
    spans = [(text, *place) for text, words in zip(TEXTS, WORDS, strict=True) for place in words]
    expected = encoder.vectors(spans)[:, 0]
    found = WholeTextReader(encoder)(TEXTS, WORDS)
    assert found.shape == (len(spans), 32) and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=0.03 * float(np.linalg.norm(expected, axis=1).max()))
    assert np.abs(found).max() > 0.1


def test_words_that_no_token_shows_and_texts_without_words(bert: str) -> None:
    reader = WholeTextReader(TextEncoder(bert))
    found = reader(["the \u200b city", "the city"], [[(4, 5), (6, 10)], []])
    assert not found[0].any() and found[1].any()
    assert reader([], []).shape == reader(["the city"], [[]]).shape == (0, 32)


def test_only_one_layer_is_read(bert: str) -> None:
    with pytest.raises(ValueError, match="one layer"):
        WholeTextReader(TextEncoder(bert, "all"))


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
@pytest.mark.parametrize("last", [0, 1, 2, 3, 4])
def test_layers_above_are_dropped_and_those_below_stay(architecture: str, last: int) -> None:
    """Also in ModernBERT, which normalises after its last layer."""
    torch.manual_seed(0)
    depth = 4
    model = AutoModel.from_config(tiny.make_config(architecture, num_hidden_layers=depth)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    ids = torch.arange(20, 30).unsqueeze(0)
    expected = model(input_ids=ids, output_hidden_states=True).hidden_states[last]
    drop_layers_above(model, last)
    states = model(input_ids=ids, output_hidden_states=True).hidden_states
    assert torch.allclose(states[last], expected, atol=1e-5)
    num_layers = len(states) - 1
    assert num_layers <= (max(last, 1) if architecture != "modernbert" else last + 1) or last >= depth - 1
    assert num_layers >= max(last, 1)


def test_another_tokenizer_than_the_text_came_from(roberta: str) -> None:
    """Characters are what tokenizers have in common."""
    assert byte_level().tokenize("zebra") != ["zebra"]
    reader = WholeTextReader(TextEncoder(roberta, (1,)))
    found = reader(["the zebra sat", "the zebra ran"], [[(4, 9)], [(4, 9)]])
    cosine = found[0] @ found[1] / np.prod(np.linalg.norm(found, axis=1))
    assert 0 < cosine < 0.9999
