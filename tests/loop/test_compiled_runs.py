"""Compiled runs: resumed bit for bit, as they began; and what a user is told where nothing compiles."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import MakeConfig, assert_identical, check_resumes, cut_run, last_checkpoint

from trueneg.errors import ConfigError, TruenegWarning
from trueneg.runs.pretraining import pretrain
from trueneg.training.compilation import why_not

FEW_STEPS = ("train.steps=6", "train.save_every=2", "train.eval_every=3", "train.log_every=2")
FEW_STEPS += ("model.dropout=0.1", "model.num_layers=1")


def compile_of(run: Path) -> Any:
    """What the run's configuration, and its last checkpoint's, say."""
    saved = json.loads((run / "config.json").read_text())["train"]["compile"]
    assert saved == json.loads((last_checkpoint(run) / "state.json").read_text())["config"]["train"]["compile"]
    return saved


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mlm", "corrected"])
def test_a_compiled_run_resumes_bit_for_bit(
    kind: str, config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    check_resumes(config_of(kind, *FEW_STEPS, "train.compile=true"), tmp_path, 3)


@pytest.mark.slow
def test_inductor_resumes_bit_for_bit(config_of: MakeConfig, tmp_path: Path) -> None:
    """Its dropout has draws of its own, of the seeds that a step sets."""
    if reason := why_not(torch.device("cpu")):
        pytest.skip(reason)
    torch.compiler.reset()
    small = ("model.num_layers=1", "model.hidden_size=32", "model.intermediate_size=32")
    config = config_of("mlm", *FEW_STEPS, *small, "train.compile=true")
    check_resumes(config, tmp_path, 3)
    plain = config_of("mlm", *FEW_STEPS, *small)
    pretrain(plain, tmp_path / "plain", quiet=True)
    with pytest.raises(AssertionError):
        assert_identical(tmp_path / "plain", tmp_path / "whole")


@pytest.mark.parametrize("began", ["false", "true", "auto"])
def test_auto_goes_on_as_the_run_began(
    began: str, config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of before there was ``auto`` said false: their dropout goes on with the same draws on a GPU, too."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    cut_run(config_of("mlm", *FEW_STEPS, f"train.compile={began}"), tmp_path / "run", 3)
    pretrain(config_of("mlm", *FEW_STEPS), tmp_path / "run", resume=True, quiet=True)
    assert compile_of(tmp_path / "run") is (began == "true")


def test_without_a_compiler_it_trains_all_the_same(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    with pytest.warns(TruenegWarning, match=r"not compiled, and so slower: there is no C\+\+ compiler"):
        pretrain(config_of("mlm", *FEW_STEPS, "train.compile=true"), tmp_path / "asked", quiet=True)
    pretrain(config_of("mlm", *FEW_STEPS), tmp_path / "plain", quiet=True)
    assert_identical(tmp_path / "asked", tmp_path / "plain")


def test_a_step_that_cannot_be_compiled_names_the_option(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no kernel for that")

    monkeypatch.setattr("trueneg.training.compilation.why_not", lambda device: "")
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=refuses))
    with pytest.raises(ConfigError, match=r"could not be compiled \(.*no kernel for that.*\): train.compile=false"):
        pretrain(config_of("mlm", *FEW_STEPS, "train.compile=true"), tmp_path / "run", quiet=True)


def test_what_a_cpu_cannot_record_is_refused(config_of: MakeConfig, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"train.cuda_graphs .* trains on cpu: leave it out"):
        pretrain(config_of("mlm", *FEW_STEPS, "train.cuda_graphs=true"), tmp_path / "run", quiet=True)
