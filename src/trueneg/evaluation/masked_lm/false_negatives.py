"""False negatives that a masked model is punished for: how many, and which (Zhang et al. 2023, Table 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.corruption.rows import Rows
from trueneg.detectors.base import Detector
from trueneg.evaluation.masked_lm.corrections import Correction
from trueneg.evaluation.statistics.bootstrap import Bootstrap
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.models.modes import eval_mode
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.prediction import PredictedTokens, correction_stats
from trueneg.training.distributed import Processes
from trueneg.training.metrics import Meter

SHARES = ("of_masked", "of_mispredicted", "of_rows")
"""Whereof the corrections are a share: of all masked positions, of the mispredicted ones ("Pred." in Table 2), and
the rows with a correction of all rows ("Iter.")."""

RESAMPLES = 1000


@dataclass(frozen=True)
class FalseNegatives:
    """What a detector found in a text."""

    readings: dict[str, float]
    """As in training; ``corrected`` is the share of mispredictions, ``corrected_rows`` that of rows."""
    corrections: list[Correction]
    counts: NDArray[np.int64]
    """Masked, mispredicted and corrected positions of each row, ``[rows, 3]``."""

    def shares(self, resamples: int = RESAMPLES) -> dict[str, Interval | None]:
        """The shares of ``SHARES``, with 95 % intervals by resampling rows; None of what there is nothing.

        Positions of one row are not independent: they are resampled together. Where nothing was corrected, resamples
        know nothing of what might have been: there the interval ends at 3 of the whole (the rule of three).
        """
        masked, mispredicted, corrected = self.counts.T
        of_what = {
            "of_masked": (corrected, masked),
            "of_mispredicted": (corrected, mispredicted),
            "of_rows": (corrected > 0, np.ones_like(masked)),
        }
        return {name: _share(part, whole, resamples) for name, (part, whole) in of_what.items()}


@torch.no_grad()
def find_false_negatives(
    model: Any,
    objective: MaskedLM,
    detectors: Mapping[str, Detector],
    batches: Iterable[Rows],
    tokenizer: PreTrainedTokenizerFast,
    device: torch.device,
) -> dict[str, FalseNegatives]:
    """Let a model predict masked tokens once, and ask each detector about its mispredictions.

    Args:
        model: A ``MaskedLanguageModel`` (an ELECTRA pair's generator).
        objective: Masks and predicts; without a correction of its own.
        detectors: By name.
        batches: Rows to mask.
        tokenizer: Turns tokens back into text.
        device: Where the model is.

    Returns:
        For each detector, readings over all rows, and every correction, the most probable first.
    """
    meters = {name: Meter() for name in detectors}
    corrections: dict[str, list[Correction]] = {name: [] for name in detectors}
    counts: dict[str, list[Tensor]] = {name: [] for name in detectors}
    with eval_mode(model):
        for rows in batches:
            batch = objective.corrupt(rows.to(device))
            plain = objective.predict(model, batch)
            outcome, num = objective.outcome(model, plain), objective.counts(batch)
            for name, detector in detectors.items():
                credit = detector.credit(batch.gold, plain.predicted, batch) * plain.is_mispredicted
                prediction = replace(plain, credit=credit)
                meters[name].add(replace(outcome, stats=outcome.stats | correction_stats(credit)), num)
                corrections[name] += _corrections(prediction, tokenizer)
                kinds = (batch.is_masked, prediction.is_mispredicted, credit >= 0.5)
                counts[name].append(torch.stack([kind.sum(1) for kind in kinds], 1).cpu())
    return {
        name: FalseNegatives(
            meters[name].read(Processes(), objective.weights),
            sorted(corrections[name], key=lambda correction: -correction.probability),
            torch.cat(counts[name]).numpy(),
        )
        for name in detectors
    }


def _share(part: NDArray[Any], whole: NDArray[np.int64], resamples: int) -> Interval | None:
    if not whole.sum():
        return None
    if not part.any():
        return Interval(0.0, 0.0, min(1.0, 3 / int(whole.sum())), len(whole))
    # A sample may have nothing to divide by; a share of nothing then counts as none.
    return Bootstrap(range(len(whole)), resamples).of(lambda weights: weights @ part / np.maximum(weights @ whole, 1))


def _corrections(prediction: PredictedTokens, tokenizer: PreTrainedTokenizerFast) -> Iterator[Correction]:
    batch = prediction.batch
    for row, slot in (prediction.credit >= 0.5).nonzero().tolist():
        gold, predicted = int(batch.gold[row, slot]), int(prediction.predicted[row, slot])
        probabilities = prediction.logits[row, slot].softmax(-1)
        position = int(batch.positions[row, slot])
        segments, ids = batch.rows.segments[row], batch.rows.input_ids[row]
        piece = (segments == segments[position]).nonzero().flatten().tolist()
        left = ids[piece[0] : position].tolist()
        right = ids[position + 1 : piece[-1] + 1].tolist()
        yield Correction(
            gold=_text(tokenizer, [gold]),
            predicted=_text(tokenizer, [predicted]),
            probability=float(probabilities[predicted]),
            gold_probability=float(probabilities[gold]),
            before=_text(tokenizer, left),
            after=_text(tokenizer, right),
        )


def _text(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True)).strip()
