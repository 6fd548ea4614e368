"""The optimizer of a run, and its learning rate as a function of the step."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import nn
from torch.optim import AdamW, Muon, Optimizer

from trueneg.config.options import OptimizerConfig
from trueneg.training.muon import MuonWithAdamW, hidden_matrices
from trueneg.training.stable_adamw import StableAdamW

LAYER = re.compile(r"\.layers?\.(\d+)\.")
BIAS_CORRECTION_DONE = 1_000_000.0
"""Number of steps after which Adam's bias correction is 1 in float32."""


def make_optimizer(module: nn.Module, config: OptimizerConfig) -> Optimizer:
    """The optimizer over a module's parameters that a configuration describes.

    Vectors and scalars (biases, norms, learned loss weights) have no weight decay; embedding tables have it unless
    ``decay_embeddings`` is off. With ``layer_decay``, each layer's learning rate is ``layer_decay`` times that of the
    layer above. Google's ELECTRA used Adam without bias correction (``electra-code``): here, Adam whose step count
    starts at a million. It also counted a layer between encoder and head that does not exist, so its top layer has
    ``layer_decay ** 2`` times the head's learning rate (google-research/electra#51). With ``muon``, Muon updates the
    matrices within layers, and AdamW the rest.

    Raises:
        ConfigError: for ``muon``, if there is no matrix in a numbered layer.
    """
    depths = layer_depths([name for name, _ in module.named_parameters()], num_absent=config.name == "electra-code")
    deepest = max(depths.values(), default=0)
    hidden = hidden_matrices(module) if config.name == "muon" else frozenset[str]()
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    groups: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
    matrices: dict[float, list[nn.Parameter]] = defaultdict(list)
    """Parameters that Muon updates, by their share of the learning rate."""
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        scale = config.layer_decay ** (deepest - depths[name])
        if name in hidden:
            matrices[config.muon_learning_rate_ratio * scale].append(parameter)
        else:
            has_decay = parameter.ndim >= 2 and (config.decay_embeddings or id(parameter) not in tables)
            groups[config.weight_decay if has_decay else 0.0, scale].append(parameter)
    given = [
        {"params": parameters, "weight_decay": decay, "lr_scale": scale}
        for (decay, scale), parameters in groups.items()
    ]
    betas = (config.beta1, config.beta2)
    if config.name == "stableadamw":
        return StableAdamW(given, lr=config.learning_rate, betas=betas, eps=config.epsilon)
    adamw = AdamW(given, lr=config.learning_rate, betas=betas, eps=config.epsilon, fused=True)
    if config.name == "electra-code":
        _forgo_bias_correction(adamw)
    if not matrices:
        return adamw
    muon = Muon(
        [{"params": parameters, "lr_scale": scale} for scale, parameters in matrices.items()],
        lr=config.learning_rate,
        weight_decay=config.weight_decay if config.muon_weight_decay < 0 else config.muon_weight_decay,
        momentum=config.muon_momentum,
        adjust_lr_fn=config.muon_adjust_lr,
    )
    return MuonWithAdamW(muon, adamw)


def layer_depths(names: list[str], num_absent: int = 0) -> dict[str, int]:
    """Depth of each parameter: 0 for embeddings, i + 1 for layer i, one more than the deepest for heads.

    Args:
        names: Names of all parameters.
        num_absent: Number of non-existent layers to count between encoder and head.
    """
    found = {name: LAYER.search(name) for name in names}
    deepest = max((int(match.group(1)) + 1 for match in found.values() if match), default=0)
    depths = {}
    for name, match in found.items():
        if match:
            depths[name] = int(match.group(1)) + 1
        else:
            depths[name] = 0 if "embeddings" in name else deepest + 1 + num_absent
    return depths


def learning_rate_share(config: OptimizerConfig, step: int, steps: int) -> float:
    """Learning rate of step ``step`` (from 0) of ``steps``, as a share of the peak.

    All schedules rise linearly over ``warmup_steps``. ``linear``, ``cosine`` and ``1-sqrt`` then fall to
    ``min_lr_ratio``; ``wsd`` (warm-up, stable, decay) falls over the last ``decay_ratio`` of the steps, in
    ``decay_shape``. With ``electra-code`` the warm-up multiplies a decay that starts at step 0.

    Example:
        >>> config = OptimizerConfig(schedule="linear", warmup_steps=10)
        >>> [round(learning_rate_share(config, step, 110), 2) for step in (0, 9, 10, 60, 109)]
        [0.1, 1.0, 1.0, 0.5, 0.01]
    """
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    start = 0 if config.name == "electra-code" else config.warmup_steps
    if config.schedule == "wsd":
        start = max(start, steps - round(config.decay_ratio * steps))
    done = min(max((step - start) / max(steps - start, 1), 0.0), 1.0)
    left = {
        "constant": 1.0,
        "linear": 1 - done,
        "1-sqrt": 1 - math.sqrt(done),
        "cosine": (1 + math.cos(math.pi * done)) / 2,
    }[config.decay_shape if config.schedule == "wsd" else config.schedule]
    return warmup * (config.min_lr_ratio + (1 - config.min_lr_ratio) * left)


def set_learning_rate(optimizer: Optimizer, learning_rate: float) -> None:
    """Set every group's learning rate to its share of this one."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group["lr_scale"]


def optimizer_tensors(optimizer: Optimizer, module: nn.Module) -> dict[str, torch.Tensor]:
    """Optimizer state as named tensors: ``parameter name/state name``."""
    names = {parameter: name for name, parameter in module.named_parameters()}
    return {
        f"{names[cast(nn.Parameter, parameter)]}/{key}": torch.as_tensor(value)
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
    }


def load_optimizer_tensors(optimizer: Optimizer, module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Load what ``optimizer_tensors`` returned."""
    parameters = dict(module.named_parameters())
    states: dict[nn.Parameter, dict[str, Any]] = defaultdict(dict)
    for key, value in tensors.items():
        name, _, kind = key.rpartition("/")
        # Step counts, too, are on the parameter's device: fused AdamW keeps them there.
        states[parameters[name]][kind] = value.to(parameters[name].device)
    for parameter, state in states.items():
        optimizer.state[parameter] = state


def _forgo_bias_correction(optimizer: AdamW) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            optimizer.state[parameter] = {
                "step": torch.tensor(BIAS_CORRECTION_DONE, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
