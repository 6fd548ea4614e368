"""A plan: jobs, each an ordinary ``trueneg`` command, whose results have the address of what made them.

A job's key is a digest of its command, of the data that the command reads, and of the keys of the jobs whose results it
reads. So a change anywhere redoes what depends on it, and nothing else; where the data lies does not matter.
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
    """What a job leaves: its folder, or something in it."""

    path: str = ""
    job: str = ""
    """Empty for the job itself."""
    prefix: str = ""
    suffix: str = ""
    """Written around it, as in ``prototypes:FILE@0.62``."""


@dataclass(frozen=True)
class Input:
    """Data that a command reads."""

    path: Path
    name: str
    """Stands for it in messages and tables, wherever it lies."""
    parts: tuple[str, ...] = ()
    """What the command reads of a folder; all of it by default."""
    prefix: str = ""
    suffix: str = ""
    """Written around it, as in ``neighbours:FILE[k=10]``."""
    source: str = ""
    """Where it comes from, for the message that it is not there."""
    files: tuple[str, ...] = ()
    """Patterns of files that a command reads of a folder, one of them at least; several with ``|`` for any of them."""

    @property
    def label(self) -> str:
        """Name the part of it that a command reads, which its digest is of.

        Example:
            >>> Input(Path("data/glue"), "glue", ("CoLA", "RTE")).label
            'glue/CoLA+RTE'
        """
        return "/".join(filter(None, (self.name, "+".join(self.parts))))

    def check_there(self) -> None:
        """Check that the files that a command reads are there.

        Raises:
            ConfigError: naming one that is not, and where it comes from.
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
    """One command, which may read the results of others."""

    name: str
    command: Command
    """Arguments of ``trueneg``."""
    after: tuple[str, ...] = ()
    """Jobs that it reads without naming what they leave."""
    resumes: bool = False
    """Whether ``--resume`` continues it."""
    minutes: float = 1.0
    """Rough time that it takes."""

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
    """What it read, by ``Input.label``, to its digest."""
    seconds: float | None = None
    """That it took, the last time if it was resumed; None where a script ran it."""
    versions: dict[str, str] = field(default_factory=dict)
    """What it was done by, as ``results.provenance.versions`` has it; empty where a script ran it."""
    schema: int = SCHEMA


@dataclass
class Plan:
    """Jobs in an order in which each comes after those that it needs.

    Example:
        >>> plan = Plan()
        >>> corpus = plan.add(Job("corpus", ("corpus", "build", "text.txt", "--out", Output("corpus"))))
        >>> run = plan.add(Job("base", ("pretrain", "--corpus", Output("corpus", corpus), "--out", Output("run"))))
        >>> plan.jobs[run].needs
        ('corpus',)
    """

    jobs: dict[str, Job] = field(default_factory=dict)

    def add(self, job: Job) -> str:
        """Add a job, unless the same is there already; return its name.

        Raises:
            ConfigError: if another job has its name, or it needs one that is not in the plan.
        """
        if self.jobs.setdefault(job.name, job) != job:
            raise ConfigError(f"two jobs of the plan are called '{job.name}': name them apart")
        if missing := [name for name in job.needs if name not in self.jobs]:
            raise ConfigError(f"job '{job.name}' needs '{missing[0]}', which is not in the plan before it")
        return job.name

    def digests(self) -> dict[Input, str]:
        """Read all data, and compute its digests.

        Raises:
            ConfigError: for data that is not there.
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
    """Digest the content of data, whatever its folder is called.

    Raises:
        ConfigError: for data that is not there.
    """
    data.check_there()
    hashed = hashlib.sha256()
    for name, file in _files(data):
        hashed.update(f"{name}\0{_checksum(file, _stamp(file))}\n".encode())
    return hashed.hexdigest()


def _files(data: Input) -> Iterator[tuple[str, Path]]:
    """Give the files of data, each with the name that it has wherever the data lie."""
    for part in data.parts or ("",):
        path = data.path / part
        if path.is_file():
            yield part or path.name, path
        else:
            yield from ((f"{part}/{f.relative_to(path)}", f) for f in files_below(path) if not f.name.startswith("."))


Stamp = tuple[int, int, int]
Stamps = Mapping[Path, Stamp]
"""File to what changes when it is written to, or another takes its place."""


def _stamp(file: Path) -> Stamp:
    # The time of the file's entry as well: moved away and back, it has its old size and time of writing.
    status = file.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def stamps_of(data: Input) -> Stamps:
    """Look at the files of data without reading them."""
    return {file: _stamp(file) for _, file in _files(data)}


def _touched(before: Stamps, after: Stamps) -> list[Path]:
    """List the files that were written to, added or removed between two looks."""
    return sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))


def check_untouched(before: Mapping[Input, Stamps]) -> None:
    """Check that nobody wrote to data since a look: what was read meanwhile is not known, even if all is as it was.

    Raises:
        TaskError: naming a file that was written to, or is gone.
    """
    for one, stamps in before.items():
        for file in _touched(stamps, stamps_of(one)):
            raise TaskError(f"{one.label}: '{file}' was written to while the job ran: what it read is not known")


@cache
def _checksum(path: Path, stamp: Stamp) -> str:
    """Checksum a file once for each of its stamps."""
    return checksum(path)


@dataclass(frozen=True)
class Elsewhere:
    """Another folder of the same recipe, which ``--join`` names."""

    folder: Path
    table: ReproducedTable

    def results(self, job: str) -> dict[str, Path]:
        """Name the results that a job left there, by their places below ``rows``."""
        return {place: self.folder / ROWS / place for place in self.table.results.get(job, ())}


@dataclass(frozen=True)
class Workspace:
    """A plan in a folder: where its jobs leave their results, and which have finished."""

    root: Path
    plan: Plan
    digests: Mapping[Input, str]
    keys: Mapping[str, str]
    stamps: Mapping[Input, Stamps] = field(default_factory=dict)
    """Of the data's files, before they were digested."""
    elsewhere: Mapping[str, Elsewhere] = field(default_factory=dict)
    """Job to another folder that has its figures: it is run here only where another job needs it."""

    @classmethod
    def open(cls, root: Path, plan: Plan) -> Workspace:
        """Read the data of a plan, and compute its keys for a folder.

        Raises:
            ConfigError: for data that is not there.
        """
        stamps = {one: stamps_of(one) for one in plan.inputs()}
        digests = plan.digests()
        return cls(root, plan, digests, plan.keys(digests), stamps)

    def check_inputs(self, name: str) -> Mapping[Input, Stamps]:
        """Check that a job's data are those that its key is of, and give their stamps.

        Raises:
            TaskError: naming a file that changed.
            ConfigError: for data that is not there any more.
        """
        found = {one: stamps_of(one) for one in self.plan.jobs[name].inputs}
        for one, now in found.items():
            if now != self.stamps.get(one) and digest(one) != self.digests[one]:
                file = next(iter(_touched(self.stamps[one], now)), one.path)
                raise TaskError(f"{one.label}: '{file}' changed after the jobs were planned: this job needs a new plan")
        return found

    def folder(self, name: str) -> Path:
        """Name the folder of a job."""
        return self.root / JOBS / f"{name}-{self.keys[name]}"

    def path(self, output: Output, job: str = "") -> Path:
        """Name what a job leaves."""
        return self.folder(output.job or job) / OUT / output.path

    def arguments(self, name: str) -> list[str]:
        """Write a job's command, without ``trueneg``."""
        return self._words(name, lambda output: str(self.path(output, name)), lambda data: str(data.path))

    def _words(self, name: str, place: Callable[[Output], str], source: Callable[[Input], str]) -> list[str]:
        """Write a job's arguments, with the places of what jobs leave and of data as they are to be named."""

        def word(argument: Argument) -> str:
            if isinstance(argument, str):
                return argument
            named = place(argument) if isinstance(argument, Output) else source(argument)
            return f"{argument.prefix}{named}{argument.suffix}"

        return [word(argument) for argument in self.plan.jobs[name].command]

    def command(self, name: str) -> str:
        """Write a job's command as a shell takes it."""
        return shlex.join(["trueneg", *self.arguments(name)])

    def public_command(self, name: str) -> str:
        """Write a job's command for a table that others read: names of data and jobs, and no place of this machine."""
        words = self._words(name, lambda output: self.public_path(output, name), lambda data: f"DATA/{data.name}")
        return shlex.join(["trueneg", *words])

    def public_path(self, output: Output, job: str = "") -> str:
        """Name what a job leaves, from the folder of recipes on."""
        return f"OUT/{self.path(output, job).relative_to(self.root)}".removesuffix("/.")

    def finished(self, name: str) -> Finished:
        """Describe a job once it has finished."""
        data = {one.label: self.digests[one] for one in self.plan.jobs[name].inputs}
        return Finished(name, self.keys[name], ["trueneg", *self.arguments(name)], data)

    def seconds(self, name: str) -> float:
        """Tell how long a job took that has finished; 0 where nobody measured.

        Raises:
            ConfigError: for a ``job.json`` that is damaged.
        """
        return self._record(name).seconds or 0.0

    def versions(self, name: str) -> Mapping[str, str]:
        """Tell what a job was done by that has finished; nothing where that was not written.

        Raises:
            ConfigError: for a ``job.json`` that is damaged.
        """
        return self._record(name).versions

    def state(self, name: str) -> State:
        """Tell whether a job has finished.

        Raises:
            ConfigError: for a ``job.json`` that is damaged, or of a newer version.
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
        """Give the table of another folder that has the figures of some jobs; None where all have finished here."""
        is_here = all(self.state(name) == "done" for name in names)
        return self.elsewhere[names[0]].table if not is_here and names[0] in self.elsewhere else None

    def missing(self) -> list[str]:
        """List the jobs that are left to run, in order; not what only jobs with figures elsewhere would need."""
        found, spared, users = list[str](), set[str](), defaultdict[str, set[str]](set)
        for name, job in reversed(self.plan.jobs.items()):
            for need in job.needs:
                users[need].add(name)
            if self.state(name) == "done":
                continue
            if (name in self.elsewhere or users[name]) and users[name] <= spared:
                spared.add(name)
            else:
                found.append(name)
        return found[::-1]


def _again(folder: Path) -> str:
    return f"remove '{folder}' to have the job done again"


def safe_name(*parts: str) -> str:
    """Join words to the name of a job, which is part of a folder's.

    Example:
        >>> safe_name("finetune", "glue/cola", "s1")
        'finetune-glue-cola-s1'
    """
    return "-".join(part.replace("/", "-") for part in parts if part)


def with_settings(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Write ``--set key=value`` for each.

    Example:
        >>> with_settings({"train.steps": 5})
        ('--set', 'train.steps=5')
    """
    return tuple(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))


def changes(before: Mapping[str, Finished], workspace: Workspace) -> Sequence[str]:
    """Say which jobs of the last time have another key now, and why, where that is not for a job that they need."""
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
