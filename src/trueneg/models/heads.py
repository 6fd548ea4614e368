"""Heads that stock architectures lack."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig
from transformers.models.electra.modeling_electra import ElectraClassificationHead


class ReplacedTokenHead(nn.Module):
    """One logit per token for whether it was replaced: dense, GELU, linear, as in ELECTRA.

    Shape: ``[*, hidden]`` to ``[*]``.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.activation = nn.GELU()
        self.dense_prediction = nn.Linear(hidden_size, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Score each token; above 0 means "replaced"."""
        logits: Tensor = self.dense_prediction(self.activation(self.dense(hidden))).squeeze(-1)
        return logits


class LinearHead(nn.Module):
    """One linear layer on the first token's vector, instead of transformers' two-layer head for ELECTRA.

    Clark et al. 2020, section 3.1: "simple linear classifiers on top". Shape: ``[rows, length, hidden]`` to
    ``[rows, outputs]``.

    Args:
        head: The head to replace, whose dropout and last layer are used.
    """

    def __init__(self, head: ElectraClassificationHead) -> None:
        super().__init__()
        self.dropout = head.dropout
        self.out_proj = head.out_proj

    def forward(self, hidden: Tensor) -> Tensor:
        """Compute the logits of each row."""
        logits: Tensor = self.out_proj(self.dropout(hidden[:, 0]))
        return logits

    @torch.no_grad()
    def as_two_layers(self, config: PretrainedConfig) -> ElectraClassificationHead:
        """Make the head of transformers that computes the same, up to rounding.

        ``gelu(z) - gelu(-z) = z``: the first layer computes z = Wx and -z, the second takes the difference and adds the
        bias. This needs twice as many hidden units as there are outputs.
        """
        head, num = ElectraClassificationHead(config), self.out_proj.out_features
        for parameter in head.parameters():
            parameter.zero_()
        head.to(self.out_proj.weight.device)
        head.dense.weight[:num] = self.out_proj.weight
        head.dense.weight[num : 2 * num] = -self.out_proj.weight
        head.out_proj.weight[:, :num].fill_diagonal_(1.0)
        head.out_proj.weight[:, num : 2 * num].fill_diagonal_(-1.0)
        head.out_proj.bias.copy_(self.out_proj.bias)
        return head
