"""Views of one text as words, for inspection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import override
from trueneg.config.objective_options import ViewsConfig
from trueneg.corpus.encoding import CorpusTokenizer
from trueneg.corpus.store import Corpus
from trueneg.corpus.tags import Tags
from trueneg.corruption.keyed import example_keys
from trueneg.corruption.views.batch import View
from trueneg.corruption.views.generator import TextRows
from trueneg.corruption.views.rows import make_substitution
from trueneg.errors import CorpusError
from trueneg.lexicon.tagging import make_tagger
from trueneg.tokenizer import special_ids

LABELS: tuple[Literal["kept", "synonym", "antonym"], ...] = ("kept", "synonym", "antonym")
ROOM = 32
"""Tokens that a view may have in addition to its text's."""


@dataclass(frozen=True)
class ShownWord:
    """A word of a view."""

    text: str
    label: Literal["kept", "synonym", "antonym"]


@dataclass(frozen=True)
class ShownViews:
    """Views of a text."""

    text: str
    pairs: list[dict[str, list[ShownWord]]]
    """``synonym`` and ``antonym``, each the words of a view."""
    warnings: list[str]
    """Warnings about the text: no words to replace, or none in WordNet."""

    def as_data(self) -> dict[str, Any]:
        """As JSON data, with the number of words that each view replaced."""
        return {
            "text": self.text,
            "views": [
                {
                    name: {
                        "text": " ".join(word.text for word in words),
                        "replaced": sum(word.label != "kept" for word in words),
                        "words": [asdict(word) for word in words],
                    }
                    for name, words in pair.items()
                }
                for pair in self.pairs
            ],
            "warnings": self.warnings,
        }


def show_views(
    text: str, corpus: str | Path, *, num: int = 5, seed: int = 1, wordnet: str = "", settings: Sequence[str] = ()
) -> ShownViews:
    """Make views of a text as pre-training on a corpus would.

    Args:
        text: A sentence or a few.
        corpus: A corpus built with tags; its words are the replacements.
        num: Number of pairs of views.
        seed: Seed of the draws.
        wordnet: WordNet's folder; empty to search for it.
        settings: ``key=value`` of ``config.ViewsConfig``.

    Raises:
        CorpusError: for an empty text, or a corpus without tags.
        LexiconError: if WordNet is not found.
    """
    if not text.strip():
        raise CorpusError("no text to make views of: give a sentence")
    opened = Corpus.open(corpus, verify=False)  # only its tags are read
    tags = Tags.open(opened)
    tags.verify(again=False)
    tokenizer = opened.load_tokenizer()
    config = override(ViewsConfig(), settings)
    substitution = make_substitution(config, tags, tokenizer, wordnet)
    rows = _rows(text, tokenizer, tags.info.tagger, num, seed)
    synonym, antonym = substitution.views(rows)
    pairs = [
        {"synonym": _words(synonym, line, tokenizer), "antonym": _words(antonym, line, tokenizer)}
        for line in range(num)
    ]
    return ShownViews(text, pairs, _warnings(rows, synonym, antonym))


def _rows(text: str, tokenizer: PreTrainedTokenizerFast, tagger: str, num: int, seed: int) -> TextRows:
    """The same text ``num`` times, each with a key of its own."""
    ids = special_ids(tokenizer)
    encoded = CorpusTokenizer(tokenizer.backend_tokenizer, make_tagger(tagger))([text])
    assert encoded.tagged is not None
    size = len(encoded.tokens)
    shape = (num, size + 2 + ROOM)
    tokens, segments = np.full(shape, cast(int, ids["pad"]), dtype=np.int64), np.zeros(shape, dtype=np.int32)
    starts, special = np.zeros(shape, dtype=bool), np.ones(shape, dtype=bool)
    tags = np.zeros(shape, dtype=np.uint8)
    tokens[:, 0], tokens[:, size + 1] = cast(int, ids["start"]), cast(int, ids["end"])
    inside = slice(1, size + 1)
    tokens[:, inside], starts[:, inside], special[:, inside] = encoded.tokens, encoded.is_word_start, False
    tags[:, inside], segments[:, : size + 2] = encoded.tagged.tags, 1
    keys = example_keys(seed, torch.arange(num))
    return TextRows(tokens, segments, starts, special, tags, keys, is_packed=False)


def _words(view: View, line: int, tokenizer: PreTrainedTokenizerFast) -> list[ShownWord]:
    """Runs of tokens with one label, split at spaces."""
    is_text = view.segments[line] > 0
    ids, labels = view.input_ids[line][is_text][1:-1].tolist(), view.labels[line][is_text][1:-1].tolist()
    words: list[ShownWord] = []
    start = 0
    for end in range(1, len(ids) + 1):
        if end == len(ids) or labels[end] != labels[start]:
            shown = str(tokenizer.decode(ids[start:end], clean_up_tokenization_spaces=False))
            words += [ShownWord(word, LABELS[labels[start]]) for word in shown.split()]
            start = end
    return words


def _warnings(rows: TextRows, synonym: View, antonym: View) -> list[str]:
    if not rows.tags.any():
        return ["the text has no words: nothing is replaced"]
    if not bool((synonym.is_candidate | antonym.is_candidate).any()):
        return [
            "none of the text's words has a candidate: it has no nouns, verbs, adjectives or adverbs that WordNet, "
            "which is English, and the corpus both have"
        ]
    return []
