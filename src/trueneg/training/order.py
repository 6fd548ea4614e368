"""What a loop trains on: the micro-batches of any step, read while the step before is trained on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from trueneg.config.options import TrainConfig
from trueneg.errors import ConfigError
from trueneg.training.distributed import Processes


class Pinnable(Protocol):
    """A batch on the CPU."""

    def pin_memory(self) -> Self:
        """Copy to memory that a GPU reads without waiting."""


Given = TypeVar("Given", bound=Pinnable)


class BatchLoader(ABC, Generic[Given]):
    """The micro-batches of any step, for one process: a function of the step, whatever was read before.

    Raises:
        ConfigError: if the batch size does not divide among processes and micro-batches.
    """

    def __init__(self, config: TrainConfig, processes: Processes) -> None:
        parts = processes.world_size * config.accumulation
        if config.batch_size < 1 or config.accumulation < 1 or config.batch_size % parts:
            raise ConfigError(
                f"train.batch_size={config.batch_size} does not divide among {processes.world_size} processes "
                f"times {config.accumulation} micro-batches (train.accumulation): use a multiple of {parts}"
            )
        self.config = config
        self.processes = processes

    @property
    def micro_batch(self) -> int:
        """Examples of a micro-batch of one process."""
        return self.config.batch_size // (self.processes.world_size * self.config.accumulation)

    @property
    @abstractmethod
    def tokens_per_step(self) -> float:
        """Tokens, on average, that a step of all processes sees and that are not padding."""

    @abstractmethod
    def micro_batches(self, step: int) -> list[Given]:
        """What one optimizer step sees, as many as ``accumulation``."""

    def from_step(self, start: int, stop: int, pin_memory: bool = False) -> Iterator[Sequence[Given]]:
        """Micro-batches of steps ``start`` to ``stop``, each read while the one before is trained on."""

        def read(step: int) -> list[Given]:
            batches = self.micro_batches(step)
            return [batch.pin_memory() for batch in batches] if pin_memory else batches

        with ThreadPoolExecutor(max_workers=1) as reader:
            coming = reader.submit(read, start) if start < stop else None
            for step in range(start, stop):
                assert coming is not None
                current = coming.result()
                coming = reader.submit(read, step + 1) if step + 1 < stop else None
                yield current

    def own_parts(self, numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """This process's share of a step's examples, by micro-batch: contiguous, as even as can be."""
        parts = np.array_split(numbers, self.processes.world_size * self.config.accumulation)
        first = self.processes.rank * self.config.accumulation
        return parts[first : first + self.config.accumulation]
