"""An encoder's vector of a word is what transformers computes, whatever the tokenizer and however long the text."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tiny_encoders import MAX_LENGTH, TEXT, TOKENIZERS, byte_level, save_checkpoint, wordpiece
from transformers import AutoModel, AutoTokenizer

import tiny
from trueneg.errors import ConfigError, ModelError
from trueneg.models import reading as module
from trueneg.models.reading import Span, SpanReader, TextEncoder

CPU = torch.device("cpu")

TOLERANCE = 0.03
"""Of bfloat16, relative to vectors of length 1."""


def span(text: str, word: str) -> Span:
    start = text.index(word)
    return text, start, start + len(word)


@cache
def loaded(path: str) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()


def by_hand(path: str, where: Span, layer: int, pooling: str, center: bool) -> NDArray[np.float32]:
    """The vector of a word by transformers alone: characters to tokens by the tokenizer's own ``char_to_token``."""
    tokenizer, model = loaded(path)
    text, start, end = where
    given = tokenizer(text, return_tensors="pt")
    word = sorted({token for at in range(start, end) if (token := given.char_to_token(0, at)) is not None})
    with torch.no_grad():
        states = model(**given, output_hidden_states=True).hidden_states[layer][0]
    rest = [token for token in range(len(states)) if token not in word]
    vector = states[word].mean(0) if pooling == "mean" else states[word[0]]
    return np.asarray(vector - states[rest].mean(0) if center else vector)


def assert_near(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE * float(np.linalg.norm(wanted)))


SPANS = [
    span(TEXT[0], "mouse"),
    span(TEXT[0], "the"),  # at the very start
    span(TEXT[0], "city"),  # at the very end
    span("the zebra sat", "zebra"),  # in several pieces
    span("Large", "Large"),  # nothing else
    span("we (large) see", "large"),  # without spaces
]


@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("center", [True, False])
def test_vectors_are_those_of_transformers(checkpoint: str, layer: int, pooling: str, center: bool) -> None:
    encoder = TextEncoder(checkpoint, (layer,), pooling, center=center)  # type: ignore[arg-type]
    found = encoder.vectors(SPANS)
    assert found.shape == (len(SPANS), 1, 32) and found.dtype == np.float32
    for one, where in zip(found, SPANS, strict=True):
        assert_near(one[0], by_hand(checkpoint, where, layer, pooling, center))
    assert not encoder.reader.counts["words_without_tokens"]


def test_all_layers_at_once(checkpoint: str) -> None:
    encoder = TextEncoder(checkpoint, "all")
    assert encoder.layers == (0, 1, 2)
    found = encoder.vectors(SPANS[:2])
    for layer in range(3):
        assert_near(found[:, layer], TextEncoder(checkpoint, (layer,)).vectors(SPANS[:2])[:, 0])


def test_the_layer_two_thirds_of_the_way_up_is_read_unless_told_otherwise(bert: str) -> None:
    assert TextEncoder(bert).layers == (1,)


@settings(deadline=None, max_examples=15)
@given(st.permutations(range(len(SPANS))), st.integers(20, 60))
def test_what_a_text_is_batched_with_does_not_matter(bert: str, order: list[int], budget: int) -> None:
    encoder = TextEncoder(bert)
    alone = np.concatenate([encoder.vectors([where]) for where in SPANS])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TOKENS_AT_ONCE", budget)
        together = encoder.vectors([SPANS[number] for number in order])
    for number, found in zip(order, together, strict=True):
        assert_near(found, alone[number])


def test_batches_hold_every_span_once_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOKENS_AT_ONCE", 40)
    reader = SpanReader(wordpiece(), 64)
    spans = [span(text, text.split()[-1]) for text in TEXT for _ in range(3)]
    batches = list(reader.batches(spans, CPU))
    assert sorted(number for chosen, _ in batches for number in chosen.tolist()) == list(range(len(spans)))
    assert all(read.input_ids.numel() <= 40 or len(chosen) == 1 for chosen, read in batches) and len(batches) > 2
    for _, read in batches:
        assert (read.input_ids[read.attention_mask == 0] == tiny.PAD).all()
        assert (read.is_word.any(1)).all() and not read.is_word[read.attention_mask == 0].any()


def test_nothing_to_read(bert: str) -> None:
    assert TextEncoder(bert).vectors([]).shape == (0, 1, 32)


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("text", ["the zebra, sat", "The LARGE mouse's city", "naïve café 🐭 mouse", "big\tbig  big"])
def test_a_words_pieces_are_those_that_have_a_character_of_it(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]()
    reader, encoded = SpanReader(tokenizer, 64), tokenizer(text)
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            ((_, read),) = reader.batches([(text, start, end)], CPU)
            wanted = {token for at in range(start, end) if (token := encoded.char_to_token(at)) is not None}
            found = set(read.is_word[0].nonzero().flatten().tolist())
            # Several tokens may share a character, of which ``char_to_token`` tells one.
            assert wanted <= found
            if text.isascii():
                assert found == wanted
            assert read.input_ids[0].tolist() == encoded.input_ids


def long_text(num_words: int, seed: int = 0) -> list[str]:
    words = " ".join(TEXT).split()
    return np.random.default_rng(seed).choice(words, num_words).tolist()


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(TOKENIZERS)), st.integers(0, 99), st.integers(5, 30), st.integers(0, 9), st.data())
def test_a_text_is_cut_around_its_word(kind: str, seed: int, window: int, num_odd: int, data: st.DataObject) -> None:
    tokenizer = READERS[kind]
    words = long_text(60, seed)
    for at in data.draw(st.lists(st.integers(0, 59), max_size=num_odd)):
        words[at] = data.draw(st.sampled_from(["zebra", "🐭", "🐭🐭🐭", "(quizzical)", "ﷺ", "\x07"]))
    number = data.draw(st.integers(0, 59))
    start = len(" ".join(words[:number])) + (number > 0)
    whole, reader = (" ".join(words), start, start + len(words[number])), SpanReader(tokenizer, window)
    text, begin, end = reader.cut(whole)
    assert text in whole[0] and len(text) < len(whole[0])
    assert text[begin:end] and words[number].startswith(text[begin:end])
    num_tokens = len(tokenizer(text).input_ids)
    assert num_tokens <= window or len(text.strip()) == 1
    num_of_word = len(tokenizer(f" {words[number]}", add_special_tokens=False).input_ids)
    if num_of_word + 6 <= window:
        assert text[begin:end] == words[number]
    if window >= 24:  # as much as there is room for, but for a word at each edge
        assert num_tokens >= window - 12
    assert reader.cut((text, begin, end)) == (text, begin, end)
    ((_, cut),) = reader.batches([whole], CPU)
    ((_, direct),) = reader.batches([(text, begin, end)], CPU)
    assert torch.equal(cut.input_ids, direct.input_ids) and torch.equal(cut.is_word, direct.is_word)
    assert cut.input_ids.shape[1] <= window


READERS = {kind: make() for kind, make in TOKENIZERS.items()}


def test_there_is_as_much_text_on_either_side() -> None:
    reader = SpanReader(wordpiece(), 13)
    words = ["mouse"] * 40
    words[20] = "city"
    text, start, end = reader.cut(span(" ".join(words), "city"))
    assert text == " ".join(["mouse"] * 5 + ["city"] + ["mouse"] * 5) and text[start:end] == "city"
    at_start = reader.cut((" ".join(words), 0, 5))
    at_end = reader.cut((" ".join(words), len(" ".join(words)) - 5, len(" ".join(words))))
    assert (at_start[0], at_start[1]) == (" ".join(["mouse"] * 11), 0)
    assert (at_end[0], at_end[2]) == (" ".join(["mouse"] * 11), len(" ".join(["mouse"] * 11)))


def test_a_short_text_of_many_tokens_is_cut_too(roberta: str) -> None:
    """Each of these letters is four tokens: 60 characters are far more tokens than the encoder has positions for."""
    text = "🐭" * 30 + " city " + "🐭" * 30
    found = TextEncoder(roberta, window=512).vectors([span(text, "city")])
    assert np.isfinite(found).all() and found.any()


@pytest.mark.parametrize("text_length", [MAX_LENGTH, 500])
def test_texts_longer_than_the_encoder_are_read_around_the_word(checkpoint: str, text_length: int) -> None:
    words = long_text(text_length)
    text = " ".join([*words, "zebra", *words])
    encoder = TextEncoder(checkpoint, window=512)
    found = encoder.vectors([span(text, "zebra")])
    assert_near(found, encoder.vectors([encoder.reader.cut(span(text, "zebra"))]))
    assert encoder.reader.window <= MAX_LENGTH


def test_a_window_narrower_than_the_word(bert: str) -> None:
    encoder = TextEncoder(bert, window=8)
    text, start, end = encoder.reader.cut(span("the quizzicalities sat", "quizzicalities"))
    assert (text, start, end) == ("quizzi", 0, 6)
    assert encoder.vectors([span("the quizzicalities sat", "quizzicalities")]).any()
    assert encoder.reader.counts["words_without_tokens"] == 0


@pytest.mark.parametrize("window", [1, 2])
def test_a_window_without_room(window: int) -> None:
    with pytest.raises(ConfigError, match=f"a window of {window} tokens has no room for a word"):
        SpanReader(wordpiece(), window)


@pytest.mark.parametrize("text", ["the \x07 sat", "\x07", "the mouse \x07" + " mouse" * 80])
def test_a_word_that_no_piece_sees(bert: str, text: str) -> None:
    encoder = TextEncoder(bert)
    assert not encoder.vectors([span(text, "\x07")]).any()
    assert encoder.reader.counts["words_without_tokens"] == 1
    assert encoder.vectors([span(TEXT[0], "mouse")]).any() and encoder.reader.counts["words_without_tokens"] == 1


def test_an_emoji_is_unknown_or_bytes_but_seen(checkpoint: str) -> None:
    encoder = TextEncoder(checkpoint)
    assert encoder.vectors([span("the 🐭 sat", "🐭")]).any() and not encoder.reader.counts["words_without_tokens"]


def test_weights_are_frozen_and_nothing_is_random(bert: str) -> None:
    encoder = TextEncoder(bert)
    assert not encoder.model.training and not any(p.requires_grad for p in encoder.model.parameters())


def test_what_is_no_encoder(bert: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no checkpoint at"):
        TextEncoder(str(tmp_path / "nowhere"))
    with pytest.raises(ModelError, match=r"has layers 0 \(embeddings\) to 2, not 3"):
        TextEncoder(bert, (1, 3))
    save_checkpoint("bert", byte_level(), tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="has pickled weights only, which are never loaded"):
        TextEncoder(str(tmp_path))


def test_an_encoder_with_weights_left_out(bert: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    for file in Path(bert).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    left = {name: tensor for name, tensor in weights.items() if "layer.1.attention" not in name}
    save_file(left, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks \d+ weights of an encoder, 'encoder.layer.1.attention"):
        TextEncoder(str(tmp_path))


def test_neighbouring_words_share_no_piece(checkpoint: str) -> None:
    encoder = TextEncoder(checkpoint, center=False)
    words = TEXT[0].split()
    starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])]).tolist()
    found = encoder.vectors([(TEXT[0], at, at + len(word)) for at, word in zip(starts, words, strict=True)])
    assert all(not np.allclose(one, other, atol=0.1) for one, other in pairwise(found))
