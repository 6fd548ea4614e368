"""Rough times of jobs: what they read and how often."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueneg.recipes.estimates import TRAINING_EXAMPLES, tuning_minutes
from trueneg.recipes.made_up_data import made_up_data
from trueneg.recipes.reproduction import plan_tables
from trueneg.recipes.scales import SCALES
from trueneg.recipes.setting import GLUE
from trueneg.tasks.cline import CLINE

PAPER, MINI = SCALES["paper"], SCALES["mini"]
TN = ("--preset", "tn-electra")


def words(settings: object) -> tuple[str, ...]:
    assert isinstance(settings, dict)
    return tuple(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))


def test_examples_are_those_of_the_releases() -> None:
    assert {*TRAINING_EXAMPLES} == {*(f"glue/{name}" for name in GLUE), "squad", *CLINE}
    released = {task: known.released["train"] for task, known in CLINE.items() if "train" in known.released}
    assert {task: TRAINING_EXAMPLES[task] for task in released} == released


def test_minutes_follow_examples_epochs_and_length() -> None:
    of = {task: tuning_minutes(PAPER, f"glue/{task}", TN) - PAPER.start for task in GLUE}
    assert of["qqp"] / of["rte"] == pytest.approx(3 * 363_846 / (10 * 2_490), rel=0.01), "RTE has ten epochs"
    assert of["mrpc"] / of["cola"] == pytest.approx(2 * 3_668 / 8_551, rel=0.02), "pairs in both orders"
    long = tuning_minutes(PAPER, "glue/qqp", (*TN, "--set", "task.length=256")) - PAPER.start
    assert long / of["qqp"] == pytest.approx(2, rel=0.01)
    assert sum(of.values()) / len(of) == pytest.approx(PAPER.minutes - PAPER.start, rel=0.1), "the mean of GLUE"
    assert tuning_minutes(PAPER, "glue/qqp,glue/rte", TN) == pytest.approx(
        of["qqp"] + of["rte"] + 2 * PAPER.start, abs=0.1
    )


def test_a_scales_own_sizes_take_the_time_that_it_states() -> None:
    plain = (*TN, *words(MINI.finetune))
    assert tuning_minutes(MINI, "glue/rte", plain) == tuning_minutes(MINI, "glue/cola", plain) == MINI.minutes
    boolq = words(MINI.finetune | {"task.length": 256, "task.max_train_examples": 1000})
    assert tuning_minutes(MINI, "boolq", boolq) == MINI.long_tasks["boolq"].minutes == 4
    assert tuning_minutes(MINI, "boolq", (*boolq, "--set", "epochs=1")) == 0.5 + 3.5 / 2
    assert tuning_minutes(MINI, "boolq", (*boolq, "--train-fraction", "0.01")) == pytest.approx(
        0.5 + 3.5 * 0.09427, abs=0.01
    )
    assert tuning_minutes(MINI, "boolq", (*boolq, "--sweep", "optimizer.learning_rate=1,2,3")) == 12
    assert tuning_minutes(MINI, "boolq", (*boolq, "--adversarial", "freelb")) == 12
    assert tuning_minutes(MINI, "glue/rte", (*plain, "--set", "train.steps=125")) == 0.5 + 1.0 / 2, "125 x 16 of 4,000"


def test_a_plan_takes_the_settings_of_all_runs_into_account(tmp_path: Path) -> None:
    data = made_up_data(tmp_path / "data")

    def minutes(*settings: str) -> dict[str, float]:
        planned = plan_tables("tn-table4", tmp_path / "repro", scale="mini", data=data, seeds=1, settings=settings)
        return {name: job.minutes for name, job in planned.workspace.plan.jobs.items()}

    plain, short = minutes(), minutes("pretrain.train.steps=100", "finetune.epochs=1")
    assert short["pretrain-ELECTRA-small-s1"] == plain["pretrain-ELECTRA-small-s1"] / 10
    assert short["finetune-ELECTRA-small-512-squad-s1"] < plain["finetune-ELECTRA-small-512-squad-s1"]
