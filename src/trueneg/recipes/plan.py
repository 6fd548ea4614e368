"""A plan: jobs, each an ordinary ``trueneg`` command, whose results are stored under a key of what produced them.

A job's key is a digest of its command, of the data that the command reads, and of the keys of the jobs whose results it
reads. So a change reruns only the jobs that depend on it; the location of the data does not matter.
"""

from __future__ import annotations

import hashlib
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.results.reproduction import ROWS, ReproducedTable
from trueneg.files.digests import checksum, fingerprint_of
from trueneg.files.records import read_versioned
from trueneg.files.tree import files_below

SCHEMA = 1
JOBS, FINISHED, OUT, OUTPUT, LOG = "jobs", "job.json", "out", "output.txt", "log.txt"
State = Literal["done", "begun", "to do"]


@dataclass(frozen=True)
class Output:
    """An output of a job: its folder, or a path in it."""

    path: str = ""
    job: str = ""
    """Name of the job; empty for the job whose command has this argument."""
    prefix: str = ""
    suffix: str = ""
    """``prefix`` and ``suffix`` are written around the path, as in ``prototypes:FILE@0.62``."""


@dataclass(frozen=True)
class Input:
    """Data that a command reads."""

    path: Path
    name: str
    """Used in messages and tables instead of the path."""
    parts: tuple[str, ...] = ()
    """Paths that the command reads in a folder; all by default."""
    prefix: str = ""
    suffix: str = ""
    """``prefix`` and ``suffix`` are written around the path, as in ``neighbours:FILE[k=10]``."""
    source: str = ""
    """Where the data come from, for the error message if they are missing."""
    files: tuple[str, ...] = ()
    """Glob patterns that must each match a file that the command reads in a folder; ``|`` separates alternatives."""

    @property
    def label(self) -> str:
        """Name of the data that a command reads and that the digest is computed from.

        Example:
            >>> Input(Path("data/glue"), "glue", ("CoLA", "RTE")).label
            'glue/CoLA+RTE'
        """
        return "/".join(filter(None, (self.name, "+".join(self.parts))))

    def check_there(self) -> None:
        """Check that the files that a command reads exist.

        Raises:
            ConfigError: naming a missing one, and where it comes from.
        """
        source = f": it comes from {self.source}" if self.source else ""
        for part in self.parts or ("",):
            if not (path := self.path / part).exists():
                raise ConfigError(f"{self.name}: '{path}' is not there{source}")
        for file in self.files:
            names = file.split("|")
            if not any(True for name in names for _ in self.path.glob(name)):
                raise ConfigError(f"{self.name}: no {names[0]} below '{self.path}'{source}")
        if not any(True for _ in _files(self)):
            raise ConfigError(f"{self.name}: '{self.path}' is empty{source}")


Argument = str | Output | Input
Command = tuple[Argument, ...]


@dataclass(frozen=True)
class Job:
    """One command, which may read the results of other jobs."""

    name: str
    command: Command
    """Arguments of ``trueneg``."""
    after: tuple[str, ...] = ()
    """Further jobs that it depends on, whose outputs are not among its arguments."""
    resumes: bool = False
    """Whether ``--resume`` can continue it."""
    minutes: float = 1.0
    """Rough running time."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the jobs whose results it reads."""
        named = [argument.job for argument in self.command if isinstance(argument, Output) and argument.job]
        return tuple(dict.fromkeys([*named, *self.after]))

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The data that it reads."""
        return tuple(argument for argument in self.command if isinstance(argument, Input))


@dataclass(frozen=True)
class Finished:
    """``job.json`` of a job that has finished."""

    name: str
    key: str
    command: list[str]
    data: dict[str, str]
    """``Input.label`` of the data that it read to their digest."""
    seconds: float | None = None
    """Running time, after the last resumption only; None if a script ran it."""
    versions: dict[str, str] = field(default_factory=dict)
    """Software versions that it ran with, from ``results.provenance.versions``; empty if a script ran it."""
    schema: int = SCHEMA


@dataclass
class Plan:
    """Jobs, ordered so that each comes after those that it needs.

    Example:
        >>> plan = Plan()
        >>> corpus = plan.add(Job("corpus", ("corpus", "build", "text.txt", "--out", Output("corpus"))))
        >>> run = plan.add(Job("base", ("pretrain", "--corpus", Output("corpus", corpus), "--out", Output("run"))))
        >>> plan.jobs[run].needs
        ('corpus',)
    """

    jobs: dict[str, Job] = field(default_factory=dict)

    def add(self, job: Job) -> str:
        """Add a job, unless the plan already has the same one; return its name.

        Raises:
            ConfigError: if a different job has the same name, or the job needs one that is not in the plan.
        """
        if self.jobs.setdefault(job.name, job) != job:
            raise ConfigError(f"two jobs of the plan are called '{job.name}': name them apart")
        if missing := [name for name in job.needs if name not in self.jobs]:
            raise ConfigError(f"job '{job.name}' needs '{missing[0]}', which is not in the plan before it")
        return job.name

    def digests(self) -> dict[Input, str]:
        """Read all data, and compute their digests.

        Raises:
            ConfigError: for missing data.
        """
        return {one: digest(one) for one in self.inputs()}

    def inputs(self) -> list[Input]:
        """List the data that the jobs read, each once."""
        return list(dict.fromkeys(one for job in self.jobs.values() for one in job.inputs))

    def keys(self, digests: Mapping[Input, str]) -> dict[str, str]:
        """Compute each job's key."""
        found: dict[str, str] = {}
        for job in self.jobs.values():
            found[job.name] = fingerprint_of(
                {
                    "schema": SCHEMA,
                    "command": [_described(argument, found, digests) for argument in job.command],
                    "after": [found[name] for name in job.after],
                }
            )
        return found


def _described(argument: Argument, keys: Mapping[str, str], digests: Mapping[Input, str]) -> Any:
    if isinstance(argument, Output):
        return {
            "output": [argument.prefix, argument.path, argument.suffix],
            "of": keys.get(argument.job, ""),
        }
    return {"data": [argument.prefix, digests[argument], argument.suffix]} if isinstance(argument, Input) else argument


def digest(data: Input) -> str:
    """Compute a digest of the content of data, which does not depend on their folder.

    Raises:
        ConfigError: for missing data.
    """
    data.check_there()
    hashed = hashlib.sha256()
    for name, file in _files(data):
        hashed.update(f"{name}\0{_checksum(file, _stamp(file))}\n".encode())
    return hashed.hexdigest()


def _files(data: Input) -> Iterator[tuple[str, Path]]:
    """Yield the files of data, each with a name that does not depend on the data's location."""
    for part in data.parts or ("",):
        path = data.path / part
        if path.is_file():
            yield part or path.name, path
        else:
            yield from ((f"{part}/{f.relative_to(path)}", f) for f in files_below(path) if not f.name.startswith("."))


Stamp = tuple[int, int, int]
Stamps = Mapping[Path, Stamp]
"""File to its size and times, which change if it is modified or replaced."""


def _stamp(file: Path) -> Stamp:
    # ctime as well: size and mtime stay the same if a file is moved away and back.
    status = file.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def stamps_of(data: Input) -> Stamps:
    """Return the stamps of the files of data, without reading the files."""
    return {file: _stamp(file) for _, file in _files(data)}


def _touched(before: Stamps, after: Stamps) -> list[Path]:
    """List the files that were modified, added or removed between two sets of stamps."""
    return sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))


def check_untouched(before: Mapping[Input, Stamps]) -> None:
    """Check that data have not been modified since they were stamped.

    Even if the content is the same again, what was read in between is not known.

    Raises:
        TaskError: naming a file that was modified, added or removed.
    """
    for one, stamps in before.items():
        for file in _touched(stamps, stamps_of(one)):
            raise TaskError(f"{one.label}: '{file}' was written to while the job ran: what it read is not known")


@cache
def _checksum(path: Path, stamp: Stamp) -> str:
    """Compute the checksum of a file, once per stamp."""
    return checksum(path)


@dataclass(frozen=True)
class JoinedFolder:
    """Another folder of the same recipe, given by ``--join``."""

    folder: Path
    table: ReproducedTable

    def results(self, job: str) -> dict[str, Path]:
        """Return the results of a job there, by their paths below ``rows``."""
        return {place: self.folder / ROWS / place for place in self.table.results.get(job, ())}


@dataclass(frozen=True)
class Workspace:
    """A plan in a folder: where its jobs write their results, and which have finished."""

    root: Path
    plan: Plan
    digests: Mapping[Input, str]
    keys: Mapping[str, str]
    stamps: Mapping[Input, Stamps] = field(default_factory=dict)
    """Stamps of the data's files from before their digests were computed."""
    joined_jobs: Mapping[str, JoinedFolder] = field(default_factory=dict)
    """Job to another folder that has its figures: it runs here only if another job needs it."""

    @classmethod
    def open(cls, root: Path, plan: Plan) -> Workspace:
        """Open a plan in a folder: read its data, and compute the keys of its jobs.

        Raises:
            ConfigError: for missing data.
        """
        stamps = {one: stamps_of(one) for one in plan.inputs()}
        digests = plan.digests()
        return cls(root, plan, digests, plan.keys(digests), stamps)

    def check_inputs(self, name: str) -> Mapping[Input, Stamps]:
        """Check that a job's data are those that its key was computed from; return their stamps.

        Raises:
            TaskError: naming a file that changed.
            ConfigError: for data that no longer exist.
        """
        found = {one: stamps_of(one) for one in self.plan.jobs[name].inputs}
        for one, now in found.items():
            if now != self.stamps.get(one) and digest(one) != self.digests[one]:
                file = next(iter(_touched(self.stamps[one], now)), one.path)
                raise TaskError(f"{one.label}: '{file}' changed after the jobs were planned: this job needs a new plan")
        return found

    def folder(self, name: str) -> Path:
        """Return the folder of a job."""
        return self.root / JOBS / f"{name}-{self.keys[name]}"

    def path(self, output: Output, job: str = "") -> Path:
        """Return the path of an output."""
        return self.folder(output.job or job) / OUT / output.path

    def arguments(self, name: str) -> list[str]:
        """Return the arguments of a job's command, without ``trueneg``."""
        return self._words(name, lambda output: str(self.path(output, name)), lambda data: str(data.path))

    def _words(self, name: str, place: Callable[[Output], str], source: Callable[[Input], str]) -> list[str]:
        """Return a job's arguments, with outputs and data written by the given functions."""

        def word(argument: Argument) -> str:
            if isinstance(argument, str):
                return argument
            named = place(argument) if isinstance(argument, Output) else source(argument)
            return f"{argument.prefix}{named}{argument.suffix}"

        return [word(argument) for argument in self.plan.jobs[name].command]

    def command(self, name: str) -> str:
        """Return a job's command, quoted for a shell."""
        return shlex.join(["trueneg", *self.arguments(name)])

    def public_command(self, name: str) -> str:
        """Return a job's command for a published table: names of data and jobs, without paths of this machine."""
        words = self._words(name, lambda output: self.public_path(output, name), lambda data: f"DATA/{data.name}")
        return shlex.join(["trueneg", *words])

    def public_path(self, output: Output, job: str = "") -> str:
        """Return the path of an output, with ``OUT`` for the workspace's folder."""
        return f"OUT/{self.path(output, job).relative_to(self.root)}".removesuffix("/.")

    def finished(self, name: str) -> Finished:
        """Return the record of a job that has finished, without its time and versions."""
        data = {one.label: self.digests[one] for one in self.plan.jobs[name].inputs}
        return Finished(name, self.keys[name], ["trueneg", *self.arguments(name)], data)

    def seconds(self, name: str) -> float:
        """Return how long a finished job took; 0 if that was not measured.

        Raises:
            ConfigError: for a damaged ``job.json``.
        """
        return self._record(name).seconds or 0.0

    def versions(self, name: str) -> Mapping[str, str]:
        """Return the versions that a finished job ran with; empty if they were not recorded.

        Raises:
            ConfigError: for a damaged ``job.json``.
        """
        return self._record(name).versions

    def state(self, name: str) -> State:
        """Return whether a job has finished, was begun, or is still to do.

        Raises:
            ConfigError: for a ``job.json`` that is damaged, of a newer version or of another job.
        """
        folder = self.folder(name)
        if not (folder / FINISHED).is_file():
            return "begun" if folder.is_dir() else "to do"
        found = self._record(name)
        if found.key != self.keys[name]:
            raise ConfigError(f"'{folder / FINISHED}' is of another job ({found.name}): {_again(folder)}")
        return "done"

    def _record(self, name: str) -> Finished:
        folder = self.folder(name)
        again = "remove that file, and the job continues, or runs again if it cannot be resumed"
        return read_versioned(Finished, folder / FINISHED, SCHEMA, ConfigError, again)

    def table_of(self, *names: str) -> ReproducedTable | None:
        """Return another folder's table with some jobs' figures; None if all are done here or no table has them."""
        is_here = all(self.state(name) == "done" for name in names)
        return self.joined_jobs[names[0]].table if not is_here and names[0] in self.joined_jobs else None

    def missing(self) -> list[str]:
        """List the jobs left to run, in order: not those with figures elsewhere, nor those that only these need."""
        found, spared, users = list[str](), set[str](), defaultdict[str, set[str]](set)
        for name, job in reversed(self.plan.jobs.items()):
            for need in job.needs:
                users[need].add(name)
            if self.state(name) == "done":
                continue
            if (name in self.joined_jobs or users[name]) and users[name] <= spared:
                spared.add(name)
            else:
                found.append(name)
        return found[::-1]


def _again(folder: Path) -> str:
    return f"remove '{folder}' to have the job done again"


def safe_name(*parts: str) -> str:
    """Join words to a job name that is safe as part of a folder name.

    Example:
        >>> safe_name("finetune", "glue/cola", "s1")
        'finetune-glue-cola-s1'
    """
    return "-".join(part.replace("/", "-") for part in parts if part)


def with_settings(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return ``--set key=value`` for each setting.

    Example:
        >>> with_settings({"train.steps": 5})
        ('--set', 'train.steps=5')
    """
    return tuple(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))


def changes(before: Mapping[str, Finished], workspace: Workspace) -> Sequence[str]:
    """Describe which jobs have a new key since the last time, and why, unless only a job that they need changed."""
    said = []
    for name, job in workspace.plan.jobs.items():
        old = before.get(name)
        if old is None or old.key == workspace.keys[name]:
            continue
        now = workspace.finished(name)
        data = sorted(one for one in now.data if old.data.get(one, now.data[one]) != now.data[one])
        if data:
            said.append(f"{name}: the data of {', '.join(data)} changed")
        elif all(need in before and before[need].key == workspace.keys[need] for need in job.needs):
            said.append(f"{name}: its command changed")
    return said
