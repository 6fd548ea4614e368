"""Fine-tune an encoder on human judgements, so that the cosines that a learned detector weighs agree with them.

Substitutes of a word are encoded together, so that one pass over a sentence trains on all of its judgements.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR

from trueneg.arithmetic import reading_dtype
from trueneg.detectors.scorers.base import Substitution
from trueneg.models.reading import Span, SpanReader, TextEncoder
from trueneg.models.together import Row, read_rows, row_batches

LEARNING_RATE = 1e-4
"""Learning rate of the encoder: linear warm-up over a tenth of the steps, then linear decay to 0."""
WEIGHTS_LEARNING_RATE = 1e-2
"""Learning rate of the logistic regression's weights; features other than cosines have variance one."""
WEIGHT_DECAY = 0.01
MAX_GRADIENT_NORM = 1.0
ROWS_A_STEP = 8

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Lesson:
    """A row, the index of each judged substitute in it, and the indices of their judgements."""

    row: Row
    places: list[int]
    judged: list[int]


def tune(
    encoder: TextEncoder,
    substitutions: Sequence[Substitution],
    is_accepted: NDArray[np.bool_],
    others: Matrix,
    weights: Matrix,
    epochs: int,
    seed: int = 0,
) -> tuple[TextEncoder, Matrix]:
    """Fine-tune a copy of an encoder, and the weights of its cosines and of other features, by cross-entropy.

    It starts from the logistic regression of ``weights``: the logit of a substitution is a weighted sum of the cosine
    at every layer and of the other features. Input embeddings are frozen, because most words are in no judgement.
    Computed in ``reading_dtype``, as when substitutes are scored.

    Args:
        encoder: One that has passed ``check_together``; it is not changed.
        substitutions: ``n`` of them.
        is_accepted: bool ``[n]``.
        others: Features besides the cosines, float64 ``[n, others]``.
        weights: The constant, a weight for each of the encoder's layers, then one for each other feature.
        epochs: Passes over the judgements.
        seed: Seed of their order and of dropout.

    Returns:
        The fine-tuned encoder, frozen, and the weights that go with it.
    """
    tuned = copy.copy(encoder)
    tuned.model = copy.deepcopy(encoder.model)
    tuned.reader = SpanReader(encoder.tokenizer, encoder.reader.window)
    lessons = _lessons(tuned, substitutions)
    device = tuned.model.device
    num_layers = len(encoder.layers)
    mean, spread = others.mean(0), others.std(0)
    scale = np.where(spread > 1e-12, spread, 1.0)
    inputs = torch.tensor((others - mean) / scale, dtype=torch.float32, device=device)
    targets = torch.tensor(is_accepted, dtype=torch.float32, device=device)
    slopes = weights[1 + num_layers :]
    start = [weights[:1] + slopes @ mean, weights[1 : 1 + num_layers], slopes * scale]
    constant, of_layers, of_others = (
        torch.tensor(part, dtype=torch.float32, device=device).requires_grad_() for part in start
    )

    def loss_of(batch: Sequence[_Lesson]) -> Tensor:
        read = read_rows(tuned, [lesson.row for lesson in batch], reading_dtype(device))
        cosines = [_cosines(vectors)[lesson.places] for vectors, lesson in zip(read, batch, strict=True)]
        judged = [number for lesson in batch for number in lesson.judged]
        logits = constant + torch.cat(cosines) @ of_layers + inputs[judged] @ of_others
        return functional.binary_cross_entropy_with_logits(logits, targets[judged])

    # The fork preserves the caller's random state.
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        _train(tuned, [constant, of_layers, of_others], lessons, loss_of, epochs, seed)
    learned = [part.detach().cpu().double().numpy() for part in (constant, of_layers, of_others)]
    slopes = learned[2] / scale
    return tuned, np.concatenate([learned[0] - slopes @ mean, learned[1], slopes])


def _train(
    encoder: TextEncoder,
    head: Sequence[Tensor],
    lessons: Sequence[_Lesson],
    loss_of: Callable[[Sequence[_Lesson]], Tensor],
    epochs: int,
    seed: int,
) -> None:
    model = encoder.model.requires_grad_(True).train()
    model.get_input_embeddings().requires_grad_(False)
    body = [parameter for parameter in model.parameters() if parameter.requires_grad]
    num_steps = max(1, epochs * math.ceil(len(lessons) / ROWS_A_STEP))
    optimizer = torch.optim.AdamW(
        [
            {"params": body, "lr": LEARNING_RATE, "weight_decay": WEIGHT_DECAY},
            {"params": list(head), "lr": WEIGHTS_LEARNING_RATE, "weight_decay": 0.0},
        ]
    )
    num_warm_up = math.ceil(num_steps / 10)
    # No step has a learning rate of 0, which would waste the first of a few steps.
    schedule = LambdaLR(
        optimizer, lambda step: min((step + 1) / num_warm_up, (num_steps - step) / max(num_steps - num_warm_up, 1))
    )
    random = np.random.default_rng(seed)
    for _ in range(epochs):
        order = random.permutation(len(lessons)).tolist()
        for first in range(0, len(order), ROWS_A_STEP):
            loss_of([lessons[at] for at in order[first : first + ROWS_A_STEP]]).backward()
            torch.nn.utils.clip_grad_norm_(body, MAX_GRADIENT_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.requires_grad_(False).eval()


def _cosines(vectors: Tensor) -> Tensor:
    """Cosines of each substitute with the word at each layer, from vectors ``[1 + substitutes, layers, hidden]``."""
    units = functional.normalize(vectors, dim=-1)
    return (units[1:] * units[:1]).sum(-1)


def _lessons(encoder: TextEncoder, substitutions: Sequence[Substitution]) -> list[_Lesson]:
    """The rows of the judged substitutes, in an order that does not depend on batching."""
    words: dict[Span, dict[str, list[int]]] = {}
    for number, s in enumerate(substitutions):
        words.setdefault((s.text, s.start, s.end), {}).setdefault(s.substitute, []).append(number)
    numbers = [list(found.values()) for found in words.values()]
    batches = row_batches(encoder, list(words), [list(found) for found in words.values()])
    lessons = []
    for row in sorted((row for batch in batches for row in batch), key=lambda row: (row.number, row.first)):
        found = [
            (place, number) for place in range(len(row.pieces)) for number in numbers[row.number][row.first + place]
        ]
        lessons.append(_Lesson(row, [place for place, _ in found], [number for _, number in found]))
    return lessons
