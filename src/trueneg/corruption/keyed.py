"""Random numbers that are functions of a key: without state, so the draws of any step can be repeated in any batching.

The generator is SplitMix64 (Steele et al. 2014) in wrapping int64 arithmetic, which torch computes identically on every
device. A draw is identified by (seed, position of the example in the training order) and a *stream*, one for each
purpose.
"""

from __future__ import annotations

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15
CHOOSE, SPAN_LENGTH, REPLACE, RANDOM_TOKEN, SAMPLE = range(5)
"""Streams: which positions, how long a span, what replaces it, which random token, which prediction."""
SYNONYM_WORDS, SYNONYM_KINDS, SYNONYM_CHOICES, ANTONYM_WORDS, ANTONYM_CHOICES, ANTONYM_KINDS = range(5, 11)
"""Streams of views: which words, what kind of word in their place, and which one; the kind of a whole antonym view."""


def example_keys(seed: int, positions: Tensor) -> Tensor:
    """Key of each example.

    Args:
        seed: The run's seed.
        positions: Positions of the examples in the endless training order, int64 of any shape.

    Returns:
        int64 keys of the same shape, well mixed.
    """
    return _mix(positions * _signed(GOLDEN) + _signed(_mix_int(seed)))


def bits(keys: Tensor, stream: int, num: int) -> Tensor:
    """``num`` random non-negative 62-bit integers for each key: int64 ``[*keys, num]``."""
    # Or, not plus: Inductor treats sums and multiples of a counter as an index, which does not wrap around.
    counter = torch.arange(num, device=keys.device, dtype=torch.int64) | (stream << 32)
    return _logical_shift(_mix(keys.unsqueeze(-1) + counter * _signed(GOLDEN)), 2)


def uniform(keys: Tensor, stream: int, num: int) -> Tensor:
    """``num`` uniform numbers in [0, 1) for each key: float32 ``[*keys, num]``, multiples of 2^-24.

    Example:
        >>> keys = example_keys(seed=1, positions=torch.arange(2))
        >>> uniform(keys, CHOOSE, 3).shape
        torch.Size([2, 3])
    """
    return (bits(keys, stream, num) >> 38).to(torch.float32) * 2.0**-24


def _mix(value: Tensor) -> Tensor:
    value = (value ^ _logical_shift(value, 30)) * _signed(0xBF58476D1CE4E5B9)
    value = (value ^ _logical_shift(value, 27)) * _signed(0x94D049BB133111EB)
    return value ^ _logical_shift(value, 31)


def _mix_int(value: int) -> int:
    mask = (1 << 64) - 1
    value = (value + GOLDEN) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


def _logical_shift(value: Tensor, by: int) -> Tensor:
    return (value >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    """Return the int64 that has the same 64 bits."""
    return value - (1 << 64) if value >= 1 << 63 else value


def mixed_seed(*parts: int) -> int:
    """Combine numbers into one 63-bit seed, for stateful generators (dropout, initial weights).

    Example:
        >>> mixed_seed(1, 2) == mixed_seed(2, 1)
        False
    """
    seed = 0
    for part in parts:
        seed = _mix_int(seed ^ _mix_int(part & ((1 << 64) - 1)))
    return seed >> 1
