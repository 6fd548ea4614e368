"""The predicted token: a model's best guess, or a draw from it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

BLOCK = 256
"""Vocabulary entries that a draw sums at once."""


@torch.no_grad()
def predict(
    logits: Tensor, draws: Tensor, prediction: Literal["argmax", "sampled"], temperature: float = 1.0
) -> Tensor:
    """Predicted token of each masked position.

    Args:
        logits: float32 ``[batch, slots, vocab]``.
        draws: float32 in [0, 1) ``[batch, slots]``, which a sampled prediction is a function of.
        prediction: Best guess or draw.
        temperature: Divides the logits before a draw.

    Returns:
        int64 ``[batch, slots]``.
    """
    if prediction == "argmax":
        return logits.argmax(-1)
    return sample(logits if temperature == 1 else logits / temperature, draws)


@torch.no_grad()
def sample(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Draw from ``softmax(logits)`` by inverting its distribution function.

    Works in float32: half-precision draws can pick tokens of probability zero. The function is inverted in
    two steps, first among blocks of entries, then within one, so that only short sums are accumulated.

    Args:
        logits: ``[*, vocab]``.
        uniforms: In [0, 1), ``[*]``.

    Returns:
        int64 ``[*]``.
    """
    vocab = logits.shape[-1]
    weights = (logits.float() - logits.amax(-1, keepdim=True).float()).exp_()
    padded = torch.nn.functional.pad(weights, (0, -vocab % BLOCK)).unflatten(-1, (-1, BLOCK))
    blocks = padded.sum(-1).cumsum(-1)
    wanted = uniforms.unsqueeze(-1) * blocks[..., -1:]
    block = _first_above(blocks, wanted)
    before = torch.where(block > 0, blocks.gather(-1, (block - 1).clamp(min=0)), 0.0)
    within = padded.gather(-2, block.unsqueeze(-1).expand(*block.shape, BLOCK)).squeeze(-2).cumsum(-1)
    # Rounding can put the rest of the draw past a block's own sum; it then means the last entry with weight.
    inside = torch.minimum(wanted - before, within[..., -1:] * (1 - 2.0**-22))
    # From logits that are not finite nothing can be drawn; an entry there is lets the loss say so.
    return (block * BLOCK + _first_above(within, inside.clamp(min=0))).squeeze(-1).clamp(max=vocab - 1)


def _first_above(cumulative: Tensor, wanted: Tensor) -> Tensor:
    """Index of the first entry whose cumulative weight exceeds ``wanted``: entries of no weight never are."""
    return torch.searchsorted(cumulative.contiguous(), wanted, right=True).clamp(max=cumulative.shape[-1] - 1)
