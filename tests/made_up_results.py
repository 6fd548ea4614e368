"""Folders of results without any model: answers that a test makes up, scored and saved as real ones are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.evaluation.results.store import Result, columns_of, save_result
from trueneg.tasks.metrics import METRICS


def answers_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns as answers; keys are numbers unless there are some."""
    length = len(next(iter(columns.values())))
    columns = {"key": [str(number) for number in range(length)], **columns}
    plain = [np.asarray(column).tolist() for column in columns.values()]
    return [dict(zip(columns, values, strict=True)) for values in zip(*plain, strict=True)]


def write_result(
    folder: Path,
    task: str,
    seed: int,
    columns: Mapping[str, Any],
    *,
    metrics: Sequence[str] = ("accuracy",),
    split: str = "dev",
    **fields: Any,
) -> Path:
    """Save one seed's result where a real one lies."""
    answers = answers_of(columns)
    read = columns_of(answers)
    known: dict[str, Any] = {"model": "made-up", "selection": "last", "step": 10, "labels": ["0", "1"]}
    result = Result(
        task=task,
        split=split,
        seed=seed,
        metrics={name: METRICS[name](read) for name in metrics},
        num_examples=len(answers),
        **{**known, **fields},
    )
    return save_result(result, answers, folder / task.rpartition("/")[2] / f"seed-{seed}")


def labels(num: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Gold labels, 0 and 1."""
    return np.random.default_rng(seed).integers(0, 2, num)


def guesses(gold: np.ndarray[Any, Any], share_right: float, seed: int) -> np.ndarray[Any, Any]:
    """Predictions that are right so often. The same examples are hard for all: the seed moves the limit a little."""
    ease = np.random.default_rng(99).random(len(gold))
    noise = np.random.default_rng(seed).normal(0, 0.05, len(gold))
    return np.where(ease + noise < share_right, gold, 1 - gold)


def write_model(folder: Path, share_right: float, *, seeds: Sequence[int] = (1, 2, 3), **fields: Any) -> Path:
    """A model's results on glue/rte."""
    gold = labels(400)
    for seed in seeds:
        columns = {"gold": gold, "predicted": guesses(gold, share_right, 1000 * seed + int(1000 * share_right))}
        write_result(folder, "glue/rte", seed, columns, **fields)
    return folder
