"""The distribution of Behrens and Fisher against published tables, Student's t, plain integration and its promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from trueneg.evaluation.statistics.two_sources import NOTHING, Source, half_width, sum_of, two_sided


@pytest.mark.parametrize(
    ("degrees", "distances"),
    [
        ((6, 6), [2.447, 2.440, 2.435, 2.435, 2.435, 2.440, 2.447]),
        ((6, 8), [2.447, 2.430, 2.398, 2.364, 2.331, 2.310, 2.306]),
        ((8, 8), [2.306, 2.300, 2.294, 2.292, 2.294, 2.300, 2.306]),
        ((6, 12), [2.447, 2.423, 2.367, 2.301, 2.239, 2.193, 2.179]),
    ],
)
def test_five_per_cent_points_are_sukhatmes(degrees: tuple[int, int], distances: list[float]) -> None:
    """Sukhatme 1938, also Fisher and Yates' Table VI: angles of 90 to 0 degrees; the tables are rounded to 0.001."""
    found = [
        half_width(0.95, Source(math.sin(angle) ** 2, degrees[0]), Source(math.cos(angle) ** 2, degrees[1]))
        for angle in np.radians([90, 75, 60, 45, 30, 15, 0])
    ]
    assert found == pytest.approx(distances, abs=0.0015)


@given(st.floats(0.01, 100), st.floats(1, 5000), st.floats(0.1, 0.9999))
@settings(max_examples=50, deadline=None)
def test_one_source_alone_is_students_t(variance: float, degrees: float, confidence: float) -> None:
    alone = Source(variance, degrees)
    width = float(stats.t.ppf((1 + confidence) / 2, degrees)) * math.sqrt(variance)
    assert half_width(confidence, alone, NOTHING) == pytest.approx(width, rel=1e-5)
    assert half_width(confidence, NOTHING, alone) == pytest.approx(width, rel=1e-5)
    assert two_sided(width, alone, NOTHING) == pytest.approx(1 - confidence)


def integrated(distance: float, first: Source, second: Source) -> float:
    """The probability as one integral over the first source, in pieces by quadrature."""
    a, b, n = math.sqrt(first.variance), math.sqrt(second.variance), first.degrees
    at_zero = float(stats.t.pdf(0, n))

    def beyond(x: float) -> float:
        density = at_zero * (1 + x * x / n) ** (-(n + 1) / 2)
        return float(density * special.stdtr(second.degrees, (a * x - distance) / b))

    around = distance / a
    inner = [around + b / a * step for step in (-30, -5, 0, 5, 30)]
    edges = sorted({-1e5, -1e3, -30.0, -8.0, 0.0, 8.0, 30.0, 1e3, 1e5, *inner})
    pieces = zip([-np.inf, *edges], [*edges, np.inf], strict=True)
    return 2 * sum(integrate.quad(beyond, *piece, epsabs=0, epsrel=1e-9, limit=200)[0] for piece in pieces)


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@given(st.floats(-3, 3), st.floats(1, 8), st.floats(1, 3000), st.floats(-3, 2))  # ratio and distance: logarithms
@example(ratio=0.0, few=1.0, many=1.125, distance=2.0)
@settings(max_examples=40, deadline=None)
def test_probabilities_are_those_of_plain_integration(ratio: float, few: float, many: float, distance: float) -> None:
    first, second = Source(1.0, many), Source(math.exp(2 * ratio), few)
    at = math.exp(distance) * math.sqrt(first.variance + second.variance)
    assert two_sided(at, first, second) == pytest.approx(integrated(at, first, second), rel=2e-4, abs=1e-13)
    assert two_sided(at, second, first) == two_sided(at, first, second)


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_an_interval_has_its_own_probability(seeds: int) -> None:
    for variance in (1e-6, 0.1, 1.0, 30.0):
        parts = Source(1.0, 99.0), Source(variance, seeds - 1)
        for confidence in (0.8, 0.95, 0.999):
            assert two_sided(half_width(confidence, *parts), *parts) == pytest.approx(1 - confidence, rel=1e-4)
    assert half_width(0.95, NOTHING, NOTHING) == 0.0


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("ratio", [0.5, 2.0, 4.0])
def test_small_p_values_are_no_more_frequent_than_they_say(seeds: int, ratio: float) -> None:
    """Of equal systems, 1 in 1,000 has p < 0.001 at most; by Welch and Satterthwaite many more, where seeds differ."""
    random, num, level = np.random.default_rng(seeds), 20_000, 0.001
    estimates = np.abs(random.normal(0, 1, num) + random.normal(0, ratio / math.sqrt(seeds), num))
    of_seeds = ratio**2 * random.chisquare(seeds - 1, num) / (seeds - 1) / seeds
    of_examples = random.chisquare(32, num) / 32
    small = stats.norm.sf(estimates / np.sqrt(of_seeds + of_examples)) < level / 2  # others are larger still
    ours = sum(
        two_sided(estimate, Source(examples, 32), Source(own, seeds - 1)) < level
        for estimate, examples, own in zip(estimates[small], of_examples[small], of_seeds[small], strict=True)
    )
    assert ours <= stats.binom.ppf(0.999, num, level)
    if ratio == 4.0:
        variance = of_seeds + of_examples
        degrees = variance**2 / (of_seeds**2 / (seeds - 1) + of_examples**2 / 32)
        welch = int((2 * stats.t.sf(estimates / np.sqrt(variance), degrees) < level).sum())
        assert welch > 2 * num * level, "the reason for it"


def test_sums_have_welch_and_satterthwaites_degrees() -> None:
    left, right = [0.80, 0.83, 0.81, 0.84], [0.61, 0.60, 0.64]
    expected = stats.ttest_ind(left, right, equal_var=False)
    found = sum_of([Source(float(np.var(one, ddof=1)) / len(one), len(one) - 1) for one in (left, right)])
    assert found.degrees == pytest.approx(expected.df)
    assert two_sided(float(np.mean(left) - np.mean(right)), found, NOTHING) == pytest.approx(expected.pvalue)
    assert sum_of([]) == sum_of([NOTHING]) == NOTHING
