"""Rows of tokens as text: every token stands where it says."""

from __future__ import annotations

import pytest
from tiny_encoders import TEXT, TOKENIZERS, byte_level, wordpiece

import tiny
from trueneg.detectors.rowtext import TokenText, substitution_kinds
from trueneg.lexicon.surface import surfaces


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("text", [*TEXT[:4], "a zebra, unheard of (so far)"])
def test_text_and_places(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]()
    encoded = tokenizer(text, add_special_tokens=True)
    read = TokenText(tokenizer)(encoded["input_ids"])
    assert "".join(read.text.split()) == "".join(text.split())
    words = {}
    for token, word in enumerate(encoded.word_ids()):
        piece = read.text[read.starts[token] : read.ends[token]]
        if word is None:
            assert piece == ""
        else:
            words[word] = words.get(word, "") + piece
    assert [word.strip() for word in words.values()] == [
        text[slice(*encoded.word_to_chars(word))].strip() for word in words
    ]


def test_byte_level_text_comes_back_as_it_was() -> None:
    tokenizer = byte_level()
    assert TokenText(tokenizer)(tokenizer("the mouse, slowly", add_special_tokens=False)["input_ids"]).text == (
        "the mouse, slowly"
    )


def test_tokens_that_are_no_text_are_empty() -> None:
    read = TokenText(wordpiece())([tiny.START, tiny.UNKNOWN, 10**6])
    assert read.text == "" and read.starts == read.ends == (0, 0, 0)


def test_kinds_are_words_of_one_prefix_and_casing() -> None:
    tokenizer = byte_level()
    kinds = dict(
        zip(
            tokenizer.convert_ids_to_tokens(range(len(tokenizer))),
            substitution_kinds(surfaces(tokenizer)).tolist(),
            strict=True,
        )
    )
    assert kinds["Ġlarge"] == kinds["Ġmouse"] >= 0
    assert kinds["Ġthe"] == kinds["[MASK]"] == kinds[","] == -1
    assert kinds["ĠLarge"] != kinds["Ġlarge"] if "ĠLarge" in kinds else True
