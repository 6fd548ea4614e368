"""What an evaluation leaves behind: one JSON file of results, and one line an example."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueneg import __version__
from trueneg.errors import TaskError
from trueneg.files.whole import write_json

SCHEMA = 1
Columns = Mapping[str, NDArray[Any]]
"""Answers by column, ``[examples]`` each."""


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


def answers_path(result: Path) -> Path:
    """Where the answers behind a result file lie: ``dev.json`` has ``dev.answers.jsonl``."""
    return result.with_suffix(".answers.jsonl")


def save_result(result: Result, answers: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """Write ``<split>.answers.jsonl`` and then ``<split>.json`` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.split}.json"
    answers_path(path).write_text(
        "".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers), encoding="utf-8"
    )
    write_json(path, asdict(result))
    return path


def load_result(path: Path) -> Result:
    """Read a result file.

    Raises:
        TaskError: if it is not one, or was written by another version of the schema.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise TaskError(f"'{path}' has schema {data['schema']}, not {SCHEMA}: evaluate the model again")
        return Result(**data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TaskError(f"'{path}' is no result file ({error}): evaluate the model again") from error


def load_answers(result: Path) -> list[dict[str, Any]]:
    """Read the answers behind a result file.

    Raises:
        TaskError: if they are missing or torn.
    """
    path = answers_path(result)
    try:
        with path.open(encoding="utf-8") as lines:  # not splitlines(), which also breaks at U+0085 and U+2028
            return [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise TaskError(f"cannot read the answers '{path}' ({error}): evaluate the model again") from error


def columns_of(answers: Sequence[Mapping[str, Any]]) -> Columns:
    """Turn answers into columns; what is not in every answer, or is no number or text, is left out.

    Example:
        >>> columns_of([{"key": "a", "gold": 1, "predicted": 0}])["gold"].tolist()
        [1]
    """
    names = set(answers[0]).intersection(*answers[1:]) if answers else set()
    return {
        name: np.array([answer[name] for answer in answers])
        for name in sorted(names)
        if all(isinstance(answer[name], int | float | str) for answer in answers)
    }


def find_results(folder: Path) -> Iterator[Path]:
    """Result files in or below a folder, in order: ``<task>/seed-<seed>/<split>.json``."""
    for path in sorted(folder.rglob("*.json")):
        if path.parent.name.startswith("seed-") and answers_path(path).is_file():
            yield path
