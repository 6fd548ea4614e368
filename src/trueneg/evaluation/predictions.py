"""From a model and examples to predictions, and from predictions to figures."""

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
from trueneg.terminal.progress import Tell, untold
from trueneg.tokenizer import special_ids
from trueneg.training.distributed import Processes
from trueneg.training.predict import predict

SUBSET_SEED = 0x5EED
"""Chooses the examples of ``task.max_dev_examples``: for every model and seed alike, so that they can be compared."""


def predict_split(
    model: torch.nn.Module,
    task: Task[Any],
    examples: Sequence[Any],
    encoded: Encoded,
    pad_id: int,
    *,
    precision: str = "fp32",
    processes: Processes | None = None,
    progress: Tell = untold,
) -> list[Prediction]:
    """Predict every example of a split, in order.

    Args:
        model: Fine-tuned, with the task's head.
        task: The examples' task.
        examples: Those of one split.
        encoded: What ``task.encode`` made of them with ``is_training=False``.
        pad_id: The tokenizer's.
        precision: ``fp32``, ``bf16`` or ``fp16``.
        processes: Those that share the work; all get all predictions.
        progress: Called with the number of rows read, and of all.
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
    progress: Tell = untold,
) -> tuple[Result, list[Prediction]]:
    """Predict a split's examples and, where their labels are known, score the predictions.

    Args:
        model: Fine-tuned, with the task's head.
        task: What the model is evaluated on.
        tokenizer: The model's.
        config: How it was trained; ``task.length`` and ``task.max_dev_examples`` count here too.
        split: One of the task's.
        step: Steps of training done.
        trained: What the result says of the training.
        is_whole: See ``Task.read``.
        processes: Those that share the work.
        progress: Called with the number of rows read, and of all.

    Returns:
        The result, and one prediction an example, in order.
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
    """Make the result of predictions that began at ``started`` (``time.monotonic``), with all it depends on.

    ``examples`` are those that were predicted: their digest, whatever their order, tells versions of a split apart.
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
    """Say how the evaluated weights were chosen: among those of a run, and among the runs of a sweep.

    Args:
        config: How they were trained.
        trained: What the result says of the training; ``sweep`` is what ``runs.sweeps`` adds.
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
