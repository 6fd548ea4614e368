"""Student's t for an estimate whose variance has two sources, each estimated on its own.

Seeds are few and examples are many, so their parts of a variance are known with a different precision. Welch and
Satterthwaite's degrees of freedom take the estimated parts for the true ones: where three seeds happen to agree, an
interval is too short, and p-values that are small enough for many claims (Holm) are far too frequent. The distribution
of Behrens and Fisher allows for that, and is conservative (Robinson 1976).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_EDGES = np.array([-32.0, -8.0, -2.0, 0.0, 2.0, 8.0, 32.0])
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Source:
    """A part of an estimate's variance."""

    variance: float
    degrees: float
    """Degrees of freedom of the estimated variance."""


NOTHING = Source(0.0, 1.0)
"""A source that does not vary."""


def sum_of(sources: Sequence[Source]) -> Source:
    """Add up independent sources of the same kind, with Welch and Satterthwaite's degrees of freedom.

    Example:
        >>> sum_of([Source(1.0, 4.0), Source(1.0, 4.0)])
        Source(variance=2.0, degrees=8.0)
    """
    variance = sum(source.variance for source in sources)
    uncertainty = sum(source.variance**2 / source.degrees for source in sources)
    return Source(variance, variance**2 / uncertainty) if uncertainty else NOTHING


def two_sided(distance: float, first: Source, second: Source) -> float:
    """Compute P(|a T + b T'| >= distance), for independent T and T' of Student's distributions.

    a and b are the two sources' standard deviations, of which one is positive. The relative error is below 1e-4.

    Args:
        distance: Absolute value of the estimate; at least 0.
        first: One source of its variance.
        second: The other.

    Example:
        >>> round(two_sided(2.776445, Source(1.0, 4.0), NOTHING), 6)  # Student's t
        0.05
    """
    large, small = sorted((first, second), key=lambda source: (source.variance, source.degrees), reverse=True)
    a, b = math.sqrt(large.variance), math.sqrt(small.variance)
    if b <= _NEGLIGIBLE * a:
        return 2 * float(scipy.special.stdtr(large.degrees, -distance / a))
    # Over x = T' of the smaller source: f(x) = P(a T < b x - distance), which rises around x = distance / b.
    edges = np.unique(np.concatenate([4 * _EDGES, _EDGES, distance / b + a / b * _EDGES]))
    middle, half = (edges[1:] + edges[:-1])[:, None] / 2, (edges[1:] - edges[:-1])[:, None] / 2
    inverse = (_NODES + 1) / 2  # beyond the edges x = edge / inverse
    x = np.concatenate([(middle + half * _NODES).ravel(), edges[0] / inverse, edges[-1] / inverse])
    beyond = _WEIGHTS / 2 / inverse**2
    weights = np.concatenate([(half * _WEIGHTS).ravel(), -edges[0] * beyond, edges[-1] * beyond])
    n = small.degrees
    constant = scipy.special.gammaln((n + 1) / 2) - scipy.special.gammaln(n / 2) - math.log(n * math.pi) / 2
    density = np.exp(constant - (n + 1) / 2 * np.log1p(x**2 / n))
    return 2 * float((density * scipy.special.stdtr(large.degrees, (b * x - distance) / a)) @ weights)


def half_width(confidence: float, first: Source, second: Source) -> float:
    """Compute the half-width of an interval: the distance whose ``two_sided`` probability is 1 - confidence."""
    tail = (1 - confidence) / 4  # each source exceeds its own bound half as often as both together may
    bounds = [-float(scipy.special.stdtrit(one.degrees, tail)) * math.sqrt(one.variance) for one in (first, second)]
    above = sum(bounds)
    if not above:
        return 0.0
    return float(scipy.optimize.brentq(lambda d: two_sided(d, first, second) - (1 - confidence), 0.0, above, rtol=1e-7))
