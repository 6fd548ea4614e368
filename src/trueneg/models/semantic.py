"""The encoder that CLINE trains: a masked language model that also predicts which words were replaced."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trueneg.models.backbone import MaskedLanguageModel


class SemanticEncoder(MaskedLanguageModel):
    """A masked language model with a replaced-token head, and a pooler for the released variant.

    Args:
        model: A Hugging Face model with a masked-LM head.
        num_classes: 1 for the paper's sigmoid (Eq. 2 and 3: a linear layer), 3 for the released code's classes
            (kept, synonym, antonym: dense, GELU, norm, linear), 0 for no such head.
        has_pooler: Whether sentence vectors go through dense and tanh (released) or are the raw vectors of the first
            token (paper).
    """

    def __init__(self, model: PreTrainedModel, num_classes: int = 1, has_pooler: bool = False) -> None:
        super().__init__(model)
        size = model.config.hidden_size
        # Untrained heads are not created: data-parallel training waits for the gradient of every parameter.
        self.replaced_head = _replaced_head(size, num_classes) if num_classes else None
        self.pooler = nn.Linear(size, size) if has_pooler else None

    def replaced_logits(self, hidden: Tensor) -> Tensor:
        """Logits of each token: ``[*, hidden]`` to ``[*, classes]``."""
        assert self.replaced_head is not None, "made without a head over replaced tokens"
        logits: Tensor = self.replaced_head(hidden)
        return logits

    def sentence_vectors(self, hidden: Tensor, is_text: Tensor, pooling: Literal["cls", "mean"] = "cls") -> Tensor:
        """Sentence vectors: ``[rows, length, hidden]`` to ``[rows, hidden]``, of the first token or of all text."""
        vectors = mean_over(hidden, is_text) if pooling == "mean" else hidden[:, 0]
        return vectors if self.pooler is None else torch.tanh(self.pooler(vectors))


def _replaced_head(size: int, num_classes: int) -> nn.Module:
    classify = nn.Linear(size, num_classes)
    if num_classes == 1:
        return classify
    return nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.LayerNorm(size), classify)


def mean_over(hidden: Tensor, is_text: Tensor) -> Tensor:
    """Mean over text in float32, as sentence-transformers pools: ``[rows, length, hidden]`` to ``[rows, hidden]``."""
    weights = is_text[..., None].float()
    return (hidden.float() * weights).sum(1) / weights.sum(1).clamp(min=1)
