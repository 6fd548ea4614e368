"""Jobs as a script, for a shell or for Slurm: ``trueneg reproduce RECIPE --dry-run --format shell``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from trueneg.errors import ConfigError, TaskError
from trueneg.files.digests import fingerprint_of
from trueneg.files.records import parse_record
from trueneg.recipes.plan import FINISHED, LOG, OUT, OUTPUT, Input, Stamps, Workspace, digest, stamps_of


@dataclass(frozen=True)
class ScriptedJob:
    """Shell lines that run a job, or do nothing if it has finished."""

    name: str
    lines: str
    needs: Sequence[str] = ()
    """Names of jobs that must finish first; those that are not in the script have finished."""


@dataclass(frozen=True)
class Seen:
    """Data of a job as they were when its script was written."""

    name: str
    path: str
    parts: list[str]
    digest: str
    """First digits of it: a job may read hundreds of files, and the length of a command line is limited."""
    stamps: str
    """Digest of the sizes and times of their files."""


def seen(workspace: Workspace, name: str) -> list[Seen]:
    """Describe the data of a job."""
    return [
        Seen(one.name, str(one.path), [*one.parts], workspace.digests[one][:16], _digest_of(workspace.stamps[one]))
        for one in workspace.plan.jobs[name].inputs
    ]


def read_seen(text: str) -> list[Seen]:
    """Parse the result of ``seen`` from JSON.

    Raises:
        ConfigError: for any other text.
    """
    return parse_record(list[Seen], text, "the description of data", ConfigError, "write the script anew")


def check_seen(described: Sequence[Seen]) -> None:
    """Check that data are those that a script was written for, reading only those whose sizes or times changed.

    Raises:
        TaskError: naming data that changed.
        ConfigError: for missing data.
    """
    for one in described:
        data = Input(Path(one.path), one.name, tuple(one.parts))
        if _digest_of(stamps_of(data)) != one.stamps and not digest(data).startswith(one.digest):
            raise TaskError(
                f"{one.name}: '{one.path}' changed after this script was written: write it anew, by the same command; "
                f"what does not need these data stays done"
            )


def _digest_of(stamps: Stamps) -> str:
    return fingerprint_of(sorted((str(file), stamp) for file, stamp in stamps.items()))


_HEADER = [
    "#!/bin/sh",
    "set -e",
    "# When all jobs are done, the same trueneg reproduce without --dry-run reads their results.",
]
_OF_SLURM = [
    '# Options of all jobs: SBATCH="--gpus 1 --requeue" sh SCRIPT. Jobs that run out of time continue when they are',
    "# submitted again; trueneg list presets tells how long runs take.",
]


def shell_script(jobs: Sequence[ScriptedJob]) -> str:
    """Write jobs as a script that runs them one after another, and resumes where it was stopped."""
    return "\n".join([*_HEADER, *(job.lines for job in jobs), ""])


def slurm_script(jobs: Sequence[ScriptedJob]) -> str:
    """Write jobs as a script that submits them to Slurm; options of sbatch are taken from SBATCH."""
    number = {job.name: f"job{position}" for position, job in enumerate(jobs)}
    lines = [*_HEADER, *_OF_SLURM]
    for job in jobs:
        needs = [f"${number[need]}" for need in job.needs if need in number]
        dependency = f"--dependency=afterok:{':'.join(needs)} " if needs else ""
        lines.append(
            f"{number[job.name]}=$(sbatch --parsable $SBATCH --job-name={shlex.quote(job.name)} {dependency}"
            f"--wrap={shlex.quote(job.lines)})"
        )
    return "\n".join([*lines, ""])


SCRIPTS: dict[str, Callable[[Sequence[ScriptedJob]], str]] = {"shell": shell_script, "slurm": slurm_script}
"""Name of a format to the function that writes it."""


def scripted(workspace: Workspace) -> list[ScriptedJob]:
    """Convert the remaining jobs of a plan to shell lines."""
    return [_scripted(workspace, name) for name in workspace.missing()]


def _scripted(workspace: Workspace, name: str) -> ScriptedJob:
    folder, job = workspace.folder(name), workspace.plan.jobs[name]
    record = json.dumps(asdict(workspace.finished(name)))
    whole, made = shlex.quote(str(folder)), shlex.quote(str(folder / OUT))
    out, log, finished = (shlex.quote(str(folder / file)) for file in (OUTPUT, LOG, FINISHED))
    data = json.dumps([asdict(one) for one in seen(workspace, name)])
    lines = [
        f"if [ ! -f {finished} ]; then",
        *([f"  printf '%s' {shlex.quote(data)} | trueneg check-data || exit 1"] if job.inputs else []),
        f"  mkdir -p {made} || exit 1" if job.resumes else f"  rm -rf {whole} && mkdir -p {made} || exit 1",
        f"  {workspace.command(name)}{' --resume' if job.resumes else ''} > {out} 2> {log} || exit 1",
        f"  printf '%s' {shlex.quote(record)} > {finished}",
        "fi",
    ]
    return ScriptedJob(name, "\n".join(lines), job.needs)
