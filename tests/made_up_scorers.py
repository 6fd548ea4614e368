"""Made-up human judgements, and scorers that need no text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.evaluation.detectors.swords import Item
from trueneg.evaluation.statistics.ranking import Floats


def made_up_items(acceptability: Sequence[Sequence[float]], parts: str = "nvar") -> list[Item]:
    """An item for each number, a target for each row; parts of speech take turns."""
    return [
        Item(
            Substitution("a word", 2, 6, f"s{target}.{number}", parts[target % len(parts)]),  # type: ignore[arg-type]
            share,
            f"t{target}",
            f"s{target}.{number}",
            "word",
            f"s{target}.{number}",
        )
        for target, row in enumerate(acceptability)
        for number, share in enumerate(row)
    ]


@dataclass
class TableScorer(SubstitutionScorer):
    """Scores by substitute, 0 for unknown ones; it counts how often it was asked."""

    table: Mapping[str, float]
    threshold: float = 0.5
    provenance: Mapping[str, str] = field(default_factory=dict)
    num_calls: int = 0

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        self.num_calls += 1
        return np.array([self.table.get(s.substitute, 0.0) for s in substitutions])


@dataclass
class MemorizingScorer(TableScorer):
    """Learns by heart what it is fitted to: right on it, and blind to all else. It has no scores unfitted."""

    fitted_to: list[set[str]] = field(default_factory=list)

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        assert self.table, "queried without a fit"
        return super().scores(substitutions)

    def fit(self, substitutions: Sequence[Substitution], acceptability: Floats) -> SubstitutionScorer:
        assert not self.table, "fitted again"
        assert not np.isnan(acceptability).any()
        self.fitted_to.append({s.substitute for s in substitutions})
        return MemorizingScorer({s.substitute: a for s, a in zip(substitutions, acceptability.tolist(), strict=True)})

    def parameters(self) -> Mapping[str, float]:
        return self.table
