"""``train.ema``: the average of the weights is what a run exports, and is as exact as the rest of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import MakeConfig, check_resumes, readings, together
from torch import nn

from trueneg.config.options import PretrainConfig
from trueneg.runs import estimate as estimates
from trueneg.runs.exporting import export
from trueneg.runs.pretraining import pretrain
from trueneg.training.weight_average import WeightAverage

EMA = ("train.ema=0.8", "train.steps=12", "train.save_every=1", "train.keep=20", "train.eval_every=6")


def weights_of(run: Path, step: int) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"step-{step:09d}" / "model.safetensors")


def test_it_is_the_moving_average_of_the_checkpoints(config_of: MakeConfig, tmp_path: Path) -> None:
    """In numpy, from the weights of every step; those of the start are a run of no learning rate."""
    config = config_of("mlm", *EMA)
    run = tmp_path / "run"
    pretrain(config, run, quiet=True)
    pretrain(config_of("mlm", *EMA, "optimizer.learning_rate=0"), tmp_path / "start", quiet=True)
    exported = load_file(run / "hf" / "model.safetensors")
    saved = weights_of(run, 12)
    num_differing = 0
    for name, found in exported.items():
        inside = f"model.model.{name}"
        average = weights_of(tmp_path / "start", 1)[inside].double().numpy()
        for step in range(1, 13):
            decay = min(0.8, (1 + step) / (10 + step))
            average = decay * average + (1 - decay) * weights_of(run, step)[inside].double().numpy()
        np.testing.assert_allclose(found.numpy(), average, rtol=1e-4, atol=1e-6)
        num_differing += not torch.equal(found, saved[inside])
    assert num_differing > 10


@pytest.mark.parametrize("kind", ["mlm", "electra"])
def test_a_run_that_is_cut_ends_as_the_uninterrupted_one(kind: str, config_of: MakeConfig, tmp_path: Path) -> None:
    settings = ("train.ema=0.9", "train.steps=12", "train.save_every=5", "train.keep_every=4")
    run = check_resumes(config_of(kind, *settings), tmp_path, 3, 7, 11)
    assert len(list((run / "kept").glob("step-*"))) == 3


def test_nothing_of_the_training_itself_changes(config_of: MakeConfig, tmp_path: Path) -> None:
    plain = config_of("mlm", "train.steps=12", "train.eval_every=6", "train.save_every=1", "train.keep=20")
    pretrain(plain, tmp_path / "plain", quiet=True)
    pretrain(config_of("mlm", *EMA), tmp_path / "run", quiet=True)
    ours, theirs = weights_of(tmp_path / "run", 12), weights_of(tmp_path / "plain", 12)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    without = [{k: v for k, v in one.items() if not k.startswith("averaged_")} for one in readings(tmp_path / "run")]
    assert without == readings(tmp_path / "plain")
    evaluations = [one for one in readings(tmp_path / "run") if one["kind"] == "eval"]
    assert all(one["averaged_loss"] != one["loss"] for one in evaluations)


def test_what_is_exported_of_a_step_is_the_average_too(config_of: MakeConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pretrain(config_of("electra", *EMA, "train.keep_every=6"), run, quiet=True)
    for step, place in ((12, run / "hf"), (6, run / "kept" / "step-000000006")):
        export(str(run), out=tmp_path / str(step), step=step)
        for part in ("model.safetensors", "generator/model.safetensors"):
            found, expected = load_file(tmp_path / str(step) / part), load_file(place / part)
            assert found.keys() == expected.keys()
            assert all(torch.equal(found[name], expected[name]) for name in found)


def test_weights_come_back_after_an_error() -> None:
    module = nn.Linear(3, 2)
    average = WeightAverage(module, 0.9)
    before = [one.clone() for one in average.tensors().values()]
    with torch.no_grad():
        module.weight.add_(1 / 3)
    weights = module.weight.clone()
    with pytest.raises(RuntimeError, match="within"), average.in_place():
        assert torch.equal(module.weight, before[0])
        raise RuntimeError("within")
    assert torch.equal(module.weight, weights)
    assert all(torch.equal(one, other) for one, other in zip(average.tensors().values(), before, strict=True))


@pytest.mark.slow
def test_two_processes_average_alike(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of("mlm", "train.ema=0.9", "train.steps=6", "model.dropout=0", "optimizer.epsilon=1e-3")
    pretrain(config, tmp_path / "one", quiet=True)
    assert [told["reason"] for told in together(config, tmp_path / "two", 2)] == ["finished", "finished"]
    ours, theirs = (load_file(tmp_path / name / "hf" / "model.safetensors") for name in ("one", "two"))
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=1e-4, atol=1e-6)


def size_of_optimizer(config: PretrainConfig) -> float:
    return estimates.estimate(config, vocab_size=2000).optimizer


def test_the_estimate_counts_it_and_each_optimizers_state(config_of: MakeConfig) -> None:
    plain = config_of("mlm")
    found = estimates.estimate(plain, vocab_size=2000)
    weights = found.gradients
    assert size_of_optimizer(config_of("mlm", "train.ema=0.9")) == found.optimizer + weights
    assert size_of_optimizer(config_of("mlm", "optimizer.name=stableadamw")) == found.optimizer
    # Muon has one mean, and no count: half of what AdamW has for the layers' matrices.
    muon = size_of_optimizer(config_of("mlm", "optimizer.name=muon"))
    num_layers, width, inner = plain.model.num_layers, plain.model.hidden_size, plain.model.intermediate_size
    matrices = num_layers * (4 * width**2 + 2 * width * inner)
    assert found.optimizer - muon == 4 * matrices + 4 * 6 * num_layers
