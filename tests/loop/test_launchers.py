"""What examples/ starts: runs of two processes that end as one process does, also where one of them is killed."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_runs import assert_same_readings, weight_distance
from torch import distributed

from forks import FORKS
from trueneg.config.options import PretrainConfig
from trueneg.runs.configuring import configure
from trueneg.runs.pretraining import pretrain

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
SETTINGS = (
    *("corpus.length=24", "corpus.eval_rows=20", "train.device=cpu", "model.dropout=0"),
    *("train.steps=120", "train.save_every=20", "train.eval_every=40", "train.log_every=20"),
)
TOLERANCE = 1e-4
"""Of weights after 120 steps: rounding of ten steps is 4e-7 (test_equivalence.py), and grows."""


@pytest.fixture(scope="module")
def alone(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run in one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    pretrain(configured(corpus), folder, quiet=True)
    return folder


def configured(corpus: Path) -> PretrainConfig:
    return configure("electra-tiny", settings=[f"corpus.path={corpus}", *SETTINGS])


def arguments(corpus: Path, out: Path) -> list[str]:
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    return ["electra-tiny", "--corpus", str(corpus), "--out", str(out), *settings]


def environment(**more: str) -> dict[str, str]:
    """With this Python as ``python``, and a thread a process."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"} | more


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def check_as_alone(run: Path, alone: Path) -> None:
    assert 0 < weight_distance(run, alone) < TOLERANCE
    assert_same_readings(run, alone)


def ended(process: subprocess.Popen[str]) -> str:
    said = process.communicate(timeout=400)[0]
    assert process.returncode == 0, said[-4000:]
    return said


def started(command: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def workers(out: Path) -> Iterator[tuple[int, int]]:
    """Process and rank of each that trains into a folder."""
    for place in Path("/proc").iterdir():
        try:
            if str(out).encode() in (place / "cmdline").read_bytes().split(b"\0"):
                rank = re.search(rb"\0RANK=(\d+)\0", (place / "environ").read_bytes())
                if rank:
                    yield int(place.name), int(rank[1])
        except OSError:  # gone, or no process
            pass


def test_torchrun_starts_again_what_was_killed(corpus: Path, alone: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = started([str(EXAMPLES / "torchrun.sh"), *arguments(corpus, out)], environment(PROCESSES="2"))
    while not any(out.glob("checkpoints/step-*")):
        assert process.poll() is None, ended(process)
        time.sleep(0.002)
    (killed,) = [pid for pid, rank in workers(out) if rank == 1]
    os.kill(killed, signal.SIGKILL)
    said = ended(process)
    # torchrun may end the other process before that one has noticed, and says so in one of two ways.
    ends = ("lost the others", "SIGKILL", "exitcode: -9")
    assert "continuing at step" in said and any(end in said for end in ends), said
    check_as_alone(out, alone)


def test_two_machines_meet(corpus: Path, alone: Path, tmp_path: Path) -> None:
    """Two agents of torchrun on one machine are to each other as two machines are."""
    out, port = tmp_path / "run", free_port()
    env = environment(NODES="2", PROCESSES="1", HEAD=f"localhost:{port}")
    command = [str(EXAMPLES / "torchrun.sh"), *arguments(corpus, out)]
    for process in [started(command, env) for _ in range(2)]:
        ended(process)
    check_as_alone(out, alone)


def test_slurm(corpus: Path, alone: Path, tmp_path: Path) -> None:
    """Run by bash, with an ``srun`` that starts a task on "each machine", which is this one.

    ``scontrol`` writes its second line late: a reader that had left after the first would end it, and
    the job (SIGPIPE).
    """
    tools, out = tmp_path / "bin", tmp_path / "run"
    tools.mkdir()
    start = 'shift; for node in $(seq "$SLURM_NNODES"); do "$@" & done; wait -n && wait -n'
    names = '[ "$3" = "here[1-2]" ] && echo localhost && sleep 0.3 && echo other'
    for name, does in (("srun", start), ("scontrol", names)):
        (tools / name).write_text(f"#!/bin/bash\n{does}\n")
        (tools / name).chmod(0o755)
    slurm = {"SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "here[1-2]", "SLURM_JOB_ID": "7", "PORT": free_port()}
    env = environment(PROCESSES="1", **slurm)
    env["PATH"] = os.pathsep.join([str(tools), env["PATH"]])
    ended(started(["bash", str(EXAMPLES / "slurm.sh"), *arguments(corpus, out)], env))
    check_as_alone(out, alone)


def test_skypilot(corpus: Path, alone: Path, tmp_path: Path) -> None:
    """The ``run`` section, with what SkyPilot sets on each of two machines."""
    task, out = yaml.safe_load((EXAMPLES / "skypilot.yaml").read_text()), tmp_path / "run"
    assert task["num_nodes"] == 2
    env = environment(
        **task["envs"] | {"PRESET": "electra-tiny", "CORPUS": str(corpus), "OUT": str(out)},
        **{"SETTINGS": " ".join(f"--set {setting}" for setting in SETTINGS), "PORT": free_port()},
        **{"SKYPILOT_NODE_IPS": "localhost\n10.0.0.2", "SKYPILOT_NUM_NODES": "2", "SKYPILOT_TASK_ID": "7"},
        SKYPILOT_NUM_GPUS_PER_NODE="1",
    )
    for process in [started(["bash", "-c", task["run"]], env | {"SKYPILOT_NODE_RANK": str(rank)}) for rank in range(2)]:
        ended(process)
    check_as_alone(out, alone)


def test_ray_train(corpus: Path, alone: Path, tmp_path: Path) -> None:
    """The function that Ray calls, in a group that somebody else has made and leaves."""
    given = {"preset": "electra-tiny", "corpus": str(corpus), "out": str(tmp_path / "run"), "settings": SETTINGS}
    port = free_port()
    processes = [FORKS.Process(target=as_worker, args=(rank, port, given)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0, 0]
    check_as_alone(tmp_path / "run", alone)


def as_worker(rank: int, port: str, given: dict[str, Any]) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    distributed.init_process_group("gloo")
    spec = importlib.util.spec_from_file_location("ray_train", EXAMPLES / "ray_train.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    train: Callable[[dict[str, Any]], None] = module.train
    train(given)
    assert distributed.is_initialized()
    distributed.destroy_process_group()
