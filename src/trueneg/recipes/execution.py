"""Execution of the jobs of a plan, each in its own process."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from trueneg.errors import Interrupted, JobError, TruenegError
from trueneg.evaluation.results.provenance import versions
from trueneg.files.whole import write_json
from trueneg.recipes.plan import FINISHED, LOG, OUT, OUTPUT, Input, Stamps, Workspace, check_untouched

_PRELOADED = [
    *("torch", "transformers", "pydantic.type_adapter"),
    *("trueneg.cli.main", "trueneg.runs.pretraining", "trueneg.runs.finetuning"),
]
_SHOWN_LOG = 1000
_ASIDE = ".set-aside"
_BOX = " │─╭╮╰╯"
"""Characters of the box around usage errors."""


@dataclass(frozen=True)
class _Running:
    name: str
    data: Mapping[Input, Stamps]
    """Stamps of the data when it started."""
    started: float


def run_jobs(
    workspace: Workspace,
    workers: int = 1,
    say: Callable[[str], None] = lambda message: None,
    before_each: Callable[[str], None] = lambda name: None,
) -> None:
    """Run the jobs of a plan that have not finished.

    Jobs that do not need a failed job still run. A job whose data change before it starts, or while it runs, fails.

    Args:
        workspace: The plan and its folder.
        workers: Number of jobs to run at once; the processors are divided evenly.
        say: Called with a line of progress.
        before_each: Called with the name of a job that is about to start while no other is running; an exception that
            it raises ends the plan before that job.

    Raises:
        JobError: naming the first job that failed, once all others are done.
        Interrupted: after Ctrl-C, once the running jobs have saved.
    """
    left = workspace.missing()
    total, failed, waiting = len(left), dict[str, str](), set[str]()
    running: dict[BaseProcess, _Running] = {}

    def fail(name: str, why: str) -> None:
        failed[name] = why
        say(f"{name} failed: {why}")

    with _server(workers) as context:
        try:
            while left or running:
                for name in [*left]:
                    needs = set(workspace.plan.jobs[name].needs)
                    if needs & (failed.keys() | waiting):
                        waiting.add(name)
                        left.remove(name)
                    elif len(running) < workers and not needs & {*left, *(one.name for one in running.values())}:
                        if not running:
                            before_each(name)
                        left.remove(name)
                        say(f"{total - len(left)} of {total}: {name}")
                        try:
                            data = workspace.check_inputs(name)
                        except TruenegError as error:
                            fail(name, str(error))
                        else:
                            running[_start(workspace, name, context)] = _Running(name, data, time.monotonic())
                # If all remaining jobs need a failed one, nothing runs, and waiting would never end.
                for ended in wait([process.sentinel for process in running]) if running else ():
                    process = next(one for one in running if one.sentinel == ended)
                    job = running.pop(process)
                    process.join()
                    seconds = time.monotonic() - job.started
                    if why := _set_aside(workspace, job) or _failure(workspace, job.name, process.exitcode):
                        fail(job.name, why)
                    else:
                        _finish(workspace, job.name, seconds)
                        say(f"{job.name}: done in {seconds:.0f} s")
        except KeyboardInterrupt:
            for process in running:
                if process.pid is not None and process.is_alive():
                    os.kill(process.pid, signal.SIGINT)  # once: it saves
            for process, job in running.items():
                process.join()
                if why := _set_aside(workspace, job):
                    say(f"{job.name}: {why}")
            raise Interrupted(
                f"finished jobs are kept in '{workspace.root}': run the same command again to continue"
            ) from None
    if failed:
        first = next(iter(failed))
        others = f", {len(waiting)} need them" if waiting else ""
        raise JobError(
            f"{len(failed)} of {total} jobs failed{others}; the first, {first}: {failed[first]}: fix that, and run "
            f"the same command again to continue"
        )


@contextmanager
def _server(workers: int) -> Iterator[multiprocessing.context.ForkServerContext]:
    """Yield a context whose processes have the libraries preloaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    before = os.environ.get("OMP_NUM_THREADS")
    if workers > 1 and before is None:  # read when torch is loaded
        os.environ["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // workers))
    try:
        yield context
    finally:
        if before is None:
            os.environ.pop("OMP_NUM_THREADS", None)


def _start(workspace: Workspace, name: str, context: multiprocessing.context.ForkServerContext) -> BaseProcess:
    folder, arguments = workspace.folder(name), workspace.arguments(name)
    if workspace.state(name) == "begun":
        if workspace.plan.jobs[name].resumes:
            arguments = [*arguments, "--resume"]
        else:
            shutil.rmtree(folder)
    (folder / OUT).mkdir(parents=True, exist_ok=True)
    process = context.Process(target=_run, args=(arguments, folder, dict(os.environ)))
    process.start()
    return process


def _run(arguments: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    """Run a command line in this process, in the parent's environment: the fork server's is that of its own start."""
    os.environ.clear()
    os.environ.update(environment)
    os.setpgrp()  # Ctrl-C reaches only the parent, which forwards it once
    for descriptor, name in ((sys.stdout.fileno(), OUTPUT), (sys.stderr.fileno(), LOG)):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(file, descriptor)
    _end_with_parent()
    sys.argv = ["trueneg", *arguments]
    runpy.run_module("trueneg", run_name="__main__")


def _end_with_parent() -> None:
    """Interrupt this process when its parent dies, so that it saves."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=follow, daemon=True).start()


def _finish(workspace: Workspace, name: str, seconds: float) -> None:
    finished = replace(workspace.finished(name), seconds=round(seconds, 3), versions=versions())
    write_json(workspace.folder(name) / FINISHED, asdict(finished))


def _set_aside(workspace: Workspace, job: _Running) -> str:
    """Move a job's results aside if its data were modified while it ran; return why, empty if they were not.

    They may be days of work, so they are not deleted, but a later start must not resume from them.
    """
    try:
        check_untouched(job.data)
    except TruenegError as error:
        folder = workspace.folder(job.name)
        aside = folder.with_name(f"{folder.name}{_ASIDE}")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
        return f"{error}; '{aside}' has what it left, which counts for nothing"
    return ""


def _failure(workspace: Workspace, name: str, code: int | None) -> str:
    """Return why a job failed; empty if it did not."""
    if not code:
        return ""
    log = workspace.folder(name) / LOG
    said = log.read_text(encoding="utf-8", errors="replace")[-_SHOWN_LOG:].strip() if log.is_file() else ""
    lines = [line for row in said.splitlines() if (line := row.strip(_BOX))]
    why = lines[-1].removeprefix("error: ") if lines else f"exit code {code}"
    return f"{why} (see '{log}')"
