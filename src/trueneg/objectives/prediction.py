"""Predictions of a masked language model, by argmax or sampling, and their statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Proposals
from trueneg.models.logits import Logits
from trueneg.objectives.base import Sums
from trueneg.objectives.smoothing import SoftTarget

BLOCK = 256
"""Vocabulary entries per block in ``sample``."""


@dataclass(frozen=True)
class PredictedTokens:
    """A masked language model's predictions for masked rows."""

    batch: MaskedRows
    logits: Logits
    """Logits of each slot, with gradient."""
    predicted: Tensor
    """int64 ``[batch, slots]``."""
    credit: Tensor
    """float32 ``[batch, slots]``: the detector's credit of each misprediction; 0 elsewhere or without a detector."""
    proposals: Proposals | None = None
    """Substitutes from the detector, for a correction whose loss needs them."""
    soft_target: SoftTarget | None = None
    """Target after label smoothing; None without it."""
    drawn: Tensor | None = None
    """int64 ``[batch, slots]``: the tokens that ELECTRA's discriminator reads, if not ``predicted``."""

    @property
    def is_mispredicted(self) -> Tensor:
        """Bool ``[batch, slots]``: masked, and predicted is not gold."""
        return (self.predicted != self.batch.gold) & self.batch.is_masked

    @property
    def inserted(self) -> Tensor:
        """The tokens that ELECTRA's discriminator reads, int64 ``[batch, slots]``: ``drawn``, or else ``predicted``."""
        return self.predicted if self.drawn is None else self.drawn

    @property
    def filled_ids(self) -> Tensor:
        """The text with the predicted tokens filled in, int64 ``[batch, length]``."""
        return self._filled(self.predicted)

    @property
    def inserted_ids(self) -> Tensor:
        """The text that ELECTRA's discriminator reads, int64 ``[batch, length]``."""
        return self._filled(self.inserted)

    def _filled(self, tokens: Tensor) -> Tensor:
        batch = self.batch
        shown = torch.where(batch.is_masked, tokens, batch.gold)
        return batch.rows.input_ids.scatter(1, batch.positions, shown)


@torch.no_grad()
def predict(
    logits: Tensor, draws: Tensor, prediction: Literal["argmax", "sampled"], temperature: float = 1.0
) -> Tensor:
    """Predicted token of each masked position.

    Args:
        logits: float32 ``[batch, slots, vocab]``.
        draws: Uniform numbers in [0, 1) for sampling, float32 ``[batch, slots]``.
        prediction: Most probable or sampled token.
        temperature: Divides the logits before sampling.

    Returns:
        int64 ``[batch, slots]``.
    """
    if prediction == "argmax":
        return logits.argmax(-1)
    return sample(logits if temperature == 1 else logits / temperature, draws)


@torch.no_grad()
def sample(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Sample from ``softmax(logits)`` by inverting its cumulative distribution function.

    Works in float32: in half precision, sampling can pick tokens of probability zero. The function is inverted in
    two steps, first among blocks of entries, then within one, so that only short sums are accumulated.

    Args:
        logits: ``[*, vocab]``.
        uniforms: In [0, 1), ``[*]``.

    Returns:
        int64 ``[*]``.
    """
    vocab = logits.shape[-1]
    weights = (logits.float() - logits.amax(-1, keepdim=True).float()).exp_()
    if vocab % BLOCK:
        weights = torch.nn.functional.pad(weights, (0, -vocab % BLOCK))
    padded = weights.unflatten(-1, (-1, BLOCK))
    blocks = padded.sum(-1).cumsum(-1)
    wanted = uniforms.unsqueeze(-1) * blocks[..., -1:]
    block = _first_above(blocks, wanted)
    before = torch.where(block > 0, blocks.gather(-1, (block - 1).clamp(min=0)), 0.0)
    within = padded.gather(-2, block.unsqueeze(-1).expand(*block.shape, BLOCK)).squeeze(-2).cumsum(-1)
    # Rounding can put the rest of the draw past the block's own sum; then take the last entry of nonzero weight.
    inside = torch.minimum(wanted - before, within[..., -1:] * (1 - 2.0**-22))
    # Logits that are not finite cannot be sampled from; return a valid entry, so that the loss shows it.
    return (block * BLOCK + _first_above(within, inside.clamp(min=0))).squeeze(-1).clamp(max=vocab - 1)


def _first_above(cumulative: Tensor, wanted: Tensor) -> Tensor:
    """Index of the first entry whose cumulative weight exceeds ``wanted``: never one of weight 0."""
    return torch.searchsorted(cumulative.contiguous(), wanted, right=True).clamp(max=cumulative.shape[-1] - 1)


@torch.no_grad()
def prediction_stats(prediction: PredictedTokens, token_loss: Tensor) -> Sums:
    """Statistics of predictions, as sums: the paper's Table 2, during training.

    ``gold_loss`` is the loss without correction, so that runs can be compared; ``num_corrected`` counts
    mispredictions with a credit of at least 1/2, ``num_rows_corrected`` rows with such a misprediction.
    """
    batch = prediction.batch
    sums = {
        "gold_loss": token_loss * batch.is_masked,
        "num_masked": batch.is_masked,
        "num_mispredicted": prediction.is_mispredicted,
        "num_rows": torch.ones_like(batch.rows.keys),
    }
    return {name: values.sum().to(torch.float32) for name, values in sums.items()} | correction_stats(prediction.credit)


@torch.no_grad()
def correction_stats(credit: Tensor) -> Sums:
    """Statistics of credit ``[batch, slots]``, as sums."""
    is_corrected = credit >= 0.5
    sums = {"num_corrected": is_corrected, "credit": credit, "num_rows_corrected": is_corrected.any(1)}
    return {name: values.sum().to(torch.float32) for name, values in sums.items()}
