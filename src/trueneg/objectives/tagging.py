"""Say which tag each word of a text has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.objectives.labelled import LabelledBatch, LabelledObjective


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
