"""Scorers and detectors combined by ``|``, ``&`` and ``!``: the maximum, the minimum, or 1 minus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, Proposals, of_slots
from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer, sum_of_counts

Operator = Literal["!", "&", "|"]


class CombinedScorer(SubstitutionScorer):
    """Acceptance of several scorers: the maximum (``|``), the minimum (``&``), or 1 minus that of one (``!``).

    All are first put on one scale (``SubstitutionScorer.acceptance``), so that the result accepts exactly what the
    logical expression accepts; only at the threshold itself does ``!`` accept what its part accepts too.
    """

    def __init__(self, operator: Operator, scorers: Sequence[SubstitutionScorer]) -> None:
        self.operator = operator
        self.scorers = tuple(scorers)
        self.provenance = _numbered(scorers)

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """Combine the scorers' acceptance."""
        each = np.stack([scorer.acceptance(substitutions) for scorer in self.scorers])
        if self.operator == "!":
            return np.asarray(1.0 - each[0])
        return np.asarray(each.max(0) if self.operator == "|" else each.min(0))

    @property
    def counts(self) -> Mapping[str, int]:
        """The scorers' counts, added up."""
        return sum_of_counts(self.scorers)

    def reads(self) -> tuple[object, ...]:
        """Return the operator and the scorers' digests."""
        return self.operator, *(scorer.digest() for scorer in self.scorers)

    def to(self, device: torch.device) -> None:
        """Move the scorers' models to a device."""
        for scorer in self.scorers:
            scorer.to(device)


class CombinedDetector(Detector):
    """Credit of several detectors: the maximum (``|``), the minimum (``&``), or 1 minus that of one (``!``).

    A word of several pieces has no credit, not even from ``!``.
    """

    def __init__(self, operator: Operator, detectors: Sequence[Detector]) -> None:
        super().__init__()
        self.operator = operator
        self.detectors = nn.ModuleList(detectors)
        self.provenance = _numbered(detectors)

    @property
    def lists(self) -> bool:
        """Whether all parts (``|``) or any part (``&``) list substitutes; never for ``!``."""
        each = [part.lists for part in self._parts()]
        return self.operator != "!" and (all(each) if self.operator == "|" else any(each))

    def credit(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Combine the parts' credit; for ``&``, each part sees only tokens that the parts before it credit."""
        first, *rest = self._parts()
        credit = first.credit(gold, tokens, batch)
        if self.operator == "!":
            return (1 - credit) * of_slots(batch.is_whole_word, tokens)
        if self.operator == "&":
            return _min_credit(credit, rest, gold, tokens, batch)
        for part in rest:
            credit = torch.maximum(credit, part.credit(gold, tokens, batch))
        return credit

    def propose(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Proposals:
        """List for ``|`` what any part lists, each token once; for ``&`` what one part lists and the others credit.

        That part is the first that lists substitutes, or else the first without ``!``; ``!`` alone lists the
        prediction. The others credit its list and the predictions in one call, so each part reads the batch once.
        """
        parts = self._parts()
        if self.operator == "|":
            each = [part.propose(gold, predicted, batch) for part in parts]
            credit = torch.stack([found.credit for found in each]).amax(0)
            tokens = torch.cat([found.tokens for found in each], -1)
            acceptance = torch.cat([found.acceptance for found in each], -1)
            return Proposals(credit, tokens, acceptance * _is_best_of_its_token(tokens, acceptance))
        candidates = [part for part in parts if part.lists] + [part for part in parts if not _is_negation(part)]
        if self.operator == "!" or not candidates:
            return super().propose(gold, predicted, batch)
        lister, *_ = candidates
        found = lister.propose(gold, predicted, batch)
        tokens = torch.cat([predicted.unsqueeze(-1), found.tokens], -1)
        credit = torch.cat([found.credit.unsqueeze(-1), found.acceptance], -1)
        credit = _min_credit(credit, [part for part in parts if part is not lister], gold.unsqueeze(-1), tokens, batch)
        return Proposals(credit[..., 0], found.tokens, credit[..., 1:])

    def after_step(self, model: nn.Module) -> None:
        """Pass the updated model to the parts."""
        for part in self._parts():
            part.after_step(model)

    def attach(self, model: nn.Module) -> None:
        """Pass the model to the parts."""
        for part in self._parts():
            part.attach(model)

    def _parts(self) -> list[Detector]:
        return [part for part in self.detectors if isinstance(part, Detector)]


def _numbered(parts: Sequence[SubstitutionScorer | Detector]) -> dict[str, str]:
    """Merge the provenance of parts, prefixing the keys with each part's number."""
    return {f"{number}.{name}": value for number, part in enumerate(parts) for name, value in part.provenance.items()}


def _min_credit(credit: Tensor, parts: Sequence[Detector], gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
    """Return the minimum of ``credit`` and the credit of further parts, which are given gold where it is already 0."""
    for part in parts:
        left = torch.where(credit > 0, tokens, gold)
        credit = torch.minimum(credit, part.credit(gold, left, batch))
    return credit


def _is_negation(part: Detector) -> TypeGuard[CombinedDetector]:
    return isinstance(part, CombinedDetector) and part.operator == "!"


def _is_best_of_its_token(tokens: Tensor, credit: Tensor) -> Tensor:
    """Whether an entry is the first one with the most credit for its token, to list each token once."""
    order = credit.argsort(dim=-1, descending=True, stable=True)
    order = order.gather(-1, tokens.gather(-1, order).argsort(dim=-1, stable=True))
    by_token = tokens.gather(-1, order)
    is_first = torch.ones_like(by_token, dtype=torch.bool)
    is_first[..., 1:] = by_token[..., 1:] != by_token[..., :-1]
    return torch.zeros_like(is_first).scatter(-1, order, is_first)
