"""Rows of tokens as text, with the characters at which each word stands: what readers of another tokenizer need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.surface import Surface, surfaces

MIN_LETTERS = 3


@dataclass(frozen=True)
class RowText:
    """Tokens as text.

    Attributes:
        text: what they say, a space before every word that begins with one.
        starts: the character at which each token begins.
        ends: the character after each token; a token that is no text, such as a special one, is empty.
    """

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]


class TokenText:
    """Turns token ids into text without losing where each token stands.

    Args:
        tokenizer: The ids'.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.surfaces: Sequence[Surface] = surfaces(tokenizer)

    def __call__(self, ids: Sequence[int]) -> RowText:
        """Text of some tokens that follow one another.

        Example:
            With BERT's tokenizer, the ids of "its primary function" give that text, and starts (0, 4, 12).
        """
        parts: list[str] = []
        starts, ends, length = [], [], 0
        for token in ids:
            surface = self.surfaces[token] if token < len(self.surfaces) else None
            if surface is None or not surface.word:
                starts.append(length)
                ends.append(length)
                continue
            if surface.prefix == "start" and length:
                parts.append(" ")
                length += 1
            parts.append(surface.word)
            starts.append(length)
            length += len(surface.word)
            ends.append(length)
        return RowText("".join(parts), tuple(starts), tuple(ends))


def substitution_kinds(entries: Sequence[Surface]) -> Tensor:
    """The kind of each entry, int64 ``[vocab]``: entries of one kind may stand for one another; -1 for none.

    Words are alphabetic, of three letters or more, and no stop words; a kind is a prefix and a casing.
    """
    names: dict[tuple[str, str], int] = {}
    kinds = torch.full((len(entries),), -1)
    for token, surface in enumerate(entries):
        word = surface.word.lower()
        is_word = len(word) >= MIN_LETTERS and word.isalpha() and word not in STOP_WORDS
        if surface.starts_word and surface.casing != "mixed" and is_word:
            kinds[token] = names.setdefault((surface.prefix, surface.casing), len(names))
    return kinds
