"""A model's predictions for encoded rows."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.arithmetic import reading_tokens
from trueneg.hardware import autocast
from trueneg.models.modes import eval_mode
from trueneg.objectives.labelled import LabelledObjective
from trueneg.terminal.progress import ProgressCallback, counted, no_progress
from trueneg.training.distributed import Processes
from trueneg.training.features import Features

_TOKENS_AT_ONCE = 16_384
"""Most tokens in a batch, padding included: enough to keep a GPU busy, and few enough to fit beside any encoder."""


@torch.no_grad()
def predict(
    model: torch.nn.Module,
    objective: LabelledObjective,
    features: Features,
    pad_id: int,
    *,
    precision: str = "fp32",
    processes: Processes | None = None,
    tokens_at_once: int = 0,
    progress: ProgressCallback = no_progress,
) -> list[NDArray[np.float32]]:
    """Outputs of each row, in order: ``[outputs]``, or ``[tokens of the row, outputs]`` for objectives over tokens.

    Rows are sorted by length, the longest first, and batched by ``tokens_at_once`` tokens, by default as many as suit
    the model's device; dropout is off. With several processes, each reads its share, and all get all outputs.
    ``progress`` is called with the number of rows that this process has read, and the number of all rows.
    """
    processes = processes or Processes()
    device = next(model.parameters()).device
    at_once = tokens_at_once or reading_tokens(device, _TOKENS_AT_ONCE)
    order = np.argsort(-features.lengths, kind="stable")
    outputs: list[NDArray[np.float32] | None] = [None] * len(features)
    width = 0
    with eval_mode(model):
        batches = _batches(order[processes.rank :: processes.world_size], features, at_once)
        for numbers in counted(batches, map(len, batches), len(features), progress):
            batch = features.batch(numbers, pad_id).to(device)
            with autocast(device, precision):
                found = objective.outputs(model, batch).float().cpu().numpy()
            width = found.shape[-1]
            for number, row in zip(numbers, found, strict=True):
                outputs[number] = row if row.ndim == 1 else row[: features.lengths[number]]
    if processes.world_size > 1:
        return _gathered(outputs, features, width, device, processes)
    return [row for row in outputs if row is not None]


def _batches(order: NDArray[np.int64], features: Features, tokens_at_once: int) -> list[NDArray[np.int64]]:
    batches, start = [], 0
    lengths = features.lengths[order]
    while start < len(order):
        end = start + max(1, tokens_at_once // max(1, int(lengths[start])))
        batches.append(order[start:end])
        start = end
    return batches


def _gathered(
    own: list[NDArray[np.float32] | None],
    features: Features,
    width: int,
    device: torch.device,
    processes: Processes,
) -> list[NDArray[np.float32]]:
    """Outputs of all processes, by summing arrays that are zero at other processes' rows."""
    shape = processes.all_sum(
        {
            "is_of_tokens": torch.tensor(float(any(row is not None and row.ndim == 2 for row in own)), device=device),
            "width": torch.tensor(float(width), device=device),
            "has_width": torch.tensor(float(width > 0), device=device),
        }
    )
    width = int(shape["width"] / shape["has_width"].clamp(min=1))
    is_of_tokens = bool(shape["is_of_tokens"])
    sizes = features.lengths if is_of_tokens else np.ones(len(features), dtype=np.int64)
    places = np.concatenate([[0], np.cumsum(sizes)])
    whole = np.zeros((int(places[-1]), width), dtype=np.float32)
    for number, row in enumerate(own):
        if row is not None:
            whole[places[number] : places[number + 1]] = row
    total = processes.all_sum({"outputs": torch.from_numpy(whole).to(device)})["outputs"].cpu().numpy()
    rows = np.split(total, places[1:-1])
    return rows if is_of_tokens else [row[0] for row in rows]
