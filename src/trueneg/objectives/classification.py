"""Say which label a text has."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional

from trueneg.objectives.labelled import LabelledBatch, LabelledObjective


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
