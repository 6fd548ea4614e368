"""Training examples of a fine-tuning run: read, sampled, split and encoded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from trueneg.config.finetune_options import FinetuneConfig
from trueneg.corruption.keyed import mixed_seed
from trueneg.errors import TaskError
from trueneg.tasks.base import Encoded, Task, digest_of
from trueneg.tasks.split import hold_out, train_fraction


@dataclass(frozen=True)
class TaskData:
    """Training examples of a run and, if it has one, its validation part."""

    train: Encoded
    valid_examples: Sequence[Any]
    valid: Encoded | None
    num_examples: int
    """Number of training examples, each of which may be several rows."""
    counts: Mapping[str, int]
    """What was left out or cut while reading and encoding."""

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the training rows."""
        features, digest = self.train.features, hashlib.sha256()
        targets = (*features.row_targets.values(), *features.token_targets.values())
        for array in (features.input_ids, features.starts, *targets):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]


def read_task_data(task: Task[Any], config: FinetuneConfig, tokenizer: PreTrainedTokenizerFast) -> TaskData:
    """Read, sample, split and encode the training examples.

    Raises:
        TaskError: if they have no labels, or none can be trained on.
    """
    split, options = task.read(task.train_split), config.task
    if not split.is_labelled:
        raise TaskError(f"the split '{task.train_split}' of '{task.name}' has no labels: nothing to train on")
    seed = config.train.seed
    examples = chosen_examples(task, config, split.examples)
    valid: list[Any] = []
    if config.select == "best" or config.hold_out:
        examples, valid = hold_out(task, examples, config.valid_fraction, mixed_seed(seed, 1))
    num_examples = len(examples)
    if options.swap_pairs:
        examples = task.swapped(examples)
    train = task.encode(examples, tokenizer, options.length, is_training=True)
    if not len(train.features):
        raise TaskError(f"no example of '{task.name}' can be trained on: {dict(split.counts)}")
    return TaskData(
        train,
        valid,
        task.encode(valid, tokenizer, options.length, is_training=False) if valid else None,
        num_examples,
        {**split.counts, **train.counts},
    )


def chosen_examples(task: Task[Any], config: FinetuneConfig, examples: Sequence[Any]) -> list[Any]:
    """Select the training examples that a run uses, the same for the same seed."""
    options, seed = config.task, config.train.seed
    chosen = train_fraction(task, examples, options.train_fraction, seed)
    if 0 < options.max_train_examples < len(chosen):
        chosen = task.subset(chosen, options.max_train_examples, seed)
    return list(chosen)


def data_digests(task: Task[Any]) -> dict[str, str]:
    """Digests (``tasks.base.digest_of``) that identify the data of a task's labelled splits."""
    return {split: digest_of(task.read(split).examples) for split in (task.train_split, *task.dev_splits)}
