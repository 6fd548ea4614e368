"""Load fine-tuned models, and evaluate them on their tasks and on contrast sets."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import full_name, load_config, override
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.errors import ConfigError, TaskError, TruenegWarning
from trueneg.evaluation.contrast_sets import CONTRAST_METRICS, group_predictions, predict_contrast_set, training_counts
from trueneg.evaluation.predictions import evaluate_model, make_result
from trueneg.evaluation.results.store import Result, columns_of, find_results, load_result, save_result
from trueneg.models.task_model import labels_of, load_finetuned
from trueneg.runs.finetuning import folder_of
from trueneg.runs.finetuning_data import chosen_examples
from trueneg.tasks import make_task
from trueneg.tasks.base import Task, digest_of
from trueneg.tasks.contrast_sets import ContrastSet, read_contrast_set
from trueneg.terminal.progress import ProgressCallback, no_progress
from trueneg.tokenizer import load_tokenizer
from trueneg.training.distributed import choose_device
from trueneg.training.folder import CONFIG, HUGGING_FACE

OF_EVALUATION = ("task.*", "train.precision", "train.device", "attention")
"""Options of a fine-tuned model that its evaluation may change."""
OF_TRAINING = ("task.train_fraction", "task.max_train_examples", "task.swap_pairs")
"""Exceptions, which only training reads."""


@dataclass(frozen=True)
class FinetunedModel:
    """A loaded fine-tuned model, and what it was fine-tuned for."""

    config: FinetuneConfig
    task: Task[Any]
    model: torch.nn.Module
    tokenizer: PreTrainedTokenizerFast
    trained: dict[str, Any]
    """Record of its training, from its results."""


def seed_folders(folder: str | Path) -> list[Path]:
    """Find the folders of each seed of a fine-tuned model.

    Args:
        folder: ``<out>/<task>``, or the folder of one seed.

    Raises:
        ConfigError: if there are none.
    """
    path = Path(folder)
    found = [path] if path.name.startswith("seed-") else sorted(path.glob("seed-*"))
    if not found:
        raise ConfigError(f"'{folder}' holds no fine-tuned model: give OUT/TASK, or OUT/TASK/seed-N")
    return found


def finetuned_task(folder: str | Path, settings: Sequence[str] = ()) -> tuple[FinetuneConfig, Task[Any]]:
    """Load a fine-tuned model's configuration and its task with its labels, without its weights.

    Args:
        folder: Of one seed: ``<out>/<task>/seed-<seed>``.
        settings: ``key=value``, to use it differently than it was trained.

    Raises:
        ConfigError: if the folder holds no fine-tuned model, or a setting has no effect after training.
    """
    folder = Path(folder)
    source = folder / HUGGING_FACE
    if not (source / "config.json").is_file():
        is_finished = any(find_results(folder))
        remedy = "fine-tune again into another --out, with keep_model=true" if is_finished else "finish it"
        raise ConfigError(f"'{folder}' holds no fine-tuned model: {remedy}")
    config = load_config(FinetuneConfig, folder / CONFIG)
    for setting in settings:
        name = full_name(config, setting.partition("=")[0].strip())
        if name in OF_TRAINING or not any(fnmatchcase(name, pattern) for pattern in OF_EVALUATION):
            raise ConfigError(f"{name} has no effect on a model that is already trained: leave it out")
    config = override(config, settings)
    return config, make_task(config.task, labels_of(str(source)))


def open_finetuned(folder: str | Path, settings: Sequence[str] = ()) -> FinetunedModel:
    """Load a fine-tuned model.

    Args:
        folder: Of one seed: ``<out>/<task>/seed-<seed>``.
        settings: ``key=value``, to use it differently than it was trained.

    Raises:
        ConfigError: if the folder holds no fine-tuned model.
        ModelError: if its labels are not the task's.
    """
    config, task = finetuned_task(folder, settings)
    source = Path(folder) / HUGGING_FACE
    model = cast(torch.nn.Module, load_finetuned(task.auto_class, str(source), task.labels, config.attention))
    device = choose_device(config.train.device)
    return FinetunedModel(config, task, model.to(device), load_tokenizer(source), trained_on(folder))


def trained_on(folder: str | Path) -> dict[str, Any]:
    """Read the record of a fine-tuned model's training from its results; empty without results."""
    return next((load_result(path).train for path in find_results(Path(folder))), {})


def evaluate_finetuned(
    folder: str | Path,
    task: str = "",
    splits: Sequence[str] = (),
    *,
    data: str = "",
    settings: Sequence[str] = (),
    progress: ProgressCallback = no_progress,
) -> list[Result]:
    """Evaluate a fine-tuned model, on its own task or on another with the same labels.

    If your data are a single file, only the part that was held out is used if the model was trained on the rest, else
    all of it.

    Args:
        folder: Of one seed: ``<out>/<task>/seed-<seed>``.
        task: By default the one that the model was trained for. The results of another task are written next to those
            of its own: ``<out>/<other task>/seed-<seed>``.
        splits: ``dev``, ``test``, …; by default the task's labelled ones.
        data: The task's files, if they have moved.
        settings: ``key=value``, for example ``task.max_dev_examples=500``.
        progress: Called with the number of rows of a split that are done, and their total.

    Raises:
        ConfigError: if the folder holds no fine-tuned model, the folder for the results holds another model, or a
            setting has no effect after training.
        ModelError: if its labels are not the task's.
        TaskError: if there is no such split.
    """
    named = {"task.name": task, "task.data": data}
    opened = open_finetuned(folder, [*(f"{key}={value}" for key, value in named.items() if value), *settings])
    config, other = opened.config, opened.task
    own = Path(folder).resolve()
    target = folder_of(other.name, config.train.seed, own.parents[1])
    if target != own and (target / CONFIG).exists():
        raise ConfigError(
            f"'{target}' holds a model of its own, whose results these would replace: copy '{folder}' to "
            f"OTHER/TASK/seed-{config.train.seed}, and evaluate it there"
        )
    if not (splits := splits or other.dev_splits):
        raise ConfigError(f"{other.name} has no labelled split: name one with --split, as test")
    results = []
    for split in splits:
        result, predictions = evaluate_model(
            opened.model,
            other,
            opened.tokenizer,
            config,
            split,
            step=config.train.steps,
            trained=opened.trained,
            is_whole=is_unseen(folder, other, split, config.task.data),
            progress=progress,
        )
        save_result(result, predictions, target)
        results.append(result)
    return results


def evaluate_contrast_set(
    folder: str | Path, data: str | Path, splits: Sequence[str] = ("test",), results_in: str | Path = ""
) -> list[Result]:
    """Evaluate a fine-tuned model on its task's contrast set: originals, revisions, and both together.

    A result has the split ``contrast-<split>`` and one prediction per group, so that ``compare`` can read it. Its
    counts include how many originals the model was trained on (``trained_on``), and how many were excluded from
    training for this purpose.

    Args:
        folder: Of one seed: ``<out>/<task>/seed-<seed>``.
        data: A folder with the contrast set as it was released.
        splits: ``test``; some tasks have ``dev`` as well.
        results_in: See ``results_folder``.

    Raises:
        ConfigError: if the folder holds no fine-tuned model, or its task has no contrast set.
        TaskError: if the set cannot be found.
    """
    folder = Path(folder)
    opened = open_finetuned(folder)
    config, task = opened.config, opened.task
    sets = [read_contrast_set(task.name, data, split) for split in splits]
    results = []
    for split, contrast in zip(splits, sets, strict=True):
        started = time.monotonic()
        original, revised, read = predict_contrast_set(
            opened.model,
            task,
            opened.tokenizer,
            contrast,
            length=config.task.length,
            precision=config.train.precision,
        )
        predictions = group_predictions(contrast, original, revised)
        columns = columns_of(predictions)
        result = make_result(
            task,
            f"contrast-{split}",
            predictions,
            config,
            examples=[*contrast.original.examples, *contrast.revised.examples],
            metrics={name: metric(columns) for name, metric in CONTRAST_METRICS.items()},
            counts={**contrast.counts, **read, **_seen(contrast, opened)},
            step=config.train.steps,
            trained=opened.trained,
            started=started,
        )
        result = replace(result, config={**result.config, "contrast_set": str(data)})
        save_result(result, predictions, results_folder(folder, opened, results_in))
        results.append(result)
    return results


def is_unseen(folder: str | Path, task: Task[Any], split: str, data: str = "") -> bool:
    """Whether a split is read from a single file of the user's that the model was not trained on, and so as a whole.

    Args:
        folder: The model's, of one seed.
        task: The task to evaluate.
        split: The split; False if it has a file of its own.
        data: The task's files; empty for those of fine-tuning.

    Raises:
        TaskError: if the split is a part of the training file, and which part the model was trained on cannot be told
            since the file has changed, or another one takes its place.
    """
    trained = trained_on(folder)
    known = trained.get("data", {}).get(task.train_split)
    is_other_task = not task.is_split_off and trained.get("task") != task.name
    if split not in task.set_aside or known is None or is_other_task:
        return False
    whole = task.read(task.train_split, is_whole=True) if task.is_split_off else None
    if whole is not None and not whole.is_labelled:
        return True
    if digest_of(task.read(task.train_split).examples) == known:
        return False
    own = load_config(FinetuneConfig, Path(folder) / CONFIG).task.data
    if whole is not None and Path(data or own).resolve() != Path(own).resolve():
        if digest_of(whole.examples) != known:
            return True
        raise TaskError(f"{data}: '{folder}' was trained on all of it: name another file to evaluate on")
    raise TaskError(
        f"{data or own}: '{split}' is a part of the training examples, and these are not those that '{folder}' was "
        f"trained on: restore them, or evaluate on a split with a file of its own"
    )


def results_folder(model: Path, opened: FinetunedModel, results_in: str | Path = "") -> Path:
    """Folder for the results of a fine-tuned model of one seed: its own, or ``folder_of`` within ``results_in``."""
    return folder_of(opened.task.name, opened.config.train.seed, results_in) if str(results_in) else model


def _seen(contrast: ContrastSet, opened: FinetunedModel) -> dict[str, int]:
    """Counts of a contrast set's originals that a model was trained on; empty if its training files are gone or new."""
    task, known = opened.task, opened.trained.get("data", {})
    try:
        chosen = partial(chosen_examples, task, opened.config)
        return training_counts(contrast, task, chosen, known.get(task.train_split, ""))
    except TaskError as error:
        warnings.warn(
            f"whether the contrast set's originals were trained on cannot be told: {error}",
            TruenegWarning,
            stacklevel=3,
        )
        return {}
