"""Rows of tokens as text with character offsets, for models with another tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.lexicon.surface import Surface, surfaces


@dataclass(frozen=True)
class RowText:
    """Tokens as text.

    Attributes:
        text: their text, with a space before every word that begins with one.
        starts: offset of each token's first character.
        ends: offset after each token; a token without text of its own, such as special tokens and parts of
            characters, is empty.
    """

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]


class TokenText:
    """Converts token ids to text, with the offsets of each token.

    Args:
        tokenizer: The tokenizer of the ids.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.surfaces: Sequence[Surface] = surfaces(tokenizer)
        self._tokenizer = tokenizer
        self._special = frozenset(tokenizer.all_special_ids)

    def __call__(self, ids: Sequence[int]) -> RowText:
        """Text of consecutive tokens.

        Example:
            With BERT's tokenizer, the ids of "its primary function" give that text, and starts (0, 4, 12).
        """
        parts: list[str] = []
        starts, ends, length = [], [], 0
        for before, own in self._pieces(ids):
            # A text does not begin with a space.
            parts += [before if length else before.lstrip(), own]
            starts.append(length + len(parts[-2]))
            ends.append(starts[-1] + len(own))
            length = ends[-1]
        return RowText("".join(parts), tuple(starts), tuple(ends))

    def _pieces(self, ids: Sequence[int]) -> Iterator[tuple[str, str]]:
        """Yield the text before each token, and its own text."""
        for is_text, run in groupby(ids, self._is_text):
            if is_text:
                found = (self.surfaces[token] for token in run)
                yield from ((" " if surface.prefix == "start" else "", surface.word) for surface in found)
            else:
                # Bytes of a character, and lone spaces, are text only when decoded together.
                tokens = list(run)
                yield self._together(tokens), ""
                yield from [("", "")] * (len(tokens) - 1)

    def _is_text(self, token: int) -> bool:
        return token < len(self.surfaces) and bool(self.surfaces[token].word)

    def _together(self, tokens: Sequence[int]) -> str:
        ordinary = [token for token in tokens if token < len(self.surfaces) and token not in self._special]
        if not ordinary:
            return ""
        text = str(self._tokenizer.decode(ordinary))
        # Decoders of "▁" drop a space at the edge of a text.
        begins_with_space = str(self._tokenizer.convert_ids_to_tokens(ordinary[0])).startswith(("▁", "Ġ"))
        return f" {text.lstrip()}" if begins_with_space else text


def substitution_kinds(entries: Sequence[Surface], *, every_word: bool = False) -> Tensor:
    """The kind of each entry, int64 ``[vocab]``: entries of the same kind may replace each other; -1 for none.

    A kind is a prefix and a casing. Without ``every_word``, only words that pass ``surface.is_candidate`` have one.
    """
    names: dict[tuple[str, str], int] = {}
    kinds = torch.full((len(entries),), -1)
    for token, surface in enumerate(entries):
        if surface.is_word if every_word else surface.is_substitutable:
            kinds[token] = names.setdefault((surface.prefix, surface.casing), len(names))
    return kinds


def are_alike(kinds: Tensor, gold: Tensor, tokens: Tensor) -> Tensor:
    """Whether tokens have gold's kind (``substitution_kinds``): bool, of the broadcast shape.

    Ids beyond the vocabulary, which padded output rows have, have no kind.
    """
    known = len(kinds)
    kind = kinds[gold.clamp(max=known - 1)]
    return (kind >= 0) & (kind == kinds[tokens.clamp(max=known - 1)]) & (tokens < known)
