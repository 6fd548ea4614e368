"""Say how much of something a text has."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from trueneg.objectives.labelled import LabelledBatch, LabelledObjective


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
