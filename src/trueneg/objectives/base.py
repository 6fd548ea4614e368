"""Base class of objectives: corrupt rows, report the denominator of each term, and return sums."""

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
"""Smallest denominator of a term."""


@dataclass(frozen=True)
class Outcome:
    """Sums of one forward pass.

    Every value is a float32 scalar on the device: a *sum* over the batch, never a mean, so that the values of
    micro-batches and processes can be added.
    """

    terms: Sums
    """Terms of the loss, each to be divided by its denominator."""
    stats: Sums = field(default_factory=dict)
    """Statistics for the log."""
    then: Any = None
    """For an alternating objective, the batch of the step's next update; None if there is none."""


class Objective(nn.Module, ABC, Generic[Given, Batch]):
    """A training objective: the terms of a loss.

    ``weights`` are the factors of the terms in the loss; a term without one has weight 1. Parameters that are learned
    besides the model's belong to the objective, so that checkpoints and data-parallel training include them. ``Given``
    is the type of the rows as read, ``Batch`` that of the model's input.
    """

    weights: Mapping[str, float]
    needs_reader: ClassVar[bool] = False
    """Whether it needs more than plain rows: its kind's ``make_reader`` then makes the reader."""
    alternates: bool = False
    """Whether a step updates the model's parts one after the other. In training, ``forward`` then returns the terms of
    the first part and the batch of the next update (``Outcome.then``); in evaluation, all terms at once."""

    @property
    def depends_on_micro_batch(self) -> bool:
        """Whether the loss depends on the number of rows per micro-batch; a sum over rows does not."""
        return False

    @abstractmethod
    def corrupt(self, rows: Given) -> Batch:
        """Make the model's input: a pure function of the rows and their keys."""

    @abstractmethod
    def counts(self, batch: Batch) -> Sums:
        """Denominator of each term in this batch, as float32 scalars."""

    @abstractmethod
    def forward(self, model: Any, batch: Batch) -> Outcome:
        """Sums of each term over this batch."""

    def attach(self, model: Any) -> None:
        """Receive the model to be trained, once, before the first step and before a checkpoint is loaded."""

    def after_step(self, model: Any) -> None:
        """Receive the model after each optimizer step."""

    def expensive_metrics(self, model: Any) -> dict[str, float]:
        """Metrics for the log that are too expensive for every step."""
        return {}

    def warning_for(self, readings: Mapping[str, float]) -> str:
        """Warning about a record of the log; empty if there is none."""
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
        """This micro-batch's share of the step's loss, and its sums."""
        outcome: Outcome = self.objective(self.model, batch)
        weights = self.objective.weights
        loss = torch.stack(
            # Weighted counts can be below 1; a term with count 0 is 0.
            [weights.get(name, 1.0) * value / counts[name].clamp(min=EPS) for name, value in outcome.terms.items()]
        ).sum()
        return loss, Outcome(_detached(outcome.terms), _detached(outcome.stats), outcome.then)


def _detached(sums: Sums) -> Sums:
    return {name: value.detach() for name, value in sums.items()}
