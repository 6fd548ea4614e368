"""Results of an evaluation on disk: one JSON file, and predictions with one line per example."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.errors import TaskError, TruenegDeprecationWarning
from trueneg.files.records import read_record_lines, read_versioned
from trueneg.files.whole import write_json, write_whole
from trueneg.tasks.metrics import Columns
from trueneg.version import __version__

SCHEMA = 1
REMEDY = "evaluate the model again"
FORMER = ".answers.jsonl"
"""Suffix of prediction files in the former version."""

SWEEP = "sweep"
"""Folder below which a sweep stores the results of every combination; ``find_results`` skips it."""
HELD_OUT = "held-out"
"""Says that a sweep selects on held-out training examples; otherwise it selects on a named split."""
SELECTION = "selection.json"
"""File next to the seeds' folders: how a sweep selected them."""


@dataclass(frozen=True)
class Result:
    """One model on one split of one task: ``<out>/<task>/seed-<seed>/<split>.json``, predictions next to it."""

    task: str
    split: str
    seed: int
    metrics: dict[str, float]
    """By name, the task's primary one first; empty where the split's labels are withheld."""
    num_examples: int
    model: str
    """The checkpoint that was fine-tuned."""
    selection: str
    """How the evaluated weights were chosen: ``last``, or ``best`` on which split."""
    step: int
    counts: dict[str, int] = field(default_factory=dict)
    """Number of examples left out, truncated, misaligned etc."""
    labels: list[str] = field(default_factory=list)
    train: dict[str, Any] = field(default_factory=dict)
    """``num_examples``, ``fraction``, ``seconds``, ``tokens_per_second``."""
    seconds: float = 0.0
    """Duration of the evaluation."""
    config: dict[str, Any] = field(default_factory=dict)
    data: str = ""
    """Digest of the evaluated examples, independent of order: for an attack as they were before it, for a contrast set
    originals and revisions. Empty in results of versions that did not write it."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of trueneg, torch, transformers and the source revision, where there is one."""
    schema: int = SCHEMA
    version: str = __version__

    @property
    def primary(self) -> str:
        """Name of the metric that models are compared by."""
        return next(iter(self.metrics))


def predictions_path(result: Path) -> Path:
    """Return the path of the predictions behind a result file: ``dev.json`` has ``dev.predictions.jsonl``."""
    return result.with_suffix(".predictions.jsonl")


def _existing(result: Path) -> Path:
    """Return the path of the predictions, under the former version's name if only that exists."""
    path, former = predictions_path(result), result.with_suffix(FORMER)
    return former if former.is_file() and not path.is_file() else path


def warn_of_former_names(folder: str | Path, results: Iterable[Path]) -> None:
    """Warn once for a folder of results if its prediction files are named as in the former version."""
    if any(_existing(path).name.endswith(FORMER) for path in results):
        warnings.warn(
            f"'{folder}': *{FORMER} files are named *.predictions.jsonl now, and read for one more version",
            TruenegDeprecationWarning,
            stacklevel=3,
        )


def save_result(result: Result, predictions: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """Write ``<split>.predictions.jsonl`` and then ``<split>.json`` into a folder, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.split}.json"
    write_whole(predictions_path(path), "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in predictions))
    path.with_suffix(FORMER).unlink(missing_ok=True)
    write_json(path, asdict(result))
    return path


_ATTACK_METRICS = {
    "accuracy": "accuracy_under_attack",
    "withstood": "attack_success_rate",
    "exact_match": "exact_match_under_attack",
    "squad_f1": "squad_f1_under_attack",
}


def load_result(path: Path) -> Result:
    """Read a result file.

    Warns:
        TruenegDeprecationWarning: for an attack's result with a former version's metrics.

    Raises:
        TaskError: if it is not a valid result, naming the field, or has another version of the schema.
    """
    return _renamed(path, read_versioned(Result, path, SCHEMA, TaskError, REMEDY))


def _renamed(path: Path, result: Result) -> Result:
    """Rename the metrics and counts of an attack's result to their current names."""
    old = [name for name in result.metrics if name in _ATTACK_METRICS]
    if not old or not result.split.startswith("attack-"):
        return result
    named = ", ".join(f"{name} is {_ATTACK_METRICS[name]} now" for name in old)
    warnings.warn(f"'{path}': {named}: attack the model again", TruenegDeprecationWarning, stacklevel=3)
    metrics = {_ATTACK_METRICS.get(name, name): figure for name, figure in result.metrics.items()}
    if "withstood" in old:
        was_attacked = result.metrics["accuracy_before"] > 0
        metrics["attack_success_rate"] = 1 - result.metrics["withstood"] if was_attacked else 0.0
    counts = {"truncated_away" if name == "unseen" else name: num for name, num in result.counts.items()}
    return replace(result, metrics=metrics, counts=counts)


def check_predictions(path: Path, result: Result) -> None:
    """Refuse a result whose number of predictions differs from what it states: metrics would differ.

    Raises:
        TaskError: naming the file.
    """
    predictions = _existing(path)
    try:
        with predictions.open("rb") as lines:
            num = sum(line.endswith(b"\n") for line in lines)
    except OSError as error:
        raise TaskError(f"cannot read '{predictions}' ({error.strerror}): {REMEDY}") from error
    if num != result.num_examples:
        raise TaskError(f"'{predictions}' has {num:,}, and '{path.name}' is of {result.num_examples:,}: {REMEDY}")


def check_result(path: Path, remedy: str, prefix: str = "") -> None:
    """Check that a result file and its predictions are whole.

    Raises:
        TaskError: naming what is damaged or missing, after a prefix and with a further remedy.
    """
    try:
        check_predictions(path, load_result(path))
    except TaskError as error:
        raise TaskError(f"{prefix}{error}{remedy}") from error


def load_predictions(result: Path) -> list[dict[str, Any]]:
    """Read the predictions behind a result file.

    Raises:
        TaskError: if they are missing or damaged, naming the line.
    """
    path = _existing(result)
    return [prediction for _, prediction in read_record_lines(dict[str, Any], path, TaskError, REMEDY)]


def columns_of(predictions: Sequence[Mapping[str, Any]]) -> Columns:
    """Turn predictions into columns; fields that some lack, or that are not all numbers or all text, are left out.

    Example:
        >>> columns_of([{"key": "a", "gold": 1, "predicted": 0}])["gold"].tolist()
        [1]
    """
    names = set(predictions[0]).intersection(*predictions[1:]) if predictions else set()
    columns = {name: [one[name] for one in predictions] for name in sorted(names)}
    return {
        name: np.array(column)
        for name, column in columns.items()
        if all(isinstance(value, str) for value in column)
        or all(isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63) for value in column)
    }


def is_constant(predictions: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether a model predicts the same of all examples, as one whose fine-tuning failed.

    Example:
        >>> is_constant([{"items": [{"predicted": 1}, {"predicted": 1}]}, {"items": [{"predicted": 1}]}])
        True
    """
    # In a contrast set, each record is a group of examples.
    items = (item for one in predictions for item in one.get("items", [one]))
    return len({repr(item["predicted"]) for item in items if "predicted" in item}) == 1


def find_results(folder: Path) -> Iterator[Path]:
    """Yield the result files in or below a folder, in order: ``<task>/seed-<seed>/<split>.json``.

    For a sweep these are the selected ones; for those of a combination, pass its own folder.
    """
    for path in sorted(folder.rglob("*.json")):
        is_result = path.parent.name.startswith("seed-") and SWEEP not in path.relative_to(folder).parts
        if is_result and _existing(path).is_file():
            yield path
