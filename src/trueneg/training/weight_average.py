"""An exponential moving average of the weights in training, which a run exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

SUFFIX = "/average"
"""Suffix of the names of averaged weights in a checkpoint."""


class WeightAverage:
    """The average of a model's trainable weights; it begins as a copy of them.

    After step t (from 1) it moves by ``1 - min(decay, (1 + t) / (10 + t))`` towards the weights, so that it soon
    forgets the random initial weights.

    Args:
        model: The model to average.
        decay: Share of the average that is kept at each step, after the first steps.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        weights = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self._weights = [one.detach() for one in weights.values()]
        self._average = {name: one.detach().clone() for name, one in weights.items()}

    def update(self, step: int) -> None:
        """Move the average towards the weights after optimizer step ``step``, counted from 1."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self._average.values()), self._weights, share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the model the averaged weights within the context; afterwards its own are restored, bit for bit."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def tensors(self) -> dict[str, Tensor]:
        """The averaged weights by name, as a checkpoint holds them."""
        return {f"{name}{SUFFIX}": one for name, one in self._average.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Load what ``tensors`` returned.

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
