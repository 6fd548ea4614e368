"""``train.precision=fp16``: a scaled loss, steps left out where gradients overflow, and the scale in checkpoints."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from tiny_runs import MakeConfig, before_step, check_resumes, in_float32, last_checkpoint, poison, readings, together
from torch import Tensor

from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.errors import CheckpointError, DivergedError
from trueneg.objectives import mlm
from trueneg.objectives.base import Sums
from trueneg.objectives.mlm import MaskedLM
from trueneg.runs.configuring import load_run_config
from trueneg.runs.pretraining import pretrain
from trueneg.training.step import Run

FP16 = ("train.precision=fp16", "train.steps=12", "train.log_every=1", "train.eval_every=6", "model.dropout=0.1")


def scaled(monkeypatch: pytest.MonkeyPatch, **options: float) -> None:
    monkeypatch.setattr(torch.amp, "GradScaler", partial(torch.amp.GradScaler, **options))


def scales(run: Path) -> list[float]:
    return [record["loss_scale"] for record in readings(run) if record["kind"] == "train"]


@pytest.mark.parametrize("kind", ["mlm", "corrected"])
def test_a_run_resumes_bit_for_bit_with_its_scale(
    kind: str, config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled(monkeypatch, growth_interval=4, init_scale=16.0)
    run = check_resumes(config_of(kind, *FP16, "train.save_every=3"), tmp_path, 5, 10)
    assert scales(run) == [2.0 ** (4 + step // 4) for step in range(1, 13)]
    state = json.loads((last_checkpoint(run) / "state.json").read_text())
    assert state["loss_scale"]["scale"] == 2.0**7


def test_it_learns_as_float32_does(config_of: MakeConfig, tmp_path: Path) -> None:
    for precision in ("fp32", "fp16"):
        pretrain(config_of("mlm", *FP16[1:], f"train.precision={precision}"), tmp_path / precision, quiet=True)
    ours, theirs = ([record["loss"] for record in readings(tmp_path / precision)] for precision in ("fp16", "fp32"))
    assert ours == pytest.approx(theirs, rel=5e-3) and ours != theirs
    assert "loss_scale" not in readings(tmp_path / "fp32")[0]


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "stableadamw"])
def test_steps_whose_gradients_overflow_are_left_out_until_the_scale_fits(
    optimizer: str, config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []

    def look(run: Run) -> None:
        seen.append(torch.cat([parameter.detach().flatten() for parameter in run.parameters]).clone())

    scaled(monkeypatch, init_scale=2.0**40)
    with pytest.MonkeyPatch.context() as patch:
        for step in range(12):
            before_step(patch, step, look)
        assert pretrain(config_of("mlm", *FP16, f"optimizer.name={optimizer}"), tmp_path / "run", quiet=True).step == 12
    found = scales(tmp_path / "run")
    num_left_out = 40 - int(torch.tensor(found[-1]).log2())
    assert 2 <= num_left_out < 40
    is_halved = [after < before for before, after in zip([2.0**40, *found], found, strict=False)]
    assert sum(is_halved) == num_left_out
    for before, after, halved in zip(seen, seen[1:], is_halved, strict=False):
        assert torch.equal(before, after) == halved
    records = [record for record in readings(tmp_path / "run") if record["kind"] == "train"]
    assert ["gradient_norm" not in record for record in records] == is_halved


def test_a_loss_that_is_not_finite_ends_the_run_all_the_same(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_step(monkeypatch, 7, poison)
    with pytest.raises(DivergedError, match="not finite at step 8"):
        pretrain(config_of("mlm", *FP16), tmp_path / "run", quiet=True)


def test_a_loss_that_is_not_finite_on_one_process_ends_them_all(config_of: MakeConfig, tmp_path: Path) -> None:
    """While gradients are scaled the others only see a gradient that overflowed."""
    config = config_of("mlm", *FP16[:-1], "train.steps=6", "train.timeout_seconds=60")
    told = together(config, tmp_path / "run", 2, {1: {"before_step": (3, poison)}})
    assert [(answer["error"], "not finite at step 4" in answer["message"]) for answer in told] == [
        ("DivergedError", True)
    ] * 2


def test_gradients_that_overflow_unscaled_end_it_too(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stiffen(run: Run) -> None:
        """Let the loss be as it is, and its gradient infinite."""
        parameter = next(run.module.parameters())
        parameter.register_hook(lambda gradient: gradient * float("inf"))

    scaled(monkeypatch, init_scale=4.0)
    before_step(monkeypatch, 2, stiffen)
    with pytest.raises(DivergedError, match="not finite at step 5"):
        pretrain(config_of("mlm", *FP16), tmp_path / "run", quiet=True)


def test_two_processes_train_as_one_does(config_of: MakeConfig, tmp_path: Path) -> None:
    """Where nothing overflows: a process's own gradients do so at another scale than the whole's."""
    config = config_of("mlm", *FP16[:-1], "model.dropout=0", "train.steps=6")
    pretrain(config, tmp_path / "one", quiet=True)
    assert [told["step"] for told in together(config, tmp_path / "two", 2)] == [6, 6]
    ours, theirs = ([record["loss"] for record in readings(tmp_path / name)] for name in ("one", "two"))
    assert ours == pytest.approx(theirs, rel=2e-3)
    assert scales(tmp_path / "two") == scales(tmp_path / "one") == [2.0**16] * 6


def test_a_run_does_not_change_its_precision(config_of: MakeConfig, tmp_path: Path) -> None:
    pretrain(config_of("mlm", *FP16), tmp_path / "run", quiet=True)
    with pytest.raises(CheckpointError, match=r"train\.precision"):
        pretrain(config_of("mlm", *FP16[1:], "train.precision=fp32"), tmp_path / "run", resume=True, quiet=True)


def test_rows_are_corrupted_in_the_runs_precision_and_as_in_float32(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may judge what is masked, in training and on held-out text."""
    seen: list[tuple[bool, bool]] = []
    drawn: list[Tensor] = []

    class Watched(MaskedLM):
        def corrupt(self, rows: Rows) -> MaskedRows:
            seen.append((self.training, torch.is_autocast_enabled("cpu")))
            batch = super().corrupt(rows)
            drawn.extend((batch.input_ids, batch.positions, batch.is_masked, batch.draws))
            return batch

        def counts(self, batch: MaskedRows) -> Sums:
            seen.append((self.training, torch.is_autocast_enabled("cpu")))
            return super().counts(batch)

    monkeypatch.setattr(mlm, "MaskedLM", Watched)
    found = {}
    for precision in ("fp32", "bf16", "fp16"):
        settings = (f"train.precision={precision}", "train.steps=2", "train.eval_every=2")
        pretrain(config_of("mlm", *settings), tmp_path / precision, quiet=True)
        is_half = precision != "fp32"
        assert set(seen) == {(True, is_half), (False, is_half)}
        found[precision] = [*drawn]
        seen.clear()
        drawn.clear()
    for half in ("bf16", "fp16"):
        assert len(found[half]) == len(found["fp32"])
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(found[half], found["fp32"], strict=True))


@pytest.mark.parametrize("slow", [0, 1])
def test_processes_that_measure_differently_train_alike(slow: int, config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of("mlm", "train.precision=auto", "train.steps=2", "train.eval_every=0")
    measured = {rank: {"is_bfloat16_faster": rank != slow, "before_step": (0, in_float32)} for rank in range(2)}
    assert together(config, tmp_path / "run", 2, measured) == [{"reason": "finished", "step": 2}] * 2
    assert load_run_config(tmp_path / "run").train.precision == "fp32"
