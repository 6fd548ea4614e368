"""Distributed processes, configured by the environment variables that ``torchrun`` and similar launchers set."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.distributed import distributed_c10d

from trueneg.errors import BusyError, ConfigError, LostProcessError, TruenegWarning
from trueneg.files.lock import locked
from trueneg.hardware import ACCELERATORS, WITH_STREAMS, backend_for, is_available

PATIENCE = 1800.0
"""Timeout in seconds where one process may have more to do than others: while a run begins, saves and ends."""

ROLL_CALL = 3.0
"""Seconds that a process, after a timeout, gives the others to report one too."""


@dataclass(frozen=True)
class Processes:
    """This process among those that train together."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files."""
        return self.rank == 0

    def all_sum(self, *parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Sum tensors of equal names over these parts and over all processes, in one all-reduce."""
        values = {name: torch.stack([part[name] for part in parts]).sum(0) for name in parts[0]}
        if self.world_size == 1 or not values:
            return values
        names = sorted(values)
        stacked = torch.stack([values[name] for name in names])
        torch.distributed.all_reduce(stacked)
        return dict(zip(names, stacked.unbind(), strict=True))

    def sum_of(self, values: Tensor) -> Tensor:
        """Sum a tensor, of the same shape on all processes, over them; the input is not modified."""
        if self.world_size == 1:
            return values
        total = values.clone()
        torch.distributed.all_reduce(total)
        return total

    def max_of(self, values: Tensor) -> Tensor:
        """Maximum of a tensor, of the same shape on all processes, over them; the input is not modified."""
        if self.world_size == 1:
            return values
        largest = values.clone()
        torch.distributed.all_reduce(largest, torch.distributed.ReduceOp.MAX)
        return largest

    def any_of(self, flags: Sequence[bool], device: torch.device) -> list[bool]:
        """Whether each flag is set on any process, in one all-reduce."""
        if self.world_size == 1:
            return list(flags)
        votes = torch.tensor([float(flag) for flag in flags], device=device)
        torch.distributed.all_reduce(votes)
        return [vote > 0 for vote in votes.tolist()]

    @contextmanager
    def holding(self, folder: Path, doing: str, device: torch.device) -> Iterator[None]:
        """Lock a folder for all processes: the main process takes the lock, the others learn whether it succeeded.

        Args:
            folder: The folder that the main process writes into.
            doing: What other runs are told that this one does: "pretrain".
            device: Device of the tensors that the processes exchange.

        Raises:
            BusyError: on every process, if another run holds the lock.
        """
        refused: BusyError | OSError | None = None
        with ExitStack() as stack:
            if self.is_main:
                try:
                    stack.enter_context(locked(folder, doing))
                except (BusyError, OSError) as error:
                    refused = error
            if any(self.any_of([refused is not None], device)):
                raise refused or BusyError(f"'{folder}': the main process cannot write there: see what it says")
            yield

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world_size > 1:
            torch.distributed.barrier()

    def wait_at_most(self, seconds: float) -> None:
        """Set the timeout of all later collectives."""
        if self.world_size > 1 and torch.distributed.get_backend() in ("gloo", "nccl"):
            distributed_c10d._set_pg_timeout(timedelta(seconds=seconds))

    @contextmanager
    def waiting_for_main(self, then: float) -> Iterator[None]:
        """Wait at the end until the main process is done as well; later collectives time out after ``then`` seconds."""
        self.wait_at_most(PATIENCE)
        yield
        self.barrier()
        self.wait_at_most(then)


class Votes:
    """Whether flags are set on any process: cast at one step, answered at the next vote.

    In between, the all-reduce runs in the background, so neither a process nor its device waits for the others. All
    processes vote at the same steps and get the same answers. A single process gets its answer at once.
    """

    def __init__(self, processes: Processes, device: torch.device) -> None:
        self._processes, self._device = processes, device
        self._coming: tuple[torch.distributed.Work, Tensor] | None = None
        self._forgotten: set[int] = set()
        # On a stream of their own, votes do not queue behind the steps.
        is_sent_beside = processes.world_size > 1 and device.type in WITH_STREAMS
        self._module = torch.get_device_module(device) if is_sent_beside else None
        self._stream = None if self._module is None else self._module.Stream(device)

    def cast(self, flags: Sequence[bool]) -> list[bool]:
        """Vote, and return the result of the previous vote: all False the first time."""
        if self._processes.world_size == 1:
            return list(flags)
        with nullcontext() if self._module is None else self._module.stream(self._stream):
            answer = [False] * len(flags)
            if self._coming is not None:
                work, votes = self._coming
                work.wait()
                answer = [vote > 0 and number not in self._forgotten for number, vote in enumerate(votes.tolist())]
            flagged = torch.tensor([float(flag) for flag in flags], pin_memory=self._stream is not None)
            votes = flagged.to(self._device, non_blocking=True)
            self._coming = torch.distributed.all_reduce(votes, async_op=True), votes
        self._forgotten.clear()
        return answer

    def forget(self, number: int) -> None:
        """Make a flag of the pending answer False: what it asks for has been done in the meantime."""
        self._forgotten.add(number)


@contextmanager
def join_processes(device_type: str) -> Iterator[Processes]:
    """Join the process group that the environment describes (RANK, WORLD_SIZE, LOCAL_RANK), and leave it at the end.

    ``torchrun``, ``accelerate launch``, Slurm with torchrun's variables and Ray Train all set these. A process group
    that exists already, as under Ray Train, is neither created again nor destroyed.

    Raises:
        ConfigError: if there are several processes and the environment does not say which one this is.
        LostProcessError: if another process dies meanwhile.
    """
    world_size = _number("WORLD_SIZE", "1")
    if world_size == 1:
        yield Processes()
        return
    if lacking := [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]:
        raise ConfigError(
            f"WORLD_SIZE={world_size}, but {lacking[0]} is not set: start with torchrun, which sets it, or set RANK, "
            f"LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each process (Slurm: RANK=$SLURM_PROCID "
            f"LOCAL_RANK=$SLURM_LOCALID); for one process alone unset WORLD_SIZE"
        )
    processes = Processes(_number("RANK"), world_size, _number("LOCAL_RANK", "0"))
    if device_type in WITH_STREAMS:
        torch.get_device_module(device_type).set_device(processes.local_rank)
    is_joined = torch.distributed.is_initialized()
    if is_joined:
        processes.wait_at_most(PATIENCE)
    else:
        _join(processes, backend_for(device_type))
    try:
        yield processes
    except RuntimeError as error:
        if not isinstance(error, torch.distributed.DistError) and "gloo" not in str(error):
            raise
        raise LostProcessError(_lost(processes, str(error))) from error
    finally:
        if not is_joined:
            torch.distributed.destroy_process_group()


def _join(processes: Processes, backend: str) -> None:
    """Create the process group; after a restart by torchrun, under store keys that earlier attempts did not use.

    Torchrun's agent keeps one store for all attempts, which still holds the addresses of processes that are gone
    (pytorch#135712): the new ones would wait for those. Agents on several machines count their attempts separately.
    """
    patience, tries = timedelta(seconds=PATIENCE), _number("TORCHELASTIC_RESTART_COUNT", "0")
    is_shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    num_machines = _number("GROUP_WORLD_SIZE", "1")
    if is_shared and num_machines > 1 and processes.is_main and _number("TORCHELASTIC_MAX_RESTARTS", "0"):
        warnings.warn(
            "torchrun's agents share a store over their restarts, where processes that start again may wait for ones "
            "that are gone (pytorch#135712): set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 where torchrun starts",
            TruenegWarning,
            stacklevel=4,
        )
    if not (is_shared and tries and num_machines == 1):
        torch.distributed.init_process_group(backend, timeout=patience)
        return
    made: Any = torch.distributed
    store = made.TCPStore(os.environ["MASTER_ADDR"], _number("MASTER_PORT"), processes.world_size, False, patience)
    torch.distributed.init_process_group(
        backend,
        timeout=patience,
        store=made.PrefixStore(f"try-{tries}", store),
        rank=processes.rank,
        world_size=processes.world_size,
    )


def _lost(processes: Processes, error: str) -> str:
    """Error message: what a process knows of the others, and what to do."""
    who, again = f"process {processes.rank} of {processes.world_size}", "start all of them again with --resume"
    if "timed out" not in error.lower():
        return f"{who} lost the others: one of them died, or the network did. See what that one said, then {again}"
    silent = _silent(processes)
    which = f"process {', '.join(map(str, silent))} says nothing" if silent else "all of them are there"
    return (
        f"{who} had no answer from another one for train.timeout_seconds: {which}. See what that one said last, and "
        f"whether its machine is there; then {again}, with a longer train.timeout_seconds if it was only slow"
    )


def _silent(processes: Processes) -> list[int]:
    """Ranks of the processes that do not report within ``ROLL_CALL`` that they timed out as well."""
    silent = [0]  # the host of the store, unless the store answers

    def call() -> None:
        names, limit = [f"waited/{rank}" for rank in range(processes.world_size)], timedelta(seconds=ROLL_CALL)
        made: Any = torch.distributed
        with suppress(RuntimeError):
            store = made.TCPStore(os.environ["MASTER_ADDR"], _number("MASTER_PORT"), None, False, limit, False)
            store.set(names[processes.rank], "yes")
            with suppress(RuntimeError):
                store.wait(names, limit)
            silent[:] = [rank for rank, name in enumerate(names) if not store.check([name])]

    # A store whose process is frozen accepts requests, and never answers.
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(2 * ROLL_CALL)
    return silent


def choose_device(wanted: str) -> torch.device:
    """This process's device: the configured one, else its GPU if there is one, else the CPU.

    An Apple GPU must be requested: no run on one has been compared with a run on a CPU yet.

    Raises:
        ConfigError: if the configured device is not available, or is a single GPU for several processes.
    """
    name = wanted or next(filter(is_available, WITH_STREAMS), "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"train.device must be cpu, cuda, cuda:N, xpu, xpu:N or mps, got {wanted}") from error
    if device.type == "cpu":
        return device
    if device.type not in ACCELERATORS:
        raise ConfigError(f"train.device={wanted}: training runs on cpu, cuda, xpu or mps, not on {device.type}")
    world_size = _number("WORLD_SIZE", "1")
    if device.type == "mps" and world_size > 1:
        raise ConfigError(
            f"train.device={wanted}: an Apple GPU is one, and takes no messages of {world_size} processes: start one"
        )
    if device.index is not None and world_size > 1:
        raise ConfigError(
            f"train.device={wanted}: all {world_size} processes would share that GPU: leave it out, and each takes "
            f"the one of its LOCAL_RANK"
        )
    if not is_available(device.type):
        raise ConfigError(
            f"train.device={wanted}: torch sees no GPU here ({ACCELERATORS[device.type]}); leave it out to use the CPU"
        )
    if device.type == "mps":
        return torch.device("mps")
    return torch.device(device.type, _number("LOCAL_RANK", "0") if device.index is None else device.index)


def _number(variable: str, default: str = "") -> int:
    """Read a whole number from an environment variable."""
    text = os.environ.get(variable) or default
    if not text.isdigit():
        raise ConfigError(f"{variable} must be a whole number, as torchrun sets it, got {text}; else unset it")
    return int(text)
