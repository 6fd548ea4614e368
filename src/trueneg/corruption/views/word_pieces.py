"""Word forms as a tokenizer writes them within a text, and back from pieces to forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trueneg.corruption.views.rewriting import hashes_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_CASINGS: tuple[Callable[[str], str], ...] = (str.lower, lambda word: word[:1].upper() + word[1:])
_BEFORE = ("x ", '"')
"""What may stand before a word, with a space and without: byte-level BPE and SentencePiece write it differently."""


@dataclass(frozen=True)
class WordPieces:
    """Each form in every way that the tokenizer tells apart: its *variants*.

    The pieces of form ``f`` as variant ``v`` are ``pieces[starts[f, v] : starts[f, v] + sizes[f, v]]``.
    """

    pieces: NDArray[np.int32]
    """Token ids end to end."""
    starts: NDArray[np.int64]
    """``[forms, variants]``."""
    sizes: NDArray[np.int64]
    """``[forms, variants]``; 0 for a form that the tokenizer cannot write without unknown pieces."""
    hashes: NDArray[np.uint64]
    """Of all of them, ascending."""
    owners: NDArray[np.int64]
    """``form * variants + variant`` of each hash."""

    @property
    def num_variants(self) -> int:
        """Capitals or none, after a space or not: as many as make a difference."""
        return int(self.starts.shape[1])

    @classmethod
    def of(cls, forms: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> WordPieces:
        """Tokenize forms, which are lower case."""
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
        # Of variants that are written alike the first is meant.
        hashes, first = np.unique(hashes_of(joined, starts[used], sizes[used]), return_index=True)
        shape = (len(forms), len(variants))
        return cls(joined, starts.reshape(shape), sizes.reshape(shape), hashes, used[first])

    def find(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Form and variant of sequences of pieces, by their hashes; -1 for a sequence that is no form."""
        if not len(self.hashes):
            nothing = np.full(len(hashes), -1, dtype=np.int64)
            return nothing, nothing
        # Hashes are even, so their first bits say where to look: a step or two instead of a search through memory.
        shift, firsts = self._buckets
        place = np.take(firsts, (hashes >> shift).astype(np.int64))
        for _ in range(self._longest_bucket):
            place += np.take(self.hashes, place, mode="clip") < hashes
        is_found = np.take(self.hashes, place, mode="clip") == hashes
        form, variant = np.divmod(np.take(self.owners, place, mode="clip"), self.num_variants)
        return np.where(is_found, form, -1), np.where(is_found, variant, -1)

    @cached_property
    def _buckets(self) -> tuple[np.uint64, NDArray[np.int64]]:
        """Bits that are left of a hash below its bucket's number, and where each bucket begins."""
        num_bits = max(1, int(np.log2(len(self.hashes)))) + 1
        shift = np.uint64(64 - num_bits)
        begins = np.arange(1 << num_bits, dtype=np.uint64) << shift
        return shift, np.searchsorted(self.hashes, begins)

    @cached_property
    def _longest_bucket(self) -> int:
        _, firsts = self._buckets
        return int(np.diff(firsts, append=len(self.hashes)).max())


def _encoded(texts: list[str], tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    if not texts:
        return []
    rows: list[list[int]] = tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    return rows
