"""From a model and examples to answers, and from answers to figures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import encode
from trueneg.config.options import FinetuneConfig
from trueneg.evaluation.results.provenance import versions
from trueneg.evaluation.results.store import Result, columns_of
from trueneg.tasks.base import Encoded, Prediction, Task
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
    """One answer an example, in order.

    Args:
        model: Fine-tuned, with the task's head.
        task: The examples' task.
        examples: Of one split.
        encoded: What ``task.encode`` made of them with ``is_training=False``.
        pad_id: Of the tokenizer.
        precision: ``fp32`` or ``bf16``.
        processes: Who shares the work; all get all answers.
        progress: Told how many rows are read, of how many.
    """
    objective = task.objective()
    outputs = predict(
        model, objective, encoded.features, pad_id, precision=precision, processes=processes, progress=progress
    )
    return task.answers(examples, encoded, outputs)


def score(task: Task[Any], answers: Sequence[Prediction]) -> dict[str, float]:
    """The task's metrics, the primary one first.

    Raises:
        TaskError: if there is nothing to measure.
    """
    columns = columns_of(answers)
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
    processes: Processes | None = None,
    progress: Tell = untold,
) -> tuple[Result, list[Prediction]]:
    """Answer a split's examples and, where their labels are known, score the answers.

    Args:
        model: Fine-tuned, with the task's head.
        task: What is asked.
        tokenizer: The model's.
        config: How it was trained; ``task.length`` and ``task.max_dev_examples`` count here too.
        split: One of the task's.
        step: Steps of training done.
        trained: What the result says of the training.
        processes: Who shares the work.
        progress: Told how many rows are read, of how many.

    Returns:
        The result, and one answer an example, in order.
    """
    started = time.monotonic()
    read = task.read(split)
    examples, wanted = read.examples, config.task.max_dev_examples
    if wanted and wanted < len(examples):
        examples = task.subset(examples, wanted, SUBSET_SEED)
    encoded = task.encode(examples, tokenizer, config.task.length, is_training=False)
    answers = predict_split(
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
        answers,
        config,
        metrics=score(task, answers) if read.is_labelled else {},
        counts={**read.counts, **encoded.counts, **_missing(answers)},
        step=step,
        trained=trained,
        started=started,
    )
    return result, answers


def make_result(
    task: Task[Any],
    split: str,
    answers: Sequence[Prediction],
    config: FinetuneConfig,
    *,
    metrics: dict[str, float],
    counts: Mapping[str, int],
    step: int,
    trained: Mapping[str, Any],
    started: float,
) -> Result:
    """What answers came to, with all that it depends on; ``started`` is when answering began, as ``time.monotonic``."""
    return Result(
        task=task.name,
        split=split,
        seed=config.train.seed,
        metrics=metrics,
        num_examples=len(answers),
        model=config.start_from,
        selection=selection(config),
        step=step,
        counts=dict(counts),
        labels=list(task.labels),
        train=dict(trained),
        seconds=round(time.monotonic() - started, 3),
        config=encode(config),
        versions=versions(),
    )


def _missing(answers: Sequence[Prediction]) -> dict[str, int]:
    """How many examples got no answer, which counts as a wrong one."""
    num_missing = sum(bool(given.get("is_missing")) for given in answers)
    return {"missing_predictions": num_missing} if num_missing else {}


def selection(config: FinetuneConfig) -> str:
    """How the evaluated weights were chosen, in words."""
    if config.select == "last":
        return "last"
    return f"best on {config.valid_fraction:.0%} of the training examples, held out"


def pad_id(tokenizer: PreTrainedTokenizerFast) -> int:
    """What rows are padded with."""
    found = special_ids(tokenizer)["pad"]
    if found is None:
        raise AssertionError("load_tokenizer lets no tokenizer without a padding token pass")
    return found
