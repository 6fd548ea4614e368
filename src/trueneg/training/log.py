"""Logging of a run: a file of records, a line or a progress bar for people, an optional experiment tracker."""

from __future__ import annotations

import contextlib
import importlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console

from trueneg.errors import CheckpointError, MissingExtraError, TruenegWarning
from trueneg.files.records import parse_record
from trueneg.files.whole import flush, write_whole
from trueneg.terminal.progress import Bar

Record = Mapping[str, float | int | str]


class MetricsFile:
    """``metrics.jsonl``: one record per line, appended and flushed, so that a killed run keeps what it wrote."""

    def __init__(self, path: Path, first_step: int = 0) -> None:
        """Open the file; records after ``first_step``, whose steps will be repeated, are removed.

        Raises:
            CheckpointError: if the disk is full or not writable.
        """
        written = read_metrics(path) if path.exists() else []
        kept = [record for record in written if record["step"] <= first_step]
        try:
            write_whole(path, "".join(json.dumps(record) + "\n" for record in kept))
            self._file = path.open("a")
        except OSError as error:
            raise _cannot_write(path, error) from error

    def write(self, record: Record) -> None:
        """Append a record.

        Raises:
            CheckpointError: if the disk is full or not writable.
        """
        try:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        except OSError as error:
            raise _cannot_write(self._file.name, error) from error

    def sync(self) -> None:
        """Flush the file to disk, as the checkpoint that follows will be.

        Raises:
            CheckpointError: as ``write``.
        """
        try:
            flush(self._file)
        except OSError as error:
            raise _cannot_write(self._file.name, error) from error

    def close(self) -> None:
        """Close the file; ``write`` has already reported any write errors."""
        with contextlib.suppress(OSError):
            self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the records of a ``metrics.jsonl``; a last line cut short by a kill is skipped.

    Warns:
        TruenegWarning: if other lines cannot be read, as after a power failure: they are skipped, too.

    Raises:
        CheckpointError: if the file cannot be read.
    """
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except OSError as error:
        raise CheckpointError(f"cannot read '{path}' ({error.strerror}): give the folder of a run") from error
    records, damaged = [], []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(_read_record(line, f"'{path}', line {number},"))
        except CheckpointError:
            damaged.append(number)
    if damaged:
        warnings.warn(
            f"'{path}': {len(damaged):,} of {len(lines):,} lines are damaged, the first of them line {damaged[0]}: "
            f"what they said is left out",
            TruenegWarning,
            stacklevel=2,
        )
    return records


def _read_record(line: bytes, where: str) -> dict[str, Any]:
    record = parse_record(dict[str, int | float | str], line, where, CheckpointError, "leave it out")
    if not isinstance(record.get("step"), int) or not isinstance(record.get("kind"), str):
        raise CheckpointError(f"{where} does not say of which step and kind it is")
    return record


def _cannot_write(path: Path | str, error: OSError) -> CheckpointError:
    return CheckpointError(f"cannot write '{path}': {error}: make room and continue with --resume")


class Display:
    """Progress for people, on standard error: a bar on a terminal, and one line per record everywhere.

    Args:
        steps: Steps of the whole run.
        start: Steps that were done before.
        quiet: Print nothing.
        description: Title of the bar.
        console: Console to write to; standard error by default.
    """

    def __init__(
        self,
        steps: int,
        start: int = 0,
        quiet: bool = False,
        description: str = "training",
        console: Console | None = None,
    ) -> None:
        self._steps = steps
        self._bar = Bar(description, steps, start=start, quiet=quiet, console=console)

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def advance(self, step: int) -> None:
        """Advance the bar to a step."""
        self._bar.reach(step)

    def show(self, record: Record, title: str = "") -> None:
        """Show a record on a line of its own, and its loss beside the bar.

        Args:
            record: ``step``, and metrics.
            title: What the metrics are of, if not the training rows.
        """
        shown = {name: value for name, value in record.items() if name != "step"}
        text = "  ".join(f"{name} {_short(value)}" for name, value in shown.items())
        if not title:
            self._bar.reach(int(record["step"]), f"loss {_short(shown['loss'])}" if "loss" in shown else "")
        heading = f"  {title}:" if title else ""
        self._bar.print(f"step {record['step']}/{self._steps}{heading}  {text}  {self._bar.times()}")

    def say(self, message: str) -> None:
        """Print a message."""
        self._bar.print(message)


class Tracker(Protocol):
    """An experiment tracker."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Send the metrics of a step."""

    def close(self) -> None:
        """Send what has not been sent yet, and finish."""


def make_tracker(name: str, run_name: str, config: Mapping[str, Any], folder: Path) -> Tracker | None:
    """Make the tracker of that name; None for an empty name.

    Raises:
        MissingExtraError: if its package is not installed.
    """
    if not name:
        return None
    package = "torch.utils.tensorboard" if name == "tensorboard" else name
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(name, name, f"train.tracker={name}") from error
    if name == "tensorboard":
        return _TensorBoard(module.SummaryWriter(str(folder / "tensorboard")))
    # trackio has the same API as wandb.
    return _Wandb(module.init(project="trueneg", name=run_name, config=dict(config)), module)


class _TensorBoard:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    def __init__(self, run: Any, module: Any) -> None:
        self._run, self._module = run, module

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._module.finish()


def _short(value: float | int | str) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)
