"""Predictions for contrast sets: how often a model is right about originals and about revised examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from trueneg.errors import TaskError
from trueneg.evaluation.predictions import pad_id, predict_split
from trueneg.tasks.base import Prediction, Task, digest_of
from trueneg.tasks.contrast_sets import ContrastSet
from trueneg.tasks.metrics import METRICS, Metric
from trueneg.tasks.text import TextExample, fingerprint


def training_counts(
    contrast: ContrastSet,
    task: Task[Any],
    chosen: Callable[[Sequence[TextExample]], Sequence[TextExample]],
    digest: str = "",
) -> dict[str, int]:
    """Count the originals of a contrast set that a model saw in training, to qualify its scores.

    Args:
        contrast: The task's contrast set.
        task: Task that the model was fine-tuned on.
        chosen: Selects the training examples that the model was fine-tuned on.
        digest: Digest of the training split then; empty if it is not known.

    Returns:
        ``trained_on``: originals among those examples, ignoring case, whitespace and punctuation.
        ``left_out_of_training``: originals that are in the training files and were left out because they are in a
        contrast set.

    Raises:
        TaskError: if the training files no longer exist, or have changed.
    """
    train = task.read(task.train_split).examples
    if digest not in ("", digest_of(train)):
        raise TaskError("the training examples have changed since")
    own = [fingerprint(example) for example in contrast.original.examples]
    seen = {fingerprint(example) for example in chosen(train)}
    counts = {"trained_on": sum(one in seen for one in own)}
    if task.left_out:
        released = {fingerprint(example) for example in task.released(task.train_split)}
        counts["left_out_of_training"] = sum(one in released and one in task.left_out for one in own)
    return counts


def predict_contrast_set(
    model: torch.nn.Module,
    task: Task[Any],
    tokenizer: PreTrainedTokenizerFast,
    contrast: ContrastSet,
    *,
    length: int,
    precision: str = "fp32",
) -> tuple[list[Prediction], list[Prediction], dict[str, int]]:
    """Predict the originals and the revised examples with a fine-tuned model.

    Args:
        model: Fine-tuned, with the task's head.
        task: Task that it was fine-tuned on.
        tokenizer: The model's tokenizer.
        contrast: Contrast set of the same task.
        length: Maximum number of tokens per row.
        precision: ``fp32``, ``bf16`` or ``fp16``.

    Returns:
        Predictions of the originals and of the revised examples, and counts: all ``rows``, and those ``truncated``.

    Raises:
        TaskError: if the task has other labels.
    """
    if tuple(task.labels) != contrast.labels:
        raise TaskError(
            f"the contrast set of {contrast.task} has the labels {', '.join(contrast.labels)}, and "
            f"{task.name} has {', '.join(task.labels)}: fine-tune with --task {contrast.task}"
        )
    predictions, counts = [], Counter[str]()
    for split in (contrast.original, contrast.revised):
        encoded = task.encode(split.examples, tokenizer, length, is_training=False)
        counts.update({"rows": len(split.examples), **encoded.counts})
        predictions.append(predict_split(model, task, split.examples, encoded, pad_id(tokenizer), precision=precision))
    return predictions[0], predictions[1], dict(counts)


def group_predictions(
    contrast: ContrastSet, original: Sequence[Prediction], revised: Sequence[Prediction]
) -> list[Prediction]:
    """Count correct predictions per original, with its revisions: the columns of ``CONTRAST_METRICS``, as JSON.

    ``group`` is the cluster that a bootstrap draws; ``items`` are the individual predictions.

    Example:
        >>> first = TextExample("0", "It is good.", label=1, group="0")
        >>> second = TextExample("0/1", "It is bad.", label=0, group="0")
        >>> from pathlib import Path
        >>> from trueneg.tasks.base import Split
        >>> contrast = ContrastSet("imdb", Path(), Split("test", [first], True), Split("test", [second], True))
        >>> it = {"group": "0", "predicted": 1}
        >>> group_predictions(contrast, [it | {"gold": 1}], [it | {"gold": 0}])[0]["num_pairs_right"]
        0
    """
    by_group: dict[str, list[Prediction]] = {}
    for given in revised:
        by_group.setdefault(given["group"], []).append(given)
    found: list[Prediction] = []
    for given in original:
        group, is_right = given["group"], given["gold"] == given["predicted"]
        items = [given, *by_group.get(group, [])]
        of_group = [one["gold"] == one["predicted"] for one in items[1:]]
        found.append(
            {
                "key": group,
                "group": contrast.clusters.get(group, group),
                "num_original": 1,
                "num_original_right": int(is_right),
                "num_revised": len(of_group),
                "num_revised_right": sum(of_group),
                "num_pairs_right": is_right * sum(of_group),
                "num_groups": int(bool(of_group)),
                "num_groups_right": int(bool(of_group) and is_right and all(of_group)),
                "items": [{name: one.get(name) for name in ("key", "gold", "predicted")} for one in items],
            }
        )
    return found


CONTRAST_METRICS: Mapping[str, Metric] = {
    name: METRICS[name] for name in ("group_consistency", "pair_consistency", "original", "revised")
}
"""Of ``group_predictions``: consistency (Con) of groups and pairs, accuracy on originals (Ori) and revisions (Rev).
Originals without revisions count for Ori only."""
