"""A step is the same step however it is cut: into micro-batches, or among processes.

Sums in another order differ by float32 rounding, 6e-8 of a value. Adam divides a gradient by its own size, so the
rounding of a gradient that is almost 0 becomes a share of a whole step: measured over ten steps of 2e-3, weights
differ by up to TOLERANCE / 5. A wrong denominator or a lost micro-batch moves them by 1e-3 or more.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import (
    MakeConfig,
    assert_same_readings,
    before_step,
    last_checkpoint,
    poison,
    readings,
    terminate,
    together,
    weight_distance,
)

from trueneg.config.codec import save_config
from trueneg.errors import ConfigError, DivergedError
from trueneg.runs.pretraining import pretrain

TOLERANCE = 2e-6
TEN_STEPS = ("model.dropout=0", "train.steps=10", "train.eval_every=5", "train.log_every=2")


def assert_close(run: Path, other: Path) -> None:
    """The same weights and readings but for rounding."""
    assert weight_distance(run, other) < TOLERANCE
    assert_same_readings(run, other)


@pytest.mark.parametrize("kind", ["mlm", "electra", "corrected"])
def test_four_micro_batches_are_one_batch(kind: str, config_of: MakeConfig, tmp_path: Path) -> None:
    for accumulation in (1, 4):
        config = config_of(kind, *TEN_STEPS, f"train.accumulation={accumulation}")
        pretrain(config, tmp_path / str(accumulation), quiet=True)
    assert_close(tmp_path / "1", tmp_path / "4")
    if kind == "corrected":
        assert any(record["corrected"] > 0 for record in readings(tmp_path / "1"))


def test_the_kept_denominator_is_exempt(config_of: MakeConfig, tmp_path: Path) -> None:
    """App. A's mean over what is left is taken per micro-batch: the tolerance above does see a difference."""
    kept = ("objective.correction.denominator=kept", "optimizer.learning_rate=1e-2")
    for accumulation in (1, 4):
        config = config_of("corrected", *TEN_STEPS, *kept, f"train.accumulation={accumulation}")
        pretrain(config, tmp_path / str(accumulation), quiet=True)
    assert weight_distance(tmp_path / "1", tmp_path / "4") > 10 * TOLERANCE


@pytest.mark.slow
def test_torchrun_with_two_processes_is_one_process(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of("corrected", *TEN_STEPS)
    pretrain(config, tmp_path / "one", quiet=True)
    save_config(config, tmp_path / "config.json")
    script = tmp_path / "train.py"
    script.write_text(
        "from trueneg.runs.configuring import load_run_config\n"
        "from trueneg.runs.pretraining import pretrain\n"
        f"pretrain(load_run_config({str(tmp_path / 'config.json')!r}), {str(tmp_path / 'two')!r}, quiet=True)\n"
    )
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run([*launcher, str(script)], capture_output=True, text=True, env=os.environ, timeout=300)
    assert done.returncode == 0, done.stderr
    assert_close(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize("kind", ["mlm", "electra"])
def test_two_processes_with_micro_batches_are_one(kind: str, config_of: MakeConfig, tmp_path: Path) -> None:
    pretrain(config_of(kind, *TEN_STEPS), tmp_path / "one", quiet=True)
    told = together(config_of(kind, *TEN_STEPS, "train.accumulation=2"), tmp_path / "two", 2)
    assert told == [{"reason": "finished", "step": 10}] * 2
    assert_close(tmp_path / "one", tmp_path / "two")


def test_one_process_and_then_four_go_on_with_what_two_began(config_of: MakeConfig, tmp_path: Path) -> None:
    """Only one of the two is asked to stop: both do, at the same step, when the vote on it has come in."""
    settings = ("model.dropout=0", "train.log_every=8")  # up to the first record every step is voted on
    config = config_of("corrected", *settings)
    pretrain(config, tmp_path / "one", quiet=True)
    told = together(config, tmp_path / "both", 2, {1: {"before_step": (3, terminate)}})
    assert told == [{"reason": "interrupted", "step": 5}] * 2
    stopped = pretrain(
        config_of("corrected", *settings, "train.max_minutes=1e-6"), tmp_path / "both", resume=True, quiet=True
    )
    assert (stopped.reason, stopped.step) == ("time", 6)
    assert together(config, tmp_path / "both", 4) == [{"reason": "finished", "step": 24}] * 4
    assert_close(tmp_path / "one", tmp_path / "both")


def test_a_loss_that_is_nan_in_one_process_stops_both(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of("mlm", "train.save_every=5")
    told = together(config, tmp_path / "run", 2, {1: {"before_step": (7, poison)}})
    assert [answer["error"] for answer in told] == ["DivergedError"] * 2
    assert all("step 8" in answer["message"] for answer in told)
    assert last_checkpoint(tmp_path / "run").name == "step-000000005"


def test_fewer_held_out_rows_than_processes_are_refused_before_training(config_of: MakeConfig, tmp_path: Path) -> None:
    told = together(config_of("mlm", "corpus.eval_rows=1"), tmp_path / "run", 2)
    assert [answer["error"] for answer in told] == ["ConfigError"] * 2
    assert "1 held-out rows for 2 processes" in told[0]["message"]
    told = together(config_of("mlm", "corpus.eval_rows=2", "train.steps=2"), tmp_path / "run", 2)
    assert told == [{"reason": "finished", "step": 2}] * 2


def test_a_batch_that_does_not_divide_is_refused_before_anything_is_written(
    config_of: MakeConfig, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"train.batch_size=8 does not divide .* multiple of 3"):
        pretrain(config_of("mlm", "train.accumulation=3"), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_gradient_checkpointing_changes_memory_only(config_of: MakeConfig, tmp_path: Path) -> None:
    for kind in ("mlm", "corrected"):
        pretrain(config_of(kind, "model.dropout=0.1", "train.steps=6"), tmp_path / kind, quiet=True)
        again = config_of(kind, "model.dropout=0.1", "train.steps=6", "train.gradient_checkpointing=true")
        pretrain(again, tmp_path / f"{kind}-again", quiet=True)
        assert_close(tmp_path / kind, tmp_path / f"{kind}-again")


def test_the_gradient_is_clipped_to_its_norm(config_of: MakeConfig, tmp_path: Path) -> None:
    """Without momentum, decay or Adam's scaling by the gradient's size, a step is as long as the clipped norm."""
    scaled = ("optimizer.epsilon=1e6", "optimizer.beta1=0", "optimizer.beta2=0", "optimizer.weight_decay=0")
    moved = {}
    for max_norm in (0.0, 0.5, 0.25):
        config = config_of(
            "electra",
            *scaled,
            "model.dropout=0",
            "train.steps=1",
            "optimizer.schedule=constant",
            "optimizer.warmup_steps=0",
            "optimizer.learning_rate=1e6",
            f"optimizer.max_grad_norm={max_norm}",
        )
        run = pretrain(config, tmp_path / str(max_norm), quiet=True).folder
        start = config_of("electra", *scaled, "model.dropout=0", "train.steps=1", "optimizer.learning_rate=0")
        origin = tmp_path / f"origin{max_norm}"
        pretrain(start, origin, quiet=True)
        moved[max_norm] = _distance(run, origin)
        norm = readings(run)[0]["gradient_norm"]
        assert norm > 1, "the reading is the norm before clipping"
    assert moved[0.5] == pytest.approx(0.5, rel=1e-2)
    assert moved[0.25] == pytest.approx(0.25, rel=1e-2)
    assert moved[0.0] == pytest.approx(norm, rel=1e-2)


def _distance(run: Path, other: Path) -> float:
    from safetensors.torch import load_file

    ours, theirs = (load_file(last_checkpoint(path) / "model.safetensors") for path in (run, other))
    return math.sqrt(sum(float((ours[name] - theirs[name]).double().square().sum()) for name in ours))


def test_an_infinite_loss_names_its_step_and_keeps_the_last_good_model(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from safetensors.torch import load_file

    before_step(monkeypatch, 13, poison)
    with pytest.raises(DivergedError, match=r"not finite at step 14; .* lower optimizer.learning_rate"):
        pretrain(config_of("electra", "train.save_every=5"), tmp_path / "run", quiet=True)
    assert last_checkpoint(tmp_path / "run").name == "step-000000010"
    for path in (tmp_path / "run").rglob("*.safetensors"):
        assert all(bool(torch.isfinite(tensor).all()) for tensor in load_file(path).values()), path


def test_a_learning_rate_that_is_far_too_high_diverges(config_of: MakeConfig, tmp_path: Path) -> None:
    high = ("optimizer.learning_rate=1e30", "optimizer.warmup_steps=0")
    with pytest.raises(DivergedError, match=r"not finite at step [2-5];"):
        pretrain(config_of("mlm", *high), tmp_path / "run", quiet=True)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["optimizer"]["learning_rate"] == 1e30
