"""Words in a tokenizer's vocabulary: the pieces of their forms, their articles, and which are names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trueneg.corruption.views.rewriting import Words, hashes_of
from trueneg.errors import ConfigError
from trueneg.lexicon.articles import begins_with_vowel_sound
from trueneg.lexicon.surface import surfaces
from trueneg.lexicon.tags import number

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_CASINGS: tuple[Callable[[str], str], ...] = (str.lower, lambda word: word[:1].upper() + word[1:])
_BEFORE = ("x ", '"')
"""Context before a word, with a space and without: byte-level BPE and SentencePiece tokenize the word differently."""
_ARTICLES = ("a", "an")
_DETERMINER = number("DT")
_WITHIN = ",;&-–/'’"
"""Punctuation after which a sentence continues."""


@dataclass(frozen=True)
class WordPieces:
    """Token ids of each form in every casing and spacing that the tokenizer distinguishes: its *variants*.

    The pieces of form ``f`` as variant ``v`` are ``pieces[starts[f, v] : starts[f, v] + sizes[f, v]]``.
    """

    pieces: NDArray[np.int32]
    """Token ids end to end."""
    starts: NDArray[np.int64]
    """``[forms, variants]``."""
    sizes: NDArray[np.int64]
    """``[forms, variants]``; 0 for a form that the tokenizer cannot encode without unknown pieces."""
    hashes: NDArray[np.uint64]
    """Hashes of all variants, ascending."""
    owners: NDArray[np.int64]
    """``form * variants + variant`` of each hash."""

    @property
    def num_variants(self) -> int:
        """Number of variants: capitalised or not, after a space or not, as far as they differ."""
        return int(self.starts.shape[1])

    @classmethod
    def of(cls, forms: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> WordPieces:
        """Tokenize lower-case forms."""
        unknown = -1 if tokenizer.unk_token_id is None else tokenizer.unk_token_id
        variants: list[list[list[int]]] = []
        for before in _BEFORE:
            prefix = _encoded([before.strip()], tokenizer)[0]
            for cased in _CASINGS:
                rows = _encoded([before + cased(form) for form in forms], tokenizer)
                after = [row[len(prefix) :] if row[: len(prefix)] == prefix else [] for row in rows]
                found = [[] if unknown in pieces else pieces for pieces in after]
                if found not in variants:
                    variants.append(found)
        flat = [pieces for form in zip(*variants, strict=True) for pieces in form]
        sizes = np.array([len(pieces) for pieces in flat], dtype=np.int64)
        joined = np.array([piece for pieces in flat for piece in pieces], dtype=np.int32)
        starts = np.cumsum(sizes) - sizes
        used = np.flatnonzero(sizes)
        # Of variants with the same pieces, the first is kept.
        hashes, first = np.unique(hashes_of(joined, starts[used], sizes[used]), return_index=True)
        shape = (len(forms), len(variants))
        return cls(joined, starts.reshape(shape), sizes.reshape(shape), hashes, used[first])

    def find(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Form and variant of sequences of pieces, by their hashes; -1 for a sequence that is not a form."""
        if not len(self.hashes):
            nothing = np.full(len(hashes), -1, dtype=np.int64)
            return nothing, nothing
        # Hashes are uniform, so their first bits give the place: a step or two instead of a binary search.
        shift, firsts = self._buckets
        place = np.take(firsts, (hashes >> shift).astype(np.int64))
        for _ in range(self._longest_bucket):
            place += np.take(self.hashes, place, mode="clip") < hashes
        is_found = np.take(self.hashes, place, mode="clip") == hashes
        form, variant = np.divmod(np.take(self.owners, place, mode="clip"), self.num_variants)
        return np.where(is_found, form, -1), np.where(is_found, variant, -1)

    @cached_property
    def _buckets(self) -> tuple[np.uint64, NDArray[np.int64]]:
        """Number of bits of a hash below its bucket's number, and where each bucket begins."""
        num_bits = max(1, int(np.log2(len(self.hashes)))) + 1
        shift = np.uint64(64 - num_bits)
        begins = np.arange(1 << num_bits, dtype=np.uint64) << shift
        return shift, np.searchsorted(self.hashes, begins)

    @cached_property
    def _longest_bucket(self) -> int:
        _, firsts = self._buckets
        return int(np.diff(firsts, append=len(self.hashes)).max())


@dataclass(frozen=True)
class Articles:
    """Both indefinite articles, in every variant that is a single token, and which forms take which."""

    tokens: NDArray[np.int64]
    """Token ids of "a" and "an", ``[variants, 2]``; without variants in which the tokenizer splits "an"."""
    takes_an: NDArray[np.bool_]
    """Whether each form begins with a vowel sound, ``[forms]``."""

    @classmethod
    def of(cls, forms: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> Articles:
        """Find the articles' tokens, and the forms that begin with a vowel sound."""
        pieces = WordPieces.of(_ARTICLES, tokenizer)
        is_token = (pieces.sizes == 1).all(axis=0)
        tokens = pieces.pieces[pieces.starts[:, is_token]].T.astype(np.int64)
        return cls(tokens, np.fromiter(map(begins_with_vowel_sound, forms), np.bool_, len(forms)))

    def agreeing(
        self, input_ids: NDArray[np.int64], tags: NDArray[np.uint8], words: Words, forms: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return rows in which the article right before each replaced word agrees with its replacement.

        Args:
            input_ids: ``[rows, length]``; not modified.
            tags: Tags of the rows' words, ``[rows, length]``: "vitamin A" has no article.
            words: The words to be replaced.
            forms: Numbers of the forms that replace them, ``[words]``.
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


@dataclass(frozen=True)
class Names:
    """Properties of a vocabulary's tokens by which names are found."""

    is_capital: NDArray[np.bool_]
    """Whether the token begins with a capital, ``[vocab]``; "I" does not count."""
    goes_on: NDArray[np.bool_]
    """Whether the sentence continues after the token, ``[vocab]``: it is a word or a comma, for example."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> Names:
        """Read a vocabulary.

        Raises:
            ConfigError: if it has no capitals.
        """
        words = [surface.word for surface in surfaces(tokenizer)]
        is_capital = np.array([word[:1].isupper() and word != "I" for word in words], dtype=bool)
        if not is_capital.any():
            raise ConfigError(
                "views.entities=capitals: the corpus's tokenizer tells no capitals: use views.entities=tags"
            )
        return cls(is_capital, np.array([word[-1:].isalnum() or word in set(_WITHIN) for word in words], dtype=bool))

    def among(self, input_ids: NDArray[np.int64], words: Words) -> NDArray[np.bool_]:
        """Which words are part of a name.

        A capitalised word is if it is within a sentence, or if the word right after it is part of a name: in "New York
        Times staff" three are. In a title every word is.

        Args:
            input_ids: ``[rows, length]``.
            words: All words of the rows, in order.

        Returns:
            bool ``[words]``.
        """
        line, start = words.line, words.start
        has_capital = self.is_capital[input_ids[line, start]]
        is_name = has_capital & (start > 0) & self.goes_on[input_ids[line, np.maximum(start - 1, 0)]]
        # Within a sentence a capital is enough, so only a sentence's first word depends on the next one.
        follows = (line[1:] == line[:-1]) & (start[1:] == start[:-1] + words.size[:-1])
        is_name[:-1] |= has_capital[:-1] & follows & is_name[1:]
        return is_name


def _encoded(texts: list[str], tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    if not texts:
        return []
    rows: list[list[int]] = tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    return rows
