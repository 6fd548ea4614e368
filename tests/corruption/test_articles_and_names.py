"""Articles agree with what is put after them, and what capitals show to be a name stays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from test_rewriting import build
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tiny_tokenizers import SPECIAL, wrapped
from trueneg.config.objective_options import ViewsConfig
from trueneg.corruption.keyed import example_keys
from trueneg.corruption.views.batch import KEPT, SYNONYM, View
from trueneg.corruption.views.generator import Lists, TextRows, ViewGenerator
from trueneg.corruption.views.rewriting import Words
from trueneg.corruption.views.word_pieces import Articles, Names, WordPieces
from trueneg.errors import ConfigError
from trueneg.lexicon.tags import number

FORMS = ["almanac", "book", "hour", "time", "idol", "star"]
"""Each is replaced by the next, or the one before: an even one by an odd one, and the other way round."""
TEXTS = [
    "a book , an almanac",
    "A book is an hour .",
    "an idol of a star",
    "the book and a good book",
    "vitamin a book",
    "an almanac",
]


def word_piece(is_cased: bool = True) -> PreTrainedTokenizerFast:
    words = [*FORMS, "a", "an", "A", "An", ",", ".", "x", '"', "the", "is", "of", "and", "good", "vitamin"]
    words += ["New", "York", "Times", "Star", "Idol", "staff", "I", "saw", "Book", "says", "The", "&"]
    entries = [*SPECIAL, *dict.fromkeys(words if is_cased else map(str.lower, words))]
    backend = Tokenizer(models.WordPiece({entry: n for n, entry in enumerate(entries)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return wrapped(backend)


def byte_level() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, initial_alphabet=alphabet)
    backend.train_from_iterator([*TEXTS, *["An x", "an An A a"] * 9, *(f"x {form}" for form in FORMS)] * 9, trainer)
    return wrapped(backend)


@dataclass(frozen=True)
class Neighbour:
    """A noun is replaced by its neighbour in ``FORMS``."""

    def entries(self, forms: np.ndarray, tags: np.ndarray) -> np.ndarray:
        return np.where(tags == number("NN"), forms, -1)

    @property
    def meaning(self) -> tuple[Lists, ...]:
        size = np.ones(len(FORMS), np.int64)
        return Lists(np.arange(len(FORMS)), size, np.arange(len(FORMS)) ^ 1), self.antonyms, self.antonyms

    @property
    def antonyms(self) -> Lists:
        nothing = np.zeros(len(FORMS), np.int64)
        return Lists(nothing, nothing, nothing[:0])

    random = antonyms


def rows_of(texts: list[str], tokenizer: PreTrainedTokenizerFast, length: int = 20) -> TextRows:
    rows, tags = [], np.zeros((len(texts), length), np.uint8)
    for line, text in enumerate(texts):
        words = text.split()
        rows.append(
            [tokenizer(f" {w}" if n else w, add_special_tokens=False)["input_ids"] for n, w in enumerate(words)]
        )
        found = []
        for before, word, pieces in zip(["", *words], words, rows[-1], strict=False):
            is_article = word.lower() in ("a", "an") and before != "vitamin"
            found += [number("DT" if is_article else "NN" if word[0].isalpha() else "")] * len(pieces)
        tags[line, 1 : len(found) + 1] = found
    return TextRows(*build(rows, length), tags, example_keys(0, torch.arange(len(texts))), is_packed=False)


def text_of(view: View, line: int, tokenizer: PreTrainedTokenizerFast) -> str:
    return str(
        tokenizer.decode(view.input_ids[line][view.segments[line] > 0][1:-1], clean_up_tokenization_spaces=False)
    )


def synonyms(texts: list[str], tokenizer: PreTrainedTokenizerFast, articles: bool = True) -> View:
    substitution = ViewGenerator(
        Neighbour(),
        WordPieces.of(FORMS, tokenizer),
        ViewsConfig(synonym_share=1.0),
        0,
        Articles.of(FORMS, tokenizer) if articles else None,
    )
    return substitution.views(rows_of(texts, tokenizer))[0]


AGREEING = [
    "an almanac , a book",
    "An almanac is a time .",
    "a star of an idol",
    "the almanac and a good almanac",
    "vitamin a almanac",
    "a book",
]


@pytest.mark.parametrize("tokenizer", [word_piece(), byte_level()], ids=["word pieces", "bytes"])
def test_the_article_before_a_replaced_word_agrees(tokenizer: PreTrainedTokenizerFast) -> None:
    """A capital is kept, an adjective between keeps its own article, and a letter is no article."""
    view = synonyms(TEXTS, tokenizer)
    assert [text_of(view, line, tokenizer) for line in range(len(TEXTS))] == AGREEING
    plain = synonyms(TEXTS, tokenizer, articles=False)
    assert [text_of(plain, line, tokenizer) for line in (0, 5)] == ["a almanac , an book", "an book"]
    assert plain.labels.equal(view.labels), "an article is grammar, no replacement"


def test_an_article_keeps_its_label_and_its_source() -> None:
    view = synonyms(["an almanac"], word_piece())
    assert view.labels[0, :4].tolist() == [KEPT, KEPT, SYNONYM, KEPT]
    assert view.source is not None and view.source[0, :5].tolist() == [0, 1, 2, 3, -1]


def test_rows_themselves_stay() -> None:
    tokenizer = word_piece()
    rows = rows_of(TEXTS, tokenizer)
    before = rows.input_ids.copy()
    substitution = ViewGenerator(
        Neighbour(), WordPieces.of(FORMS, tokenizer), ViewsConfig(), 0, Articles.of(FORMS, tokenizer)
    )
    substitution.views(rows)
    assert np.array_equal(rows.input_ids, before)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("the New York Times staff", "New York Times"),
        ("New York is good .", "New York"),
        ("Times says the Star , Book & New staff", "Star Book New"),
        ("Book says . The staff", ""),
        ("I saw the book", ""),
        ("good book . Star staff", ""),
    ],
)
def test_names_are_capitals_within_a_sentence_and_what_stands_before_them(text: str, names: str) -> None:
    tokenizer = word_piece()
    rows = rows_of([text], tokenizer)
    start = np.flatnonzero(rows.tags[0])
    words = Words(np.zeros_like(start), start, np.ones_like(start))
    is_name = Names.of(tokenizer).among(rows.input_ids, words)
    assert tokenizer.decode(rows.input_ids[0, start[is_name]]) == names


@pytest.mark.parametrize(("is_guarded", "expected"), [(False, "the Idol and almanac"), (True, "the Star and almanac")])
def test_names_stay_in_views(is_guarded: bool, expected: str) -> None:
    tokenizer = word_piece()
    names = Names.of(tokenizer) if is_guarded else None
    options = ViewsConfig(synonym_share=1.0)
    view, _ = ViewGenerator(Neighbour(), WordPieces.of(FORMS, tokenizer), options, 0, names=names).views(
        rows_of(["the Star and book"], tokenizer)
    )
    assert text_of(view, 0, tokenizer) == expected


def test_a_tokenizer_without_capitals_shows_no_names() -> None:
    with pytest.raises(ConfigError, match=r"tells no capitals: use views\.entities=tags"):
        Names.of(word_piece(is_cased=False))
