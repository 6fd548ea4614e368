"""How fast a run is: useful tokens, positions, and model FLOPs utilisation (MFU)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from trueneg.arithmetic import matrix_rate
from trueneg.config.devices import Gpu, find_gpu
from trueneg.hardware import name_of

T = TypeVar("T")


@dataclass(frozen=True)
class Peak:
    """Peak compute of one device."""

    flops: float
    """Floating-point operations per second; 0 if not known."""
    source: str
    """Where the figure is from, or why there is none."""

    def __str__(self) -> str:
        """Describe it in a line."""
        return f"{self.flops / 1e12:,.3g} TFLOP/s, {self.source}" if self.flops else self.source


def peak_of(device: torch.device, precision: str) -> Peak:
    """Find a device's peak: a GPU's from its data sheet, a CPU's as measured in this precision."""
    if device.type == "cpu":
        rate = matrix_rate(device, precision)
        source = f"measured on this CPU, matrix products in {precision}, {torch.get_num_threads()} threads"
        return Peak(rate, source)
    name = name_of(device)
    gpu = find_gpu(name)
    if gpu is None:
        return Peak(0.0, f"a peak that is not known: '{name}' is in no table of bf16 rates; mfu is left out")
    return sheet_peak(gpu, precision)


def sheet_peak(gpu: Gpu, precision: str) -> Peak:
    """Find a GPU's peak in its data sheet: in bf16, or in fp16 if the GPU has no bf16 and the run uses fp16.

    Example:
        >>> from trueneg.config.devices import GPUS
        >>> print(sheet_peak(GPUS["T4"], "fp16"))
        65 TFLOP/s, the data sheet's dense fp16 of T4
    """
    if gpu.bf16:
        return Peak(gpu.bf16, f"the data sheet's dense bf16 of {gpu.name}")
    if precision == "fp16":
        return Peak(gpu.fp16, f"the data sheet's dense fp16 of {gpu.name}")
    return Peak(0.0, f"a peak that is not known: '{gpu.name}' has no bfloat16; mfu is left out")


@dataclass(frozen=True)
class Workload:
    """Cost of a position, and the device's peak."""

    flops_per_position: float
    """Forward and backward: see ``models.flops``."""
    peak: Peak

    def mfu(self, positions_per_second: float, world_size: int = 1) -> dict[str, float]:
        """Return the share of the devices' peak that the model uses, as a metric; empty if the peak is not known.

        Example:
            >>> Workload(6e9, Peak(100e12, "")).mfu(5_000)
            {'mfu': 0.3}
        """
        if not self.peak.flops:
            return {}
        return {"mfu": positions_per_second * self.flops_per_position / (self.peak.flops * world_size)}


@dataclass
class Waiting:
    """Time spent waiting for an iterable's items."""

    seconds: float = field(default=0.0)

    def timed(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items, and add up how long each took to arrive."""
        started = time.monotonic()
        for item in items:
            self.seconds += time.monotonic() - started
            yield item
            started = time.monotonic()

    def take(self) -> float:
        """Return the seconds so far, and reset them."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds
