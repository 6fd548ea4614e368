"""Attacks kept in a file: what was made once is asked of every model, byte for byte the same.

The first line says how the set was made, each other one is an adversary; both are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast, get_args

from trueneg.attacks.base import Adversary, Outcome
from trueneg.errors import TaskError
from trueneg.evaluation.tasks.records import read_lines
from trueneg.evaluation.tasks.squad_reading import SquadAnswer, SquadExample
from trueneg.evaluation.tasks.text import TextExample

SCHEMA = 1
Example = TextExample | SquadExample


@dataclass(frozen=True)
class AttackSet:
    """Examples of one task under one attack."""

    attack: Mapping[str, Any]
    """How they were made, as JSON: ``name``, ``profile``, ``options``, ``seed``, what was attacked."""
    task: str
    split: str
    labels: tuple[str, ...]
    """What the examples' labels stand for; none for SQuAD."""
    adversaries: Sequence[Adversary[Any]]

    @property
    def name(self) -> str:
        """Of the attack."""
        return str(self.attack["name"])


def save_attack_set(attacked: AttackSet, path: Path) -> None:
    """Write a set: the same bytes for the same attack."""
    head = {
        "schema": SCHEMA,
        "attack": attacked.attack,
        "task": attacked.task,
        "split": attacked.split,
        "labels": attacked.labels,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [head, *(_entry(adversary) for adversary in attacked.adversaries)]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def is_attack_set(path: Path) -> bool:
    """Whether a file begins as ``save_attack_set`` writes it; what it holds may still be wrong."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(10) == b'{"schema":'


def load_attack_set(path: Path) -> AttackSet:
    """Read a set that ``save_attack_set`` wrote.

    Raises:
        TaskError: naming file and line, if it is none.
    """
    read = _numbered(path, [line for _, line in read_lines(path)] or [""])
    head = next(read)
    if head.get("schema") != SCHEMA:
        raise TaskError(f"'{path}' is no attack set of schema {SCHEMA}: write one with trueneg attack --save")
    try:
        adversaries = [_adversary(path, number, entry) for number, entry in enumerate(read, start=2)]
        return AttackSet(head["attack"], head["task"], head["split"], tuple(head["labels"]), adversaries)
    except KeyError as error:
        raise TaskError(f"{path}:1: the first line lacks {error}: write the set again with --save") from error


def _numbered(path: Path, lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        try:
            yield dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise TaskError(f"{path}:{number}: no JSON object ({error}): write the set again with --save") from error


def _entry(adversary: Adversary[Any]) -> dict[str, Any]:
    """An adversary as JSON; of the adversarial example only what differs from the original."""
    original, changed = asdict(adversary.original), asdict(adversary.adversarial)
    return {
        "outcome": adversary.outcome,
        "num_queries": adversary.num_queries,
        "original": original,
        "adversarial": {name: value for name, value in changed.items() if value != original[name]},
        "notes": dict(adversary.notes),
    }


def _adversary(path: Path, number: int, entry: Mapping[str, Any]) -> Adversary[Any]:
    try:
        outcome, original = entry["outcome"], entry["original"]
        if outcome not in get_args(Outcome):
            raise ValueError(f"unknown outcome {outcome}")
        return Adversary(
            _example(original),
            _example({**original, **entry["adversarial"]}),
            cast(Outcome, outcome),
            entry["num_queries"],
            entry["notes"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TaskError(f"{path}:{number}: no adversary ({error!r}): write the set again with --save") from error


def _example(entry: Mapping[str, Any]) -> Example:
    if "context" not in entry:
        return TextExample(**_known(TextExample, entry))
    answers = tuple(SquadAnswer(**answer) for answer in entry["answers"])
    return SquadExample(**{**_known(SquadExample, entry), "answers": answers})


def _known(kind: type, entry: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := entry.keys() - {field.name for field in fields(kind)}:
        raise ValueError(f"unknown field {min(unknown)}")
    return dict(entry)
