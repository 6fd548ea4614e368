"""What an objective is: it corrupts rows, says what it will count, and returns sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

Given = TypeVar("Given")
Batch = TypeVar("Batch")
Sums = dict[str, Tensor]

EPS = 1e-6
"""What a sum is divided by at least."""


@dataclass(frozen=True)
class Outcome:
    """What one forward pass adds up to.

    Every value is a float32 scalar on the device: a *sum* over the batch, never a mean, so that micro-batches
    and processes add up to the same whole.
    """

    terms: Sums
    """What is minimised, each to be divided by its denominator."""
    stats: Sums = field(default_factory=dict)
    """What is reported."""
    then: Any = None
    """What the next update of the same step reads, of an objective that alternates; None for no other."""


class Objective(nn.Module, ABC, Generic[Given, Batch]):
    """Terms to be minimised.

    ``weights`` says how much of each term the loss has; terms without a weight count once. An objective owns
    what it learns besides the encoder, so that it stands in checkpoints and in data-parallel training. ``Given`` is
    what is read, ``Batch`` what the model sees.
    """

    weights: Mapping[str, float]
    needs_reader: ClassVar[bool] = False
    """Whether it is given more than plain rows: its kind's ``make_reader`` makes that of them."""
    alternates: bool = False
    """Whether a step updates the model's parts one after the other: in training, ``forward`` then returns the terms of
    the first with what the next one's ``forward`` reads (``Outcome.then``); in evaluation all terms at once."""

    @property
    def depends_on_micro_batch(self) -> bool:
        """Whether what is minimised depends on how many rows a micro-batch has, as no sum over rows does."""
        return False

    @abstractmethod
    def corrupt(self, rows: Given) -> Batch:
        """Make what the model will see: a pure function of the rows and their keys."""

    @abstractmethod
    def counts(self, batch: Batch) -> Sums:
        """Denominator of each term in this batch, as float32 scalars."""

    @abstractmethod
    def forward(self, model: Any, batch: Batch) -> Outcome:
        """Sums of each term over this batch."""

    def attach(self, model: Any) -> None:
        """See the model that is about to be trained, once, before its first step and before a checkpoint is read."""

    def after_step(self, model: Any) -> None:
        """See the model after each optimizer step."""

    def expensive_metrics(self, model: Any) -> dict[str, float]:
        """Readings for the log that are too dear for every step."""
        return {}

    def warning_for(self, readings: Mapping[str, float]) -> str:
        """What a user should look at in a record of the log; empty for nothing."""
        return ""


class TrainingModule(nn.Module, Generic[Batch]):
    """A model and its objective as one module, so that data-parallel training sees one forward pass.

    The loss is the sum over terms of ``weight * sum / count``, with counts over the whole step.
    """

    def __init__(self, model: nn.Module, objective: Objective[Any, Batch]) -> None:
        super().__init__()
        objective.attach(model)
        self.model = model
        self.objective = objective

    def forward(self, batch: Batch, counts: Sums) -> tuple[Tensor, Outcome]:
        """Loss of this micro-batch's share of the step, and its sums."""
        outcome: Outcome = self.objective(self.model, batch)
        weights = self.objective.weights
        loss = torch.stack(
            # Weights may count less than a whole row; a term without any is 0.
            [weights.get(name, 1.0) * value / counts[name].clamp(min=EPS) for name, value in outcome.terms.items()]
        ).sum()
        return loss, Outcome(_detached(outcome.terms), _detached(outcome.stats), outcome.then)


def _detached(sums: Sums) -> Sums:
    return {name: value.detach() for name, value in sums.items()}
