"""The encoder that CLINE trains: a masked language model that also says which words were replaced."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trueneg.models.backbone import MaskedLanguageModel


class SemanticEncoder(MaskedLanguageModel):
    """A masked language model with a head over replaced tokens, and a pooler for the released variant.

    Args:
        model: A Hugging Face model with a masked-LM head.
        num_classes: 1 for the paper's sigmoid (Eq. 2 and 3: a linear layer), 3 for the released code's classes
            (kept, synonym, antonym: dense, GELU, norm, linear).
        has_pooler: Whether sentence vectors go through dense and tanh (released) or are the raw vectors of the first
            token (paper).
    """

    def __init__(self, model: PreTrainedModel, num_classes: int = 1, has_pooler: bool = False) -> None:
        super().__init__(model)
        size = model.config.hidden_size
        classify = nn.Linear(size, num_classes)
        deep = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.LayerNorm(size), classify)
        self.replaced_head: nn.Module = classify if num_classes == 1 else deep
        self.pooler = nn.Linear(size, size) if has_pooler else None

    def replaced_logits(self, hidden: Tensor) -> Tensor:
        """Logits of each token: ``[*, hidden]`` to ``[*, classes]``."""
        logits: Tensor = self.replaced_head(hidden)
        return logits

    def sentence_vectors(self, hidden: Tensor) -> Tensor:
        """Vectors of rows: ``[rows, length, hidden]`` to ``[rows, hidden]``."""
        first = hidden[:, 0]
        return first if self.pooler is None else torch.tanh(self.pooler(first))
