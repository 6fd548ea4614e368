"""The optimizer: learning rates by hand, groups by name, and both Adams against plain ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tiny
from trueneg.config.options import OptimizerConfig
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.rtd import ReplacedTokenDetection
from trueneg.training.optimizer import (
    layer_depths,
    learning_rate_share,
    load_optimizer_tensors,
    make_optimizer,
    optimizer_tensors,
    set_learning_rate,
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Warm-up of 4 steps, 20 steps in all; shares at steps 0, 1, 3, 4, 12, 19, 20.
        ({"schedule": "constant"}, [0.25, 0.5, 1, 1, 1, 1, 1]),
        ({"schedule": "linear"}, [0.25, 0.5, 1, 1, 0.5, 1 / 16, 0]),
        ({"schedule": "linear", "min_lr_ratio": 0.2}, [0.25, 0.5, 1, 1, 0.6, 0.2 + 0.8 / 16, 0.2]),
        ({"schedule": "cosine"}, [0.25, 0.5, 1, 1, 0.5, (1 + np.cos(np.pi * 15 / 16)) / 2, 0]),
        ({"schedule": "wsd", "decay_ratio": 0.4}, [0.25, 0.5, 1, 1, 1, 1 / 8, 0]),
        ({"schedule": "wsd", "decay_ratio": 0.5}, [0.25, 0.5, 1, 1, 0.8, 0.1, 0]),
        ({"schedule": "wsd", "decay_ratio": 1.0}, [0.25, 0.5, 1, 1, 0.5, 1 / 16, 0]),
        # Google's ELECTRA: warm-up x decay, and the decay runs from the first step.
        (
            {"schedule": "linear", "name": "electra-code"},
            [0.25 * 1, 0.5 * 0.95, 1 * 0.85, 0.8, 0.4, 0.05, 0],
        ),
    ],
)
def test_schedules(options: dict[str, Any], expected: list[float]) -> None:
    config = OptimizerConfig(warmup_steps=4, **options)
    found = [learning_rate_share(config, step, 20) for step in (0, 1, 3, 4, 12, 19, 20)]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "wsd"])
def test_schedules_without_warm_up_and_of_one_step(schedule: Any) -> None:
    assert learning_rate_share(OptimizerConfig(schedule=schedule), 0, 1) == 1
    assert learning_rate_share(OptimizerConfig(schedule=schedule, warmup_steps=10), 4, 5) == 0.5
    shares = [learning_rate_share(OptimizerConfig(schedule=schedule, warmup_steps=3), s, 50) for s in range(50)]
    assert all(0 < share <= 1 for share in shares)
    assert shares[2:] == sorted(shares[2:], reverse=True)


def group_of(module: nn.Module, config: OptimizerConfig) -> dict[str, dict[str, Any]]:
    """Optimizer group by parameter name."""
    names = {parameter: name for name, parameter in module.named_parameters()}
    optimizer = make_optimizer(module, config)
    return {names[parameter]: group for group in optimizer.param_groups for parameter in group["params"]}


def modules() -> dict[str, nn.Module]:
    masked = MaskedLM(tiny.make_masking())
    return {
        "bert": TrainingModule(tiny.make_masked_lm("bert"), masked),
        "modernbert": TrainingModule(tiny.make_masked_lm("modernbert"), masked),
        "electra": TrainingModule(tiny.make_electra(), ReplacedTokenDetection(masked)),
    }


@pytest.mark.parametrize("name", ["bert", "modernbert", "electra"])
def test_vectors_have_no_decay(name: str) -> None:
    module = modules()[name]
    groups = group_of(module, OptimizerConfig(weight_decay=0.1))
    assert groups.keys() == {name for name, _ in module.named_parameters()}
    for parameter_name, parameter in module.named_parameters():
        is_matrix = "norm" not in parameter_name.lower() and not parameter_name.endswith("bias")
        assert is_matrix == (parameter.ndim >= 2)
        assert groups[parameter_name]["weight_decay"] == (0.1 if is_matrix else 0.0)


def test_frozen_parameters_are_left_out() -> None:
    module = modules()["bert"]
    module.get_parameter("model.model.cls.predictions.bias").requires_grad_(False)
    assert "model.model.cls.predictions.bias" not in group_of(module, OptimizerConfig())


DEPTHS = {
    "bert": {
        "model.model.bert.embeddings.word_embeddings.weight": 0,
        "model.model.bert.embeddings.LayerNorm.bias": 0,
        "model.model.bert.encoder.layer.0.attention.self.query.weight": 1,
        "model.model.bert.encoder.layer.1.output.dense.bias": 2,
        "model.model.cls.predictions.transform.dense.weight": 3,
    },
    "modernbert": {
        "model.model.model.embeddings.tok_embeddings.weight": 0,
        "model.model.model.layers.0.attn.Wqkv.weight": 1,
        "model.model.model.layers.1.mlp.Wi.weight": 2,
        "model.model.head.dense.weight": 3,
    },
    "electra": {
        "model.discriminator.model.electra.embeddings_project.weight": 0,
        "model.generator.model.electra.embeddings.word_embeddings.weight": 0,
        "model.generator.model.electra.encoder.layer.0.output.dense.weight": 1,
        "model.discriminator.model.electra.encoder.layer.1.output.dense.weight": 2,
        "model.discriminator.model.discriminator_predictions.dense.weight": 3,
    },
}


@pytest.mark.parametrize("name", DEPTHS)
def test_layer_decay(name: str) -> None:
    """Each layer learns half as fast as the one above it; heads at the full rate."""
    module = modules()[name]
    depths = layer_depths([parameter for parameter, _ in module.named_parameters()])
    assert {parameter: depths[parameter] for parameter in DEPTHS[name]} == DEPTHS[name]
    groups = group_of(module, OptimizerConfig(layer_decay=0.5))
    for parameter, depth in DEPTHS[name].items():
        assert groups[parameter]["lr_scale"] == 0.5 ** (3 - depth)


def test_depths_have_two_digits() -> None:
    names = ["x.layer.2.w", "x.layer.11.w", "x.embeddings.w", "head.w"]
    assert layer_depths(names) == {"x.layer.2.w": 3, "x.layer.11.w": 12, "x.embeddings.w": 0, "head.w": 13}


def test_learning_rate_is_shared_out() -> None:
    module = modules()["bert"]
    optimizer = make_optimizer(module, OptimizerConfig(layer_decay=0.5))
    set_learning_rate(optimizer, 8e-3)
    assert {group["lr"] for group in optimizer.param_groups} == {8e-3, 4e-3, 2e-3, 1e-3}


class Small(nn.Module):
    """A matrix, which decays, and a vector, which does not."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.matrix = nn.Parameter(torch.randn(3, 4, generator=generator))
        self.vector = nn.Parameter(torch.randn(4, generator=generator))


def small_gradients(step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    return {"matrix": torch.randn(3, 4, generator=generator), "vector": torch.randn(4, generator=generator)}


def take_steps(module: nn.Module, step: Callable[[], Any], steps: range) -> None:
    for number in steps:
        for name, gradient in small_gradients(number).items():
            module.get_parameter(name).grad = gradient
        step()


def test_electra_code_is_adam_without_bias_correction() -> None:
    """google-research/electra, model/optimization.py: AdamWeightDecayOptimizer, in numpy."""
    config = OptimizerConfig(name="electra-code", learning_rate=0.1, weight_decay=0.05, epsilon=1e-3)
    module = Small()
    weights = {name: p.detach().double().numpy().copy() for name, p in module.named_parameters()}
    m = {name: np.zeros_like(value) for name, value in weights.items()}
    v = {name: np.zeros_like(value) for name, value in weights.items()}
    for step in range(5):
        for name, tensor in small_gradients(step).items():
            gradient = tensor.double().numpy()
            m[name] = 0.9 * m[name] + 0.1 * gradient
            v[name] = 0.999 * v[name] + 0.001 * gradient**2
            update = m[name] / (np.sqrt(v[name]) + 1e-3)
            if name == "matrix":
                update += 0.05 * weights[name]
            weights[name] = weights[name] - 0.1 * update
    take_steps(module, make_optimizer(module, config).step, range(5))
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(parameter.detach().numpy(), weights[name], rtol=1e-5, atol=1e-6)


def test_adamw_is_torchs() -> None:
    config = OptimizerConfig(learning_rate=0.1, weight_decay=0.05, beta1=0.8, beta2=0.95, epsilon=1e-4)
    ours, theirs = Small(), Small()
    groups = [
        {"params": [theirs.matrix], "weight_decay": 0.05},
        {"params": [theirs.vector], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=0.1, betas=(0.8, 0.95), eps=1e-4, fused=False, foreach=False)
    take_steps(ours, make_optimizer(ours, config).step, range(5))
    take_steps(theirs, reference.step, range(5))
    for (name, parameter), (_, expected) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        torch.testing.assert_close(parameter, expected, msg=lambda m, n=name: f"{n}: {m}")
    started = Small()
    assert (ours.matrix - started.matrix).abs().min() > 0.01


@pytest.mark.parametrize("name", ["adamw", "electra-code"])
def test_state_put_back_goes_on_alike(name: Any) -> None:
    config = OptimizerConfig(name=name, learning_rate=0.1)
    whole, first, second = Small(), Small(), Small()
    take_steps(whole, make_optimizer(whole, config).step, range(6))
    before = make_optimizer(first, config)
    take_steps(first, before.step, range(3))
    saved = {key: value.clone() for key, value in optimizer_tensors(before, first).items()}
    assert set(saved) == {f"{p}/{s}" for p in ("matrix", "vector") for s in ("step", "exp_avg", "exp_avg_sq")}
    second.load_state_dict(first.state_dict())
    after = make_optimizer(second, config)
    load_optimizer_tensors(after, second, saved)
    take_steps(second, after.step, range(3, 6))
    for parameter, expected in zip(second.parameters(), whole.parameters(), strict=True):
        assert torch.equal(parameter, expected)
