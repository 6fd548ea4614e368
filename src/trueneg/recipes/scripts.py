"""Jobs as a script, for a shell or for Slurm: ``trueneg reproduce RECIPE --dry-run --format shell``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from trueneg.recipes.plan import FINISHED, LOG, OUT, OUTPUT, Workspace


@dataclass(frozen=True)
class ScriptedJob:
    """Lines of a shell that do a job, or nothing once it has finished."""

    name: str
    lines: str
    needs: Sequence[str] = ()
    """Names of jobs that must have finished; those that are not in the script have."""


_HEADER = [
    "#!/bin/sh",
    "set -e",
    "# When all jobs are done, the same trueneg reproduce without --dry-run reads their results.",
]
_OF_SLURM = [
    '# Options of all jobs: SBATCH="--gpus 1 --requeue" sh SCRIPT. What runs out of time is given again and goes on;',
    "# trueneg list presets tells how long runs take.",
]


def shell_script(jobs: Sequence[ScriptedJob]) -> str:
    """Write jobs as a script that runs them one after another, and goes on where it was stopped."""
    return "\n".join([*_HEADER, *(job.lines for job in jobs), ""])


def slurm_script(jobs: Sequence[ScriptedJob]) -> str:
    """Write jobs as a script that hands them to Slurm; options of sbatch are taken from SBATCH."""
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
    """Write the jobs of a plan that are left."""
    return [_scripted(workspace, name) for name in workspace.missing()]


def _scripted(workspace: Workspace, name: str) -> ScriptedJob:
    folder, job = workspace.folder(name), workspace.plan.jobs[name]
    record = json.dumps(asdict(workspace.finished(name)))
    whole, made = shlex.quote(str(folder)), shlex.quote(str(folder / OUT))
    out, log, finished = (shlex.quote(str(folder / file)) for file in (OUTPUT, LOG, FINISHED))
    lines = [
        f"if [ ! -f {finished} ]; then",
        f"  mkdir -p {made} || exit 1" if job.resumes else f"  rm -rf {whole} && mkdir -p {made} || exit 1",
        f"  {workspace.command(name)}{' --resume' if job.resumes else ''} > {out} 2> {log} || exit 1",
        f"  printf '%s' {shlex.quote(record)} > {finished}",
        "fi",
    ]
    return ScriptedJob(name, "\n".join(lines), job.needs)
