"""Each layer learns as fast as it should, whatever the architecture calls it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tiny import ARCHITECTURES, make_hf_masked_lm
from trueneg.config.options import OptimizerConfig
from trueneg.models.task_model import load_for_task
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.labelled import Classification
from trueneg.training.optimizer import make_optimizer


def scales(architecture: str, folder: Path, name: str) -> dict[str, float]:
    """Parameter to its share of the learning rate."""
    make_hf_masked_lm(architecture).save_pretrained(folder)
    model = load_for_task("AutoModelForSequenceClassification", str(folder), 2)
    module = TrainingModule(model, Classification())
    config = OptimizerConfig(name=name, layer_decay=0.5)  # type: ignore[arg-type]
    optimizer = make_optimizer(module, config)
    named = {parameter: key for key, parameter in module.named_parameters()}
    return {named[p]: g["lr_scale"] for g in optimizer.param_groups for p in g["params"]}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_two_layers_below_a_head(architecture: str, tmp_path: Path) -> None:
    found = scales(architecture, tmp_path, "adamw")
    by_part = {
        "classifier": 1.0,
        "layer.1." if architecture != "modernbert" else "layers.1.": 0.5,
        "layer.0." if architecture != "modernbert" else "layers.0.": 0.25,
        "embeddings": 0.125,
    }
    for part, scale in by_part.items():
        shares = {value for name, value in found.items() if part in name}
        assert shares == {scale}, part


def test_electras_code_counts_a_layer_that_is_not_there(tmp_path: Path) -> None:
    found = scales("electra", tmp_path, "electra-code")
    assert {value for name, value in found.items() if "classifier" in name} == {1.0}
    assert {value for name, value in found.items() if "layer.1." in name} == {0.25}
    assert {value for name, value in found.items() if "embeddings" in name} == {0.0625}


def test_a_step_moves_parameters_by_their_share(tmp_path: Path) -> None:
    """Adam's first step is the learning rate itself, times the share."""
    make_hf_masked_lm("bert").save_pretrained(tmp_path)
    model = load_for_task("AutoModelForSequenceClassification", str(tmp_path), 2)
    config = OptimizerConfig(layer_decay=0.5, weight_decay=0.0, learning_rate=1e-2, epsilon=1e-12)
    optimizer = make_optimizer(model, config)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    model(input_ids=torch.tensor([[7, 8, 9]]), labels=torch.tensor([1])).loss.backward()
    for group in optimizer.param_groups:
        group["lr"] = config.learning_rate * group["lr_scale"]
    optimizer.step()
    moved = {name: float((p.detach() - before[name]).abs().max()) for name, p in model.named_parameters()}
    assert moved["classifier.weight"] == pytest.approx(1e-2, rel=1e-3)
    assert moved["bert.encoder.layer.1.output.dense.weight"] == pytest.approx(5e-3, rel=1e-3)
    assert moved["bert.encoder.layer.0.output.dense.weight"] == pytest.approx(2.5e-3, rel=1e-3)
