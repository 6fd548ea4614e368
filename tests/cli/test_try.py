"""``trueneg try`` as a user sees it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from command_line import World, fails, similar, trueneg, works

from trueneg.evaluation.results.trial import Verdict
from trueneg.recipes import trial, trial_steps

SMALL = ("--set", "corpus.length=24", "--set", "train.batch_size=4", "--set", "train.precision=fp32", "--seeds", 2)


@pytest.fixture(autouse=True)
def little_text_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MIN_TRAINING", 100)
    monkeypatch.setattr(trial, "MIN_HELD_OUT", 24)
    monkeypatch.setattr(trial_steps, "PASSAGES", 1)


def test_a_trial_with_similarity_and_a_probe(world: World, tmp_path: Path) -> None:
    """Everything that can be measured, with a checkpoint that has no masked-LM head: an ELECTRA discriminator."""
    data = tmp_path / "glue" / "STS-B"
    data.mkdir(parents=True)
    similar(data)
    measured = ("--task", "classification", "--data", world.reviews, "--label-column", "label")
    probe = ("--set", "finetune.train.steps=2", "--set", "finetune.task.length=16")
    command = ("try", world.text, "--from", world.run, "--out", tmp_path / "try", *SMALL, "--set", "train.steps=3")

    shown = works(*command, *measured, *probe, "--arms", "lexical", "--dry-run", "--json").data
    names = [job["job"] for job in shown["jobs"]]
    assert {"corpus", "held-out-before", "pretrain-lexical-s2", "probe-before-s1", "probe-lexical-s2"} <= {*names}
    assert not (tmp_path / "try").exists()

    found = works(*command, *measured, *probe, "--arms", "lexical", "--json").data
    assert found["steps"] == 3
    assert {one["name"].partition(",")[0] for one in found["measures"]} >= {"loss of the gold token", "probe"}
    assert {one["verdict"] for one in found["answers"]} <= {*get_args(Verdict)}
    said = works(*command, *measured, *probe, "--arms", "lexical")
    assert "loss of the gold token" in said.out
    assert "difference [95 %]" in said.out
    assert str(tmp_path / "try" / "try.html") in said.out.replace("\n", "")
    assert "does not go" not in fails(*command, "--arms", "regularization")


def test_similarity_before_and_after(world: World, tmp_path: Path) -> None:
    data = tmp_path / "glue" / "STS-B"
    data.mkdir(parents=True)
    similar(data)
    command = ("try", world.text, "--from", world.run, "--out", tmp_path / "try", "--arms", "lexical", *SMALL)
    found = works(*command, "--set", "train.steps=3", "--data", tmp_path / "glue", "--seeds", 1, "--json").data
    [similarity] = [one for one in found["measures"] if one["name"].startswith("sentence similarity")]
    assert set(similarity["by_arm"]) == {"before", "baseline", "lexical"}
    assert {one["verdict"] for one in found["answers"]} <= {"no difference shown", "not judged"}


def test_bad_input_is_one_line(world: World, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "try")
    assert "nowhere.txt" in fails("try", "nowhere.txt", "--from", world.run, *out)
    assert "did you mean 'lexical'" in fails("try", world.text, "--from", world.run, *out, "--arms", "lexica")
    assert "./nowhere" in fails("try", world.text, "--from", "./nowhere", *out)
    assert "--seeds 0" in fails("try", world.text, "--from", world.run, *out, "--seeds", 0)
    said = fails("try", world.text, "--from", world.run, *out, "--set", "corpus.length=500")
    assert "corpus.length=500" in said and "has only 64 positions" in said
    given = (*SMALL, "--set", "train.steps=4")
    assert "--minutes does nothing beside --set train.steps" in fails(
        "try", world.text, "--from", world.run, *out, *given, "--minutes", 5
    )
    assert "not in a trial" in fails("try", world.text, "--from", world.run, *out, "--set", "train.seed=1")
    assert trueneg("try", world.text).code == 2
    assert not (tmp_path / "try").exists()
