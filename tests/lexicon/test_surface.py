from __future__ import annotations

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.lexicon.surface import NO_SURFACE, Surface, surfaces


def by_token(tokenizer: PreTrainedTokenizerFast) -> dict[str, Surface]:
    found = surfaces(tokenizer)
    return {token: found[number] for token, number in tokenizer.get_vocab().items()}


def test_wordpiece(wordpiece: PreTrainedTokenizerFast) -> None:
    found = by_token(wordpiece)
    assert found["movie"] == Surface("movie", "start", "lower")
    assert found["##movie"] == Surface("movie", "inside", "lower")
    assert found["movie"].starts_word and not found["##movie"].starts_word
    assert found["1990"] == Surface("1990", "start", "lower")


def test_byte_level(byte_level: PreTrainedTokenizerFast) -> None:
    found = by_token(byte_level)
    assert found["Ġprimary"] == Surface("primary", "start", "lower")
    assert found["primary"] == Surface("primary", "bare", "lower")
    assert found["ĠPrimary"] == Surface("Primary", "start", "title")
    assert found["MAIN"] == Surface("MAIN", "bare", "upper")
    assert found["mAin"].casing == "mixed"
    assert found["Ã"] == NO_SURFACE  # a byte that is no text by itself
    assert found["Ġ"] == NO_SURFACE


def test_metaspace(metaspace: PreTrainedTokenizerFast) -> None:
    found = by_token(metaspace)
    assert found["▁primary"] == Surface("primary", "start", "lower")
    assert found["primary"] == Surface("primary", "inside", "lower")
    assert found["▁Main"] == Surface("Main", "start", "title")
    assert found["▁"] == NO_SURFACE


def test_spaces_that_a_normalizer_marks() -> None:
    tokenizer = Tokenizer(models.BPE(numbered([*SPECIAL, "▁main", "main"]), merges=[]))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    found = by_token(wrapped(tokenizer))
    assert (found["▁main"].prefix, found["main"].prefix) == ("start", "inside")


def test_ends_that_a_suffix_marks() -> None:
    model = models.BPE(numbered([*SPECIAL, "main</w>", "main"]), merges=[], end_of_word_suffix="</w>")
    found = by_token(wrapped(Tokenizer(model)))
    assert found["main</w>"] == Surface("main", "bare", "lower")
    assert found["main"] == Surface("main", "inside", "lower")


def test_whole_words() -> None:
    tokenizer = Tokenizer(models.WordLevel(numbered([*SPECIAL, "main"]), unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    assert by_token(wrapped(tokenizer))["main"] == Surface("main", "start", "lower")


@pytest.mark.parametrize(("kind", "prefix"), [("wordpiece", "start"), ("byte_level", "bare"), ("metaspace", "inside")])
def test_added_tokens_bear_no_mark(kind: str, prefix: str, request: pytest.FixtureRequest) -> None:
    tokenizer: PreTrainedTokenizerFast = request.getfixturevalue(kind)
    tokenizer.add_tokens(["covid"])
    tokenizer.add_tokens([AddedToken("shout", special=True)])
    found = by_token(tokenizer)
    assert found["covid"] == Surface("covid", prefix, "lower")  # type: ignore[arg-type]
    assert found["shout"] == NO_SURFACE
    assert len(surfaces(tokenizer)) == len(tokenizer)


@pytest.mark.parametrize("kind", ["wordpiece", "byte_level", "metaspace"])
def test_special_tokens_have_no_word(kind: str, request: pytest.FixtureRequest) -> None:
    found = by_token(request.getfixturevalue(kind))
    assert {found[token] for token in SPECIAL} == {NO_SURFACE}


def test_an_id_without_a_token_has_no_word() -> None:
    model = models.WordPiece({**numbered(SPECIAL), "main": 9}, unk_token="[UNK]")
    found = surfaces(wrapped(Tokenizer(model)))
    assert len(found) == 10 and found[7] == NO_SURFACE and found[9].word == "main"
