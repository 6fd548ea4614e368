"""Predict examples with a model, and score the predictions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import encode
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.evaluation.results.provenance import versions
from trueneg.evaluation.results.store import HELD_OUT, Result, columns_of
from trueneg.tasks.base import Encoded, Prediction, Task, digest_of
from trueneg.tasks.metrics import METRICS
from trueneg.terminal.progress import ProgressCallback, no_progress
from trueneg.tokenizer import special_ids
from trueneg.training.distributed import Processes
from trueneg.training.predict import predict

SUBSET_SEED = 0x5EED
"""Seed that draws ``task.max_dev_examples`` examples: the same for all models, so that they can be compared."""


def predict_split(
    model: torch.nn.Module,
    task: Task[Any],
    examples: Sequence[Any],
    encoded: Encoded,
    pad_id: int,
    *,
    precision: str = "fp32",
    processes: Processes | None = None,
    progress: ProgressCallback = no_progress,
) -> list[Prediction]:
    """Predict every example of a split, in order.

    Args:
        model: Fine-tuned, with the task's head.
        task: Task of the examples.
        examples: Examples of one split.
        encoded: Output of ``task.encode`` for them with ``is_training=False``.
        pad_id: Id of the padding token.
        precision: ``fp32``, ``bf16`` or ``fp16``.
        processes: Processes that share the work; each gets all predictions.
        progress: Called with the number of rows read and the total.
    """
    objective = task.objective()
    outputs = predict(
        model, objective, encoded.features, pad_id, precision=precision, processes=processes, progress=progress
    )
    return task.predictions(examples, encoded, outputs)


def score(task: Task[Any], predictions: Sequence[Prediction]) -> dict[str, float]:
    """Compute the task's metrics, the primary one first.

    Raises:
        TaskError: if there is nothing to measure.
    """
    columns = columns_of(predictions)
    return {name: METRICS[name](columns) for name in task.metrics}


def evaluate_model(
    model: torch.nn.Module,
    task: Task[Any],
    tokenizer: PreTrainedTokenizerFast,
    config: FinetuneConfig,
    split: str,
    *,
    step: int,
    trained: Mapping[str, Any],
    is_whole: bool = False,
    processes: Processes | None = None,
    progress: ProgressCallback = no_progress,
) -> tuple[Result, list[Prediction]]:
    """Predict a split's examples and, where their labels are known, score the predictions.

    Args:
        model: Fine-tuned, with the task's head.
        task: Task to evaluate on.
        tokenizer: The model's tokenizer.
        config: Fine-tuning configuration; ``task.length`` and ``task.max_dev_examples`` also apply here.
        split: One of the task's splits.
        step: Training steps done.
        trained: Facts about the training, for the result.
        is_whole: See ``Task.read``.
        processes: Processes that share the work.
        progress: Called with the number of rows read and the total.

    Returns:
        The result, and one prediction per example, in order.
    """
    started = time.monotonic()
    read = task.read(split, is_whole=is_whole)
    examples, limit = read.examples, config.task.max_dev_examples
    if limit and limit < len(examples):
        examples = task.subset(examples, limit, SUBSET_SEED)
    encoded = task.encode(examples, tokenizer, config.task.length, is_training=False)
    predictions = predict_split(
        model,
        task,
        examples,
        encoded,
        pad_id(tokenizer),
        precision=config.train.precision,
        processes=processes,
        progress=progress,
    )
    result = make_result(
        task,
        split,
        predictions,
        config,
        examples=examples,
        metrics=score(task, predictions) if read.is_labelled else {},
        counts={**read.counts, **encoded.counts, **_missing(predictions)},
        step=step,
        trained=trained,
        started=started,
    )
    return result, predictions


def make_result(
    task: Task[Any],
    split: str,
    predictions: Sequence[Prediction],
    config: FinetuneConfig,
    *,
    examples: Iterable[Any],
    metrics: dict[str, float],
    counts: Mapping[str, int],
    step: int,
    trained: Mapping[str, Any],
    started: float,
) -> Result:
    """Make the result of predictions that began at ``started`` (``time.monotonic``), with everything it depends on.

    ``examples`` are the predicted ones: their digest, independent of order, distinguishes versions of a split.
    """
    return Result(
        task=task.name,
        split=split,
        seed=config.train.seed,
        metrics=metrics,
        num_examples=len(predictions),
        model=config.start_from,
        selection=selection(config, trained),
        step=step,
        counts=dict(counts),
        labels=list(task.labels),
        train=dict(trained),
        seconds=round(time.monotonic() - started, 3),
        config=encode(config),
        data=digest_of(sorted(examples, key=repr)),
        versions=versions(),
    )


def _missing(predictions: Sequence[Prediction]) -> dict[str, int]:
    """Count the examples without a prediction, which count as wrong."""
    num_missing = sum(bool(given.get("is_missing")) for given in predictions)
    return {"missing_predictions": num_missing} if num_missing else {}


def selection(config: FinetuneConfig, trained: Mapping[str, Any]) -> str:
    """Describe how the evaluated weights were chosen: within a run, and among the runs of a sweep.

    Args:
        config: Configuration of the training.
        trained: Facts about the training in the result; ``sweep`` is added by ``runs.sweeps``.
    """
    held_out = f"{config.valid_fraction:.0%} of the training examples, held out"
    chosen = "last" if config.select == "last" else f"best on {held_out}"
    if swept := trained.get("sweep"):
        where = held_out if swept["on"] == HELD_OUT else swept["on"]
        names = " and ".join(swept["settings"])
        chosen += f"; {names}: best of {swept['num_combinations']} by {swept['metric']} on {where}"
    return chosen


def pad_id(tokenizer: PreTrainedTokenizerFast) -> int:
    """Return the id of the padding token."""
    found = special_ids(tokenizer)["pad"]
    if found is None:
        raise AssertionError("load_tokenizer lets no tokenizer without a padding token pass")
    return found
