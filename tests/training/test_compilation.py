"""Which steps are compiled, what stands in the way, and what compiled corruption draws."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

import tiny
from trueneg.config.options import OptimizerConfig, TrainConfig
from trueneg.corruption.rows import Rows
from trueneg.errors import ConfigError, TruenegWarning
from trueneg.objectives.mlm import MaskedLM
from trueneg.training.compilation import is_to_be_compiled, root_cause_line, why_not
from trueneg.training.step import Run, train_step

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("compile_it", "device", "is_so"),
    [("auto", CPU, False), (True, CPU, True), (False, CPU, False), ("auto", GPU, True), (False, GPU, False)],
)
def test_auto_is_of_gpus(compile_it: Any, device: torch.device, is_so: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueneg.training.compilation.why_not", lambda device: "")
    assert is_to_be_compiled(TrainConfig(compile=compile_it), device) is is_so


def test_without_a_compiler_the_step_is_not_compiled_and_a_line_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    message = r"the step is not compiled.*no C\+\+ compiler \('/nowhere/g\+\+' is not found; CXX .*train.compile=false"
    with pytest.warns(TruenegWarning, match=message) as said:
        assert not is_to_be_compiled(TrainConfig(compile=True), CPU)
    assert len(said) == 1 and "\n" not in str(said[0].message)


def test_on_a_gpu_triton_and_a_c_compiler_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "triton" else real(name))
    assert why_not(GPU) == "the package 'triton' is not installed"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    assert why_not(GPU) == "there is no C compiler ('gcc' is not found; CC can name another)"


def test_what_else_fails_is_said_by_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("backend='inductor' raised:\nPython.h: No such file\n\nmore") from None

    monkeypatch.setattr(torch, "compile", lambda function: fails)
    assert why_not(CPU) == "compiling does not work here (Python.h: No such file)"
    assert root_cause_line(KeyError()) == "KeyError"


@pytest.mark.parametrize(
    ("config", "device", "world_size", "message"),
    [
        (TrainConfig(cuda_graphs=True), CPU, 1, "this run trains on cpu: leave it out"),
        (TrainConfig(cuda_graphs=True, compile=False), GPU, 1, "leave it out, or train.compile=false"),
        (TrainConfig(cuda_graphs=True), GPU, 2, "of 2 processes is cut .* train on one GPU"),
    ],
)
def test_what_cannot_be_recorded(config: TrainConfig, device: torch.device, world_size: int, message: str) -> None:
    with pytest.raises(ConfigError, match=f"train.cuda_graphs.*{message}"):
        is_to_be_compiled(config, device, world_size)


def batches() -> list[Rows]:
    return [tiny.make_rows([[30], [9], [17]], 32, seed=seed, first_position=3 * seed) for seed in range(2)]


@pytest.mark.parametrize(
    "unit", ["token", pytest.param("word", marks=pytest.mark.slow), pytest.param("span", marks=pytest.mark.slow)]
)
def test_inductor_hides_the_same_places(unit: str) -> None:
    """It would fold the counter's multiples into an index, were they sums: see ``keyed.bits``."""
    if reason := why_not(CPU):
        pytest.skip(reason)
    torch.compiler.reset()
    masking = tiny.make_masking(unit=unit, mask_share=0.6, random_share=0.2)
    compiled = torch.compile(masking, fullgraph=True)
    for rows in batches():
        ours, plain = compiled(rows), masking(rows)
        for name in ("input_ids", "positions", "gold", "is_masked", "is_whole_word", "draws"):
            assert torch.equal(getattr(ours, name), getattr(plain, name)), name


def test_gradients_that_are_kept_are_those_that_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a recorded step with micro-batches does it; a parameter that had no gradient still gets none."""

    def trained(keeps: bool) -> dict[str, torch.Tensor]:
        monkeypatch.setattr(Run, "keeps_gradients", keeps)
        model, config = tiny.make_masked_lm(), TrainConfig(accumulation=2)
        idle = torch.nn.Parameter(torch.ones(3, 3))
        model.register_parameter("idle", idle)
        run = Run.new(model, MaskedLM(tiny.make_masking()), OptimizerConfig(), config, CPU)
        run.frozen, run.frozen_steps = list(model.model.base_model.parameters())[:2], 2
        for _ in range(4):
            train_step(run, batches())
        assert all((one.grad is not None) == keeps for one in run.parameters if one is not idle)
        return {name: value.clone() for name, value in model.state_dict().items()}

    kept, given_up = trained(True), trained(False)
    assert torch.equal(kept["idle"], torch.ones(3, 3))
    assert all(torch.equal(kept[name], given_up[name]) for name in kept)
