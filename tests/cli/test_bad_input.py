"""Whatever a user gets wrong: one line that names it and the remedy, and nothing of theirs touched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import WORDNET, World, contents, fails, pretrain_options, trueneg, works, write_text

from trueneg.errors import TruenegError
from trueneg.lexicon import wordnet_location
from trueneg.runs import doctor

TEXTS = {
    "empty.txt": (b"", "is empty"),
    "latin.txt": (b"plain\ncaf\xe9\n", "is not UTF-8 at byte 9"),
    "broken.jsonl": (b'{"text": "fine"}\n{"text": oops}\n', "broken.jsonl:2: not JSON"),
    "column.jsonl": (b'{"body": "fine"}\n', "no field 'text': there are body; choose one with --text-field"),
    "text.docx": (b"PK", "the extension says nothing of the format"),
    "absent.txt": (None, "no such file or folder"),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("verb", ["train", "build"])
def test_text_that_cannot_be_read(world: World, tmp_path: Path, name: str, verb: str) -> None:
    content, complaint = TEXTS[name]
    text = tmp_path / name
    if content is not None:
        text.write_bytes(content)
    arguments = {
        "train": ("tokenizer", "train", text, "--out", tmp_path / "out"),
        "build": ("corpus", "build", text, "--tokenizer", world.tokenizer, "--out", tmp_path / "out"),
    }[verb]
    line = fails(*arguments)
    assert complaint in line
    assert name in line


@pytest.mark.parametrize(
    "setting, complaint",
    [
        ("steps=0", "train.steps must be at least 1, got 0"),
        ("steps", "write it as key=value"),
        ("train.stepz=3", "did you mean 'train.steps'?"),
        ("precision=fp8", "Known: auto, bf16, fp16, fp32"),
        ("accumulation=3", "use a multiple of 3"),
        ("corpus.length=65", "only 64 positions: set corpus.length=64 (--length 64)"),
        ("correction.detector=lexcial", "did you mean 'lexical'?"),
        ("num_heads=3", "model.hidden_size=32 is not a multiple of model.num_heads=3"),
        ("device=tpux", "train.device"),
    ],
)
def test_settings_out_of_range(world: World, tmp_path: Path, setting: str, complaint: str) -> None:
    assert complaint in fails(*pretrain_options(world, tmp_path / "run"), "--set", setting)
    assert not (tmp_path / "run").exists()


def test_a_warm_up_that_never_ends_is_told(world: World, tmp_path: Path) -> None:
    said = works(*pretrain_options(world, tmp_path / "run"), "--set", "warmup_steps=6")
    assert "never reaches its peak" in said.err and "--warmup" in said.err


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["pretrain"], "name a preset"),
        (["pretrain", "electra-tini"], "did you mean 'electra-tiny'?"),
        (["pretrain", "electra-tiny"], "give --corpus"),
        (["pretrain", "electra-tiny", "--config", "x"], "exclude each other"),
        (["pretrain", "electra-tiny", "--objective", "elektra"], "did you mean 'electra'?"),
        (["pretrain", "--config", "nowhere"], "no configuration at 'nowhere'"),
        (["pretrain", "--from", "./nowhere"], "there is no checkpoint at './nowhere'"),
        (["pretrain", "--from", "no/model"], "the Hugging Face hub does not give it"),
        (["pretrain", "electra-tiny", "--corpus", "nowhere"], "make one with 'trueneg corpus build'"),
        (["list", "preset"], "did you mean 'presets'?"),
        (["bench", "overhaed"], "did you mean 'overhead'?"),
        (["bench", "--preset", "electra-tini"], "did you mean 'electra-tiny'?"),
        (["bench", "--preset", "electra-tiny", "--stage", "decay"], "preset 'electra-tiny' has no stages"),
        (["bench", "overhead", "--preset", "modernbert-base-staged", "--stage", "decai"], "did you mean 'decay'?"),
        (["doctor", "--on", "H100"], "--on does nothing beside doctor without --preset: leave it out"),
        (["doctor", "--preset", "electra-tiny", "--on", "H1000"], "did you mean 'H100'?"),
        (["doctor", "--preset", "electra-tini"], "did you mean 'electra-tiny'?"),
        (["bench", "--detector", "lexical"], "--detector does nothing beside bench step: leave it out"),
        (["evaluate", "x", "--corpus", "y", "--task", "false-negative"], "did you mean 'false-negatives'?"),
        (["export", "x", "--format", "onx"], "did you mean 'onnx'?"),
        (["export", "nowhere"], "no checkpoint at 'nowhere'"),
        (["report", "nowhere"], "no such file or folder: 'nowhere': name a run"),
        (["corpus", "info", "nowhere"], "no corpus at 'nowhere'"),
        (["lexicon", "show", "x", "--tokenizer", "./nowhere"], "no tokenizer at './nowhere'"),
        (["lexicon", "fetch", "--archive", "nowhere.zip", "--out", "wn"], "cannot unpack nowhere.zip"),
        (["tokenizer", "train", "x.txt", "--kind", "wordpeice", "--out", "t"], "did you mean 'wordpiece'?"),
        (["tokenizer", "extend", "t", "--words", "nowhere", "--out", "u"], "one word a line"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistyped_and_missing(
    arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaint in fails(*arguments)
    assert contents(tmp_path) == {}


def test_a_file_in_the_place_of_a_folder(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("mine")
    for arguments in (
        ["tokenizer", "train", world.text, "--out", out],
        ["corpus", "build", world.text, "--tokenizer", world.tokenizer, "--out", out],
        [*pretrain_options(world, out)],
        [*pretrain_options(world, out / "run")],
        ["report", world.run, "--out", out / "report.html"],
        ["lexicon", "build", "--tokenizer", world.tokenizer, "--out", out / "table.safetensors"],
        ["demo", "--out", out],
    ):
        assert str(out) in fails(*arguments)
    assert contents(tmp_path) == {"out": b"mine"}


def test_folders_that_hold_something(world: World, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.md").write_text("mine")
    for arguments in (
        ["tokenizer", "train", world.text, "--out", mine],
        ["tokenizer", "extend", world.tokenizer, "--words", world.text, "--out", mine],
        ["corpus", "build", world.text, "--tokenizer", world.tokenizer, "--out", mine],
        pretrain_options(world, mine),
        ["export", world.run, "--out", mine],
    ):
        assert "--out" in fails(*arguments)
    assert contents(mine) == {"notes.md": b"mine"}
    before = contents(world.run), contents(world.corpus), contents(world.run / "hf")
    assert "already holds a run: continue it with --resume" in fails(*pretrain_options(world, world.run))
    building = ("corpus", "build", world.text, "--tokenizer", world.tokenizer, "--out", world.corpus)
    assert "pass --overwrite" in fails(*building)
    assert "holds something that is no run" in fails(*pretrain_options(world, world.run / "hf"))
    assert "is a folder" in fails("report", world.run, "--out", world.run)
    assert (contents(world.run), contents(world.corpus), contents(world.run / "hf")) == before


def test_resuming_another_run(world: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    works(*pretrain_options(world, run), "-q")
    before = contents(run)
    assert "train.seed: 1 -> 2" in fails(*pretrain_options(world, run), "--seed", 2, "--resume")
    text, corpus = write_text(tmp_path / "other.txt", 50, seed=1), tmp_path / "corpus"
    works("corpus", "build", text, "--tokenizer", world.tokenizer, "--out", corpus, "-q")
    assert "other data" in fails(*pretrain_options(world, run), "--corpus", corpus, "--resume")
    assert contents(run) == before


def test_a_torn_checkpoint_is_passed_over(world: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = (*pretrain_options(world, run), "--set", "save_every=3")
    works(*options, "-q")
    finished = (run / "hf" / "model.safetensors").read_bytes()
    last = max((run / "checkpoints").glob("step-*")) / "model.safetensors"
    last.write_bytes(last.read_bytes()[:-8])
    said = works(*options, "--resume")
    assert "is torn" in said.err and "falling back" in said.err
    assert (run / "hf" / "model.safetensors").read_bytes() == finished


def test_a_loss_that_is_not_finite(world: World, tmp_path: Path) -> None:
    line = fails(
        *pretrain_options(world, tmp_path / "run"),
        *("--steps", 60, "--set", "learning_rate=1e30", "--set", "warmup_steps=0", "--quiet"),
    )
    assert "was not finite at step" in line
    assert "lower optimizer.learning_rate" in line


def test_tokenizers_that_do_not_fit(world: World, tmp_path: Path) -> None:
    maskless = tmp_path / "maskless"
    shutil.copytree(world.tokenizer, maskless)
    described = json.loads((maskless / "tokenizer_config.json").read_text())
    del described["mask_token"]
    (maskless / "tokenizer_config.json").write_text(json.dumps(described))
    building = ("corpus", "build", world.text, "--tokenizer")
    assert "has no mask token" in fails(*building, maskless, "--out", tmp_path / "c1")
    for size, out in ((60, "smaller"), (2000, "larger")):
        tokenizer = tmp_path / f"tok-{out}"
        options = ("--vocab-size", size, "--min-frequency", 1, "--out", tokenizer, "-q")
        works("tokenizer", "train", world.text, *options, *(["--kind", "bpe"] if size == 2000 else []))
        works(*building, tokenizer, "--out", tmp_path / out, "-q")
        options = ("--corpus", tmp_path / out, "--length", 24, "--steps", 1, "--out", tmp_path / "run")
        line = fails("pretrain", "--from", world.run, *options)
        assert "tokenizer" in line or "vocabulary" in line
    assert not (tmp_path / "run").exists()


def test_corpora_that_cannot_be_trained_on(world: World, tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("a big city\n")
    works("corpus", "build", short, "--tokenizer", world.tokenizer, "--out", tmp_path / "short", "-q")
    assert "length" in fails(*pretrain_options(world, tmp_path / "run"), "--corpus", tmp_path / "short")
    unfinished = tmp_path / "unfinished"
    shutil.copytree(world.corpus, unfinished)
    (unfinished / "corpus.json").rename(unfinished / "build.json")
    line = fails(*pretrain_options(world, tmp_path / "run"), "--corpus", unfinished)
    assert "is unfinished: run the same 'trueneg corpus build' again" in line


def test_no_wordnet_anywhere(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "NLTK_DATA", "TRUENEG_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("WNSEARCHDIR")
    monkeypatch.setattr(wordnet_location, "DEBIAN", tmp_path / "none")
    monkeypatch.setattr(wordnet_location, "SYSTEM_NLTK", ())
    monkeypatch.setattr(wordnet_location.sys, "prefix", str(tmp_path))
    line = fails("lexicon", "show", "large", "--tokenizer", world.tokenizer)
    assert "apt-get install" in line and "trueneg lexicon fetch" in line and "--wordnet" in line
    assert line.split("WordNet not found")[1] in fails(
        *pretrain_options(world, tmp_path / "run"), "--hard-correction", "lexical"
    )
    assert "it lacks" in fails("lexicon", "show", "large", "--tokenizer", world.tokenizer, "--wordnet", WORDNET.parent)


@pytest.mark.parametrize("allocate", [torch.empty, np.empty], ids=["torch", "numpy"])
def test_a_lack_of_memory_is_one_line_that_blames_no_training(
    allocate: Callable[[int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trueneg.runs.doctor.diagnose", lambda folder: allocate(1 << 54))
    line = fails("doctor")
    assert "out of memory" in line
    assert "train." not in line


def test_configurations_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    for content, complaint in (
        ('{"train": ', "config.json' is damaged: it is no JSON"),
        ("[]", "config.json' is damaged: it should be"),
        ("\x00" * 40, "config.json' is damaged"),
        ("[" * 100_000, "config.json' is damaged"),
        (f'{{"train": {{"steps": 1{"0" * 400}}}}}', "train.steps must be at most"),
        (f'{{"optimizer": {{"learning_rate": 1{"0" * 400}}}}}', "optimizer.learning_rate must be at most"),
        ('{"train": {"step": 3}}', "did you mean 'train.steps'?"),
    ):
        file.write_text(content)
        assert complaint in fails("pretrain", "--config", tmp_path, "--out", tmp_path / "run")


def test_rows_longer_than_the_model(world: World) -> None:
    line = fails("evaluate", world.run, "--corpus", world.corpus, "--length", 65)
    assert f"'{world.run}' has only 64 positions" in line and "--length 64" in line


def test_lists_of_words(world: World, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    for content, complaint in (
        (b"\n\n", "holds no word"),
        (b"caf\xe9\n", "is not UTF-8 at byte 3"),
        ("a word\n".encode("utf-16"), "iconv -f utf-16 -t utf-8"),
    ):
        words.write_bytes(content)
        line = fails("tokenizer", "extend", world.tokenizer, "--words", words, "--out", tmp_path / "tok")
        assert complaint in line
    assert not (tmp_path / "tok").exists()


def test_an_archive_that_is_none(world: World, tmp_path: Path) -> None:
    line = fails("lexicon", "fetch", "--archive", world.text, "--out", tmp_path / "wn")
    assert "cannot unpack" in line and "trueneg lexicon fetch --archive FILE" in line


def test_a_message_of_several_lines_is_said_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def complain(folder: Path) -> None:
        raise TruenegError("first\nsecond")

    monkeypatch.setattr(doctor, "diagnose", complain)
    assert trueneg("doctor", tmp_path).err == "error: first second\n"


def test_a_programming_mistake_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(folder: Path) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(doctor, "diagnose", stumble)
    with pytest.raises(RuntimeError, match="a bug"):
        trueneg("doctor", tmp_path)
