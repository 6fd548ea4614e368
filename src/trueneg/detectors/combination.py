"""Detectors combined: the better of two judgements, the worse, or its opposite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector
from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer

Operator = Literal["!", "&", "|"]


class CombinedScorer(SubstitutionScorer):
    """Acceptance of several judges: the best (``|``), the worst (``&``), or 1 minus that of one (``!``).

    All are on one scale first (``Judge.acceptance``), so that the result accepts exactly where logic says so; only
    at the threshold itself does ``!`` accept what its part accepts too.
    """

    def __init__(self, operator: Operator, scorers: Sequence[SubstitutionScorer]) -> None:
        self.operator = operator
        self.scorers = tuple(scorers)
        self.provenance = {
            f"{number}.{name}": value
            for number, scorer in enumerate(scorers)
            for name, value in scorer.provenance.items()
        }

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """Combine the judges' acceptance."""
        each = np.stack([scorer.acceptance(substitutions) for scorer in self.scorers])
        if self.operator == "!":
            return np.asarray(1.0 - each[0])
        return np.asarray(each.max(0) if self.operator == "|" else each.min(0))

    def reads(self) -> tuple[object, ...]:
        """What the judges read."""
        return self.operator, *(scorer.digest() for scorer in self.scorers)


class CombinedDetector(Detector):
    """Credit of several detectors: the most (``|``), the least (``&``), or 1 minus that of one (``!``).

    A word of several pieces has no credit, from ``!`` neither.
    """

    def __init__(self, operator: Operator, detectors: Sequence[Detector]) -> None:
        super().__init__()
        self.operator = operator
        self.detectors = nn.ModuleList(detectors)
        self.provenance = {
            f"{number}.{name}": value
            for number, part in enumerate(detectors)
            for name, value in getattr(part, "provenance", {}).items()
        }

    def credit(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Tensor:
        """Combine the detectors' credit; of ``&``, each part is asked only about what those before it credit."""
        first, *rest = self._parts()
        credit = first.credit(gold, predicted, batch)
        if self.operator == "!":
            return (1 - credit) * batch.is_whole_word
        for part in rest:
            if self.operator == "|":
                credit = torch.maximum(credit, part.credit(gold, predicted, batch))
            else:
                asked = torch.where(credit > 0, predicted, gold)
                credit = torch.minimum(credit, part.credit(gold, asked, batch))
        return credit

    def substitutes(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> tuple[Tensor, Tensor]:
        """Of ``|``, what any part lists, a token once; of ``&``, what the first part lists, judged by the others.

        A part with ``!`` before it never lists for ``&``. ``!`` by itself lists the prediction.
        """
        parts = self._parts()
        if self.operator == "|":
            listed = [part.substitutes(gold, predicted, batch) for part in parts]
            tokens, credit = torch.cat([t for t, _ in listed], -1), torch.cat([c for _, c in listed], -1)
            return tokens, credit * _is_best_of_its_token(tokens, credit)
        lister = next((part for part in parts if not _is_negation(part)), None)
        if self.operator == "!" or lister is None:
            return super().substitutes(gold, predicted, batch)
        tokens, credit = lister.substitutes(gold, predicted, batch)
        for part in parts:
            if part is not lister:
                asked = torch.where(credit > 0, tokens, gold.unsqueeze(-1))
                credit = torch.minimum(credit, part.credit_each(gold, asked, batch))
        return tokens, credit

    def after_step(self, model: nn.Module) -> None:
        """Tell the parts."""
        for part in self._parts():
            part.after_step(model)

    def attach(self, model: nn.Module) -> None:
        """Tell the parts."""
        for part in self._parts():
            part.attach(model)

    def _parts(self) -> list[Detector]:
        return [part for part in self.detectors if isinstance(part, Detector)]


def _is_negation(part: Detector) -> TypeGuard[CombinedDetector]:
    return isinstance(part, CombinedDetector) and part.operator == "!"


def _is_best_of_its_token(tokens: Tensor, credit: Tensor) -> Tensor:
    """Whether no equal token before has as much credit, and none after more: a set has each token once."""
    is_same = tokens.unsqueeze(-1) == tokens.unsqueeze(-2)
    other, own = credit.unsqueeze(-2), credit.unsqueeze(-1)
    number = torch.arange(tokens.shape[-1], device=tokens.device)
    is_before = number.unsqueeze(0) < number.unsqueeze(1)
    return ~(is_same & ((other > own) | (is_before & (other == own)))).any(-1)
