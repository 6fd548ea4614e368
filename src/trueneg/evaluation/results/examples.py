"""The examples on which two models differ: how often each model is right, and the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.config.codec import decode, with_current_names
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.results.store import Result, columns_of, load_predictions
from trueneg.evaluation.results.summary import read_runs, refuse_other_data
from trueneg.files.names import distinct_names
from trueneg.tasks import make_task
from trueneg.tasks.base import digest_of
from trueneg.tasks.contrast_sets import read_contrast_set
from trueneg.tasks.metrics import METRICS

Seeds = Mapping[int, tuple[Path, Result]]


@dataclass(frozen=True)
class DifferingExample:
    """An example that one model does better than another, over their seeds."""

    task: str
    split: str
    key: str
    better: str
    """The model that does better."""
    worse: str
    margin: float
    """Mean difference in score over seeds: for labels, the share of its seeds that are right minus the other's."""
    gold: str
    """The gold label or answers; empty if the predictions have none."""
    baseline: dict[str, int]
    """The first model's predictions, each with the number of seeds that make it."""
    contender: dict[str, int]
    """The other model's predictions, likewise."""
    text: str = ""
    """Empty if the data cannot be read again, or do not hold the example any more."""
    second: str = ""


def differing_examples(left: str | Path, *right: str | Path) -> tuple[list[DifferingExample], list[str]]:
    """Find the examples that one of two models is right about more often than the other.

    They are sorted by consistency: first those that all seeds of one model get right and all seeds of the other wrong.
    In a contrast set, originals and revisions count separately.

    Args:
        left: The baseline's folder.
        right: One or more other folders, each compared with it.

    Returns:
        The examples, and notes on texts that could not be read or found.

    Raises:
        TaskError: if a folder has no results, or predictions are of different examples.
    """
    names = distinct_names([left, *right])
    ours = read_runs(left)
    found: list[DifferingExample] = []
    notes: dict[str, None] = {}
    for name, folder in zip(names[1:], right, strict=True):
        theirs = read_runs(folder)
        refuse_other_data(ours, theirs)
        for (task, split), seeds in ours.items():
            others = theirs.get((task, split))
            if others is None or not all(result.metrics for side in (seeds, others) for _, result in side.values()):
                continue
            common = sorted(seeds.keys() & others.keys())
            sides = [{seed: side[seed] for seed in common} if len(common) > 1 else side for side in (seeds, others)]
            differing = list(_differing(task, split, (names[0], name), sides))
            texts, note = _texts(*next(iter(sides[0].values()))) if differing else ({}, "")
            note = note or _without_text(differing, texts)
            notes |= dict.fromkeys([f"{task}, {split}: {note}"] if note else [])
            found += [_with_text(example, texts) for example in differing]
    return sorted(found, key=lambda one: -one.margin), list(notes)


def _differing(task: str, split: str, names: tuple[str, str], sides: Sequence[Seeds]) -> Iterator[DifferingExample]:
    read = [[_items(load_predictions(path)) for path, _ in side.values()] for side in sides]
    first = next(iter(sides[0].values()))
    keys = list(read[0][0])
    scores = []
    for side, systems in zip(sides, read, strict=True):
        of_side = []
        for (path, result), items in zip(side.values(), systems, strict=True):
            if items.keys() != read[0][0].keys():
                raise TaskError(f"'{first[0]}' and '{path}' are of different examples: evaluate both on the same split")
            ordered = [items[key] for key in keys]
            is_item = "gold" in ordered[0] and result.primary not in ("spearman", "pearson")
            metric = METRICS["accuracy" if is_item and split.startswith("contrast-") else result.primary]
            of_side.append(metric.scores(columns_of(ordered)))
        scores.append(np.mean(of_side, axis=0))
    labels = first[1].labels
    for number in np.flatnonzero(np.abs(scores[1] - scores[0]) > 1e-9):
        key, gain = keys[number], float(scores[1][number] - scores[0][number])
        better, worse = names[::-1] if gain > 0 else names
        told = [Counter(_said(items[key], "predicted", labels) for items in systems) for systems in read]
        gold = _said(read[0][0][key], "gold", labels)
        yield DifferingExample(task, split, key, better, worse, abs(gain), gold, dict(told[0]), dict(told[1]))


def _items(predictions: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Index predictions by key; a contrast set's groups are split into originals and revisions."""
    items = [item for one in predictions for item in one.get("items", [one])]
    return {str(item.get("key")): item for item in items}


def _said(item: Mapping[str, Any], name: str, labels: Sequence[str]) -> str:
    """Write a label by its name, and a contrast set's group in a former version's format as counts."""
    value = item.get(name)
    if name == "predicted" and value is None and "num_revised" in item:
        return f"{item['num_original_right']} original, {item['num_revised_right']} of {item['num_revised']} revisions"
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(labels):
        return labels[value]
    return "" if value is None else str(value)


def _without_text(examples: Sequence[DifferingExample], texts: Mapping[str, tuple[str, str]]) -> str:
    """Say how many examples are not in the data any more; empty if all are."""
    num_missing = sum(example.key not in texts for example in examples)
    missing = f"no text for {num_missing:,} of {len(examples):,} examples: the data no longer hold them"
    return missing if num_missing else ""


def _with_text(example: DifferingExample, texts: Mapping[str, tuple[str, str]]) -> DifferingExample:
    text, second = texts.get(example.key, ("", ""))
    return DifferingExample(**{**vars(example), "text": text, "second": second})


def _texts(path: Path, result: Result) -> tuple[dict[str, tuple[str, str]], str]:
    """Read the texts of a result again, by key; or say why that is not possible."""
    if result.split.startswith("attack-"):
        return {}, "texts of attacks are in their own files"
    try:
        if result.split.startswith("contrast-"):
            place = result.config.get("contrast_set", "")
            if not place:
                return {}, "no texts: evaluate the contrast set again"
            contrast = read_contrast_set(result.task, place, result.split.removeprefix("contrast-"))
            examples = [*contrast.original.examples, *contrast.revised.examples]
        else:
            config = decode(FinetuneConfig, with_current_names(FinetuneConfig, result.config))
            # A model that was not trained on the rest of a single file is evaluated on all of it.
            examples = list(make_task(config.task, result.labels or None).read(result.split, is_whole=True).examples)
    except (TaskError, ConfigError) as error:
        return {}, f"no texts: {error}"
    keys = _items(load_predictions(path)).keys()
    evaluated = [example for example in examples if str(example.key) in keys]
    if result.data not in ("", digest_of(sorted(evaluated, key=repr))):
        return {}, "no texts: the data have changed since"
    return {str(example.key): _words(example) for example in evaluated}, ""


def _words(example: Any) -> tuple[str, str]:
    """Return an example's texts, whatever its kind."""
    if hasattr(example, "question"):
        return example.question, example.context
    if hasattr(example, "words"):
        return " ".join(example.words), ""
    return str(getattr(example, "text", "")), str(getattr(example, "second", None) or "")
