"""What a run says: records that survive a kill, a display that can be silent, trackers where installed."""

from __future__ import annotations

import io
import math
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from trueneg.errors import CheckpointError, MissingExtraError, TruenegWarning
from trueneg.training.log import Display, MetricsFile, make_tracker, read_metrics


def write(path: Path, first_step: int, steps: range) -> None:
    file = MetricsFile(path, first_step)
    for step in steps:
        file.write({"step": step, "kind": "train", "loss": step / 3})
    file.close()


def test_records_come_back_as_written(tmp_path: Path) -> None:
    write(tmp_path / "metrics.jsonl", 0, range(1, 4))
    assert read_metrics(tmp_path / "metrics.jsonl") == [
        {"step": step, "kind": "train", "loss": step / 3} for step in (1, 2, 3)
    ]


def test_a_record_is_on_disk_as_soon_as_it_is_written(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.write({"step": 1, "kind": "eval", "loss": math.nan})
    (read,) = read_metrics(tmp_path / "metrics.jsonl")
    assert (read["step"], read["kind"], math.isnan(read["loss"])) == (1, "eval", True)
    file.close()


def test_steps_that_will_be_taken_again_leave_no_second_record(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, 0, range(1, 10))
    write(path, 5, range(6, 12))
    assert [record["step"] for record in read_metrics(path)] == list(range(1, 12))


@pytest.mark.parametrize("half", ['{"step": 3, "lo', '{"step": 3}', ""])
def test_a_line_cut_short_is_left_out_and_does_not_spoil_the_next(half: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, 0, range(1, 3))
    with path.open("a") as file:
        file.write(half)
    assert [record["step"] for record in read_metrics(path)] == [1, 2]
    write(path, 2, range(3, 5))
    assert [record["step"] for record in read_metrics(path)] == [1, 2, 3, 4]
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize(
    "damaged",
    [
        b"\0" * 30,
        b'{"step": 2, "kind',
        b'{"step": "2", "kind": "train"}',
        b"{}",
        b"[]",
        b"7",
        b'{"a": "\xff"}',
        b"[" * 90_000,
    ],
    ids=lambda line: repr(line[:12]),
)
def test_what_can_be_read_is_read_and_the_rest_is_counted(damaged: bytes, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, 0, range(1, 5))
    first, _, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, damaged + b"\n", *rest, damaged + b"\n"]))
    with pytest.warns(TruenegWarning, match=f"'{path}': 2 of 5 lines are damaged, the first of them line 2"):
        assert [record["step"] for record in read_metrics(path)] == [1, 3, 4]
    with pytest.warns(TruenegWarning, match="line 2"):
        write(path, 3, range(4, 6))
    assert [record["step"] for record in read_metrics(path)] == [1, 3, 4, 5]


def test_a_folder_that_cannot_be_written_is_a_users_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="make room and continue with --resume"):
        MetricsFile(tmp_path / "nowhere" / "metrics.jsonl")


def test_a_full_disk_is_a_users_error(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file._file.fileno())
    os.close(full)
    with pytest.raises(CheckpointError, match="No space left on device: make room and continue with --resume"):
        file.write({"step": 1})
    file.close()


def test_a_line_a_record_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(steps=20) as display:
        display.say("training: [mlm]")
        display.advance(1)
        display.show({"step": 10, "loss": 2.3456789, "tokens_per_second": 123456.7})
        display.show({"step": 10, "loss": 2.5}, "held out")
    said = capsys.readouterr()
    assert said.out == ""
    first, second, third = said.err.splitlines()
    assert first == "training: [mlm]"
    assert re.fullmatch(
        r"step 10/20  loss 2\.346  tokens_per_second 123,457  \d:\d\d:\d\d elapsed, \d:\d\d:\d\d left", second
    )
    assert third.startswith("step 10/20  held out:  loss 2.5")


def test_a_quiet_display_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(steps=20, quiet=True) as display:
        display.say("training")
        display.advance(1)
        display.show({"step": 10, "loss": 2.0})
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def screen(width: int, description: str = "training") -> tuple[str, str]:
    """The training line and what is above it, as a terminal of that width has them in the end."""
    file = Terminal()
    console = Console(file=file, width=width, force_terminal=True, color_system=None, legacy_windows=False)
    with Display(1_000_000, 900_000, description=description, console=console) as display:
        display.say("training: electra, 13,548,000 parameters")
        readings = {"loss": 26.4812, "gold_loss": 8.0141, "accuracy": 0.0, "corrected": 0.0, "triplet_accuracy": 0.5}
        display.show({"step": 910_000, **readings, "tokens_per_second": 45678.9})
        display.show({"step": 910_000, "loss": 25.25, "gold_loss": 7.5}, "held out")
        display.advance(910_001)
    lines = [line.rpartition("\r")[2] for line in re.sub(r"\x1b\[[0-9?;]*[A-Za-z]", "", file.getvalue()).split("\n")]
    (last,) = [line for line in lines[-3:] if "/1,000,000" in line]
    return last, "\n".join(lines[:-2])


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("description", ["training", "fine-tuning", "a title that is much too long for any of them"])
def test_step_time_left_and_loss_stay_on_the_line_at_any_width(width: int, description: str) -> None:
    line, history = screen(width, description)
    assert len(line) <= width
    assert "910,001/1,000,000" in line and "loss 26.48" in line and re.search(r"\d:\d\d:\d\d left", line)
    assert "gold_loss 8.014" in history and "held out:  loss 25.25" in history


def test_no_tracker_by_default(tmp_path: Path) -> None:
    assert make_tracker("", "run", {}, tmp_path) is None


@pytest.mark.parametrize("name", ["trackio", "wandb", "tensorboard"])
def test_a_tracker_that_is_not_installed_names_its_extra(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (name, "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"train.tracker={name} needs ") as raised:
        make_tracker(name, "run", {}, tmp_path)
    for command in (f"pip install -e '.[{name}]'", f"pip install 'trueneg[{name}]'"):
        assert command in str(raised.value)


class FakeWandb(SimpleNamespace):
    """Takes down what is asked of it."""

    def __init__(self) -> None:
        super().__init__(calls=[])

    def init(self, **arguments: Any) -> FakeWandb:
        self.calls.append(("init", arguments))
        return self

    def log(self, values: dict[str, float], step: int) -> None:
        self.calls.append(("log", values, step))

    def finish(self) -> None:
        self.calls.append(("finish",))


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_readings_reach_a_tracker(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, name, fake)
    tracker = make_tracker(name, "run", {"train": {"steps": 3}}, tmp_path)
    assert tracker is not None
    tracker.log({"train/loss": 1.5}, 3)
    tracker.close()
    assert fake.calls == [
        ("init", {"project": "trueneg", "name": "run", "config": {"train": {"steps": 3}}}),
        ("log", {"train/loss": 1.5}, 3),
        ("finish",),
    ]


def test_readings_reach_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            calls.append(folder)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            calls.append((name, value, step))

        def close(self) -> None:
            calls.append("closed")

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=SummaryWriter))
    tracker = make_tracker("tensorboard", "run", {}, tmp_path)
    assert tracker is not None
    tracker.log({"train/loss": 1.5, "train/accuracy": 0.5}, 3)
    tracker.close()
    folder = str(tmp_path / "tensorboard")
    assert calls == [folder, ("train/loss", 1.5, 3), ("train/accuracy", 0.5, 3), "closed"]


def test_what_data_says_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Display(steps=10).say("'a\x1b]0;title\x07\u202e': warmed up\nfor long")
    assert capsys.readouterr().err == "'a\\x1b]0;title\\x07\\u202e': warmed up for long\n"
