"""A moving average of the model in training, used for smoothed targets and by the EMA detector."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor, nn

from trueneg.errors import ConfigError
from trueneg.models.backbone import MaskedLanguageModel


class MovingAverage(nn.Module):
    """Keeps an exponential moving average of a masked language model, which is saved in checkpoints.

    Args:
        momentum: Share of the average that is kept at each step.
        whose: The option that needs it, for the error message if the objective trains no such model.
    """

    def __init__(self, momentum: float, whose: str) -> None:
        super().__init__()
        self.momentum = momentum
        self.teacher: nn.Module | None = None
        self._whose = whose
        self._pairs: tuple[list[Tensor], list[Tensor]] = [], []
        """The average's parameters and the model's, collected once."""

    def attach(self, model: nn.Module) -> None:
        """Begin with a copy of the model."""
        if not isinstance(model, MaskedLanguageModel):
            raise ConfigError(f"{self._whose} averages a masked language model, and this objective trains none")
        self.teacher = copy.deepcopy(model).requires_grad_(False).eval()
        self._pairs = list(self.teacher.parameters()), list(model.parameters())

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        """Move the average towards the model."""
        if self.teacher is None:
            raise AssertionError("attach was not called")
        torch._foreach_lerp_(*self._pairs, 1 - self.momentum)

    def train(self, mode: bool = True) -> Self:
        """Set the mode, but keep the average in evaluation mode, without dropout."""
        super().train(mode)
        if self.teacher is not None:
            self.teacher.eval()
        return self

    @property
    def average(self) -> MaskedLanguageModel:
        """The average, available after ``attach``."""
        if not isinstance(self.teacher, MaskedLanguageModel):
            raise AssertionError("attach was not called")
        return self.teacher
