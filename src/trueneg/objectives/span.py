"""Answering a question by a span of the text: where it starts, and where it ends."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from trueneg.objectives.labelled import LabelledBatch, LabelledObjective


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
        return F.cross_entropy(logits, targets, reduction="none").mean(dim=-1)
