"""Substitutes from a lookup table, on the device: acceptable in any sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, Proposals, of_slots
from trueneg.lexicon.table import LookupTable


class TableDetector(Detector):
    """Credit 1 where (gold, predicted) is in a lookup table and gold is a whole word, else 0.

    A word of several pieces is never corrected (the paper's footnote 5).

    Args:
        table: Synonym pairs, as sorted keys ``gold * vocab_size + predicted``. One binary search finds a pair
            among 80,000, with no padding and no synchronisation with the host.
    """

    def __init__(self, table: LookupTable) -> None:
        super().__init__()
        self.vocab_size = table.vocab_size
        self.provenance = dict(table.provenance)
        keys = torch.from_numpy(table.keys.copy())
        # The sentinel keeps the position found by a search within the keys.
        self._keys: Tensor
        self.register_buffer("_keys", torch.cat([keys, keys.new_tensor([2**62])]), persistent=False)
        gold = keys // self.vocab_size
        self.max_substitutes = int(gold.bincount().max()) if len(gold) else 1
        """The largest number of substitutes of a token."""

    @property
    def lists(self) -> bool:
        """True."""
        return True

    def credit(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Look up each pair."""
        key = gold * self.vocab_size + tokens
        found = self._keys[torch.searchsorted(self._keys, key)] == key
        # Ids of a model's padded output rows are beyond the table: they would be read as pairs of the next gold token.
        return (found & (tokens < self.vocab_size) & of_slots(batch.is_whole_word, tokens)).to(torch.float32)

    def propose(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Proposals:
        """List all entries of gold's row of the table."""
        first = torch.searchsorted(self._keys, gold * self.vocab_size).unsqueeze(-1)
        column = torch.arange(self.max_substitutes, device=gold.device)
        keys = self._keys[(first + column).clamp(max=len(self._keys) - 1)]
        is_gold_row = (keys // self.vocab_size == gold.unsqueeze(-1)) & batch.is_whole_word.unsqueeze(-1)
        tokens = torch.where(is_gold_row, keys % self.vocab_size, gold.unsqueeze(-1))
        return Proposals(self.credit(gold, predicted, batch), tokens, is_gold_row.to(torch.float32))
