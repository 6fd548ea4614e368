"""Adversarial examples saved in a file, so that every model is evaluated on exactly the same examples.

The first line describes how the set was made, every other line is an adversarial example; both are JSON.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trueneg.attacks.base import AdversarialExample, Outcome
from trueneg.errors import TaskError, TruenegWarning
from trueneg.files.records import parse_record, read_record_lines
from trueneg.files.whole import write_whole
from trueneg.tasks.squad_reading import SquadExample
from trueneg.tasks.text import TextExample

SCHEMA = 1
REMEDY = "write the set again with trueneg attack --save"
_NAME = re.compile(r"\w[\w.+-]*")
Example = TextExample | SquadExample


@dataclass(frozen=True)
class AttackSet:
    """Examples of one task under one attack."""

    attack: Mapping[str, Any]
    """How they were made, as JSON: ``name``, ``profile``, ``options``, ``seed``, and the victim."""
    task: str
    split: str
    labels: tuple[str, ...]
    """Names of the examples' labels; empty for SQuAD."""
    examples: Sequence[AdversarialExample[Any]]

    @property
    def name(self) -> str:
        """The attack's name."""
        return str(self.attack["name"])


@dataclass(frozen=True)
class _Head:
    """The first line of a file."""

    schema: int
    attack: dict[str, Any]
    task: str
    split: str
    labels: tuple[str, ...]
    num_adversaries: int | None = None
    """None in sets saved by an earlier version."""


@dataclass(frozen=True)
class _Entry:
    """Any other line of a file."""

    outcome: Outcome
    num_queries: int
    original: dict[str, Any]
    adversarial: dict[str, Any]
    """Only fields that differ from the original."""
    notes: dict[str, Any] = field(default_factory=dict)


def save_attack_set(attacked: AttackSet, path: Path) -> None:
    """Write a set; the same set gives the same bytes."""
    head = {
        "schema": SCHEMA,
        "attack": attacked.attack,
        "task": attacked.task,
        "split": attacked.split,
        "labels": attacked.labels,
        "num_adversaries": len(attacked.examples),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [head, *(_entry(example) for example in attacked.examples)]
    write_whole(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def is_attack_set(path: Path) -> bool:
    """Whether a file begins as ``save_attack_set`` writes it; its content may still be invalid."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(10) == b'{"schema":'


def load_attack_set(path: Path) -> AttackSet:
    """Read a set that ``save_attack_set`` wrote; labels may be given by name.

    Warns:
        TruenegWarning: if the set does not state its number of examples, so that truncation cannot be detected.

    Raises:
        TaskError: naming file and line, if it is not a set, or is incomplete.
    """
    lines = read_record_lines(dict[str, Any], path, TaskError, REMEDY)
    _, first = next(lines, (1, {}))
    if first.get("schema") != SCHEMA:
        raise TaskError(f"'{path}' is no attack set of schema {SCHEMA}: write one with trueneg attack --save")
    head = parse_record(_Head, json.dumps(first), f"'{path}', line 1,", TaskError, REMEDY)
    _check_names(path, head.attack)
    examples = [_example_of(f"'{path}', line {number},", entry, head.labels) for number, entry in lines]
    if head.num_adversaries is None:
        warnings.warn(
            f"'{path}' was saved without its number of examples: nothing tells whether {len(examples):,} are all",
            TruenegWarning,
            stacklevel=2,
        )
    elif head.num_adversaries != len(examples):
        held = f"holds {len(examples):,} examples, and its first line says {head.num_adversaries:,}"
        raise TaskError(f"'{path}' {held}: {REMEDY}")
    return AttackSet(head.attack, head.task, head.split, head.labels, examples)


def _check_names(path: Path, attack: Mapping[str, Any]) -> None:
    """Refuse an attack without the names that its results are called by, or with names unsuitable for files."""
    expected = ("name", "file") if attack.get("name") == "published" else ("name", "profile")
    for key in (*expected, *(["victim"] if attack.get("victim") is not None else [])):
        name = attack.get(key)
        if not isinstance(name, str) or (key != "file" and not _NAME.fullmatch(name)):
            raise TaskError(f"'{path}', line 1, is damaged: 'attack.{key}' should be a name, got {name!r}: {REMEDY}")


def _entry(example: AdversarialExample[Any]) -> dict[str, Any]:
    """Turn an example into JSON; of the adversarial one, only fields that differ from the original."""
    original, changed = asdict(example.original), asdict(example.adversarial)
    return {
        "outcome": example.outcome,
        "num_queries": example.num_queries,
        "original": original,
        "adversarial": {name: value for name, value in changed.items() if value != original[name]},
        "notes": dict(example.notes),
    }


def _example_of(where: str, content: Mapping[str, Any], labels: Sequence[str]) -> AdversarialExample[Any]:
    entry = parse_record(_Entry, json.dumps(content), where, TaskError, REMEDY)
    original, adversarial = (
        _example(where, example, labels) for example in (entry.original, {**entry.original, **entry.adversarial})
    )
    return AdversarialExample(original, adversarial, entry.outcome, entry.num_queries, entry.notes)


def _example(where: str, content: Mapping[str, Any], labels: Sequence[str]) -> Example:
    if "context" in content:
        return parse_record(SquadExample, json.dumps(content), where, TaskError, REMEDY)
    label = content.get("label")
    number = labels.index(label) if label in labels else label
    example = parse_record(TextExample, json.dumps({**content, "label": number}), where, TaskError, REMEDY)
    if labels and not (isinstance(number, int) and 0 <= number < len(labels)):
        raise TaskError(f"{where} has the label {label!r}, and the set has {', '.join(labels)}, from 0 on: {REMEDY}")
    return example
