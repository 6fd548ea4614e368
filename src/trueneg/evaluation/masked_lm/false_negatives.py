"""False negatives that a masked language model is penalized for: how many, and which (Zhang et al. 2023, Table 2)."""

from __future__ import annotations

import re
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
from trueneg.lexicon.tagging import Tagger, make_tagger, tag_text
from trueneg.lexicon.tags import PENN, coarse
from trueneg.models.modes import eval_mode
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.prediction import PredictedTokens, correction_stats
from trueneg.training.distributed import Processes
from trueneg.training.metrics import Meter

SHARES = ("of_masked", "of_mispredicted", "of_rows")
"""False negatives as a share of masked positions, as a share of mispredictions ("Pred." in Table 2), and rows with one
or more as a share of all rows ("Iter.")."""

RESAMPLES = 1000


@dataclass(frozen=True)
class FalseNegatives:
    """The mispredictions of one text that a detector accepts."""

    readings: dict[str, float]
    """Metrics as in training; ``corrected`` is the share of mispredictions, ``corrected_rows`` that of rows."""
    corrections: list[Correction]
    """The most probable first."""
    counts: NDArray[np.int64]
    """Masked, mispredicted and corrected positions of each row, ``[rows, 3]``."""

    def shares(self, resamples: int = RESAMPLES) -> dict[str, Interval | None]:
        """Compute the ``SHARES`` with 95 % intervals, resampling whole rows; None if the denominator is zero.

        If nothing was corrected, a bootstrap is uninformative: the upper end is 3 / n (the rule of three).
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
    """Predict masked tokens once, and pass the mispredictions to each detector.

    Args:
        model: A ``MaskedLanguageModel``; of an ELECTRA pair, the generator.
        objective: Masks and predicts, without correction of its own.
        detectors: Name to detector.
        batches: Rows to mask.
        tokenizer: Decodes the text around a correction.
        device: Device of the model.

    Returns:
        For each detector, metrics over all rows and every correction, the most probable first.
    """
    tagger = make_tagger("pattern")
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
                corrections[name] += _corrections(prediction, tokenizer, tagger)
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
    # The denominator of a sample may be zero; the share is then 0.
    return Bootstrap(range(len(whole)), resamples).of(lambda weights: weights @ part / np.maximum(weights @ whole, 1))


_PARTS = {"n": "noun", "v": "verb", "a": "adjective", "r": "adverb"}
_SENTENCE_END = re.compile(r"[.!?]\s")
_LONGEST_SIDE = 200
"""Maximum number of characters that the tagger reads on either side of a word, within its sentence."""


def part_of_speech(before: str, word: str, after: str, tagger: Tagger) -> str:
    """Determine the part of speech of a word in its sentence: noun, verb, adjective, adverb or other.

    Example:
        >>> part_of_speech("It was dark. The", "main", "reason was that", make_tagger("pattern"))
        'adjective'
    """
    left = _SENTENCE_END.split(before[-_LONGEST_SIDE:])[-1]
    right = _SENTENCE_END.split(after[:_LONGEST_SIDE])[0]
    left = f"{left} " if left else ""
    tagged = tag_text(f"{left}{word} {right}", tagger)
    inside = np.flatnonzero((tagged.starts >= len(left)) & (tagged.starts < len(left) + len(word)))
    tag = PENN[tagged.tags[inside[-1]]] if len(inside) else ""
    return _PARTS.get(coarse(tag), "other")


def _corrections(
    prediction: PredictedTokens, tokenizer: PreTrainedTokenizerFast, tagger: Tagger
) -> Iterator[Correction]:
    batch = prediction.batch
    gold_probability, probability = (
        (-prediction.logits.losses(tokens)[0]).exp() for tokens in (batch.gold, prediction.predicted)
    )
    for row, slot in (prediction.credit >= 0.5).nonzero().tolist():
        gold, predicted = int(batch.gold[row, slot]), int(prediction.predicted[row, slot])
        position = int(batch.positions[row, slot])
        segments, ids = batch.rows.segments[row], batch.rows.input_ids[row]
        document = (segments == segments[position]).nonzero().flatten().tolist()
        left = ids[document[0] : position].tolist()
        right = ids[position + 1 : document[-1] + 1].tolist()
        word, before, after = (_text(tokenizer, part) for part in ([gold], left, right))
        yield Correction(
            gold=word,
            predicted=_text(tokenizer, [predicted]),
            probability=float(probability[row, slot]),
            gold_probability=float(gold_probability[row, slot]),
            before=before,
            after=after,
            credit=float(prediction.credit[row, slot]),
            part_of_speech=part_of_speech(before, word, after, tagger),
        )


def _text(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True)).strip()
