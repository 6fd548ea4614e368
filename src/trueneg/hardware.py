"""Differences in torch's API between kinds of devices: GPUs of NVIDIA and AMD, of Intel, of Apple, and the CPU."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

ACCELERATORS = {"cuda": "an NVIDIA or AMD GPU", "xpu": "an Intel GPU", "mps": "an Apple GPU"}
"""Device types besides the CPU that models run on, and what they are."""

WITH_STREAMS = ("cuda", "xpu")
"""Device types that have indices, streams and pinned memory."""

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Values of ``train.precision``, mapped to autocast's dtype; any other value means float32."""

_BACKENDS = {"cuda": "nccl", "xpu": "xccl"}


def is_available(kind: str) -> bool:
    """Whether a device of a type in ``ACCELERATORS`` is available to torch."""
    if kind == "mps":
        return torch.backends.mps.is_available()
    return bool(_module(kind).is_available()) if hasattr(torch, kind) else False


def backend_for(kind: str) -> str:
    """Name the distributed backend for a device type: ``nccl``, ``xccl``, else ``gloo``."""
    return _BACKENDS.get(kind, "gloo")


def has_float64(device: torch.device) -> bool:
    """Whether a device supports float64: Apple's GPUs do not."""
    return device.type != "mps"


def to_float64(values: Tensor) -> Tensor:
    """Convert values to float64, on the CPU if their device does not support it.

    Example:
        >>> to_float64(torch.tensor([1, 2])).dtype
        torch.float64
    """
    return (values if has_float64(values.device) else values.cpu()).to(torch.float64)


def pins_memory(device: torch.device) -> bool:
    """Whether copies from pinned memory to a device are asynchronous."""
    return device.type in WITH_STREAMS


def name_of(device: torch.device) -> str:
    """Name of a device, as its driver reports it; ``cpu`` for the CPU.

    Example:
        >>> name_of(torch.device("cpu"))
        'cpu'
    """
    if device.type in WITH_STREAMS:
        return str(_module(device.type).get_device_name(device))
    return "Apple GPU" if device.type == "mps" else device.type


def synchronize(device: torch.device) -> None:
    """Wait until a device has finished its work."""
    if device.type in WITH_STREAMS:
        _module(device.type).synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def peak_memory(device: torch.device) -> tuple[float, float]:
    """Peak memory used, and memory available in total, in bytes.

    On a CPU the peak is that of the whole process; on an Apple GPU it is what the driver holds now.
    """
    if device.type in WITH_STREAMS:
        module = _module(device.type)
        return module.max_memory_allocated(device), module.get_device_properties(device).total_memory
    if device.type == "mps":
        return torch.mps.driver_allocated_memory(), torch.mps.recommended_max_memory()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return used, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Autocast to a half precision, or a context without effect for ``fp32``.

    Example:
        >>> with autocast(torch.device("cpu"), "bf16"):
        ...     (torch.eye(2) @ torch.eye(2)).dtype
        torch.bfloat16
    """
    return torch.autocast(device.type, HALF.get(precision, torch.bfloat16), enabled=precision in HALF)


def seed_draws(seed: int, device: torch.device) -> None:
    """Seed the generators of the CPU and of one device; ``torch.manual_seed`` does so for all devices.

    But for devices that are not in use yet, ``torch.manual_seed`` records the Python stack on every call.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "mps":
        torch.mps.manual_seed(seed)
    elif device.type in WITH_STREAMS and (module := _module(device.type)).is_initialized():
        index = module.current_device() if device.index is None else device.index
        module.default_generators[index].manual_seed(seed)


class RandomState:
    """A snapshot of a device's random state; after ``restore``, dropout draws the same masks."""

    def __init__(self, device: torch.device) -> None:
        self._module: Any = torch if device.type == "cpu" else _module(device.type)
        self._at = (device,) if device.type in WITH_STREAMS else ()
        self._state = self._module.get_rng_state(*self._at)

    def restore(self) -> None:
        """Restore the random state."""
        self._module.set_rng_state(self._state, *self._at)


def _module(kind: str) -> Any:
    """The module of torch for a type: ``torch.cuda``, ``torch.xpu``, ``torch.mps``."""
    return getattr(torch, kind)
