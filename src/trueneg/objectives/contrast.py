"""Contrastive losses of sentence vectors: the original close to the synonym view and far from the antonym view."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional


def similarities(
    left: Tensor, right: Tensor, kind: Literal["dot", "cosine"] = "dot", temperature: float = 1.0
) -> Tensor:
    """Similarity of vectors pair by pair, float32 ``[*]``: log f of Eq. 5.

    Args:
        left: ``[*, hidden]``.
        right: The same shape.
        kind: ``dot`` is the paper's; a ``cosine`` is at most 1 over the temperature.
        temperature: Divides the similarities.
    """
    left, right = left.float(), right.float()
    if kind == "cosine":
        left, right = functional.normalize(left, dim=-1), functional.normalize(right, dim=-1)
    return (left * right).sum(-1) / temperature


def contrast_loss(positive: Tensor, negatives: Tensor) -> Tensor:
    """Negative log-likelihood of the positive among all (Wang et al. 2021, Eq. 6), float32 ``[rows]``.

    With one negative it is ``softplus(negative - positive)``, which does not overflow where ``exp`` of a dot product
    (Eq. 5) would.

    Args:
        positive: ``[rows]``.
        negatives: ``[rows, number]``; minus infinity for an entry to ignore.

    Example:
        >>> contrast_loss(torch.tensor([2.0]), torch.tensor([[2.0]]))
        tensor([0.6931])
    """
    return torch.logsumexp(torch.cat([positive[:, None], negatives], 1), 1) - positive


def released_loss(original: Tensor, view: Tensor, is_same_meaning: bool) -> Tensor:
    """What the authors' code minimises instead: binary cross-entropy of ``mean(h * h')``, float32 ``[rows]``.

    After a pooler's tanh the logit is between -1 and 1, so a pair's loss is at least ``log(1 + e^-1)`` = 0.313 nats.
    """
    logits = (original.float() * view.float()).mean(-1)
    target = torch.full_like(logits, float(is_same_meaning))
    return functional.binary_cross_entropy_with_logits(logits, target, reduction="none")


def others_of_batch(vectors: Tensor, candidates: Tensor, kind: Literal["dot", "cosine"], temperature: float) -> Tensor:
    """Similarity of each row to all candidates but its own, as negatives: float32 ``[rows, candidates]``."""
    left, right = vectors.float(), candidates.float()
    if kind == "cosine":
        left, right = functional.normalize(left, dim=-1), functional.normalize(right, dim=-1)
    # Autocast would compute the product, and only it, in half precision: 1 unit in dot products of 300.
    with torch.autocast(left.device.type, enabled=False):
        found = left @ right.T / temperature
    own = torch.eye(len(left), len(right), dtype=torch.bool, device=found.device)
    return found.masked_fill(own, float("-inf"))
