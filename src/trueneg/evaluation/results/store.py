"""What an evaluation leaves behind: one JSON file of results, and one line an example."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.errors import TaskError
from trueneg.files.records import read_record, read_record_lines
from trueneg.files.whole import write_json, write_whole
from trueneg.tasks.metrics import Columns
from trueneg.version import __version__

SCHEMA = 1
REMEDY = "evaluate the model again"


@dataclass(frozen=True)
class Result:
    """One model on one split of one task: ``<out>/<task>/seed-<seed>/<split>.json``, answers beside it."""

    task: str
    split: str
    seed: int
    metrics: dict[str, float]
    """By name, the task's primary one first; empty where the split's labels are withheld."""
    num_examples: int
    model: str
    """What was fine-tuned."""
    selection: str
    """How the evaluated weights were chosen: ``last``, or ``best`` on which split."""
    step: int
    counts: dict[str, int] = field(default_factory=dict)
    """Examples left out, truncated, misaligned: by what happened."""
    labels: list[str] = field(default_factory=list)
    train: dict[str, Any] = field(default_factory=dict)
    """``num_examples``, ``fraction``, ``seconds``, ``tokens_per_second``."""
    seconds: float = 0.0
    """Of the evaluation."""
    config: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    """Of trueneg, torch, transformers and the source revision, where there is one."""
    schema: int = SCHEMA
    version: str = __version__

    @property
    def primary(self) -> str:
        """Name of the metric that models are compared by."""
        return next(iter(self.metrics))


def predictions_path(result: Path) -> Path:
    """Where the answers behind a result file lie: ``dev.json`` has ``dev.answers.jsonl``."""
    return result.with_suffix(".answers.jsonl")


def save_result(result: Result, answers: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """Write ``<split>.answers.jsonl`` and then ``<split>.json`` into a folder, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.split}.json"
    write_whole(predictions_path(path), "".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers))
    write_json(path, asdict(result))
    return path


def load_result(path: Path) -> Result:
    """Read a result file.

    Raises:
        TaskError: if it is not one, naming the field, or was written by another version of the schema.
    """
    schema = read_record(dict[str, Any], path, TaskError, REMEDY).get("schema")
    if schema != SCHEMA:
        raise TaskError(f"'{path}': 'schema' is {schema!r}, and this version of trueneg reads {SCHEMA}: {REMEDY}")
    return read_record(Result, path, TaskError, REMEDY)


def check_answers(path: Path, result: Result) -> None:
    """Refuse a result whose answers are not as many as it says: half of them give other figures.

    Raises:
        TaskError: naming the file.
    """
    answers = predictions_path(path)
    try:
        with answers.open("rb") as lines:
            num = sum(line.endswith(b"\n") for line in lines)
    except OSError as error:
        raise TaskError(f"cannot read the answers '{answers}' ({error.strerror}): {REMEDY}") from error
    if num != result.num_examples:
        raise TaskError(f"'{answers}' has {num:,} answers, and '{path.name}' is of {result.num_examples:,}: {REMEDY}")


def load_predictions(result: Path) -> list[dict[str, Any]]:
    """Read the answers behind a result file.

    Raises:
        TaskError: if they are missing or torn, naming the line.
    """
    return [answer for _, answer in read_record_lines(dict[str, Any], predictions_path(result), TaskError, REMEDY)]


def columns_of(answers: Sequence[Mapping[str, Any]]) -> Columns:
    """Turn answers into columns; what is not in every answer, or not always a number or always text, is left out.

    Example:
        >>> columns_of([{"key": "a", "gold": 1, "predicted": 0}])["gold"].tolist()
        [1]
    """
    names = set(answers[0]).intersection(*answers[1:]) if answers else set()
    columns = {name: [answer[name] for answer in answers] for name in sorted(names)}
    return {
        name: np.array(column)
        for name, column in columns.items()
        if all(isinstance(value, str) for value in column)
        or all(isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63) for value in column)
    }


def find_results(folder: Path) -> Iterator[Path]:
    """Result files in or below a folder, in order: ``<task>/seed-<seed>/<split>.json``."""
    for path in sorted(folder.rglob("*.json")):
        if path.parent.name.startswith("seed-") and predictions_path(path).is_file():
            yield path
