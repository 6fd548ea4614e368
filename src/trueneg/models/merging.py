"""Averages of weights: mean, linear, exponential moving average, and TIES."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trueneg.errors import ConfigError, unknown_name


@dataclass(frozen=True)
class MergeConfig:
    """How models are merged.

    Attributes:
        method: ``mean``, ``linear`` (a weighted mean), ``ema`` (each model in the given order moves the average towards
            itself) or ``ties`` (Yadav et al. 2023: differences from a base, trimmed, of one sign).
        weights: For ``linear``, one per model, divided by their sum. For ``ties``, of the differences; all 1 by
            default.
        decay: For ``ema``: the share of the average that is kept with each further model.
        density: For ``ties``: the share of each model's differences that is kept, the largest ones.
        scale: For ``ties``: factor of the merged difference (λ).
    """

    method: str = "mean"
    weights: tuple[float, ...] = ()
    decay: float = 0.5
    density: float = 0.2
    scale: float = 1.0

    def check(self, num_models: int, has_base: bool) -> None:
        """Check that the options fit each other and the models.

        Raises:
            ConfigError: naming the option.
        """
        if self.method not in METHODS:
            raise ConfigError(unknown_name("method", self.method, METHODS))
        if not all(map(math.isfinite, (*self.weights, self.scale))):
            raise ConfigError("--weights and --scale must be finite numbers")
        if num_models < 2:
            raise ConfigError(f"merging takes at least 2 models, got {num_models}")
        if (self.method == "ties") is not has_base:
            needs = "needs --base, what all models were continued from" if not has_base else "takes no --base"
            raise ConfigError(f"--method {self.method} {needs}")
        if self.method == "linear" and not self.weights:
            raise ConfigError("--method linear needs --weights, one a model; --method mean weighs all alike")
        if self.weights and self.method not in ("linear", "ties"):
            raise ConfigError(f"--method {self.method} takes no --weights: they are of linear and ties")
        if self.weights and len(self.weights) != num_models:
            raise ConfigError(f"--weights: {len(self.weights)} weights for {num_models} models")
        if self.method == "linear" and sum(self.weights) == 0:
            raise ConfigError("--weights sum to 0: a weighted mean divides by their sum")
        if self.method == "ties" and min(self.weights, default=1) <= 0:
            raise ConfigError(f"--weights of ties must be above 0, got {min(self.weights):g}")
        if not 0 <= self.decay < 1:
            raise ConfigError(f"--decay must be at least 0 and below 1, got {self.decay:g}")
        if not 0 < self.density <= 1:
            raise ConfigError(f"--density must be above 0 and at most 1, got {self.density:g}")


def model_shares(config: MergeConfig, num_models: int) -> list[float]:
    """Return each model's share of a merged weight; they sum to 1.

    Example:
        >>> model_shares(MergeConfig("ema", decay=0.5), 3)
        [0.25, 0.25, 0.5]
    """
    if config.method == "ema":
        shares = [config.decay ** (num_models - 1)]
        return [*shares, *((1 - config.decay) * config.decay ** (num_models - 1 - n) for n in range(1, num_models))]
    weights = config.weights or (1.0,) * num_models
    return [weight / sum(weights) for weight in weights]


def weighted_mean(tensors: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    """Average tensors of one shape, in float32; the result has the first one's type."""
    merged = torch.zeros(tensors[0].shape, dtype=torch.float32)
    for tensor, share in zip(tensors, shares, strict=True):
        merged += share * tensor.float()
    return merged.to(tensors[0].dtype)


def trim_threshold(names: Sequence[str], difference: Callable[[str], Tensor], density: float) -> float:
    """Find the smallest magnitude of a model's differences that are kept (TIES, "trim").

    Args:
        names: Names of the model's tensors.
        difference: Returns a tensor's difference from the base's, float32.
        density: Share to keep, over all tensors together, as in the authors' code.
    """
    if density == 1:
        return 0.0
    magnitudes = torch.cat([difference(name).abs().flatten() for name in names])
    dropped = int(magnitudes.numel() * (1 - density))
    return float(magnitudes.kthvalue(dropped + 1).values) if dropped else 0.0


def ties(
    base: Tensor, tensors: Sequence[Tensor], thresholds: Sequence[float], weights: Sequence[float], scale: float
) -> Tensor:
    """Merge one tensor of several models by TIES (Yadav et al. 2023, Algorithm 1).

    Trim each difference from the base, elect the sign that has more mass, average the differences of that sign, and add
    them to the base.

    Args:
        base: The tensor of the model that they were continued from.
        tensors: The models' tensors.
        thresholds: From ``trim_threshold``, one per model.
        weights: Weights of the differences.
        scale: λ.

    Example:
        >>> models = [torch.tensor([1.0, 0.1, 2.0]), torch.tensor([3.0, 0.0, -1.0])]
        >>> ties(torch.zeros(3), models, [0.5, 0.5], [1.0, 1.0], 1.0)
        tensor([2., 0., 2.])
    """
    differences = torch.stack([tensor.float() - base.float() for tensor in tensors])
    per_model = (-1,) + (1,) * base.dim()
    is_kept = (differences.abs() >= torch.tensor(thresholds).view(per_model)) & (differences != 0)
    factors = torch.tensor(weights, dtype=torch.float32).view(per_model)
    weighted = differences * is_kept * factors
    agrees = is_kept & (weighted.sign() == weighted.sum(0).sign())
    total = (factors * agrees).sum(0)
    merged = torch.where(total > 0, (weighted * agrees).sum(0) / total, 0.0)
    return (base.float() + scale * merged).to(base.dtype)


METHODS = {
    "mean": "all models weigh alike",
    "linear": "a mean by --weights",
    "ema": "each model in the given order moves the average by 1 - decay",
    "ties": "differences from --base, trimmed, of one sign (Yadav et al. 2023)",
}
"""Merging methods, and what each does."""
