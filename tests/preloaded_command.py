"""``trueneg`` for tests that start it again and again: each time in a process of its own, forked after the imports.

A start costs several seconds of imports, which is most of what a small command takes. ``python preloaded_command.py
SOCKET`` imports once; a script called ``trueneg`` hands it arguments, environment, folder and open files.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import forks

PRELOADED = (
    *forks.PRELOADED,
    *("torch._dynamo", "trueneg.runs.finetuning_tasks", "trueneg.runs.sweeps", "trueneg.corpus.build"),
    *("trueneg.tasks.glue", "trueneg.recipes.reproduction"),
)
CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    said = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(server, [len(said).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(said)
    code = server.recv(1)
sys.exit(code[0] if code else 255)
"""


@contextlib.contextmanager
def preloaded_command(folder: Path) -> Iterator[Path]:
    """Give a folder for PATH with a ``trueneg`` in it."""
    path = folder / "socket"
    server = subprocess.Popen([sys.executable, __file__, path], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        client = folder / "bin" / "trueneg"
        client.parent.mkdir()
        client.write_text(CLIENT.format(python=sys.executable, path=str(path)))
        client.chmod(0o755)
        yield client.parent
    finally:
        server.terminate()
        server.wait()


def serve(path: str) -> None:
    """Run each command that connects in a fork of a fork: the first waits for the second, and sends how it ended."""
    for name in PRELOADED:
        importlib.import_module(name)
    _warm()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                if os.fork() == 0:
                    server.close()
                    _follow(connection)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _warm() -> None:
    """Compute what every command would compute anew, and keep the garbage collector away from all that is loaded."""
    import torch
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping

    from trueneg.arithmetic import matrix_rate

    get_checkpoint_conversion_mapping("bert")
    for precision in ("fp32", "bf16"):
        matrix_rate(torch.device("cpu"), precision)
    gc.collect()
    gc.freeze()


def _follow(connection: socket.socket) -> None:
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    said = b""
    while len(said) < int.from_bytes(size, "big"):
        said += connection.recv(1 << 16)
    command = os.fork()
    if command == 0:
        connection.close()
        _run(*json.loads(said), files)
    _, status = os.waitpid(command, 0)
    connection.sendall(bytes([os.waitstatus_to_exitcode(status) % 256]))
    os._exit(0)


def _run(arguments: list[str], environment: dict[str, str], folder: str, files: list[int]) -> None:
    for descriptor, file in enumerate(files):
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["trueneg", *arguments]
    code: object = 1
    try:
        runpy.run_module("trueneg", run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    serve(sys.argv[1])
