"""Predictions for contrast sets: how often a model is right about originals and about revised examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from trueneg.errors import TaskError
from trueneg.evaluation.predictions import pad_id, predict_split
from trueneg.evaluation.results.store import columns_of
from trueneg.evaluation.statistics.bootstrap import Bootstrap
from trueneg.evaluation.statistics.intervals import Interval, percentiles
from trueneg.tasks.base import Prediction, Task
from trueneg.tasks.cline import CLINE, ClineTask, fingerprint
from trueneg.tasks.contrast_sets import ContrastSet
from trueneg.tasks.metrics import METRICS, Metric
from trueneg.tasks.text import TextExample


def num_trained_on(contrast: ContrastSet, examples: Sequence[TextExample]) -> int:
    """How many originals are among training examples, whatever their case, spaces and punctuation."""
    seen = {fingerprint(example) for example in examples}
    return sum(fingerprint(example) in seen for example in contrast.original.examples)


def training_counts(
    contrast: ContrastSet, task: Task[Any], chosen: Callable[[Sequence[TextExample]], Sequence[TextExample]]
) -> dict[str, int]:
    """How many of a contrast set's originals a model has seen: what its figures are to be read with.

    Args:
        contrast: Of the task.
        task: That the model was fine-tuned on.
        chosen: Of the task's training examples, those that it was fine-tuned on.

    Returns:
        ``trained_on``: originals among those examples. ``left_out_of_training``: originals that stand in the training
        files and were left out because they are in a contrast set.

    Raises:
        TaskError: if the training files are not there any more.
    """
    counts = {"trained_on": num_trained_on(contrast, chosen(task.read(task.train_split).examples))}
    if isinstance(task, ClineTask) and task.left_out:
        released = {fingerprint(example) for example in task.released(task.train_split)}
        own = [fingerprint(example) for example in contrast.original.examples]
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
) -> tuple[list[Prediction], list[Prediction]]:
    """Answers of a fine-tuned model to the originals and to the revised examples.

    Args:
        model: With the task's head.
        task: That it was fine-tuned on.
        tokenizer: The model's.
        contrast: Of the same task.
        length: Tokens of a row at most.
        precision: ``fp32`` or ``bf16``.

    Raises:
        TaskError: if the task has other labels.
    """
    if tuple(task.labels) != CLINE[contrast.task].labels:
        raise TaskError(
            f"the contrast set of {contrast.task} has the labels {', '.join(CLINE[contrast.task].labels)}, and "
            f"{task.name} has {', '.join(task.labels)}: fine-tune with --task {contrast.task}"
        )
    answers = []
    for split in (contrast.original, contrast.revised):
        encoded = task.encode(split.examples, tokenizer, length, is_training=False)
        answers.append(predict_split(model, task, split.examples, encoded, pad_id(tokenizer), precision=precision))
    return answers[0], answers[1]


def group_predictions(
    contrast: ContrastSet, original: Sequence[Prediction], revised: Sequence[Prediction]
) -> list[Prediction]:
    """What a model got right of each group: what ``CONTRAST_METRICS`` read, one an original, as JSON.

    Its ``group`` is the cluster that a bootstrap draws.

    Example:
        >>> first = TextExample("0", "It is good.", label=1, group="0")
        >>> second = TextExample("0/1", "It is bad.", label=0, group="0")
        >>> contrast = ContrastSet("imdb", Path(), Split("test", [first], True), Split("test", [second], True))
        >>> said = {"group": "0", "predicted": 1}
        >>> group_predictions(contrast, [said | {"gold": 1}], [said | {"gold": 0}])[0]["num_pairs_right"]
        0
    """
    by_group: dict[str, list[bool]] = {}
    for given in revised:
        by_group.setdefault(given["group"], []).append(given["gold"] == given["predicted"])
    found: list[Prediction] = []
    for given in original:
        group, is_right = given["group"], given["gold"] == given["predicted"]
        of_group = by_group.get(group, [])
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
            }
        )
    return found


def contrast_scores(
    answers: Sequence[Prediction], *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> dict[str, Interval]:
    """Each of ``CONTRAST_METRICS``, with a percentile interval of a bootstrap over groups (or their clusters).

    Args:
        answers: Of ``group_predictions``.
        confidence: Of the intervals.
        resamples: How many.
        seed: Of the draws.

    Raises:
        ConfigError: for fewer than two groups.
        TaskError: for no answers.
    """
    columns = columns_of(answers)
    bootstrap = Bootstrap.over(columns, resamples, seed)
    return {
        name: Interval(
            metric(columns), *percentiles(bootstrap.measure(metric, [columns]), confidence), bootstrap.num_groups
        )
        for name, metric in CONTRAST_METRICS.items()
    }


CONTRAST_METRICS: Mapping[str, Metric] = {
    name: METRICS[name] for name in ("group_consistency", "pair_consistency", "original", "revised")
}
"""Con of groups and of pairs, Ori and Rev, of ``group_predictions``. Originals without revisions count for Ori only."""
