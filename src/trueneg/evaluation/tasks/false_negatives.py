"""False negatives that a masked model is punished for: how many, and which (Zhang et al. 2023, Table 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from trueneg.corruption.masking import Rows
from trueneg.evaluation.corrections import Correction
from trueneg.objectives.mlm import MaskedLM, Prediction
from trueneg.training.distributed import Processes
from trueneg.training.metrics import Meter


@dataclass(frozen=True)
class FalseNegatives:
    """What was found in a text.

    ``readings`` has the two shares of Table 2: ``corrected`` of mispredictions, ``corrected_rows`` of rows.
    """

    readings: dict[str, float]
    corrections: list[Correction]


@torch.no_grad()
def find_false_negatives(
    model: Any,
    objective: MaskedLM,
    batches: Iterable[Rows],
    tokenizer: PreTrainedTokenizerFast,
    device: torch.device,
) -> FalseNegatives:
    """Let a model predict masked tokens and ask the objective's detector about its mispredictions.

    Args:
        model: A ``MaskedLanguageModel`` (an ELECTRA pair's generator).
        objective: With a correction, whose detector is asked.
        batches: Rows to mask.
        tokenizer: Turns tokens back into text.
        device: Where the model is.

    Returns:
        Readings over all rows, and every correction, the most probable first.
    """
    was_training = model.training
    model.train(False)
    meter = Meter()
    corrections: list[Correction] = []
    for rows in batches:
        batch = objective.corrupt(rows.to(device))
        prediction = objective.predict(model, batch)
        meter.add(objective.outcome(model, prediction), objective.counts(batch))
        corrections += _corrections(prediction, tokenizer)
    model.train(was_training)
    corrections.sort(key=lambda correction: -correction.probability)
    return FalseNegatives(meter.read(Processes(), objective.weights), corrections)


def _corrections(prediction: Prediction, tokenizer: PreTrainedTokenizerFast) -> Iterator[Correction]:
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
