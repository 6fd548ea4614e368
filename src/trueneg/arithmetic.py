"""How fast a device computes: in which precision, whether bfloat16 is worth its rounding, how many tokens at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import torch

from trueneg.hardware import HALF, WITH_STREAMS, autocast, synchronize

_WIDTH, _LEAST_SECONDS, _MOST_TURNS = 1024, 0.1, 10
_CPU_FLAGS = ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16")

_TOKENS_A_THREAD = 1024

_WORTHWHILE = 1.25
"""Rate of bfloat16 relative to float32's from which a CPU computes in bfloat16."""


def has_bfloat16(device: torch.device) -> bool | None:
    """Whether a device has instructions for bfloat16; None if torch cannot tell, as for an Apple GPU."""
    if device.type in WITH_STREAMS:
        return bool(getattr(torch, device.type).is_bf16_supported(including_emulation=False))
    if device.type == "mps":
        return None
    # The oldest supported torch has no torch.cpu.get_capabilities.
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(flag) for flag in _CPU_FLAGS) if capabilities else None


def is_bfloat16_faster(device: torch.device) -> bool | None:
    """Whether a device computes faster in bfloat16 than in float32; None if torch cannot tell, as for an Apple GPU.

    A GPU that has bfloat16 does. Of CPUs with AVX-512 BF16 but without AMX, an AMD EPYC computes twice as fast in it as
    in float32, and an Intel Xeon half as fast. So on a CPU the first call in a process measures it, in 0.2 seconds.
    """
    is_native = has_bfloat16(device)
    if not is_native or device.type != "cpu":
        return is_native
    return matrix_rate(device, "bf16") >= _WORTHWHILE * matrix_rate(device, "fp32")


def reading_dtype(device: torch.device) -> torch.dtype:
    """The dtype in which encoders are read whose states are only compared: bfloat16 if it is faster, else float32."""
    return torch.bfloat16 if is_bfloat16_faster(device) else torch.float32


def reading_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Autocast to ``reading_dtype``."""
    return autocast(device, "bf16" if is_bfloat16_faster(device) else "fp32")


def reading_tokens(device: torch.device, most: int) -> int:
    """Number of tokens to read at once: ``most``, or on a CPU so few that the states of a layer stay in its caches.

    Example:
        >>> reading_tokens(torch.device("cuda"), 16_384), reading_tokens(torch.device("cpu"), 100)
        (16384, 100)
    """
    return min(most, _TOKENS_A_THREAD * torch.get_num_threads()) if device.type == "cpu" else most


@lru_cache
def matrix_rate(device: torch.device, precision: str) -> float:
    """Measure the operations per second of a large matrix product: the best of several runs in a tenth of a second.

    Args:
        device: Device to measure on.
        precision: ``fp32``, ``bf16`` or ``fp16``.
    """
    kind = HALF.get(precision, torch.float32)
    matrix = torch.full((_WIDTH, _WIDTH), 1 / _WIDTH, dtype=kind, device=device)
    clock, best, spent = clock_of(device), float("inf"), 0.0
    for turn in range(_MOST_TURNS + 1):
        synchronize(device)
        started = clock()
        matrix @ matrix
        synchronize(device)
        seconds = clock() - started
        if turn:  # the first one is a warm-up
            best, spent = min(best, seconds), spent + seconds
            if spent > _LEAST_SECONDS:
                break
    return 2 * _WIDTH**3 / best


def clock_of(device: torch.device) -> Callable[[], float]:
    """Choose a clock: processor time for one CPU thread, which other programs do not disturb, else wall-clock time.

    With several threads, their waiting for each other would count as processor time.
    """
    is_alone = device.type == "cpu" and torch.get_num_threads() == 1
    return time.process_time if is_alone else time.perf_counter
