"""What a detector is to training."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from trueneg.corruption.rows import MaskedRows


class Detector(nn.Module, ABC):
    """Says how acceptable a prediction is in the place of the gold token.

    The answer is *credit* in [0, 1]: 0 is truly wrong, 1 just as good as gold. It is given on the device of
    its arguments, in static shapes and, but for detectors that say otherwise, without waiting for the device.
    """

    @abstractmethod
    def credit(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Tensor:
        """Credit of each prediction.

        Args:
            gold: Original tokens, int64 ``[batch, slots]``.
            predicted: Predicted tokens, int64 ``[batch, slots]``. Where they equal gold, or the slot is
                empty, the answer is not looked at.
            batch: Where they stand.

        Returns:
            float32 ``[batch, slots]``.
        """

    def substitutes(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> tuple[Tensor, Tensor]:
        """Acceptable tokens in the place of gold, gold itself left out.

        A detector that can list them does; by default there is only the prediction, with its credit.

        Returns:
            Tokens, int64 ``[batch, slots, n]``, and their credit, float32 of the same shape (0 where unused).
        """
        return predicted.unsqueeze(-1), self.credit(gold, predicted, batch).unsqueeze(-1)

    def credit_each(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Credit of several tokens at each place: int64 ``[batch, slots, n]`` to float32 of the same shape."""
        return torch.stack([self.credit(gold, one, batch) for one in tokens.unbind(-1)], -1)

    def digest(self) -> str:
        """A name for what is read and is neither a buffer of this module nor in checkpoints; empty if nothing is.

        Where it lies does not count. A run resumes only under the same (``training.checkpoint.tables_digest``).
        """
        return ""

    def attach(self, model: nn.Module) -> None:
        """See the model that is about to be trained, once, before its first step and before a checkpoint is read."""

    def after_step(self, model: nn.Module) -> None:
        """See the model after each optimizer step."""


def credit_of(score: Tensor, threshold: float) -> Tensor:
    """Credit of scores in [0, 1]: their acceptance (``judge.acceptance``) where it is at least 1/2, else 0.

    Example:
        >>> credit_of(torch.tensor([0.5, 0.8, 0.9, 1.0]), threshold=0.8)
        tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """
    acceptance = 0.5 + (score - threshold) / (2 * max(1 - threshold, 1e-6))
    return torch.where(score >= threshold, acceptance.clamp(max=1), 0.0)
