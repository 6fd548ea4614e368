"""Reading a text once for all of its words gives what reading it for each does, and stops where it may."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoders import TEXT, byte_level
from transformers import AutoModel

import tiny
from trueneg.models import reading as module
from trueneg.models.reading import TextEncoder, WholeTextReader, _stretches, drop_layers_above


def places(text: str) -> list[tuple[int, int]]:
    found, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        found.append((start, start + len(word)))
        start += len(word)
    return found


LONG = " ".join(TEXT * 5)
TEXTS = [*TEXT, "zebra, (unheard) words!", ""]
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


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_a_long_text_is_read_in_stretches_and_each_word_in_one_around_it(
    checkpoint: str, pooling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a quarter of a window on both sides, but at the ends; every token is read at most twice, and a few again."""
    encoder, words = TextEncoder(checkpoint, (1,), pooling), places(LONG)
    num_read, read = [], module.hidden_states

    def counted(model: Any, input_ids: torch.Tensor, mask: torch.Tensor) -> Any:
        num_read.append(int(mask.sum()))
        return read(model, input_ids, mask)

    monkeypatch.setattr(module, "hidden_states", counted)
    found = WholeTextReader(encoder)(["the city", LONG], [[(4, 8)], words])
    num_tokens = len(encoder.tokenizer(LONG)["input_ids"])
    assert num_tokens > 3 * encoder.reader.window and sum(num_read) < 3 * num_tokens
    alone = encoder.vectors([(LONG, *word) for word in words])[:, 0]
    assert found.shape == (1 + len(words), 32)
    ends = [*range(8), *range(-8, 0)]  # a window around them is the first or the last stretch
    np.testing.assert_allclose(found[1:][ends], alone[ends], atol=0.03 * float(np.linalg.norm(alone, axis=1).max()))
    assert (np.abs(found).sum(1) > 0).all()


def test_stretches_share_out_the_words_each_with_a_quarter_of_a_window_around_it(bert: str) -> None:
    encoder, words = TextEncoder(bert, (1,)), places(LONG)
    offsets = encoder.tokenizer(LONG, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    room = encoder.reader.room
    cut = _stretches(LONG, words, offsets, room)
    assert sorted(np.concatenate([stretch.numbers for stretch in cut]).tolist()) == list(range(len(words)))
    for stretch in cut:
        shown = [stretch.text[start:end] for start, end in stretch.places]
        assert shown == [LONG[slice(*words[number])] for number in stretch.numbers]
        num_tokens = len(encoder.tokenizer(stretch.text, add_special_tokens=False)["input_ids"])
        assert num_tokens == room
        for number, (start, end) in zip(stretch.numbers.tolist(), stretch.places, strict=True):
            before, after = (
                len(encoder.tokenizer(part, add_special_tokens=False)["input_ids"])
                for part in (stretch.text[:start], stretch.text[end:])
            )
            assert before >= room // 4 - 1 or LONG.startswith(stretch.text)
            assert after >= room // 4 - 1 or LONG.endswith(stretch.text), number
    found = WholeTextReader(encoder)([LONG], [words])
    expected = WholeTextReader(encoder)([stretch.text for stretch in cut], [stretch.places for stretch in cut])
    np.testing.assert_allclose(found[np.concatenate([stretch.numbers for stretch in cut])], expected, atol=0.02)


def test_tokens_without_characters_do_not_make_a_text_shorter() -> None:
    words = [(0, 1), (1, 2)]
    for offsets in ([(0, 1), *[(1, 1)] * 9, (1, 2)], [(0, 0)] * 9):
        (whole,) = _stretches("ab", words, offsets, room=8)
        assert (whole.text, whole.places, whole.numbers.tolist()) == ("ab", words, [0, 1])


def test_a_character_of_more_tokens_than_the_window_holds(roberta: str) -> None:
    found = WholeTextReader(TextEncoder(roberta, (1,), window=4))(["🦓"], [[(0, 1)]])
    assert found.shape == (1, 32)


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
