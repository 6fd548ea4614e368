"""BERTScore (Zhang et al. 2020): how well the tokens of two texts match, by the cosines of their hidden states."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trueneg.models.text_reader import States


@dataclass(frozen=True)
class BertScore:
    """Scores of pairs of texts at every layer, ``[layers + 1, n]`` each.

    Attributes:
        precision: Mean over the candidate's tokens of the best cosine in the reference.
        recall: Mean over the reference's tokens of the best cosine in the candidate.
        f1: Their harmonic mean; 0 where both are 0, as for a text without tokens.
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor


def bert_score(candidate: States, reference: States) -> BertScore:
    """Score candidates against references, the ``i``-th against the ``i``-th.

    As in the released code without idf weights: special tokens have no weight, but other tokens may match them best.
    Unlike there, padding is never matched (its cosine of 0 would beat negative ones). Scores are not rescaled.

    Args:
        candidate: States of ``n`` texts.
        reference: States of ``n`` texts, from the same encoder.
    """
    left, right = (torch.nn.functional.normalize(states.hidden, dim=-1) for states in (candidate, reference))
    cosine = torch.einsum("knah,knbh->knab", left, right).double()
    is_pair = candidate.is_token[:, :, None] & reference.is_token[:, None, :]
    cosine = cosine.masked_fill(~is_pair, -1.0)
    precision = _weighted(cosine.amax(3), candidate)
    recall = _weighted(cosine.amax(2), reference)
    total = precision + recall
    f1 = torch.where(total != 0, 2 * precision * recall / torch.where(total != 0, total, 1.0), 0.0)
    return BertScore(precision, recall, f1)


def _weighted(best: Tensor, states: States) -> Tensor:
    weights = (states.is_token & ~states.is_special).double()
    return (best * weights).sum(-1) / weights.sum(-1).clamp(min=1)
