"""A run that stops anywhere, in any way, and continues is the run that never stopped, bit for bit."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from tiny_runs import (
    MakeConfig,
    assert_identical,
    before_step,
    check_resumes,
    ending,
    final_tensors,
    last_checkpoint,
    press_ctrl_c,
    readings,
    start,
    terminate,
    wait_for,
)

from trueneg.errors import TruenegWarning
from trueneg.runs.pretraining import pretrain
from trueneg.training import precision


class HourlyClock:
    """Stands for the module `time`: an hour passes between any two readings."""

    def __init__(self) -> None:
        self._hours = itertools.count()

    def monotonic(self) -> float:
        return 3600.0 * next(self._hours)


@pytest.mark.parametrize(
    ("kind", "precision"),
    [("mlm", "fp32"), ("electra", "fp32"), ("corrected", "fp32"), ("corrected", "bf16")],
)
def test_a_run_cut_at_random_steps_ends_as_the_uninterrupted_one(
    kind: str, precision: str, config_of: MakeConfig, tmp_path: Path
) -> None:
    choose = random.Random(f"{kind} {precision}")
    settings = (f"train.precision={precision}", "model.dropout=0.1", f"train.save_every={choose.randint(2, 7)}")
    check_resumes(config_of(kind, *settings), tmp_path, *sorted(choose.sample(range(1, 24), 2)))


@pytest.mark.slow
def test_a_process_killed_at_any_moment_ends_as_the_uninterrupted_one(config_of: MakeConfig, tmp_path: Path) -> None:
    # More steps than all the attempts together take, however fast the machine.
    config = config_of("electra", "train.steps=160", "train.save_every=2")
    pretrain(config, tmp_path / "whole", quiet=True)
    out, choose = tmp_path / "killed", random.Random(1)
    for _ in range(9):  # as it opens, makes, renames or removes a file: within a save or an export
        process = start(config, out, die_at_file_event=choose.randint(1, 220))
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    for _ in range(5):  # at any time after its first save
        before = sorted((out / "checkpoints").glob("step-*"))
        process = start(config, out)
        wait_for(lambda before=before: sorted((out / "checkpoints").glob("step-*")) > before, process)
        process.join(choose.uniform(0, 0.06))
        process.kill()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    assert ending(start(config, out), out) == {"reason": "finished", "step": 160}
    assert_identical(tmp_path / "whole", out)
    assert not list(out.rglob("*unfinished*"))


@pytest.mark.parametrize("stop", [terminate, press_ctrl_c])
def test_a_signal_saves_the_step_in_hand_and_the_run_continues(
    stop: object, config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of("corrected", "model.dropout=0.1")
    pretrain(config, tmp_path / "whole", quiet=True)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        before_step(patch, 12, stop)
        stopped = pretrain(config, tmp_path / "stopped", quiet=True)
    assert (stopped.reason, stopped.step) == ("interrupted", 13)
    assert last_checkpoint(stopped.folder).name == "step-000000013"
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    pretrain(config, stopped.folder, resume=True, quiet=True)
    assert_identical(tmp_path / "whole", stopped.folder)


def test_a_second_ctrl_c_stops_at_once(config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def press_twice(run: object) -> None:
        press_ctrl_c(run)
        press_ctrl_c(run)

    before_step(monkeypatch, 12, press_twice)
    with pytest.raises(KeyboardInterrupt):
        pretrain(config_of("mlm", "train.save_every=5"), tmp_path / "run", quiet=True)
    assert last_checkpoint(tmp_path / "run").name == "step-000000010"


def test_a_signal_from_outside_is_heard(config_of: MakeConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(config_of("mlm", "train.steps=100000"), out)
    wait_for(lambda: (out / "metrics.jsonl").exists() and len(readings(out)) > 1, process)
    os.kill(process.pid, signal.SIGTERM)
    told = ending(process, out)
    assert told["reason"] == "interrupted"
    assert last_checkpoint(out).name == f"step-{told['step']:09d}"


def test_a_run_out_of_time_saves_and_continues(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretrain(config_of("mlm"), tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        patch.setattr("trueneg.training.loop.time", HourlyClock())
        stopped = pretrain(config_of("mlm", "train.max_minutes=1"), tmp_path / "stopped", quiet=True)
    assert (stopped.reason, stopped.step) == ("time", 1)
    more = pretrain(config_of("mlm"), tmp_path / "stopped", resume=True, quiet=True)
    assert (more.reason, more.step) == ("finished", 24)
    assert more.seconds > 3600, "the hours before the stop are counted"
    assert_identical(tmp_path / "whole", tmp_path / "stopped")


def test_resuming_a_finished_run_changes_nothing(config_of: MakeConfig, tmp_path: Path) -> None:
    pretrain(config_of("mlm"), tmp_path / "whole", quiet=True)
    again = pretrain(config_of("mlm"), tmp_path / "again", resume=True, quiet=True)
    again = pretrain(config_of("mlm"), again.folder, resume=True, quiet=True)
    assert (again.reason, again.step) == ("finished", 24)
    assert_identical(tmp_path / "whole", again.folder)


def test_outside_the_main_thread_a_run_says_once_that_signals_do_not_save(
    config_of: MakeConfig, tmp_path: Path
) -> None:
    config, before = config_of("mlm", "train.steps=2", "train.eval_every=0"), signal.getsignal(signal.SIGTERM)
    with warnings.catch_warnings(record=True) as told, ThreadPoolExecutor(1) as pool:
        warnings.simplefilter("always")
        assert pool.submit(pretrain, config, tmp_path / "run", quiet=True).result().reason == "finished"
    said = [str(one.message) for one in told if one.category is TruenegWarning]
    assert len([text for text in said if "Ctrl-C and SIGTERM cannot be received" in text]) == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_run_keeps_the_precision_that_auto_chose(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of("mlm", "train.steps=4", "train.precision=auto", "train.save_every=2")
    short = config_of("mlm", "train.steps=4", "train.precision=auto", "train.max_minutes=1e-9")
    monkeypatch.setattr(precision, "is_bfloat16_faster", lambda device: True)
    pretrain(short, tmp_path / "run")
    assert "precision: bf16, which is faster than float32 on this CPU (train.precision=auto)" in capsys.readouterr().err
    assert json.loads((tmp_path / "run" / "config.json").read_text())["train"]["precision"] == "bf16"
    # Another machine goes on with what the run began with.
    monkeypatch.setattr(precision, "is_bfloat16_faster", lambda device: False)
    pretrain(config, tmp_path / "run", resume=True)
    assert "precision: bf16, as the run began" in capsys.readouterr().err
    pretrain(config_of("mlm", "train.steps=4", "train.precision=bf16"), tmp_path / "whole", quiet=True)
    ours, theirs = final_tensors(tmp_path / "run"), final_tensors(tmp_path / "whole")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
