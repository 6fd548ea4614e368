"""Drawing predicted tokens: the right distribution, and never what has no probability."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import chisquare
from torch import Tensor

from trueneg.corruption import keyed
from trueneg.objectives.prediction import predict, sample

LAST_UNIFORM = 1 - 2.0**-24
INFINITY = float("inf")


def logits_of(vocab_size: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(vocab_size, generator=torch.Generator().manual_seed(seed)) * scale


def draw(logits: torch.Tensor, num_rows: int = 500, num_slots: int = 200) -> torch.Tensor:
    """Draws under fixed keys from one distribution."""
    uniforms = keyed.uniform(keyed.example_keys(11, torch.arange(num_rows)), keyed.SAMPLE, num_slots)
    return torch.cat([sample(logits.expand(len(u), -1), u) for u in uniforms])


def is_distributed(draws: torch.Tensor, probabilities: np.ndarray) -> bool:
    """Chi-squared; entries expected fewer than five times count together."""
    counts = draws.bincount(minlength=len(probabilities)).numpy()
    expected = probabilities / probabilities.sum() * len(draws)
    rare = expected < 5
    assert not counts[expected == 0].any()
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    return bool(chisquare(counts[expected > 0], expected[expected > 0]).pvalue > 1e-3)


@pytest.mark.parametrize("vocab_size", [2, 7, 255, 256, 257, 700])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_distribution(vocab_size: int, dtype: torch.dtype) -> None:
    logits = logits_of(vocab_size, scale=2.0).to(dtype)
    draws = draw(logits, num_rows=100)
    assert is_distributed(draws, softmax(logits.double().numpy()))


def test_distribution_with_much_mass_far_behind() -> None:
    """Three blocks, of which the first holds next to nothing."""
    logits = torch.cat([torch.full((256,), -12.0), logits_of(256, 1), logits_of(200, 2) + 1])
    assert is_distributed(draw(logits, num_rows=100), softmax(logits.double().numpy()))


@pytest.mark.parametrize("excluded", [slice(0, 1), slice(299, 300), slice(0, 256), slice(256, 300), slice(3, 298)])
def test_impossible_tokens_are_never_drawn(excluded: slice) -> None:
    logits = logits_of(300)
    logits[excluded] = -INFINITY
    probabilities = softmax(logits.double().numpy())
    assert is_distributed(draw(logits, num_rows=50), probabilities)
    edges = sample(logits.expand(2, -1), torch.tensor([0.0, LAST_UNIFORM]))
    possible = np.flatnonzero(probabilities)
    assert edges.tolist() == [possible[0], possible[-1]]


@settings(deadline=None, max_examples=300)
@given(
    st.integers(1, 600),
    st.integers(0, 10_000),
    st.floats(0.1, 60.0),
    st.floats(0, 0.99),
    st.integers(0, 2**24 - 1) | st.sampled_from([0, 2**24 - 1]),
)
def test_draws_are_possible(vocab_size: int, seed: int, scale: float, share_out: float, numerator: int) -> None:
    """For any uniform that there is, even where probabilities underflow."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(vocab_size, generator=generator) * scale
    is_out = torch.rand(vocab_size, generator=generator) < share_out
    is_out[int(torch.randint(vocab_size, (), generator=generator))] = False
    logits[is_out] = -INFINITY
    drawn = sample(logits.unsqueeze(0), torch.tensor([numerator / 2**24])).item()
    assert 0 <= drawn < vocab_size
    assert (logits[drawn] - logits.max()).exp() > 0


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 600), st.integers(0, 10_000))
def test_inverts_the_distribution_function(vocab_size: int, seed: int) -> None:
    """The token whose share of [0, 1) holds the uniform, but for rounding at the borders."""
    logits = logits_of(vocab_size, seed, scale=3.0)
    cumulative = np.cumsum(softmax(logits.double().numpy()))
    uniforms = keyed.uniform(keyed.example_keys(seed, torch.arange(1)), keyed.SAMPLE, 20)[0]
    for uniform, drawn in zip(uniforms.tolist(), sample(logits.expand(20, -1), uniforms).tolist(), strict=True):
        assert (cumulative[drawn - 1] if drawn else 0.0) - 1e-5 <= uniform <= cumulative[drawn] + 1e-5


def test_certain_token_is_always_drawn() -> None:
    logits = torch.full((300,), -INFINITY)
    logits[271] = 5.0
    assert set(draw(logits, num_rows=2).tolist()) == {271}


def test_bfloat16_draws_as_float32_does() -> None:
    logits = logits_of(300, scale=3.0).bfloat16()
    assert torch.equal(draw(logits, 5), draw(logits.float(), 5))


def draws_of(num_rows: int, num_slots: int) -> Tensor:
    return keyed.uniform(keyed.example_keys(1, torch.arange(num_rows)), keyed.SAMPLE, num_slots)


def test_argmax_and_temperature() -> None:
    logits = logits_of(300).expand(4, 50, -1)
    draws = draws_of(4, 50)
    best = predict(logits, draws, "argmax")
    assert torch.equal(best, logits.argmax(-1))
    assert torch.equal(predict(logits, draws, "sampled", temperature=1e-4), best)
    assert torch.equal(predict(logits, draws, "sampled", 2.0), predict(logits / 2, draws, "sampled"))


def test_prediction_of_a_row_does_not_depend_on_its_company() -> None:
    logits = torch.randn(4, 6, 300, generator=torch.Generator().manual_seed(0))
    draws = draws_of(4, 6)
    together = predict(logits, draws, "sampled")
    for row in range(4):
        alone = predict(logits[row : row + 1], draws[row : row + 1], "sampled")
        assert torch.equal(alone, together[row : row + 1])
    assert torch.equal(predict(logits[[2, 0]], draws[[2, 0]], "sampled"), together[[2, 0]])


def test_predictions_have_no_gradient() -> None:
    logits = torch.randn(1, 2, 300, requires_grad=True)
    assert not predict(logits, draws_of(1, 2), "sampled").requires_grad
