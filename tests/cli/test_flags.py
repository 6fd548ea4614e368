"""Flags of ``pretrain`` and ``finetune`` are what ``--set`` is."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import World, fails, pretrain_options, trueneg, works

from trueneg.config.codec import override, save_config
from trueneg.config.presets import preset
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.errors import TruenegWarning
from trueneg.runs import configuring, finetuning, pretraining
from trueneg.training.log import read_metrics

Arguments = list[object]


class Configured(Exception):
    """Raised with the configuration, where training would begin."""


def configured(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Any:
    def stop(config: Any, *_: Any, **__: Any) -> None:
        raise Configured(config)

    for module, name in ((pretraining, "pretrain"), (finetuning, "finetune")):
        monkeypatch.setattr(module, name, stop)
    with pytest.raises(Configured) as raised:
        trueneg(*arguments)
    return raised.value.args[0]


@pytest.mark.parametrize(
    ("flag", "value", "option"),
    [
        ("--learning-rate", 3e-4, "optimizer.learning_rate"),
        ("--lr", 3e-4, "optimizer.learning_rate"),
        ("--warmup", 7, "optimizer.warmup_steps"),
        ("--eval-every", 11, "train.eval_every"),
        ("--save-every", 13, "train.save_every"),
        ("--tracker", "wandb", "train.tracker"),
    ],
)
def test_flags_of_pretrain(flag: str, value: object, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = configured(monkeypatch, "pretrain", "electra-tiny")
    by_flag = configured(monkeypatch, "pretrain", "electra-tiny", flag, value)
    assert by_flag == configured(monkeypatch, "pretrain", "electra-tiny", "--set", f"{option}={value}") != plain


@pytest.mark.parametrize(
    ("flag", "option"), [("--learning-rate", "optimizer.learning_rate"), ("--epochs", "epochs"), ("--lr", "lr")]
)
def test_flags_of_finetune(flag: str, option: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ("finetune", world.run, "--task", "glue/rte")
    by_flag = configured(monkeypatch, *call, flag, 0.25)
    by_setting = configured(monkeypatch, *call, "--set", f"{option.replace('lr', 'learning_rate')}=0.25")
    assert by_flag == by_setting != configured(monkeypatch, *call)


def test_epochs_become_the_steps_that_read_the_corpus_so_often(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ("pretrain", "electra-tiny", "--corpus", world.corpus, "--length", 24, "--batch-size", 4)
    num_rows = len(RowIndex(Corpus.open(world.corpus), 24))
    assert configured(monkeypatch, *call, "--epochs", 1.5).train.steps == math.ceil(1.5 * num_rows / 4)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--epochs", 2, "--steps", 5], "--steps"),
        (["--epochs", 2, "--set", "steps=5"], "--steps"),
        (["--epochs", 0], "--epochs 0"),
        (["--epochs", "nan"], "--epochs nan"),
        (["--epochs", 1, "--batch-size", 0], "train.batch_size"),
        (["--epochs", 1, "--corpus", ""], "--corpus"),
    ],
)
def test_epochs_that_make_no_sense(options: Arguments, named: str, world: World) -> None:
    assert named in fails("pretrain", "electra-tiny", "--corpus", world.corpus, *options)


@pytest.mark.parametrize(("warmup", "is_noted"), [(0, False), (1, False), (2, True), (6, True), (200, True)])
def test_much_warmup_is_remarked_on_with_its_cure(warmup: int, is_noted: bool, world: World, tmp_path: Path) -> None:
    said = works(*pretrain_options(world, tmp_path / "run"), "--warmup", warmup)
    notes = [line for line in said.err.splitlines() if line.startswith("note: ")]
    assert len(notes) == is_noted
    assert all(f"{warmup:,} of 6 steps" in note and "--warmup 1" in note for note in notes)
    assert read_metrics(tmp_path / "run" / "metrics.jsonl")


@pytest.mark.parametrize("name", ["config.json", ""], ids=["its file", "its folder"])
def test_a_configuration_from_elsewhere_finds_its_corpus(
    name: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood, stands = tmp_path / "then", tmp_path / "now"
    stands.mkdir()
    shutil.copytree(world.corpus, stood / "corpus")
    config = override(preset("electra-tiny"), ["corpus.path=corpus", "model.generator_from=bert-base-uncased"])
    run = stood / "runs" / "tiny"
    run.mkdir(parents=True)
    save_config(config, run / "config.json")
    monkeypatch.chdir(stands)
    with pytest.warns(TruenegWarning, match="'corpus' of .* is not here"):
        found = configuring.configure(config=Path("..") / "then" / "runs" / "tiny" / name)
    assert Path(found.corpus.path).samefile(stood / "corpus")
    assert found.model.generator_from == "bert-base-uncased"
    monkeypatch.chdir(stood)  # where it is found as it is written
    assert configuring.configure(config=run / name) == config


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        (["--corpus", "a:0.7", "--corpus", "b:0.3"], "a:0.7, b:0.3"),
        (["--corpus", "C:/a:7", "--corpus", "b,c:3"], 'C:/a:7, "b,c":3'),
        (["--corpus", "a", "--corpus", "b"], "a, b"),
        (["--corpus", "mine", "--replay", "general:0.1"], "mine:0.9, general:0.1"),
    ],
)
def test_several_corpora_are_a_mixture(arguments: Arguments, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_flags = configured(monkeypatch, "pretrain", "electra-tiny", *arguments)
    assert by_flags == configured(monkeypatch, "pretrain", "electra-tiny", "--set", f"corpus.mixture={setting}")
    assert by_flags.corpus.mixture == setting


def test_one_corpus_takes_the_place_of_a_mixture(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = override(preset("electra-tiny"), ["corpus.mixture=a,b"])
    save_config(mixed, tmp_path / "config.json")
    found = configured(monkeypatch, "pretrain", "--config", tmp_path / "config.json", "--corpus", world.corpus)
    assert (found.corpus.path, found.corpus.mixture) == (str(world.corpus), "")
    (tmp_path / "odd:1").symlink_to(world.corpus)  # a folder that is there is not taken apart
    found = configured(monkeypatch, "pretrain", "electra-tiny", "--corpus", tmp_path / "odd:1")
    assert (found.corpus.path, found.corpus.mixture) == (str(tmp_path / "odd:1"), "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "a:0.7"], "--corpus a:0.7: one corpus has no weight"),
        (["--corpus", "a:0.7", "--corpus", "b"], "'a' has a weight and 'b' has none"),
        (["--corpus", "a:0", "--corpus", "b:1"], "the weight of 'a' must be above 0 and finite, got 0"),
        (["--corpus", "a:1", "--corpus", "a/:1"], "'a/' is named twice"),
        (["--replay", "general:0.1"], "--replay general:0.1 goes with --corpus"),
        (["--corpus", "mine", "--replay", "general"], "say which share of all rows, between 0 and 1: general:0.1"),
    ],
)
def test_what_is_no_mixture_is_refused(arguments: Arguments, message: str) -> None:
    assert message in fails("pretrain", "electra-tiny", *arguments)


def test_info_of_a_mixture(world: World, tmp_path: Path) -> None:
    assert "is named twice" in fails("corpus", "info", world.corpus, world.corpus)
    assert "--temperature is for a mixture" in fails("corpus", "info", world.corpus, "--temperature", 0.3)
    shutil.copytree(world.corpus, tmp_path / "copy")
    assert "are the same corpus" in fails("corpus", "info", world.corpus, tmp_path / "copy")
