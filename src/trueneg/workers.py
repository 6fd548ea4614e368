"""Processes of a pool, which end with the one that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading


def follow_parent() -> None:
    """Make this process of a pool end when its parent does, however that dies.

    Ctrl-C and a closed terminal reach all processes; the parent alone hears them, and tells its pool to stop.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
