"""The optimizer: learning rates by hand, groups by name, and both Adams against plain ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import tiny
from trueneg.config.options import OptimizerConfig
from trueneg.errors import ConfigError
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
from trueneg.training.stable_adamw import StableAdamW


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


def test_stableadamw_is_algorithm_2() -> None:
    """Wortsman et al. 2023, Algorithm 2, in numpy, with its betas that correct their own bias."""
    config = OptimizerConfig(
        name="stableadamw", learning_rate=0.1, weight_decay=0.05, beta1=0.8, beta2=0.95, epsilon=1e-4
    )
    module = Small()
    weights = {name: p.detach().double().numpy().copy() for name, p in module.named_parameters()}
    v = {name: np.zeros_like(value) for name, value in weights.items()}
    u = {name: np.zeros_like(value) for name, value in weights.items()}
    clipped = 0
    optimizer = make_optimizer(module, config)
    for step in range(8):
        given = {name: one * (30 if step == 5 else 1) for name, one in small_gradients(step).items()}
        for name, tensor in given.items():
            gradient, t = tensor.double().numpy(), step + 1
            beta1 = 0.8 * (1 - 0.8 ** (t - 1)) / (1 - 0.8**t)
            beta2 = 0.95 * (1 - 0.95 ** (t - 1)) / (1 - 0.95**t)
            v[name] = beta1 * v[name] + (1 - beta1) * gradient
            u[name] = beta2 * u[name] + (1 - beta2) * gradient**2
            rms = np.sqrt(np.mean(gradient**2 / np.maximum(u[name], 1e-4**2)))
            rate = 0.1 / max(1, rms)
            clipped += rms > 1
            decay = 0.05 if name == "matrix" else 0
            weights[name] -= rate * decay * weights[name] + rate * v[name] / (np.sqrt(u[name]) + 1e-4)
            module.get_parameter(name).grad = tensor
        optimizer.step()
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(parameter.detach().numpy(), weights[name], rtol=1e-5, atol=1e-6)
    assert 2 <= clipped < 16


def test_stableadamw_that_never_clips_is_adamw() -> None:
    """Where no squared gradient outgrows its mean: gradients of one size."""
    stable, plain = Small(), Small()
    configs = [OptimizerConfig(name=name, learning_rate=0.01, weight_decay=0.05) for name in ("stableadamw", "adamw")]
    for module, config in zip((stable, plain), configs, strict=True):
        optimizer = make_optimizer(module, config)
        for step in range(5):
            for name, gradient in small_gradients(step).items():
                module.get_parameter(name).grad = gradient.sign()
            optimizer.step()
    for ours, theirs in zip(stable.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_stableadamw_launches_few_operations_however_many_tensors_there_are() -> None:
    def launched(num: int) -> int:
        parameters = [nn.Parameter(torch.ones(3)) for _ in range(num)]
        optimizer = StableAdamW([{"params": parameters, "weight_decay": 0.1}], lr=0.1)
        for one in parameters:
            one.grad = torch.ones(3)
        optimizer.step()  # which makes the state
        with Counting() as counting:
            optimizer.step()
        return counting.number

    assert launched(100) == launched(3) < 40


class Counting(TorchDispatchMode):
    """Counts operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.number = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += 1
        return function(*args, **(kwargs or {}))


class Layered(nn.Module):
    """A numbered layer with a matrix, a wide one and a table of its own; embeddings and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embeddings = nn.Embedding(7, 4)
        layer = nn.ModuleDict({"in": nn.Linear(4, 6), "positions": nn.Embedding(3, 4), "norm": nn.LayerNorm(4)})
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList([layer])})
        self.head = nn.Linear(4, 2)


def set_gradients(module: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in module.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("adjust", ["match_rms_adamw", "original"])
def test_muon_is_torchs_for_hidden_matrices_and_adamw_for_the_rest(adjust: Any) -> None:
    config = OptimizerConfig(
        name="muon", learning_rate=0.02, weight_decay=0.1, muon_weight_decay=0.3, muon_learning_rate_ratio=2,
        muon_momentum=0.9, muon_adjust_lr=adjust,
    )  # fmt: skip
    ours, theirs = Layered(), Layered()
    hidden = [theirs.get_parameter("encoder.layer.0.in.weight")]
    others = [one for one in theirs.parameters() if one is not hidden[0]]
    references = [
        torch.optim.Muon(hidden, lr=0.02 * 2, weight_decay=0.3, momentum=0.9, adjust_lr_fn=adjust),
        torch.optim.AdamW(
            [
                {"params": [one for one in others if one.ndim >= 2], "weight_decay": 0.1},
                {"params": [one for one in others if one.ndim < 2], "weight_decay": 0.0},
            ],
            lr=0.02, eps=config.epsilon,
        ),
    ]  # fmt: skip
    optimizer = make_optimizer(ours, config)
    for step in range(4):
        set_learning_rate(optimizer, 0.02 / (step + 1))
        set_gradients(ours, step)
        set_gradients(theirs, step)
        optimizer.step()
        for reference, factor in zip(references, (2, 1), strict=True):
            for group in reference.param_groups:
                group["lr"] = factor * 0.02 / (step + 1)
            reference.step()
    for (name, parameter), (_, expected) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        torch.testing.assert_close(parameter, expected, msg=lambda m, n=name: f"{n}: {m}")
    kinds = {name.rpartition("/")[2] for name in optimizer_tensors(optimizer, ours)}
    assert kinds == {"momentum_buffer", "step", "exp_avg", "exp_avg_sq"}


ARCHITECTURES = ("bert", "roberta", "electra", "albert", "distilbert", "deberta-v2", "modernbert")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_muon_changes_of_each_architecture(architecture: str) -> None:
    module = TrainingModule(tiny.make_masked_lm(architecture), MaskedLM(tiny.make_masking()))
    groups = group_of(module, OptimizerConfig(name="muon"))
    by_muon = {name for name, group in groups.items() if "momentum" in group}
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    layers = [part for name, part in module.named_modules() if name.rpartition(".")[2].isdecimal() and "layer" in name]
    inside = {id(one) for layer in layers for one in layer.parameters() if one.ndim == 2}
    assert by_muon == {name for name, one in module.named_parameters() if id(one) in inside - tables}
    assert len(by_muon) >= 4
    assert groups.keys() == {name for name, _ in module.named_parameters()}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_embeddings_without_decay(architecture: str) -> None:
    module = TrainingModule(tiny.make_masked_lm(architecture), MaskedLM(tiny.make_masking()))
    groups = group_of(module, OptimizerConfig(decay_embeddings=False))
    for name, parameter in module.named_parameters():
        is_norm = "norm" in name.lower() and parameter.ndim < 2
        is_table = any(part.weight is parameter for part in module.modules() if isinstance(part, nn.Embedding))
        assert groups[name]["weight_decay"] == (0.0 if is_norm or is_table or parameter.ndim < 2 else 0.01), name


def test_muon_wants_numbered_layers() -> None:
    with pytest.raises(ConfigError, match=r"optimizer.name=muon: this model has no matrices in numbered layers"):
        make_optimizer(Small(), OptimizerConfig(name="muon"))


@pytest.mark.parametrize("name", ["stableadamw", "muon"])
def test_what_has_no_gradient_stays_with_its_state(name: Any) -> None:
    """As a frozen encoder does: no decay, no moments, no count of steps."""
    module = Layered()
    optimizer = make_optimizer(module, OptimizerConfig(name=name, weight_decay=0.5))
    frozen = [module.get_parameter("encoder.layer.0.in.weight"), module.embeddings.weight]
    before = [one.detach().clone() for one in frozen]
    for step in range(2):
        set_gradients(module, step)
        for one in frozen:
            one.grad = None
        optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(frozen, before, strict=True))
    assert not any(optimizer.state.get(one) for one in frozen)
    set_gradients(module, 2)
    optimizer.step()
    assert all(not torch.equal(one, other) for one, other in zip(frozen, before, strict=True))


@pytest.mark.parametrize("name", ["stableadamw", "muon"])
def test_any_optimizers_state_put_back_goes_on_alike(name: Any) -> None:
    config = OptimizerConfig(name=name, learning_rate=0.1, layer_decay=0.8)

    def take(module: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
        for step in steps:
            set_gradients(module, step)
            if step < 2:
                module.get_parameter("head.weight").grad = None  # one counts fewer steps
            optimizer.step()

    whole, first, second = Layered(), Layered(), Layered()
    take(whole, make_optimizer(whole, config), range(6))
    before = make_optimizer(first, config)
    take(first, before, range(3))
    saved = {key: value.clone() for key, value in optimizer_tensors(before, first).items()}
    second.load_state_dict(first.state_dict())
    after = make_optimizer(second, config)
    load_optimizer_tensors(after, second, saved)
    take(second, after, range(3, 6))
    for parameter, expected in zip(second.parameters(), whole.parameters(), strict=True):
        assert torch.equal(parameter, expected)


@pytest.mark.parametrize("name", ["adamw", "electra-code", "stableadamw"])
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
