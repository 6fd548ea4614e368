"""An exponential moving average of the weights in training, which is what a run exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

SUFFIX = "/average"
"""What names of averaged weights end in, in a checkpoint."""


class WeightAverage:
    """The average of a model's trained weights; it begins as a copy of them.

    After step t (from 1) it moves by ``1 - min(decay, (1 + t) / (10 + t))`` towards the weights, so that it leaves the
    random weights of the start behind soon.

    Args:
        model: Whose weights.
        decay: What is kept of the average at each step, once there have been many.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        weights = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self._weights = [one.detach() for one in weights.values()]
        self._average = {name: one.detach().clone() for name, one in weights.items()}

    def update(self, step: int) -> None:
        """Move towards the weights, ``step`` optimizer steps being done."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self._average.values()), self._weights, share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the model have the average for its weights; its own come back bit for bit."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def tensors(self) -> dict[str, Tensor]:
        """The averaged weights by name, as a checkpoint holds them."""
        return {f"{name}{SUFFIX}": one for name, one in self._average.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what ``tensors`` returned.

        Raises:
            KeyError: if a weight is missing.
        """
        for name, one in self._average.items():
            one.copy_(tensors[f"{name}{SUFFIX}"])

    def _exchange(self) -> None:
        for weight, average in zip(self._weights, self._average.values(), strict=True):
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)
