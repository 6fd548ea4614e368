"""Processes that wait for one that hangs, dies or saves; launchers that start them again, on one machine and two."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import MakeConfig, freeze, hang, last_checkpoint, save_slowly, together

IMPATIENT = ("train.save_every=2", "train.timeout_seconds=2")


@pytest.mark.parametrize(("rank", "act"), [(1, hang), (1, freeze), (0, freeze)])
def test_one_that_says_nothing_is_named_and_the_others_stop(
    rank: int, act: object, config_of: MakeConfig, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    silent = {rank: {"before_step": (5, act), "is_killed": True}}
    (left,) = together(config_of("mlm", *IMPATIENT), out, 2, silent)
    assert left["error"] == "LostProcessError"
    assert f"process {1 - rank} of 2 had no answer" in left["message"]
    assert f": process {rank} says nothing." in left["message"] and "--resume" in left["message"]
    assert last_checkpoint(out).name == "step-000000004"
    assert [answer["step"] for answer in together(config_of("mlm", *IMPATIENT), out, 2)] == [24, 24]


def test_a_save_may_take_longer(config_of: MakeConfig, tmp_path: Path) -> None:
    slow = {0: {"before_step": (5, save_slowly)}}
    settings = ("train.steps=8", "train.save_every=6", "train.timeout_seconds=1")
    assert together(config_of("mlm", *settings), tmp_path / "run", 2, slow) == [{"reason": "finished", "step": 8}] * 2
