"""Objectives over labelled rows: what fine-tuning minimises, and the batch that it sees."""

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

    Negative targets are none: pieces of a word after its first, special tokens, padding.
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
        # Written out, for torch compares with its ignored index only: any negative target is none here.
        losses = functional.cross_entropy(outputs.flatten(0, 1), targets.clamp(min=0).flatten(), reduction="none")
        return torch.where(targets >= 0, losses.view_as(targets), 0.0)


class SpanExtraction(LabelledObjective):
    """Cross-entropies of start and end over the tokens of a row, their mean (Devlin et al. 2019, section 4.2).

    Targets ``start`` and ``end`` are columns, int64 ``[rows]``; a row without an answer has the column of its start
    token. Padding has no share of the probability, so that a row costs the same in any batch; transformers' own
    heads, as the authors' code, give it one.
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
