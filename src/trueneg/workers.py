"""Worker processes of a pool, which end with their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading


def follow_parent() -> None:
    """Make this worker process end when its parent does, however the parent dies.

    Ctrl-C and a closed terminal signal all processes; workers ignore that, and the parent tells its pool to stop.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
