"""What a detector is to training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from trueneg.corruption.rows import MaskedRows


class Proposals(NamedTuple):
    """Tokens that may stand in the place of gold, and what the detector says of the predictions."""

    credit: Tensor
    """Of each prediction, float32 ``[batch, slots]``."""
    tokens: Tensor
    """int64 ``[batch, slots, n]``."""
    acceptance: Tensor
    """Credit of ``tokens``, float32 ``[batch, slots, n]``: 0 where there are no more, and for gold itself."""


class Detector(nn.Module, ABC):
    """Says how acceptable a token is in the place of the gold token.

    The result is *credit* in [0, 1]: 0 is truly wrong, 1 just as good as gold. It is on the device of the arguments,
    in static shapes, and computed without waiting for the device unless a detector says otherwise.
    """

    provenance: Mapping[str, str] = {}
    """Where its resources and its threshold come from."""

    @abstractmethod
    def credit(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Give credit to tokens, elementwise.

        Args:
            gold: Original tokens, int64 ``[batch, slots]``, or ``[batch, slots, 1]`` for several tokens a slot.
            tokens: What is put there, int64 ``[batch, slots]`` or ``[batch, slots, n]``. The credit of a token that
                equals gold, or of an empty slot, is never read.
            batch: The rows that they are in.

        Returns:
            float32, of the shape of ``tokens``.
        """

    @property
    def lists(self) -> bool:
        """Whether ``propose`` lists substitutes whatever was predicted, so that it can annotate a corpus."""
        return False

    def propose(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Proposals:
        """List acceptable tokens in the place of gold, and credit the predictions: one reading of the batch for both.

        By default only the prediction is listed.

        Args:
            gold: Original tokens, int64 ``[batch, slots]``.
            predicted: Predicted tokens, int64 ``[batch, slots]``.
            batch: The rows that they are in.
        """
        credit = self.credit(gold, predicted, batch)
        return Proposals(credit, predicted.unsqueeze(-1), credit.unsqueeze(-1))

    def digest(self) -> str:
        """Name what is read and is neither a buffer of this module nor in checkpoints; empty if there is no such thing.

        The place of a file does not count. A run resumes only under the same (``training.checkpoint.tables_digest``).
        """
        return ""

    def attach(self, model: nn.Module) -> None:
        """See the model that is about to be trained, once, before its first step and before a checkpoint is read."""

    def after_step(self, model: nn.Module) -> None:
        """See the model after each optimizer step."""


def credit_of(score: Tensor, threshold: float) -> Tensor:
    """Turn scores in [0, 1] into credit: their acceptance (``scorers.base.acceptance``) if it is at least 1/2, else 0.

    Example:
        >>> credit_of(torch.tensor([0.5, 0.8, 0.9, 1.0]), threshold=0.8)
        tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """
    acceptance = 0.5 + (score - threshold) / (2 * max(1 - threshold, 1e-6))
    return torch.where(score >= threshold, acceptance.clamp(max=1), 0.0)


def of_slots(values: Tensor, tokens: Tensor) -> Tensor:
    """Give values of slots ``[batch, slots]`` the dimensions of tokens: one more if there are several tokens a slot.

    Example:
        >>> of_slots(torch.zeros(2, 3), torch.zeros(2, 3, 4)).shape
        torch.Size([2, 3, 1])
    """
    return values.unsqueeze(-1) if tokens.dim() > values.dim() else values
