"""Heads that stock architectures lack."""

from __future__ import annotations

from torch import Tensor, nn


class ReplacedTokenHead(nn.Module):
    """One logit a token: was it replaced? Dense, GELU, linear, as in ELECTRA.

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
