"""The heads of a continued checkpoint can learn first, while its encoder stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import MakeConfig, check_resumes, together, weight_distance

from trueneg.config.options import PretrainConfig
from trueneg.errors import ConfigError
from trueneg.runs.configuring import configure
from trueneg.runs.pretraining import pretrain

SETTINGS = ("model.frozen_steps=6", "train.steps=12", "train.save_every=3", "train.keep=9", "optimizer.warmup_steps=0")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


def continued(kind: str, config_of: MakeConfig, sources: Path, *settings: str) -> PretrainConfig:
    source = sources / kind
    if not source.exists():
        pretrain(config_of(kind, "train.steps=3"), source, quiet=True)
    return config_of(kind, f"model.start_from={source / 'hf'}", *SETTINGS, *settings)


def moved(run: Path, before: int, after: int) -> set[str]:
    ours, theirs = (load_file(run / "checkpoints" / f"step-{n:09d}" / "model.safetensors") for n in (before, after))
    return {name for name in ours if not torch.equal(ours[name], theirs[name])}


@pytest.mark.parametrize("kind", ["mlm", "electra"])
def test_only_heads_learn_at_first_and_then_everything(
    kind: str, config_of: MakeConfig, sources: Path, tmp_path: Path
) -> None:
    pretrain(continued(kind, config_of, sources), tmp_path / "run", quiet=True)
    at_first, then = moved(tmp_path / "run", 3, 6), moved(tmp_path / "run", 6, 9)
    kept = "model.model.bert." if kind == "mlm" else "model.discriminator.model.electra."
    assert at_first
    assert [name for name in at_first if name.startswith(kept) or ".embeddings." in name] == []
    assert any(name.startswith(kept) for name in then)
    assert any(".word_embeddings." in name for name in then)
    if kind == "electra":
        assert any(name.startswith("model.generator.") for name in at_first)


@pytest.mark.parametrize("cut", [4, 6, 8])
def test_a_run_cut_around_the_thaw_ends_as_the_uninterrupted_one(
    cut: int, config_of: MakeConfig, sources: Path, tmp_path: Path
) -> None:
    check_resumes(continued("mlm", config_of, sources), tmp_path, cut)


@pytest.mark.slow
def test_two_processes_freeze_alike(config_of: MakeConfig, sources: Path, tmp_path: Path) -> None:
    config = continued("mlm", config_of, sources)
    pretrain(config, tmp_path / "one", quiet=True)
    together(config, tmp_path / "two", 2)
    assert weight_distance(tmp_path / "one", tmp_path / "two") < 1e-6


def test_nothing_is_frozen_without_a_checkpoint() -> None:
    for steps in (5, -1):
        with pytest.raises(ConfigError, match=r"model\.frozen_steps"):
            configure("electra-tiny", settings=[f"model.frozen_steps={steps}"])
