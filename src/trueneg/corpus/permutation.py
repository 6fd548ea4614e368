"""The order of rows: a seeded shuffle of every epoch that is computed, never stored.

A Feistel network over the smallest power of two that holds the epoch, with cycle walking (Black and Rogaway,
"Ciphers with Arbitrary Finite Domains", 2002): a bijection for any size, in constant memory, with random access.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_Words = npt.NDArray[np.uint64]

_NUM_ROUNDS = 8  # even, so that halves of unequal width are back in place after the last one
_LEAST_BITS = 2  # one for each half
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK64 = 0xFFFFFFFFFFFFFFFF


def _mix(words: _Words) -> _Words:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every input bit reaches every output bit."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _derive(key: _Words, number: _Words) -> _Words:
    """A new key from a key and a number, such that neighbouring numbers give unrelated keys."""
    return _mix(_mix(key ^ _GOLDEN) + number * _GOLDEN + _GOLDEN)


def _feistel(index: _Words, bits: int, round_keys: _Words) -> _Words:
    left_bits, right_bits = bits // 2, bits - bits // 2
    left, right = index >> np.uint64(right_bits), index & np.uint64((1 << right_bits) - 1)
    for key in round_keys:
        mask = np.uint64((1 << left_bits) - 1)
        left, right = right, left ^ (_mix(right + key) & mask)
        left_bits, right_bits = right_bits, left_bits
    return (left << np.uint64(right_bits)) | right


def permute(
    index: npt.NDArray[np.integer[Any]], size: int, key: int | npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.int64]:
    """Map every index to its place in a pseudo-random permutation of ``range(size)``.

    Args:
        index: numbers in [0, size), any shape.
        size: size of the permutation, at least 1.
        key: chooses the permutation; one key for all or, as an array, one for each index.

    Returns:
        int64 of the index's shape. For one key, a bijection on [0, size).

    Example:
        >>> permute(np.arange(8), size=8, key=1).tolist()
        [6, 0, 5, 2, 3, 4, 7, 1]
    """
    index = np.asarray(index)
    if size < 1:
        raise ValueError(f"a permutation needs a size of at least 1, not {size}")
    if index.size and not 0 <= int(index.min()) <= int(index.max()) < size:
        raise ValueError(f"an index to permute must be in [0, {size})")
    words = np.asarray(key & _MASK64 if isinstance(key, int) else key).astype(np.uint64)
    keys = np.broadcast_to(words, index.shape).ravel()
    round_keys = _derive(keys, np.arange(_NUM_ROUNDS, dtype=np.uint64)[:, None])
    bits = max(_LEAST_BITS, (size - 1).bit_length())
    place = _feistel(index.ravel().astype(np.uint64), bits, round_keys)
    while (outside := np.flatnonzero(place >= size)).size:  # at each pass fewer than half remain outside
        place[outside] = _feistel(place[outside], bits, round_keys[:, outside])
    return place.astype(np.int64).reshape(index.shape)


def rows_at(seed: int, positions: npt.NDArray[np.integer[Any]], num_rows: int) -> npt.NDArray[np.int64]:
    """Rows at positions of the endless stream of shuffled epochs.

    Position p is in epoch p // num_rows; each epoch holds every row once, in an order that depends
    on the seed and the epoch only.

    Args:
        seed: any integer.
        positions: non-negative integers, any shape.
        num_rows: rows in an epoch, at least 1.

    Returns:
        int64 row numbers of the positions' shape.

    Example:
        >>> rows_at(0, np.arange(4), num_rows=4).tolist() == rows_at(0, np.arange(4, 8), num_rows=4).tolist()
        False
    """
    positions = np.asarray(positions, dtype=np.int64)
    epoch, place = np.divmod(positions.ravel(), num_rows)
    keys = _derive(np.full(epoch.shape, seed & _MASK64, dtype=np.uint64), epoch.astype(np.uint64))
    return permute(place, num_rows, keys).reshape(positions.shape)


def seed_of(seed: int, number: int) -> int:
    """A seed for each of several streams of one run, such that their orders are unrelated."""
    return int(_derive(np.array([seed & _MASK64], dtype=np.uint64), np.array([number], dtype=np.uint64))[0])
