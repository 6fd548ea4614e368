"""Interface of detectors in training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from trueneg.corruption.rows import MaskedRows


class Proposals(NamedTuple):
    """Substitutes for gold tokens, and the credit of the predictions."""

    credit: Tensor
    """Credit of each prediction, float32 ``[batch, slots]``."""
    tokens: Tensor
    """int64 ``[batch, slots, n]``."""
    acceptance: Tensor
    """Credit of ``tokens``, float32 ``[batch, slots, n]``: 0 for unused entries and for gold itself."""


class Detector(nn.Module, ABC):
    """Judges how acceptable a token is in place of the gold token.

    The result is *credit* in [0, 1]: 0 is wrong, 1 as good as gold. It is on the device of the arguments, in static
    shapes, and computed without device synchronisation unless a detector's docstring says otherwise.
    """

    provenance: Mapping[str, str] = {}
    """Where its resources and its threshold come from."""

    @abstractmethod
    def credit(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Give credit to tokens, elementwise.

        Args:
            gold: Original tokens, int64 ``[batch, slots]``, or ``[batch, slots, 1]`` for several tokens per slot.
            tokens: Substitutes, int64 ``[batch, slots]`` or ``[batch, slots, n]``. The credit of a token that equals
                gold, or of an empty slot, is never used.
            batch: The rows that contain them.

        Returns:
            float32, of the shape of ``tokens``.
        """

    @property
    def lists(self) -> bool:
        """Whether ``propose`` lists substitutes regardless of the prediction, so that it can annotate a corpus."""
        return False

    def propose(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Proposals:
        """List substitutes for gold, and credit the predictions, reading the batch once for both.

        By default only the prediction is listed.

        Args:
            gold: Original tokens, int64 ``[batch, slots]``.
            predicted: Predicted tokens, int64 ``[batch, slots]``.
            batch: The rows that contain them.
        """
        credit = self.credit(gold, predicted, batch)
        return Proposals(credit, predicted.unsqueeze(-1), credit.unsqueeze(-1))

    def digest(self) -> str:
        """Digest of data that is neither a buffer of this module nor in checkpoints; empty if there is none.

        File locations do not count. A run resumes only if it is unchanged (``training.checkpoint.tables_digest``).
        """
        return ""

    def attach(self, model: nn.Module) -> None:
        """Receive the model to be trained, once, before the first step and before a checkpoint is loaded."""

    def after_step(self, model: nn.Module) -> None:
        """Receive the model after each optimizer step."""


def credit_of(score: Tensor, threshold: float) -> Tensor:
    """Turn scores in [0, 1] into credit: their acceptance (``scorers.base.acceptance``) if it is at least 1/2, else 0.

    Example:
        >>> credit_of(torch.tensor([0.5, 0.8, 0.9, 1.0]), threshold=0.8)
        tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """
    acceptance = 0.5 + (score - threshold) / (2 * max(1 - threshold, 1e-6))
    return torch.where(score >= threshold, acceptance.clamp(max=1), 0.0)


def of_slots(values: Tensor, tokens: Tensor) -> Tensor:
    """Add a dimension to values of slots ``[batch, slots]`` if there are several tokens per slot.

    Example:
        >>> of_slots(torch.zeros(2, 3), torch.zeros(2, 3, 4)).shape
        torch.Size([2, 3, 1])
    """
    return values.unsqueeze(-1) if tokens.dim() > values.dim() else values
