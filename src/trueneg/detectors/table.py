"""Substitutes from a lookup table, on the device: acceptable whatever the sentence says."""

from __future__ import annotations

import torch
from torch import Tensor

from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector
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
        self._most_substitutes = int(gold.bincount().max()) if len(gold) else 1

    def credit(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Tensor:
        """Look each pair up."""
        wanted = gold * self.vocab_size + predicted
        found = self._keys[torch.searchsorted(self._keys, wanted)] == wanted
        # A model's padded output rows lie beyond the table: they would be read as pairs of the next gold.
        return (found & (predicted < self.vocab_size) & batch.is_whole_word).to(torch.float32)

    def substitutes(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> tuple[Tensor, Tensor]:
        """All entries of gold's row of the table."""
        first = torch.searchsorted(self._keys, gold * self.vocab_size).unsqueeze(-1)
        column = torch.arange(self._most_substitutes, device=gold.device)
        keys = self._keys[(first + column).clamp(max=len(self._keys) - 1)]
        is_gold_row = (keys // self.vocab_size == gold.unsqueeze(-1)) & batch.is_whole_word.unsqueeze(-1)
        tokens = torch.where(is_gold_row, keys % self.vocab_size, gold.unsqueeze(-1))
        return tokens, is_gold_row.to(torch.float32)
