"""``trueneg push``: a run's models in a repository of a hub, read back by stock transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from command_line import World, pretrain_options, trueneg, works
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from fake_hub import FakeHub, running_hub

NAME = "me/encoder"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with running_hub(monkeypatch) as found:
        yield found


@pytest.fixture(scope="module")
def run(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of six steps, of which 2, 4 and 6 are kept."""
    out = tmp_path_factory.mktemp("push") / "run"
    works(*pretrain_options(world, out), "--set", "train.keep_every=2", "--set", "train.save_every=3", "--quiet")
    return out


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_last_model_is_main(run: Path, hub: FakeHub, tmp_path: Path) -> None:
    said = works("push", run, NAME, "--private", "--json")
    assert [(one["revision"], one["step"]) for one in said.data["pushed"]] == [("main", None)]
    assert said.data["pushed"][0]["load"] == f'AutoModel.from_pretrained("{NAME}")'
    assert hub.is_private[NAME]
    found = dict(hub.repositories[NAME]["main"])
    assert found.pop(".gitattributes")
    assert found == files_of(run / "hf")
    fetched = hub.download(NAME, "main", tmp_path / "fetched")
    AutoModel.from_pretrained(fetched)
    AutoModelForMaskedLM.from_pretrained(fetched / "generator")
    AutoTokenizer.from_pretrained(fetched)


def test_every_kept_step_is_a_revision_with_that_model_and_nothing_else(
    run: Path, hub: FakeHub, tmp_path: Path
) -> None:
    works("push", run, NAME, "--quiet")
    hub.repositories[NAME]["main"]["older.bin"] = b"from before"
    said = works("push", run, NAME, "--kept")
    assert hub.repositories[NAME].keys() == {"main", "step-2", "step-4", "step-6"}
    assert hub.messages == ["The model", *(f"The model of step {step}" for step in (2, 4, 6))]
    assert f'AutoModel.from_pretrained("{NAME}", revision="step-6")' in said.err
    for step in (2, 4, 6):
        found = dict(hub.repositories[NAME][f"step-{step}"])
        assert found.pop(".gitattributes")
        assert found == files_of(run / "kept" / f"step-{step:09d}")
    weights = [
        AutoModel.from_pretrained(hub.download(NAME, f"step-{step}", tmp_path / str(step))).state_dict()
        for step in (2, 6)
    ]
    assert any(not torch.equal(one, other) for one, other in zip(*(one.values() for one in weights), strict=True))


def test_a_step_of_a_checkpoint_is_exported_first(run: Path, hub: FakeHub) -> None:
    works("push", run, NAME, "--step", 3, "--step", 2, "--quiet")
    assert hub.repositories[NAME].keys() == {"main", "step-2", "step-3"}
    assert "model.safetensors" in hub.repositories[NAME]["step-3"]
    assert hub.repositories[NAME]["main"].keys() == {".gitattributes"}


def test_a_revision_that_exists_stays_unless_told(run: Path, hub: FakeHub) -> None:
    works("push", run, NAME, "--step", 4, "--quiet")
    hub.repositories[NAME]["step-4"]["model.safetensors"] = b"another"
    said = trueneg("push", run, NAME, "--kept")
    assert said.code == 1
    assert f"'{NAME}' has step-4 already: leave them out, or pass --overwrite to write them anew" in said.err
    assert hub.repositories[NAME].keys() == {"main", "step-4"}
    assert hub.repositories[NAME]["step-4"]["model.safetensors"] == b"another"
    works("push", run, NAME, "--kept", "--overwrite", "--quiet")
    kept = run / "kept" / "step-000000004" / "model.safetensors"
    assert hub.repositories[NAME]["step-4"]["model.safetensors"] == kept.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--step", 5), "--step 5: '{run}' keeps the steps 3, 6"),
        (("--step", -1), "--step -1: '{run}' keeps the steps 3, 6"),
    ],
)
def test_steps_that_are_not_kept(run: Path, hub: FakeHub, arguments: tuple[object, ...], message: str) -> None:
    said = trueneg("push", run, NAME, *arguments)
    assert said.code == 1
    assert message.format(run=run) in said.err
    assert not hub.repositories


def test_what_is_no_run(run: Path, hub: FakeHub, tmp_path: Path) -> None:
    works("push", run / "hf", NAME, "--quiet")
    assert hub.repositories[NAME].keys() == {"main"}
    said = trueneg("push", run / "hf", NAME, "--kept")
    assert "kept no step: train.keep_at and train.keep_every say which are" in said.err
    said = trueneg("push", run / "hf", NAME, "--step", 2)
    assert "is no pre-training run with checkpoints" in said.err
    said = trueneg("push", tmp_path / "nowhere", NAME)
    assert said.code == 1
    assert "there is no checkpoint at" in said.err


def test_what_the_hub_refuses(run: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    said = trueneg("push", run, "other/encoder")
    assert said.code == 1
    assert "the hub does not take 'other/encoder': " in said.err
    assert "403" in said.err
    assert trueneg("push", run, "a/b/c").code == 1
    monkeypatch.setenv("HF_TOKEN", "hf_" + "b" * 34)
    said = trueneg("push", run, NAME)
    assert said.code == 1
    assert "hf auth login, or HF_TOKEN" in said.err
