"""Objectives over labelled rows: what fine-tuning minimises, and the batch that it sees."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from trueneg.corruption.rows import Batch
from trueneg.objectives.base import Objective, Outcome, Sums


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """Rows of text with what is known about them, on one device."""

    input_ids: Tensor
    """int64 ``[rows, length]``."""
    attention_mask: Tensor
    """int64 ``[rows, length]``: 1 at text, 0 at padding."""
    token_type_ids: Tensor | None
    """int64 ``[rows, length]``, where the model tells two texts apart by it."""
    targets: Mapping[str, Tensor]
    """By name, as the objective wants them: ``[rows]``, or ``[rows, length]`` for targets of tokens."""
    is_counted: Tensor
    """bool ``[rows]``: False for a row that only makes up a process's share of a step that does not divide."""

    def inputs(self) -> dict[str, Tensor]:
        """What a Hugging Face model takes."""
        given = {"input_ids": self.input_ids, "attention_mask": self.attention_mask}
        return given if self.token_type_ids is None else {**given, "token_type_ids": self.token_type_ids}


class LabelledObjective(Objective[LabelledBatch, LabelledBatch]):
    """One term over labelled rows: a sum over what is counted, of ``losses``.

    A subclass says what a Hugging Face model gives for a row (``outputs``) and what that costs (``losses``).
    """

    term: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.weights = {}

    def corrupt(self, rows: LabelledBatch) -> LabelledBatch:
        """Nothing is hidden: the batch as it is."""
        return rows

    def counts(self, batch: LabelledBatch) -> Sums:
        """How many losses are added up, float32 scalar."""
        return {self.term: self.is_target(batch).sum().to(torch.float32)}

    def forward(self, model: Any, batch: LabelledBatch) -> Outcome:
        """Sum of the losses of all targets."""
        losses = self.losses(self.outputs(model, batch).float(), batch)
        return Outcome({self.term: torch.where(self.is_target(batch), losses, 0.0).sum()})

    def is_target(self, batch: LabelledBatch) -> Tensor:
        """Which losses count, bool of ``losses``'s shape: by default those of counted rows, ``[rows]``."""
        return batch.is_counted

    @abstractmethod
    def outputs(self, model: Any, batch: LabelledBatch) -> Tensor:
        """What the model says: ``[rows, numbers]``, or ``[rows, length, numbers]`` where it speaks of tokens."""

    @abstractmethod
    def losses(self, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        """Loss of each target, float32 ``[rows]`` or ``[rows, length]``; what is no target may have any value."""
