"""Soft regularization: predictions should mean the same as the original (Zhang et al. 2023, Eq. 3, section 5)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.config.objective_options import RegularizationConfig
from trueneg.corruption.rows import MaskedRows
from trueneg.objectives.prediction import PredictedTokens


class Regularizer(nn.Module, ABC):
    """A term computed from a masked model's predictions."""

    term: str
    """Its name in losses and logs."""
    weight: float

    @abstractmethod
    def count(self, batch: MaskedRows) -> Tensor:
        """Denominator of the term in this batch, float32 scalar."""

    @abstractmethod
    def forward(self, model: Any, prediction: PredictedTokens, filled_hidden: Tensor | None = None) -> Tensor:
        """Sum of the term over this batch, float32 scalar.

        Args:
            model: Has ``embeddings`` and ``encode``.
            prediction: The masked model's predictions.
            filled_hidden: ``model.encode(prediction.filled_ids, ...)``, if already computed.
        """

    def expensive_metrics(self, model: Any) -> dict[str, float]:
        """Metrics for the log that are too expensive for every step."""
        return {}

    def warning_for(self, readings: Mapping[str, float]) -> str:
        """Warning about a record of the log; empty if there is none."""
        return ""


class SoftRegularization(Regularizer):
    """Cosine distance between the embeddings of gold and predicted tokens (Eq. 3).

    Summed over masked positions and divided by their number; 0 where the prediction is right. The argmax (or a
    draw) has no gradient, so the term changes only embedding rows, on both sides; it can therefore pull all rows
    together, which the metric ``embedding_cosine``, the mean over all pairs of rows, shows.

    Args:
        variant: ``predicted`` (Eq. 3): the embedding of the predicted token. ``soft``: the expectation of the
            embedding under the model's distribution, through which the model gets a gradient as well.
        stop_gradient: Side that gets no gradient.
        weight: Weight of the term in the loss.
        collapse_threshold: Warn when ``embedding_cosine`` exceeds this.
    """

    term = "sr"

    def __init__(
        self,
        variant: Literal["predicted", "soft"] = "predicted",
        stop_gradient: Literal["none", "gold", "predicted"] = "none",
        weight: float = 1.0,
        collapse_threshold: float = 0.5,
    ) -> None:
        super().__init__()
        self.variant = variant
        self.stop_gradient = stop_gradient
        self.weight = weight
        self.collapse_threshold = collapse_threshold

    def count(self, batch: MaskedRows) -> Tensor:
        """Masked positions."""
        return batch.is_masked.sum().to(torch.float32)

    def forward(self, model: Any, prediction: PredictedTokens, filled_hidden: Tensor | None = None) -> Tensor:
        """Sum of ``1 - cos(e_gold, e_predicted)`` over masked positions."""
        batch, table = prediction.batch, model.embeddings.float()
        gold = functional.embedding(batch.gold, table)
        if self.variant == "soft":
            predicted = prediction.logits.expected(table)
        else:
            predicted = functional.embedding(prediction.predicted, table)
        if self.stop_gradient == "gold":
            gold = gold.detach()
        if self.stop_gradient == "predicted":
            predicted = predicted.detach()
        distance = 1 - functional.cosine_similarity(gold, predicted, dim=-1)
        # Where both are the same row, rounding leaves about 1e-7 and a gradient; the distance there is 0.
        counts = batch.is_masked if self.variant == "soft" else prediction.is_mispredicted
        return (distance * counts).sum()

    @torch.no_grad()
    def expensive_metrics(self, model: Any) -> dict[str, float]:
        """Mean cosine over all pairs of embedding rows."""
        return {"embedding_cosine": mean_pairwise_cosine(model.embeddings)}

    def warning_for(self, readings: Mapping[str, float]) -> str:
        """Warning if the embeddings collapse."""
        cosine = readings.get("embedding_cosine", -1.0)
        if cosine <= self.collapse_threshold:
            return ""
        return (
            f"embeddings are collapsing (mean pairwise cosine {cosine:.2f}, above {self.collapse_threshold}): lower "
            f"objective.regularization.weight or set its stop_gradient"
        )


class SentenceRegularization(Regularizer):
    """KL divergence between encodings of the predicted and of the original text (section 5).

    A softmax turns each token's hidden state into a distribution over hidden units. Summed over tokens that are
    not padding and divided by their number (code related to the authors' averages over padding too).

    Args:
        direction: ``predicted-original`` is KL(H_p || H_s), as in the paper; or the reverse.
        stop_gradient: Side that gets no gradient; by default the original, whose encoding then needs no backward pass.
        weight: Weight of the term in the loss.
    """

    term = "sr_sentence"

    def __init__(
        self,
        direction: Literal["predicted-original", "original-predicted"] = "predicted-original",
        stop_gradient: Literal["none", "original", "predicted"] = "original",
        weight: float = 1.0,
    ) -> None:
        super().__init__()
        self.direction = direction
        self.stop_gradient = stop_gradient
        self.weight = weight

    def count(self, batch: MaskedRows) -> Tensor:
        """Tokens that are not padding."""
        return (batch.rows.segments > 0).sum().to(torch.float32)

    def forward(self, model: Any, prediction: PredictedTokens, filled_hidden: Tensor | None = None) -> Tensor:
        """Sum of the divergence over tokens."""
        rows = prediction.batch.rows
        if filled_hidden is None:
            with torch.set_grad_enabled(torch.is_grad_enabled() and self.stop_gradient != "predicted"):
                filled_hidden = model.encode(prediction.filled_ids, rows)
        if self.stop_gradient == "predicted":
            filled_hidden = filled_hidden.detach()
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.stop_gradient != "original"):
            original_hidden = model.encode(rows.input_ids, rows)
        predicted = filled_hidden.float().log_softmax(-1)
        original = original_hidden.float().log_softmax(-1)
        first, second = (predicted, original) if self.direction == "predicted-original" else (original, predicted)
        divergence = (first.exp() * (first - second)).sum(-1)
        return (divergence * (rows.segments > 0)).sum()


@torch.no_grad()
def mean_pairwise_cosine(table: Tensor) -> float:
    """Mean cosine over all pairs of different rows of ``[n, width]``, exactly and in linear time.

    The sum over all pairs of unit vectors is the squared length of their sum. Rows of zeros (padding) are left
    out.

    Example:
        >>> round(mean_pairwise_cosine(torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])), 4)
        0.3333
    """
    norms = table.float().norm(dim=-1)
    rows = table.float()[norms > 0] / norms[norms > 0].unsqueeze(-1)
    num_rows = len(rows)
    total: Tensor = rows.sum(0).square().sum() - num_rows
    return float(total / max(num_rows * (num_rows - 1), 1))


def regularizers_from_config(config: RegularizationConfig) -> list[Regularizer]:
    """Make the regularizers that a configuration names."""
    regularizers: list[Regularizer] = []
    if "token" in config.level:
        regularizers.append(
            SoftRegularization(config.variant, config.stop_gradient, config.weight, config.collapse_threshold)
        )
    if "sentence" in config.level:
        regularizers.append(SentenceRegularization(config.direction, config.sentence_stop_gradient, config.weight))
    return regularizers
