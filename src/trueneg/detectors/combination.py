"""Detectors combined: the better of two judgements, the worse, or its opposite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

from trueneg.corruption.masking import MaskedRows
from trueneg.detectors.base import Detector
from trueneg.detectors.judge import Judge, Scores, Substitution

Operator = Literal["!", "&", "|"]


class CombinedJudge(Judge):
    """Acceptance of several judges: the best (``|``), the worst (``&``), or 1 minus that of one (``!``).

    All are on one scale first (``Judge.acceptance``), so that the result accepts exactly where logic says so; only
    at the threshold itself does ``!`` accept what its part accepts too.
    """

    def __init__(self, operator: Operator, judges: Sequence[Judge]) -> None:
        self.operator = operator
        self.judges = tuple(judges)
        self.provenance = {
            f"{number}.{name}": value for number, judge in enumerate(judges) for name, value in judge.provenance.items()
        }

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """Combine the judges' acceptance."""
        each = np.stack([judge.acceptance(substitutions) for judge in self.judges])
        if self.operator == "!":
            return np.asarray(1.0 - each[0])
        return np.asarray(each.max(0) if self.operator == "|" else each.min(0))


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

    def credit(self, gold: Tensor, predicted: Tensor, place: MaskedRows) -> Tensor:
        """Combine the detectors' credit."""
        each = torch.stack([part.credit(gold, predicted, place) for part in self._parts()])
        if self.operator == "!":
            return (1 - each[0]) * place.is_whole_word
        return each.amax(0) if self.operator == "|" else each.amin(0)

    def substitutes(self, gold: Tensor, predicted: Tensor, place: MaskedRows) -> tuple[Tensor, Tensor]:
        """Of ``|``, what any part lists, a token once; of ``&``, what the first part lists, as far as all do.

        A part of ``&`` with ``!`` before it takes off what it lists, but never is the first. ``!`` by itself lists
        the prediction.
        """
        parts = self._parts()
        if self.operator == "|":
            listed = [part.substitutes(gold, predicted, place) for part in parts]
            tokens, credit = torch.cat([t for t, _ in listed], -1), torch.cat([c for _, c in listed], -1)
            return tokens, credit * _is_best_of_its_token(tokens, credit)
        positive = [part for part in parts if not _is_negation(part)]
        if self.operator == "!" or not positive:
            return super().substitutes(gold, predicted, place)
        tokens, credit = positive[0].substitutes(gold, predicted, place)
        for part in parts:
            if _is_negation(part):
                (negated,) = part._parts()
                given = 1 - _credit_of(tokens, *negated.substitutes(gold, predicted, place))
                credit = torch.minimum(credit, given)
            elif part is not positive[0]:
                credit = torch.minimum(credit, _credit_of(tokens, *part.substitutes(gold, predicted, place)))
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


def _credit_of(tokens: Tensor, listed: Tensor, credit: Tensor) -> Tensor:
    """The most credit that a list gives to tokens ``[batch, slots, n]``: 0 where they are not on it."""
    return ((tokens.unsqueeze(-1) == listed.unsqueeze(-2)) * credit.unsqueeze(-2)).amax(-1)


def _is_best_of_its_token(tokens: Tensor, credit: Tensor) -> Tensor:
    """Whether no equal token before has as much credit, and none after more: a set has each token once."""
    is_same = tokens.unsqueeze(-1) == tokens.unsqueeze(-2)
    other, own = credit.unsqueeze(-2), credit.unsqueeze(-1)
    number = torch.arange(tokens.shape[-1], device=tokens.device)
    is_before = number.unsqueeze(0) < number.unsqueeze(1)
    return ~(is_same & ((other > own) | (is_before & (other == own)))).any(-1)
