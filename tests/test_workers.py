"""Processes of a pool end with the one that started them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

POOL = """
import multiprocessing, os, signal, time
from concurrent.futures import ProcessPoolExecutor
from trueneg.workers import follow_parent
if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where nohup started the tests
    pool = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), initializer=follow_parent)
    print(*{pool.submit(os.getpid).result() for _ in range(50)}, flush=True)
    pool.submit(time.sleep, 60), pool.submit(time.sleep, 60)
    time.sleep(60)
"""


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_no_worker_outlives_its_parent(death: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(POOL)
    parent = subprocess.Popen([sys.executable, tmp_path / "pool.py"], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(number) for number in parent.stdout.readline().split()]
    assert workers and all(map(is_alive, workers))
    parent.send_signal(death)
    parent.wait(60)
    until = time.monotonic() + 60
    while any(map(is_alive, workers)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(map(is_alive, workers))
