from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trueneg.errors import BusyError, TruenegWarning
from trueneg.files.lock import LOCK, locked

HOLDS = """
import sys, time
from pathlib import Path
from trueneg.files.lock import locked
with locked(Path(sys.argv[1]), "pretrain"):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM])
def test_a_second_process_is_refused_by_name_until_the_first_dies(tmp_path: Path, death: signal.Signals) -> None:
    first = holder(tmp_path / "run")
    with pytest.raises(BusyError) as caught, locked(tmp_path / "run", "pretrain"):
        pass
    assert f"process {first.pid} on " in str(caught.value)
    assert "(pretrain, since " in str(caught.value)
    first.send_signal(death)
    first.wait(10)
    with locked(tmp_path / "run", "pretrain"):
        pass
    assert list((tmp_path / "run").iterdir()) == []


def test_many_that_hurry_hold_it_one_after_the_other(tmp_path: Path) -> None:
    counts = """
import sys, time
from pathlib import Path
from trueneg.errors import BusyError
from trueneg.files.lock import locked
folder, done = Path(sys.argv[1]), 0
while done < 30:
    try:
        with locked(folder, "count"):
            number = int((folder / "number").read_text())
            time.sleep(0.0005)
            (folder / "number").write_text(str(number + 1))
        done += 1
    except BusyError:
        pass
"""
    (tmp_path / "number").write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", counts, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert (tmp_path / "number").read_text() == "90"


def test_a_file_system_without_locks_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(TruenegWarning, match="without locks"), locked(tmp_path, "pretrain"):
        pass


def test_an_unreadable_holder_is_no_crash(tmp_path: Path) -> None:
    first = holder(tmp_path)
    (tmp_path / LOCK).write_text("\x00")
    with pytest.raises(BusyError, match="another process"), locked(tmp_path, "pretrain"):
        pass
    first.kill()
    first.wait(10)
    time.sleep(0)
