"""Keyed random numbers against SplitMix64 in Python's big integers, and against chance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from trueneg.corruption import keyed

LOW_64 = 2**64 - 1
INT64 = st.integers(-(2**63), 2**63 - 1)


class SplitMix64:
    """Steele, Lea and Flood 2014, as in the public-domain splitmix64.c of Vigna."""

    def __init__(self, state: int) -> None:
        self.state = state & LOW_64

    def next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & LOW_64
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & LOW_64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & LOW_64
        return z ^ (z >> 31)


def output(state: int, number: int) -> int:
    """Output ``number`` (from 0) of the generator that starts one step before ``state``."""
    return SplitMix64(state + (number - 1) * 0x9E3779B97F4A7C15).next()


def test_reference_is_splitmix64() -> None:
    """First outputs for the seed 1234567, which Vigna's C program prints."""
    generator = SplitMix64(1234567)
    assert [generator.next() for _ in range(2)] == [6457827717110365317, 3203168211198807973]


@settings(deadline=None)
@given(INT64, st.integers(0, 4))
def test_bits(key: int, stream: int) -> None:
    drawn = keyed.bits(torch.tensor([key]), stream, 5)[0].tolist()
    assert drawn == [output(key, number + (stream << 32)) >> 2 for number in range(5)]


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1), st.integers(0, 2**40))
def test_example_keys(seed: int, position: int) -> None:
    mixed_seed = SplitMix64(seed).next()
    expected = SplitMix64(position * 0x9E3779B97F4A7C15 + mixed_seed - 0x9E3779B97F4A7C15).next()
    key = keyed.example_keys(seed, torch.tensor([position])).item()
    assert key % 2**64 == expected


def test_example_keys_are_distinct_within_and_across_seeds() -> None:
    keys = torch.cat([keyed.example_keys(seed, torch.arange(20_000)) for seed in range(5)])
    assert len(keys.unique()) == 100_000


def test_shapes_extend_the_keys() -> None:
    keys = keyed.example_keys(1, torch.arange(6)).view(2, 3)
    assert keyed.uniform(keys, keyed.CHOOSE, 4).shape == (2, 3, 4)
    assert keyed.uniform(keys, keyed.CHOOSE, 4)[1, 2].tolist() == keyed.uniform(keys[1, 2], 0, 4).tolist()


def test_more_draws_leave_the_first_alone() -> None:
    keys = keyed.example_keys(3, torch.arange(4))
    assert torch.equal(keyed.bits(keys, 2, 100)[:, :7], keyed.bits(keys, 2, 7))


def test_uniform_is_the_top_24_bits() -> None:
    keys = keyed.example_keys(7, torch.arange(50))
    uniforms = keyed.uniform(keys, keyed.SAMPLE, 100)
    assert uniforms.dtype == torch.float32
    assert uniforms.min() >= 0 and uniforms.max() < 1
    expected = (keyed.bits(keys, keyed.SAMPLE, 100) // 2**38).double() / 2**24
    assert torch.equal(uniforms.double(), expected)


@pytest.mark.parametrize("stream", range(5))
def test_uniformity(stream: int) -> None:
    """Both over many keys and within one."""
    many = keyed.uniform(keyed.example_keys(1, torch.arange(100_000)), stream, 1).flatten()
    one = keyed.uniform(keyed.example_keys(1, torch.arange(1)), stream, 100_000).flatten()
    for draws in (many, one):
        counts = np.bincount((draws.numpy() * 100).astype(int), minlength=100)
        assert stats.chisquare(counts).pvalue > 1e-3
        assert stats.kstest(draws.numpy(), "uniform").pvalue > 1e-3


def independent(left: torch.Tensor, right: torch.Tensor) -> bool:
    cells = np.histogram2d(left.flatten().numpy(), right.flatten().numpy(), bins=10, range=[[0, 1], [0, 1]])[0]
    return bool(stats.chi2_contingency(cells).pvalue > 1e-3)


def test_streams_are_independent() -> None:
    keys = keyed.example_keys(1, torch.arange(1000))
    draws = [keyed.uniform(keys, stream, 50) for stream in range(5)]
    assert all(independent(draws[i], draws[j]) for i in range(5) for j in range(i))


def test_neighbouring_keys_positions_and_seeds_are_independent() -> None:
    here, there = (keyed.uniform(keyed.example_keys(1, torch.arange(1000) + shift), 0, 51) for shift in (0, 1))
    other_seed = keyed.uniform(keyed.example_keys(2, torch.arange(1000)), 0, 51)
    assert independent(here, there)
    assert independent(here, other_seed)
    assert independent(here[:, :-1], here[:, 1:])


def test_mixed_seed() -> None:
    parts = [(step, rank, micro) for step in range(20) for rank in range(4) for micro in range(4)]
    seeds = {keyed.mixed_seed(1, *part) for part in parts}
    assert len(seeds) == len(parts)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert keyed.mixed_seed(1) != keyed.mixed_seed(1, 0)
    torch.manual_seed(max(seeds))  # takes any of them
