"""Objectives of fine-tuning, over labelled rows, and their batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.corruption.rows import Batch
from trueneg.objectives.base import Objective, Outcome, Sums


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """Rows of text with their labels, on one device."""

    input_ids: Tensor
    """int64 ``[rows, length]``."""
    attention_mask: Tensor
    """int64 ``[rows, length]``: 1 at text, 0 at padding."""
    token_type_ids: Tensor | None
    """int64 ``[rows, length]``; None if the model does not tell two texts apart by it."""
    targets: Mapping[str, Tensor]
    """By name, as the objective expects them: ``[rows]``, or ``[rows, length]`` for token-level targets."""
    is_counted: Tensor
    """bool ``[rows]``: False for a row that only fills a process's share of a step that does not divide evenly."""

    def inputs(self) -> dict[str, Tensor]:
        """Keyword arguments of a Hugging Face model."""
        given = {"input_ids": self.input_ids, "attention_mask": self.attention_mask}
        return given if self.token_type_ids is None else {**given, "token_type_ids": self.token_type_ids}


class LabelledObjective(Objective[LabelledBatch, LabelledBatch]):
    """One term over labelled rows: the sum of ``losses`` over the targets that count.

    A subclass defines a Hugging Face model's ``outputs`` for a batch and their ``losses``.
    """

    term: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.weights = {}

    def corrupt(self, rows: LabelledBatch) -> LabelledBatch:
        """Return the batch unchanged."""
        return rows

    def counts(self, batch: LabelledBatch) -> Sums:
        """Number of targets, float32 scalar."""
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
        """Outputs of the model: ``[rows, numbers]``, or ``[rows, length, numbers]`` for token-level targets."""

    @abstractmethod
    def losses(self, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        """Loss of each target, float32 ``[rows]`` or ``[rows, length]``; any value where there is no target."""


class Classification(LabelledObjective):
    """Cross-entropy (nats) of a ``*ForSequenceClassification`` model; target ``label``, int64 ``[rows]``."""

    term = "classification"

    def outputs(self, model: Any, batch: LabelledBatch) -> Tensor:
        """Logits, ``[rows, labels]``."""
        logits: Tensor = model(**batch.inputs()).logits
        return logits

    def losses(self, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        """Cross-entropy of each row, ``[rows]``."""
        return functional.cross_entropy(outputs, batch.targets["label"], reduction="none")


class Regression(LabelledObjective):
    """Squared error of a ``*ForSequenceClassification`` model of one output; target ``label``, float32 ``[rows]``."""

    term = "regression"

    def outputs(self, model: Any, batch: LabelledBatch) -> Tensor:
        """Values, ``[rows, 1]``."""
        values: Tensor = model(**batch.inputs()).logits
        return values

    def losses(self, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        """Squared error of each row, ``[rows]``."""
        return (outputs.squeeze(-1) - batch.targets["label"].float()).square()


class Tagging(LabelledObjective):
    """Cross-entropy (nats) of a ``*ForTokenClassification`` model; target ``tags``, int64 ``[rows, length]``.

    Negative targets are ignored: pieces of a word after its first, special tokens, padding.
    """

    term = "tagging"

    def is_target(self, batch: LabelledBatch) -> Tensor:
        """Where a counted row has a tag, bool ``[rows, length]``."""
        return (batch.targets["tags"] >= 0) & batch.is_counted[:, None]

    def outputs(self, model: Any, batch: LabelledBatch) -> Tensor:
        """Logits, ``[rows, length, tags]``."""
        logits: Tensor = model(**batch.inputs()).logits
        return logits

    def losses(self, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        """Cross-entropy of each token, ``[rows, length]``; 0 where there is no target."""
        targets = batch.targets["tags"]
        # Not by ``ignore_index``, which is a single value: any negative target is ignored here.
        losses = functional.cross_entropy(outputs.flatten(0, 1), targets.clamp(min=0).flatten(), reduction="none")
        return torch.where(targets >= 0, losses.view_as(targets), 0.0)


class SpanExtraction(LabelledObjective):
    """Mean of the cross-entropies of start and end over the tokens of a row (Devlin et al. 2019, section 4.2).

    Targets ``start`` and ``end`` are columns, int64 ``[rows]``: that of the start token for a row without an answer.
    Padding gets no probability, so that a row's loss does not depend on its batch; it does with transformers' own heads
    and the authors' code.
    """

    term = "span"

    def outputs(self, model: Any, batch: LabelledBatch) -> Tensor:
        """Logits of being start and end, ``[rows, length, 2]``, of an ``AutoModelForQuestionAnswering``."""
        said = model(**batch.inputs())
        return torch.stack([said.start_logits, said.end_logits], dim=-1)

    def losses(self, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        """Mean of both cross-entropies, float32 ``[rows]``."""
        is_padding = batch.attention_mask[..., None] == 0
        logits = outputs.float().masked_fill(is_padding, torch.finfo(torch.float32).min)
        targets = torch.stack([batch.targets["start"], batch.targets["end"]], dim=-1)
        return functional.cross_entropy(logits, targets, reduction="none").mean(dim=-1)
