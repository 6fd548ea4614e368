"""Perturbations: their first draw, their steps, and the keys that draws follow from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

import tiny
from trueneg.config.finetune_options import FreeLBConfig
from trueneg.training.adversarial import ascend, first_perturbation, normal, row_keys
from trueneg.training.features import Features

SEED = 11
RANDOM = np.random.default_rng(0)
FEATURES = Features.of(
    [RANDOM.integers(5, 60, length).tolist() for length in (7, 3, 5, 4, 6, 8)], row_targets={"label": np.zeros(6, int)}
)


@settings(max_examples=50, deadline=None)
@example(0, 1.0, 1e-22, "l2", [2], False)
@given(
    st.integers(0, 2**31),
    st.floats(0, 3),
    st.floats(0, 2),
    st.sampled_from(["l2", "linf"]),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.booleans(),
)
def test_steps_have_their_length_and_stay_within_the_bound(
    seed: int, step_size: float, bound: float, norm: Any, lengths: list[int], is_flat: bool
) -> None:
    random = np.random.default_rng(seed)
    mask = torch.from_numpy((np.arange(5) < np.array(lengths)[:, None]).astype(np.int64))
    config = FreeLBConfig(step_size=step_size, bound=bound, norm=norm, magnitude=1.0)
    delta = first_perturbation(config, torch.from_numpy(random.integers(0, 2**62, len(lengths))), mask, 3)
    gradient = torch.from_numpy(random.normal(size=delta.shape).astype(np.float32)) * 10.0 ** random.integers(-12, 3)
    gradient = gradient * (0 if is_flat else 1)
    moved = ascend(config, delta, gradient, mask)
    order = 2 if norm == "l2" else np.inf
    # float64, because squares of small float32 numbers underflow: a norm of 1e-22 comes out an eighth too large.
    found = [np.linalg.norm(row.ravel(), order) for row in (moved if bound else moved - delta).double().numpy()]
    if bound:
        assert max(found) <= bound * (1 + 1e-5) + np.finfo(np.float32).tiny
    else:
        assert found == pytest.approx([0.0 if is_flat else step_size] * len(found), abs=1e-5)
    assert not moved[mask == 0].any(), "padding is left alone"


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_first_perturbation_is_a_rows_own(norm: Any) -> None:
    config = FreeLBConfig(magnitude=0.7, norm=norm)

    def drawn(rows: list[int], step: int = 0, seed: int = SEED) -> Tensor:
        batch = FEATURES.batch(np.array(rows), tiny.PAD)
        return first_perturbation(config, row_keys(batch, seed, step), batch.attention_mask, 16)

    together, alone = drawn([0, 1, 5]), drawn([1])
    assert together.shape == (3, 8, 16) and alone.shape == (1, 3, 16)
    assert torch.equal(together[1, :3], alone[0]) and not together[1, 3:].any()
    for other in (drawn([2])[:, :3], drawn([1], step=1), drawn([1], seed=1)):
        assert not torch.isclose(other, alone).any()
    norms = together.flatten(1).norm(dim=1) if norm == "l2" else together.abs().amax((1, 2)) / 3**0.5
    np.testing.assert_allclose(norms, 0.7 / 3**0.5, rtol=0.15)
    assert abs(float(together.mean())) < 0.05 * float(together.abs().max())


def test_rows_of_equal_words_in_another_order_are_perturbed_differently() -> None:
    batch = Features.of([[7, 8, 9], [9, 8, 7], [7, 8, 9, 9]], row_targets={"label": np.zeros(3, int)}).batch(
        np.arange(3), tiny.PAD
    )
    assert len(set(row_keys(batch, 1, 0).tolist())) == 3
    assert row_keys(batch, 1, torch.tensor(4)).tolist() == row_keys(batch, 1, 4).tolist()


def test_normal_numbers_are_normal() -> None:
    from scipy.stats import kstest

    drawn = normal(torch.arange(4), 25_000)
    assert drawn.isfinite().all() and kstest(drawn.flatten().numpy(), "norm").pvalue > 0.01
    assert abs(np.corrcoef(drawn.numpy()) - np.eye(4)).max() < 0.03
