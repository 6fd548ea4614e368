"""The article before a word that was replaced agrees with what stands there now: "a book", "an almanac"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trueneg.corruption.views.rewriting import Words
from trueneg.corruption.views.word_pieces import WordPieces
from trueneg.lexicon.articles import begins_with_vowel_sound
from trueneg.lexicon.tags import number

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_ARTICLES = ("a", "an")
_DETERMINER = number("DT")


@dataclass(frozen=True)
class Articles:
    """Both indefinite articles, in every way that a tokenizer writes them with one token, and who takes which."""

    tokens: NDArray[np.int64]
    """Token ids of "a" and "an", ``[variants, 2]``; none where the tokenizer cuts "an" in two."""
    takes_an: NDArray[np.bool_]
    """Whether each form begins with the sound of a vowel, ``[forms]``."""

    @classmethod
    def of(cls, forms: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> Articles:
        """Find the articles' tokens, and the sounds that forms begin with."""
        pieces = WordPieces.of(_ARTICLES, tokenizer)
        is_token = (pieces.sizes == 1).all(axis=0)
        tokens = pieces.pieces[pieces.starts[:, is_token]].T.astype(np.int64)
        return cls(tokens, np.fromiter(map(begins_with_vowel_sound, forms), np.bool_, len(forms)))

    def agreeing(
        self, input_ids: NDArray[np.int64], tags: NDArray[np.uint8], words: Words, forms: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Rows in which the article right before each of some words is the one that a form takes.

        Args:
            input_ids: ``[rows, length]``; they are not changed.
            tags: Of the rows' words, ``[rows, length]``: "vitamin A" has no article.
            words: Those that forms come in the place of.
            forms: Their numbers, ``[words]``.
        """
        line, column = words.line, np.maximum(words.start - 1, 0)
        before = input_ids[line, column]
        wanted = self.takes_an[forms].astype(np.int64)
        is_article = (tags[line, column] == _DETERMINER) & (words.start > 0)
        found = input_ids.copy()
        for pair in self.tokens:
            is_wrong = is_article & (before == pair[1 - wanted])
            found[line[is_wrong], column[is_wrong]] = pair[wanted[is_wrong]]
        return found
