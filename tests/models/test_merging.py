"""``merge``: against torch's own averages and TIES written out in numpy; what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoints import make_masked_lm, save_checkpoint
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import AutoModelForMaskedLM

from trueneg.errors import ConfigError, ModelError
from trueneg.models.merging import MergeConfig
from trueneg.runs.merging import merge


def changed(model: nn.Module, seed: int) -> nn.Module:
    """The model with other weights, near its own."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape, generator=random) * 0.1
    return model


@pytest.fixture
def models(tmp_path: Path) -> list[str]:
    """Folders of a base and of three models near it."""
    return [
        str(save_checkpoint(changed(make_masked_lm("bert"), seed) if seed else make_masked_lm("bert"), tmp_path / name))
        for seed, name in enumerate(("base", "a", "b", "c"))
    ]


def weights(folder: str | Path) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in load_file(Path(folder) / "model.safetensors").items()}


def torchs(averaged: AveragedModel, folders: list[str]) -> dict[str, torch.Tensor]:
    for folder in folders:
        averaged.update_parameters(AutoModelForMaskedLM.from_pretrained(folder))
    found: dict[str, torch.Tensor] = averaged.module.state_dict()
    return found


@pytest.mark.parametrize("method", ["mean", "ema"])
def test_the_mean_and_the_moving_average_are_those_of_torch(method: str, models: list[str], tmp_path: Path) -> None:
    first = AutoModelForMaskedLM.from_pretrained(models[1])
    average = get_ema_multi_avg_fn(0.7) if method == "ema" else None
    # The first update sets the average.
    expected = torchs(AveragedModel(first, multi_avg_fn=average), models[1:])
    done = merge(models[1:], tmp_path / "out", MergeConfig(method, decay=0.7))
    loaded = AutoModelForMaskedLM.from_pretrained(done.path).state_dict()
    assert loaded.keys() == expected.keys()
    for name, tensor in loaded.items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-6, rtol=0)
    assert not torch.equal(loaded["bert.embeddings.word_embeddings.weight"], first.get_input_embeddings().weight)


def test_weights_are_divided_by_their_sum(models: list[str], tmp_path: Path) -> None:
    merge(models[1:3], tmp_path / "out", MergeConfig("linear", weights=(3, 1)))
    a, b, merged = weights(models[1]), weights(models[2]), weights(tmp_path / "out")
    for name, found in merged.items():
        np.testing.assert_allclose(found, 0.75 * a[name] + 0.25 * b[name], atol=1e-6)


def test_ties_is_algorithm_1(models: list[str], tmp_path: Path) -> None:
    """Trim to the largest fifth of each whole difference, elect signs, average what agrees, scale."""
    merge(models[1:], tmp_path / "out", MergeConfig("ties", density=0.2, scale=0.5), base=models[0])
    base, merged = weights(models[0]), weights(tmp_path / "out")
    names = sorted(base)

    def flat(tensors: dict[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([tensors[name].ravel() for name in names])

    differences = [flat(weights(folder)) - flat(base) for folder in models[1:]]
    trimmed = []
    for difference in differences:
        cut = np.sort(np.abs(difference))[int(len(difference) * 0.8)]
        trimmed.append(np.where(np.abs(difference) >= cut, difference, 0))
    sign = np.sign(sum(trimmed))
    agreeing = [np.where((np.sign(one) == sign) & (one != 0), one, np.nan) for one in trimmed]
    counts = np.sum(~np.isnan(agreeing), axis=0)
    mean = np.nansum(agreeing, axis=0) / np.maximum(counts, 1)
    assert 0.1 < (counts > 0).mean() < 0.7
    np.testing.assert_allclose(flat(merged), flat(base) + 0.5 * mean, atol=1e-5)


def test_the_card_says_what_was_merged(models: list[str], tmp_path: Path) -> None:
    merge(models[1:3], tmp_path / "out", MergeConfig("linear", weights=(3, 1)))
    card = (tmp_path / "out" / "README.md").read_text()
    assert "Merged of 2 checkpoints (linear, weights 3, 1):" in card
    assert str(tmp_path) not in card


def test_a_model_in_other_files_is_the_same_model(models: list[str], tmp_path: Path) -> None:
    merge(models[1:3], tmp_path / "whole")
    AutoModelForMaskedLM.from_pretrained(models[2]).save_pretrained(tmp_path / "cut", max_shard_size="40KB")
    for path in Path(models[2]).glob("*token*"):
        (tmp_path / "cut" / path.name).write_bytes(path.read_bytes())
    assert len(list((tmp_path / "cut").glob("*.safetensors"))) > 1
    merge([models[1], str(tmp_path / "cut")], tmp_path / "out")
    for name, found in weights(tmp_path / "out").items():
        np.testing.assert_array_equal(found, weights(tmp_path / "whole")[name])


@pytest.mark.parametrize(
    "config, base, message",
    [
        (MergeConfig("averge"), False, r"unknown method 'averge'.*mean"),
        (MergeConfig("ties"), False, "--method ties needs --base"),
        (MergeConfig("mean"), True, "--method mean takes no --base"),
        (MergeConfig("linear"), False, "--method linear needs --weights"),
        (MergeConfig("linear", weights=(1.0,)), False, "1 weights for 2 models"),
        (MergeConfig("linear", weights=(1.0, -1.0)), False, "--weights sum to 0"),
        (MergeConfig("linear", weights=(1.0, math.nan)), False, "--weights and --scale must be finite"),
        (MergeConfig("ties", scale=math.inf), True, "--weights and --scale must be finite"),
        (MergeConfig("mean", weights=(1.0, 1.0)), False, "--method mean takes no --weights"),
        (MergeConfig("ema", decay=1.0), False, "--decay must be at least 0 and below 1, got 1"),
        (MergeConfig("ties", density=0.0), True, "--density must be above 0 and at most 1, got 0"),
        (MergeConfig("ties", weights=(1.0, -1.0)), True, "--weights of ties must be above 0, got -1"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    config: MergeConfig, base: bool, message: str, models: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        merge(models[1:3], tmp_path / "out", config, base=models[0] if base else "")
    assert not (tmp_path / "out").exists()


def test_models_that_do_not_match_are_refused(models: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 2 models, got 1"):
        merge(models[:1], tmp_path / "out")
    with pytest.raises(ModelError, match=r"no checkpoint at '\./nowhere'"):
        merge([models[0], "./nowhere"], tmp_path / "out")
    with pytest.raises(ModelError, match="is a hub name: merge reads folders"):
        merge([models[0], "bert-base-uncased"], tmp_path / "out")
    electra = save_checkpoint(make_masked_lm("electra"), tmp_path / "electra")
    with pytest.raises(ModelError, match="only models of one architecture"):
        merge([models[0], str(electra)], tmp_path / "out")
    path = Path(models[1]) / "model.safetensors"
    tensors = load_file(path)
    cut = {name: tensor[:-1].clone() if tensor.dim() == 2 else tensor for name, tensor in tensors.items()}
    save_file(cut, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"is \[\d+, \d+\] in '.*base' and \[\d+, \d+\] in '.*a': only models"):
        merge(models[:2], tmp_path / "out")
    tensors[min(tensors)] = tensors[min(tensors)] * float("nan")
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="not finite: leave it out"):
        merge(models[:2], tmp_path / "out")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        merge(models[:2], tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ConfigError, match="is not empty: give another folder"):
        merge(models[2:], tmp_path / "full")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "value"), [("num_attention_heads", 1), ("hidden_act", "relu"), ("layer_norm_eps", 1.0)]
)
def test_models_that_compute_otherwise_with_the_same_shapes_are_refused(
    name: str, value: object, models: list[str], tmp_path: Path
) -> None:
    path = Path(models[1]) / "config.json"
    config = json.loads(path.read_text())
    assert config[name] != value
    path.write_text(json.dumps(config | {name: value}))
    with pytest.raises(ModelError, match=rf"has {name}=.* and '.*' {value}: only models that compute alike"):
        merge(models[:2], tmp_path / "out")
    path.write_text(json.dumps(config | {"hidden_dropout_prob": 0.5, "transformers_version": "5.17.0"}))
    assert merge(models[:2], tmp_path / "out").num_models == 2


def test_another_vocabulary_is_refused(models: list[str], tmp_path: Path) -> None:
    path = Path(models[1]) / "tokenizer.json"
    path.write_text(path.read_text().replace("river", "rivex"))
    with pytest.raises(ModelError, match="other vocabularies"):
        merge(models[:2], tmp_path / "out")
