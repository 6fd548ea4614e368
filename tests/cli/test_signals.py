"""Ctrl-C, SIGTERM, a closed terminal: every verb keeps what is done, says one line and ends with 130."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import World, contents, pretrain_options, start, trueneg, works

from trueneg.corpus import build
from trueneg.recipes import planted
from trueneg.training import loop

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    """The tests may run under nohup or in the background, where a signal is ignored, and that would be respected."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
def test_an_interrupted_build_says_how_to_go_on_and_does(
    number: signal.Signals, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("corpus", "build", world.text, "--tokenizer", world.tokenizer, "--valid", 0.2, "--out")
    works(*command, tmp_path / "whole")
    read = build.read_documents

    def interrupted(*arguments: Any, **options: Any) -> Iterator[str]:
        for at, text in enumerate(read(*arguments, **options)):
            if at == 50:
                signal.raise_signal(number)
            yield text

    handlers = [signal.getsignal(each) for each in NUMBERS]
    with monkeypatch.context() as patch:
        patch.setattr(build, "read_documents", interrupted)
        said = trueneg(*command, tmp_path / "out")
    assert (said.code, said.out, len(said.err.splitlines())) == (130, "", 1)
    assert said.err.startswith("stopped: ")
    assert [signal.getsignal(each) for each in NUMBERS] == handlers
    works(*command, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
def test_an_interrupted_experiment_keeps_the_runs_that_are_done(
    number: signal.Signals, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(arm: Any, seed: int, *_: object) -> planted.ArmResult:
        if seed == 2:
            signal.raise_signal(number)
        return planted.ArmResult(str(arm), seed, {"nll": 1.0}, {}, 0.5, 1.0)

    monkeypatch.setattr(planted, "run_arm", run)
    said = trueneg(
        *("reproduce", "planted", "--arms", "baseline", "--seeds", 3),
        *("--corpus", world.corpus, "--out", tmp_path, "--quiet"),
    )
    assert (said.code, said.out, len(said.err.splitlines())) == (130, "", 1)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["baseline.seed1.json"]
    assert not (tmp_path / ".lock").exists()


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
def test_a_verb_that_keeps_nothing_says_one_line_as_well(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trueneg.runs.doctor.diagnose", lambda folder: signal.raise_signal(number))
    said = trueneg("doctor")
    assert (said.code, said.out, len(said.err.splitlines())) == (130, "", 1)
    assert said.err.startswith("stopped: ")


def test_a_run_outlives_its_readers_and_saves_when_its_terminal_is_closed(world: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    often = ("--set", "log_every=1", "--set", "save_every=0")
    process = start("-m", "trueneg", *pretrain_options(world, run), "--steps", 100_000, *often)
    assert process.stdout is not None and process.stderr is not None
    process.stderr.readline()
    process.stdout.close()
    process.stderr.close()

    def num_steps() -> int:
        metrics = run / "metrics.jsonl"
        return metrics.read_text().count("\n") if metrics.exists() else 0

    until = time.monotonic() + 60
    try:
        while num_steps() < 20:
            assert process.poll() is None, process.returncode
            assert time.monotonic() < until
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 130
    finally:
        process.kill()
    assert len(list((run / "checkpoints").glob("step-*"))) == 1
    assert (run / "hf" / "model.safetensors").is_file()


def test_nohup_is_respected(world: World, tmp_path: Path) -> None:
    """A run that was started to outlive its terminal trains on."""
    original = loop.train_step

    def step(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGHUP)
        return original(*arguments)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "train_step", step)
            assert works(*pretrain_options(world, tmp_path / "run"), "--json").data["reason"] == "finished"
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
