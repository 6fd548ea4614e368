"""Forms are written as the tokenizer would write them in a text, and found again."""

from __future__ import annotations

import string

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import tiny_tokenizers
from tiny_tokenizers import numbered, wrapped
from trueneg.corruption.views.rewriting import hashes_of
from trueneg.corruption.views.word_pieces import WordPieces

FORMS = ["cat", "cats", "film", "movie", "quickly"]
ROLES = dict(zip(tiny_tokenizers.ROLES, ["<p>", "<u>", "<c>", "<s>", "<m>"], strict=True))


def wordpiece(lowercase: bool) -> PreTrainedTokenizerFast:
    letters = [*string.ascii_letters, *(f"##{c}" for c in string.ascii_letters), '"']
    entries = dict.fromkeys([*ROLES.values(), "cat", "##s", "Film", "film", *letters])
    backend = Tokenizer(models.WordPiece(numbered(entries), unk_token="<u>"))
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return wrapped(backend, **ROLES)


def byte_level() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = [*ROLES.values(), *alphabet, "at", "cat", "Ġc", "Ġcat"]
    merges = [("a", "t"), ("c", "at"), ("Ġ", "c"), ("Ġc", "at")]
    backend = Tokenizer(models.BPE(numbered(entries), merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return wrapped(backend, **ROLES)


TOKENIZERS = {
    "uncased": (lambda: wordpiece(True), 1),
    "cased": (lambda: wordpiece(False), 2),
    "byte-level": (byte_level, 4),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_as_in_a_text_and_back(name: str) -> None:
    make, num_variants = TOKENIZERS[name]
    tokenizer = make()
    table = WordPieces.of(FORMS, tokenizer)
    assert table.num_variants == num_variants
    for number, form in enumerate(FORMS):
        for text in (f"a {form} b", f"a {form.title()} b", f'"{form}" b', f'"{form.title()}"'):
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            before = len(tokenizer(text[: text.lower().index(form)].rstrip(), add_special_tokens=False)["input_ids"])
            after = len(tokenizer(text[text.lower().index(form) + len(form) :], add_special_tokens=False)["input_ids"])
            pieces = np.array(ids[before : len(ids) - after], dtype=np.int32)
            found, variant = table.find(hashes_of(pieces, np.array([0]), np.array([len(pieces)])))
            assert found.tolist() == [number], text
            start, size = table.starts[number, variant[0]], table.sizes[number, variant[0]]
            assert table.pieces[start : start + size].tolist() == pieces.tolist()


def test_what_is_no_form_is_not_found() -> None:
    table = WordPieces.of(FORMS, byte_level())
    pieces = np.array([7, 8, 9], dtype=np.int32)
    assert table.find(hashes_of(pieces, np.array([0, 1]), np.array([3, 1])))[0].tolist() == [-1, -1]
    assert WordPieces.of([], byte_level()).find(np.array([5], dtype=np.uint64))[0].tolist() == [-1]


def test_a_form_of_unknown_pieces_has_none() -> None:
    table = WordPieces.of(["naïve", "cat"], wordpiece(True))
    assert table.sizes.tolist() == [[0], [1]]


def test_a_vocabulary_without_what_stands_before_a_word() -> None:
    backend = Tokenizer(models.WordPiece(numbered([*ROLES.values(), "cat"]), unk_token="<u>"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    table = WordPieces.of(["cat", "dog"], wrapped(backend, **ROLES))
    assert table.sizes[:, 0].tolist() == [1, 0]
