"""What torch calls differently on each kind of device: NVIDIA's and AMD's GPUs, Intel's, Apple's, and the CPU."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

ACCELERATORS = {"cuda": "an NVIDIA or AMD GPU", "xpu": "an Intel GPU", "mps": "an Apple GPU"}
"""Types of devices beside the CPU that models run on, and what they are."""

WITH_STREAMS = ("cuda", "xpu")
"""Types that are numbered, have streams and read pinned memory."""

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Values of ``train.precision`` to what autocast computes in; without a word, float32."""

_BACKENDS = {"cuda": "nccl", "xpu": "xccl"}


def is_there(kind: str) -> bool:
    """Whether torch sees a device of a type of ``ACCELERATORS`` here."""
    if kind == "mps":
        return torch.backends.mps.is_available()
    return bool(_module(kind).is_available()) if hasattr(torch, kind) else False


def backend_for(kind: str) -> str:
    """Name what carries messages between processes on devices of a type: ``nccl``, ``xccl``, else ``gloo``."""
    return _BACKENDS.get(kind, "gloo")


def has_float64(device: torch.device) -> bool:
    """Whether a device computes in double precision: Apple's do not."""
    return device.type != "mps"


def widened(values: Tensor) -> Tensor:
    """Give float64 of some values, on the CPU where their device has none.

    Example:
        >>> widened(torch.tensor([1, 2])).dtype
        torch.float64
    """
    return (values if has_float64(values.device) else values.cpu()).to(torch.float64)


def pins_memory(device: torch.device) -> bool:
    """Whether a copy from pinned memory to a device goes on beside the host's work."""
    return device.type in WITH_STREAMS


def name_of(device: torch.device) -> str:
    """Name a device as its driver does; ``cpu`` for the CPU.

    Example:
        >>> name_of(torch.device("cpu"))
        'cpu'
    """
    if device.type in WITH_STREAMS:
        return str(_module(device.type).get_device_name(device))
    return "Apple GPU" if device.type == "mps" else device.type


def wait_for(device: torch.device) -> None:
    """Wait until a device has done what it was given."""
    if device.type in WITH_STREAMS:
        _module(device.type).synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def peak_memory(device: torch.device) -> tuple[float, float]:
    """Give the bytes that were used at most and those there are.

    Of a CPU they are the whole process's; an Apple GPU only tells what its driver holds now.
    """
    if device.type in WITH_STREAMS:
        module = _module(device.type)
        return module.max_memory_allocated(device), module.get_device_properties(device).total_memory
    if device.type == "mps":
        return torch.mps.driver_allocated_memory(), torch.mps.recommended_max_memory()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return used, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Compute in a half precision, where autocast allows it, or as it is for ``fp32``.

    Example:
        >>> with autocast(torch.device("cpu"), "bf16"):
        ...     (torch.eye(2) @ torch.eye(2)).dtype
        torch.bfloat16
    """
    return torch.autocast(device.type, HALF.get(precision, torch.bfloat16), enabled=precision in HALF)


def seed_draws(seed: int, device: torch.device) -> None:
    """Seed the generators of the CPU and of a device, as ``torch.manual_seed`` does those of all devices.

    That one, for devices that nothing has used yet, writes down the Python stack each time it is called.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "mps":
        torch.mps.manual_seed(seed)
    elif device.type in WITH_STREAMS and (module := _module(device.type)).is_initialized():
        index = module.current_device() if device.index is None else device.index
        module.default_generators[index].manual_seed(seed)


class RandomState:
    """A moment of a device's random state, to go back to: dropout then draws the same masks."""

    def __init__(self, device: torch.device) -> None:
        self._module: Any = torch if device.type == "cpu" else _module(device.type)
        self._at = (device,) if device.type in WITH_STREAMS else ()
        self._state = self._module.get_rng_state(*self._at)

    def restore(self) -> None:
        """Go back."""
        self._module.set_rng_state(self._state, *self._at)


def _module(kind: str) -> Any:
    """The module of torch for a type: ``torch.cuda``, ``torch.xpu``, ``torch.mps``."""
    return getattr(torch, kind)
