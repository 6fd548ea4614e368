"""The hand-made WordNet and tiny tokenizers of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_lexicon import TINY_WORDNET, WORDS
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.lexicon import wordnet_location
from trueneg.lexicon.wordnet import WordNet


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without WordNet and an empty cache folder, whatever the real one has."""
    monkeypatch.setattr(wordnet_location, "DEBIAN", tmp_path / "debian")
    monkeypatch.setattr(wordnet_location, "SYSTEM_NLTK", ())
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRUENEG_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WNSEARCHDIR", raising=False)
    monkeypatch.delenv("NLTK_DATA", raising=False)
    return tmp_path


@pytest.fixture
def wordnet() -> WordNet:
    return WordNet.load(TINY_WORDNET)


@pytest.fixture
def wordpiece() -> PreTrainedTokenizerFast:
    vocab = numbered([*SPECIAL, *WORDS, "##movie", "##film", "##s", "a", "##a"])
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return wrapped(tokenizer)


@pytest.fixture
def byte_level() -> PreTrainedTokenizerFast:
    words = ["primary", "main", "Primary", "Main", "MAIN", "PRIMARY", "mAin", "pRimary", "movie", "film"]
    broken = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str("é")[0][0][0]  # half of a letter
    tokens = [*SPECIAL, *words, *("Ġ" + word for word in words), broken, "Ġ"]
    tokenizer = Tokenizer(models.BPE(numbered(tokens), merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return wrapped(tokenizer)


@pytest.fixture
def metaspace() -> PreTrainedTokenizerFast:
    tokens = [*SPECIAL, "▁primary", "▁main", "primary", "main", "▁Main", "▁"]
    tokenizer = Tokenizer(models.Unigram([(token, -1.0) for token in tokens], unk_id=1))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return wrapped(tokenizer)
