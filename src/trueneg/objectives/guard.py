"""A detector's trust in a row's views: low if the synonym view changes the meaning, or the antonym view keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.objective_options import ObjectiveConfig
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.corruption.views.batch import KEPT, SYNONYM, View
from trueneg.detectors import make_detector
from trueneg.detectors.base import Detector
from trueneg.detectors.rowtext import are_alike, substitution_kinds
from trueneg.detectors.specification import leaves, parse
from trueneg.errors import ConfigError
from trueneg.lexicon.surface import surfaces


@dataclass(frozen=True)
class Trust:
    """A detector's trust in views."""

    views: Tensor
    """Trust in each row's views, float32 ``[rows, views]`` in [0, 1]."""
    is_doubted: Tensor
    """bool ``[views * rows, length]``, views concatenated: a replacement whose label the detector contradicts."""
    num_judged: Tensor
    """Number of replaced words that were judged, float32 scalar."""

    @property
    def rows(self) -> Tensor:
        """Weight of each row's contrast, float32 ``[rows]``: the product over its views."""
        return self.views.prod(1)


class Guard(nn.Module):
    """Weighs views by the credit of their replacements.

    Trust in a synonym view is the mean credit of its replacements; in an antonym view, 1 minus that. The detector
    judges both views in one call, and only replacements of one token by one token, both alphabetic words of three
    letters or more; a view without any has trust 1. Combine a detector that credits opposites, as those that compare
    contexts do, with ``& !antonym``.

    Args:
        detector: Gives credit to a substitution.
        kinds: Kind of each token, from ``detectors.rowtext.substitution_kinds``.
        floor: Smallest trust in a view.
    """

    def __init__(self, detector: Detector, kinds: Tensor, floor: float = 0.0) -> None:
        super().__init__()
        self.detector = detector
        self.floor = floor
        self._kinds: Tensor
        self.register_buffer("_kinds", kinds, persistent=False)

    @torch.no_grad()
    def forward(self, rows: Rows, views: Sequence[View]) -> Trust:
        """Judge the views of rows."""
        source = torch.cat([_source(view) for view in views], 1)
        labels, predicted = (torch.cat([getattr(view, name) for view in views], 1) for name in ("labels", "input_ids"))
        at = source.clamp(min=0)
        gold = rows.input_ids.gather(1, at)
        is_judged = (
            (labels != KEPT)
            & rows.is_whole_word.gather(1, at)
            & _is_single(source)
            & are_alike(self._kinds, gold, predicted)
            & (gold != predicted)
        )
        # Unlike in masked rows of training, a position may occur twice, once for each view.
        batch = MaskedRows(
            rows, rows.input_ids, at, gold, is_judged, is_judged, torch.zeros_like(at, dtype=torch.float)
        )
        credit = self.detector.credit(gold, torch.where(is_judged, predicted, gold), batch) * is_judged
        is_synonym = labels == SYNONYM
        agreement = torch.where(is_synonym, credit, 1 - credit) * is_judged
        by_view = (len(views), -1)
        num = is_judged.unflatten(1, by_view).sum(-1)
        mean = agreement.unflatten(1, by_view).sum(-1) / num.clamp(min=1)
        is_doubted = is_judged & ((credit < 0.5) == is_synonym)
        return Trust(
            torch.where(num > 0, mean, 1.0).clamp(min=self.floor),
            is_doubted.unflatten(1, by_view).transpose(0, 1).flatten(0, 1),
            num.sum().float(),
        )


def make_guard(config: ObjectiveConfig, tokenizer: PreTrainedTokenizerFast) -> Guard:
    """Make the guard that ``cline.guard`` describes.

    Raises:
        ConfigError: for a malformed specification, or ``annotated``, which covers predictions only.
        LexiconError, ModelError: if a file or model that it needs is missing.
    """
    cline = config.cline
    if any(leaf.name == "annotated" for leaf in leaves(parse(cline.guard))):
        raise ConfigError(
            f"cline.guard={cline.guard}: annotations list what a model may predict, not what views put there: name the "
            f"detector itself, such as prototypes:FILE"
        )
    detector = make_detector(replace(config.correction, detector=cline.guard), tokenizer)
    return Guard(detector, substitution_kinds(surfaces(tokenizer)), cline.guard_floor)


def _source(view: View) -> Tensor:
    if view.source is None:
        raise AssertionError("views are made with their sources")
    return view.source


def _is_single(source: Tensor) -> Tensor:
    """Whether no other token has the same source: bool, of the same shape. Tokens that share one are adjacent."""
    is_single = torch.ones_like(source, dtype=torch.bool)
    is_same = source[:, 1:] == source[:, :-1]
    is_single[:, 1:] &= ~is_same
    is_single[:, :-1] &= ~is_same
    return is_single
