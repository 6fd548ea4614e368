"""A command in another process, and what is done to it."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from forks import FORKS

PATIENCE = 180.0
"""Seconds after which a command is taken to hang."""

FILE_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir", "os.scandir"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Fault:
    """What happens to a process at its ``event``-th access to files in the folder that it writes to.

    Attributes:
        event: From 1; 0 for never.
        signal: What it is sent.
        error: Or the number of the system's error that this and all later writing accesses end in.
        file_limit: Or the size beyond which no file grows, as on a full disk.
        is_read_only: Or whether the modes of files bind root, too.
    """

    event: int = 0
    signal: int = 0
    error: int = 0
    file_limit: int = -1
    is_read_only: bool = False


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    """Negative: the signal that ended it."""
    out: str
    err: str
    seconds: float
    num_events: int
    """Accesses to files in its folder; 0 if it did not live to tell."""
    is_alone: bool
    """Whether none of its own processes outlived it."""

    @property
    def refusal(self) -> str:
        """The one line of a user's error, or nothing."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        return lines[0] if self.code == 1 and len(lines) == 1 and not self.is_raw else ""

    @property
    def is_raw(self) -> bool:
        """Whether Python's own words reached the user."""
        return "Traceback (most recent call last)" in self.err

    @property
    def last_words(self) -> str:
        """What to show of it."""
        return f"exit {self.code}: {' / '.join(self.err.strip().splitlines()[-2:])[-400:]}"


@dataclass
class Started:
    """A command under way."""

    process: ForkServerProcess
    told: Path
    since: float = 0.0

    def begin(self) -> None:
        """Wait until the program itself begins, whatever a process needs before it."""
        while not self.told.with_suffix(".begun").exists() and self.process.is_alive():
            time.sleep(0.001)
        self.since = time.monotonic()

    def ending(self, patience: float = PATIENCE) -> Ended:
        """Wait until it ends; what hangs, or is left behind by it, is killed."""
        self.process.join(patience)
        if self.process.is_alive():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.join()
            raise TimeoutError(f"still running after {patience:.0f} s: {self._read('err')[-400:]}")
        seconds = time.monotonic() - self.since
        is_alone = _is_group_gone(self.process.pid)
        num_events = int(self._read("events") or 0)
        code = self.process.exitcode
        assert code is not None
        return Ended(code, self._read("out"), self._read("err"), seconds, num_events, is_alone)

    def _read(self, kind: str) -> str:
        path = self.told.with_suffix(f".{kind}")
        return path.read_text(errors="replace") if path.exists() else ""


def start(argv: list[str], folder: Path, fault: Fault = Fault(), **environment: str) -> Started:
    """Run ``trueneg ARGV``, which writes to a folder."""
    told = folder.with_name(f"{folder.name}.told")
    for kind in ("out", "err", "events", "begun"):
        told.with_suffix(f".{kind}").unlink(missing_ok=True)
    given = dict(os.environ) | environment
    process = FORKS.Process(target=_work, args=(argv, str(folder), str(told), fault, given))
    process.start()
    started = Started(process, told)
    started.begin()
    return started


def run(argv: list[str], folder: Path, fault: Fault = Fault(), **environment: str) -> Ended:
    """``start`` and wait."""
    return start(argv, folder, fault, **environment).ending()


def _is_group_gone(group: int, patience: float = 20.0) -> bool:
    """Whether a process's own processes end soon after it; if not they are killed."""
    end = time.monotonic() + patience
    while _is_group_alive(group):
        if time.monotonic() > end:
            os.killpg(group, signal.SIGKILL)
            return False
        time.sleep(0.01)
    return True


def _is_group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(state[2]) == group and state[0] != "Z":
            return True
    return False


def _work(argv: list[str], folder: str, told: str, fault: Fault, environment: dict[str, str]) -> None:
    """The other process: as if the program had just been started."""
    os.setsid()
    os.environ.clear()
    os.environ |= environment
    for descriptor, kind in ((1, "out"), (2, "err")):
        opened = os.open(Path(told).with_suffix(f".{kind}"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
    import torch

    torch.set_num_threads(1)
    if fault.file_limit >= 0:
        # A write beyond the limit then fails as on a full disk, instead of killing the process.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.file_limit,) * 2)
    if fault.is_read_only:
        _obey_modes()
    seen = _watch(folder, fault)
    from trueneg.cli.main import main

    sys.argv = ["trueneg", *argv]
    Path(told).with_suffix(".begun").touch()
    try:
        main()
    finally:
        if fault.file_limit < 0:
            Path(told).with_suffix(".events").write_text(str(seen()))


def _watch(folder: str, fault: Fault) -> Any:
    """Count accesses to files in a folder, and let the fault happen at one of them."""
    num = 0

    def event(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal num
        if name not in FILE_EVENTS or not any(f"{argument}/".startswith(f"{folder}/") for argument in arguments[:2]):
            return
        num += 1
        if fault.signal and num == fault.event:
            os.kill(os.getpid(), fault.signal)
        if fault.error and num >= max(1, fault.event) and _writes(name, arguments):
            raise OSError(fault.error, os.strerror(fault.error), str(arguments[0]))

    sys.addaudithook(event)
    return lambda: num


def _writes(name: str, arguments: tuple[Any, ...]) -> bool:
    if name == "open":
        return bool(arguments[2] is not None and arguments[2] & _WRITING)
    # A full disk lets things be removed, but so that a fault is one fault it does not here.
    return name in ("os.mkdir", "os.rename")


def _obey_modes() -> None:
    """Give up root's right to pass over the modes of files: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    for index in range(3):  # effective, permitted, inheritable
        sets[index] &= ~0b110
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")
