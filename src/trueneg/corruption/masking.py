"""Masking: which positions are masked, and what replaces them.

Every row gets the same number of mask *slots*, so shapes are static; a row with fewer ordinary tokens leaves
some slots empty (``is_masked`` false), and an empty slot has no effect and no weight.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from trueneg.config.objective_options import MaskingConfig
from trueneg.corruption import keyed
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.errors import ConfigError, ModelError
from trueneg.hardware import to_float64


def num_slots(length: int, rate: float) -> int:
    """Number of mask slots of a row of ``length`` tokens, including its start and end tokens: at least one.

    Example:
        >>> num_slots(128, 0.15)
        19
    """
    return max(1, round(rate * (length - 2)))


class Masking(nn.Module):
    """Hides a fixed share of each row's ordinary tokens.

    Of a row's n ordinary tokens, ``max(1, round(rate * n))`` are chosen, without replacement (ELECTRA's code draws with
    replacement, so it masks fewer than its rate). With ``unit="word"``, whole words are chosen while they fit the
    count, so it may be missed by up to the length of a word; with ``unit="span"``, runs of words of geometric length
    (Joshi et al. 2020), the last one cut at the count. Of the chosen, ``mask_share`` show the mask token,
    ``random_share`` a random ordinary token, the rest gold.

    Args:
        config: Rates and unit.
        mask_id: The mask token.
        vocab_size: Entries of the vocabulary.
        special_ids: Entries that are never drawn as random tokens.

    Raises:
        ConfigError: for a rate or shares outside [0, 1].
        ModelError: if no ordinary token is left.

    Example:
        >>> masking = Masking(MaskingConfig(rate=0.5), mask_id=1, vocab_size=10, special_ids=[0, 1])
        >>> ids, no = torch.tensor([[2, 3, 4, 5]]), torch.tensor([[False] * 4])
        >>> rows = Rows(ids, torch.ones_like(ids), no, ~no, ~no, keyed.example_keys(1, torch.arange(1)))
        >>> masking(rows).is_masked.sum().item()
        1
    """

    def __init__(self, config: MaskingConfig, mask_id: int, vocab_size: int, special_ids: list[int]) -> None:
        super().__init__()
        if not 0 < config.rate < 1:
            raise ConfigError(f"objective.masking.rate must be in (0, 1), got {config.rate}")
        if min(config.mask_share, config.random_share) < 0 or config.mask_share + config.random_share > 1 + 1e-9:
            raise ConfigError("objective.masking: mask_share and random_share must be shares of one whole")
        if config.mean_span < 1 or config.max_span < 1:
            raise ConfigError("objective.masking: mean_span and max_span must be at least 1")
        self.config = config
        self.mask_id = mask_id
        special = set(special_ids)
        ordinary = torch.tensor([token for token in range(vocab_size) if token not in special])
        if not len(ordinary):
            raise ModelError("the tokenizer has nothing but special tokens: train one on more text")
        self._ordinary: Tensor
        self.register_buffer("_ordinary", ordinary, persistent=False)

    def forward(self, rows: Rows, is_hard: Tensor | None = None) -> MaskedRows:
        """Mask rows; the same rows and keys give the same result in any batch.

        Args:
            rows: Rows.
            is_hard: Tokens that are chosen before all others, bool ``[batch, length]``; with ``unit="token"`` only.
        """
        positions, is_masked = self._choose(rows, is_hard)
        gold = rows.input_ids.gather(1, positions)
        shown = torch.where(is_masked, self._replacements(rows.keys, gold), gold)
        return MaskedRows(
            rows=rows,
            input_ids=rows.input_ids.scatter(1, positions, shown),
            positions=positions,
            gold=gold,
            is_masked=is_masked,
            is_whole_word=rows.is_whole_word.gather(1, positions),
            draws=keyed.uniform(rows.keys, keyed.SAMPLE, positions.shape[1]),
        )

    def _choose(self, rows: Rows, is_hard: Tensor | None) -> tuple[Tensor, Tensor]:
        length = rows.input_ids.shape[1]
        slots = min(num_slots(length, self.config.rate), length)
        is_ordinary = ~rows.is_special
        num_ordinary = is_ordinary.sum(1, keepdim=True)
        # In float64, as in ``num_slots``: float32 sometimes rounds a half the other way.
        wanted = (to_float64(num_ordinary) * self.config.rate).round().to(torch.int64).clamp(1, slots)
        wanted = torch.minimum(wanted.to(num_ordinary.device), num_ordinary)
        priority = self._priority(rows)
        if is_hard is not None:
            priority = torch.where(is_hard, priority | 1 << 62, priority)  # draws have 62 bits
        priority = torch.where(is_ordinary, priority, -1)
        if self.config.unit == "token":
            positions = priority.topk(slots, dim=1).indices
            is_masked = torch.arange(slots, device=positions.device) < wanted
        else:
            order = priority.argsort(dim=1, descending=True, stable=True)
            positions = order[:, :slots]
            is_masked = torch.arange(slots, device=positions.device) < wanted
            if self.config.unit == "word":
                is_masked &= _is_in_complete_group(priority.gather(1, order), wanted)[:, :slots]
        # Ascending positions read memory in order; empty slots go last.
        last = length + torch.zeros_like(positions)
        ascending = torch.where(is_masked, positions, last).argsort(dim=1, stable=True)
        return positions.gather(1, ascending), is_masked.gather(1, ascending)

    def _priority(self, rows: Rows) -> Tensor:
        """Random int64 ``[batch, length]``, shared only by tokens that must be chosen together."""
        length = rows.input_ids.shape[1]
        column = torch.arange(length, device=rows.input_ids.device)
        # The low bits make every priority distinct, so no order depends on how a device breaks ties.
        draws = (keyed.bits(rows.keys, keyed.CHOOSE, length) >> 24 << 24) | column
        if self.config.unit == "token":
            return draws
        # A special token between two documents ends a word; a row may begin within one.
        word = (rows.is_word_start | rows.is_special).to(torch.int64).cumsum(1)
        word = word - word[:, :1]
        if self.config.unit == "span":
            draws = self._spread(rows.keys, draws)
        return draws.gather(1, word)

    def _spread(self, keys: Tensor, draws: Tensor) -> Tensor:
        """Give each word the highest draw among the spans that cover it."""
        config = self.config
        chance = 1.0 / config.mean_span
        uniforms = keyed.uniform(keys, keyed.SPAN_LENGTH, draws.shape[1])
        if chance >= 1:
            return draws
        # Inverse of the geometric distribution; 1 - u is in (0, 1], so the logarithm is finite.
        lengths = (torch.log1p(-uniforms) / math.log1p(-chance)).floor().to(torch.int64) + 1
        best = draws
        for offset in range(1, min(config.max_span, draws.shape[1])):
            reaches = lengths[:, :-offset] > offset
            covered = torch.where(reaches, draws[:, :-offset], -1)
            best = torch.cat([best[:, :offset], torch.maximum(best[:, offset:], covered)], dim=1)
        return best

    def _replacements(self, keys: Tensor, gold: Tensor) -> Tensor:
        config = self.config
        slots = gold.shape[1]
        kind = keyed.uniform(keys, keyed.REPLACE, slots)
        random_tokens = self._ordinary[keyed.bits(keys, keyed.RANDOM_TOKEN, slots) % len(self._ordinary)]
        shown = torch.where(kind < config.mask_share + config.random_share, random_tokens, gold)
        return torch.where(kind < config.mask_share, self.mask_id, shown)


def _is_in_complete_group(priority: Tensor, wanted: Tensor) -> Tensor:
    """Whether each token's whole word is among the first ``wanted``.

    ``priority`` ``[batch, length]`` is sorted, so that a word's tokens are adjacent. If not even the first word
    fits, its first tokens are chosen, so that every row has something to predict.
    """
    length = priority.shape[1]
    ends_group = torch.ones_like(priority, dtype=torch.bool)
    ends_group[:, :-1] = priority[:, 1:] != priority[:, :-1]
    rank = torch.arange(1, length + 1, device=priority.device).expand_as(priority)
    group_end = torch.where(ends_group, rank, length + 1).flip(1).cummin(1).values.flip(1)
    fits = group_end <= wanted
    return fits | ~fits[:, :1]
