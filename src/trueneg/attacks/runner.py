"""``attack``: from fine-tuned models and an attack to figures before and after."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from trueneg.attacks.attack_set import AttackSet, is_attack_set, load_attack_set
from trueneg.attacks.published import read_published
from trueneg.attacks.registry import Attack, Progress
from trueneg.attacks.scores import (
    SQUAD_DROPS,
    SQUAD_METRICS,
    TEXT_DROPS,
    TEXT_METRICS,
    Drop,
    drops,
    outcomes,
    squad_predictions,
    text_predictions,
)
from trueneg.attacks.victim import Victim, row_names
from trueneg.config.codec import flatten
from trueneg.errors import ConfigError, TaskError, TruenegWarning
from trueneg.evaluation.predictions import SUBSET_SEED, make_result, pad_id, predict_split
from trueneg.evaluation.results.store import Result, columns_of, load_result, save_result
from trueneg.files.digests import checksum
from trueneg.files.lock import locked
from trueneg.runs.finetuned_models import FinetunedModel, finetuned_task, open_finetuned
from trueneg.tasks.base import Encoded, Prediction, Split, Task
from trueneg.tasks.metrics import METRICS
from trueneg.tasks.squad import SquadTask
from trueneg.tasks.squad_reading import SquadExample
from trueneg.tasks.squad_windows import Windows
from trueneg.tasks.text import TextTask
from trueneg.training.folder import HUGGING_FACE

_KINDS: Mapping[str, type] = {"text": TextTask, "squad": SquadTask}


@dataclass(frozen=True)
class Attacked:
    """One model under one attack."""

    folder: Path
    attack_set: AttackSet
    result: Result
    drops: list[Drop]
    path: Path
    """Of the result file."""


def run_attack(
    folder: str | Path,
    attack: Attack,
    *,
    split: str = "",
    data: str = "",
    max_examples: int = 500,
    progress: Progress = lambda done, of: None,
) -> AttackSet:
    """Attack a split's examples.

    Args:
        folder: Of a fine-tuned model of one seed: the victim, or, for an attack that asks none, whose task it is.
        attack: See ``make_attack``.
        split: One of the task's with labels; by default the first that results are reported on.
        data: The task's files, if they lie elsewhere now.
        max_examples: How many, the same for every model; 0 for all.
        progress: Told how many are done, of how many.

    Raises:
        BusyError: if another process makes this attack on this model.
        ConfigError: for an attack on another kind of task, or one that gives amounts.
        TaskError: for a split without labels.
    """
    settings = [f"task.data={data}"] if data else []
    task: Task[Any] = finetuned_task(folder, settings)[1]
    if not isinstance(task, tuple(_KINDS[kind] for kind in attack.of)):
        raise ConfigError(f"{attack.name} is not for {task.name}: see `trueneg list attacks`")
    _refuse_amounts(task)
    split = split or task.dev_splits[0]
    read: Split[Any] = task.read(split)
    if not read.is_labelled:
        raise TaskError(f"{task.name}: '{split}' has no labels, so nothing says when an attack succeeds")
    examples = read.examples
    if 0 < max_examples < len(examples):
        examples = task.subset(examples, max_examples, SUBSET_SEED)
    if not attack.asks_victim:
        return AttackSet(attack.description, task.name, split, task.labels, attack.run(examples, None, progress))
    with _holding(folder, f"attack-{attack.name}-{attack.description['profile']}"):
        victim = _victim(open_finetuned(folder, settings))
        described = {**attack.description, "victim": _fingerprint(folder)}
        return AttackSet(described, task.name, split, task.labels, attack.run(examples, victim, progress))


def evaluate_attack(folder: str | Path, attack_set: AttackSet, data: str = "") -> Attacked:
    """Ask a fine-tuned model about every example of a set, before and after.

    Of SQuAD only the questions that were changed count: what the first paper's Table 5 calls the original score is on
    these too. Of texts all count, and those that a victim had wrong already count as wrong.

    The result lies beside those of the model's own task under the name of ``result_name``, for ``compare`` and
    ``report``. Its ``counts`` have the outcomes and what happened to the adversarial texts: how many were
    ``truncated``, and of how many the model reads the very tokens of the original (``truncated_away``).

    Warns:
        TruenegWarning: if the set is of another task, or its result takes the place of another attack's.

    Raises:
        BusyError: if another process asks about the same attack.
        ConfigError: if the set is of another kind of task, or of other labels.
        TaskError: if the attack changed nothing.
    """
    started = time.monotonic()
    opened = open_finetuned(folder, [f"task.data={data}"] if data else [])
    task, config = opened.task, opened.config
    _refuse_other(task, attack_set, folder)
    is_squad = isinstance(task, SquadTask)
    adversaries = attack_set.adversaries
    asked = [a for a in adversaries if a.outcome != "unchanged"] if is_squad else list(adversaries)
    if not asked:
        raise TaskError(f"{attack_set.name} changed none of {len(adversaries):,} examples: nothing to ask about")
    name = result_name(attack_set, task.name, folder)
    with _holding(folder, name):
        (before, seen_before), (after, seen_after) = (
            _answers(opened, examples) for examples in ([a.original for a in asked], [a.adversarial for a in asked])
        )
        is_unseen = [
            adversary.adversarial != adversary.original and then == now
            for adversary, then, now in zip(
                asked, _rows(seen_before, len(asked)), _rows(seen_after, len(asked)), strict=True
            )
        ]
        happened = {
            **seen_after.counts,
            "missing_predictions": sum(bool(given.get("is_missing")) for given in after),
            "truncated_away": sum(is_unseen),
        }
        answers = (squad_predictions if is_squad else text_predictions)(asked, before, after)
        metrics = SQUAD_METRICS if is_squad else TEXT_METRICS
        columns = columns_of(answers)
        result = make_result(
            task,
            name,
            answers,
            config,
            metrics={metric: METRICS[metric](columns) for metric in metrics},
            counts=outcomes(adversaries) | {name: num for name, num in happened.items() if num},
            step=config.train.steps,
            trained=opened.trained,
            started=started,
        )
        described = {**attack_set.attack, "task": attack_set.task, "split": attack_set.split}
        result = replace(result, config={**result.config, "attack": described})
        _warn_of_others(task, attack_set, Path(folder) / f"{result.split}.json", described)
        path = save_result(result, answers, Path(folder))
        return Attacked(Path(folder), attack_set, result, drops(answers, SQUAD_DROPS if is_squad else TEXT_DROPS), path)


def result_name(attack_set: AttackSet, task: str, folder: str | Path) -> str:
    """What the result of a set is called, without ``.json``.

    ``attack-<name>-<profile>``, or ``attack-<file>`` of published adversaries; with ``-of-<its fingerprint>`` for a set
    that was searched against another model, and ``-on-<its task>`` for one of another task: neither is the attack of
    this name on this model.

    Args:
        attack_set: What is asked about.
        task: The model's own.
        folder: The model's.
    """
    attack = attack_set.attack
    if attack_set.name == "published":
        name = Path(attack["file"]).stem
    else:
        name, victim = f"{attack_set.name}-{attack['profile']}", attack.get("victim")
        name += "" if victim is None or victim == _fingerprint(folder) else f"-of-{victim}"
    return f"attack-{name}" + ("" if attack_set.task == task else f"-on-{attack_set.task.replace('/', '-')}")


def load_adversarial_examples(path: Path, folder: str | Path, names: Sequence[str] = (), data: str = "") -> AttackSet:
    """Read a set that was saved, or published adversaries: those of their authors' attacks that succeeded.

    Args:
        path: A file of ``save_attack_set``, or one that ``read_published`` reads.
        folder: Of a fine-tuned model whose task and labels published ones are read with.
        names: What the labels 0, 1, … of published ones stand for.
        data: The task's files, if they lie elsewhere now: whether it is of pairs is told from its examples.

    Raises:
        TaskError: naming file and line, for what is neither, or for pairs where the task is of single texts.
    """
    if is_attack_set(path):
        return load_attack_set(path)
    _, task = finetuned_task(folder, [f"task.data={data}"] if data else [])
    if not isinstance(task, TextTask):
        raise ConfigError(f"--load {path}: published adversaries are texts with labels, '{folder}' is of {task.name}")
    _refuse_amounts(task)
    is_of_pairs = any(example.second is not None for example in task.read(task.dev_splits[0]).examples)
    adversaries = read_published(path, task.labels, names, is_of_pairs=is_of_pairs)
    asked = [adversary for adversary in adversaries if adversary.outcome in ("succeeded", "changed")]
    attack = {"name": "published", "file": path.name, "left_out": len(adversaries) - len(asked)}
    return AttackSet(attack, task.name, path.stem, task.labels, asked)


def _holding(folder: str | Path, name: str) -> AbstractContextManager[None]:
    """One process at a time makes the same attack on a model; others attack it otherwise meanwhile.

    Raises:
        BusyError: if another process does.
    """
    return locked(Path(folder), name, f".{name}.lock")


def _refuse_amounts(task: Task[Any]) -> None:
    if isinstance(task, TextTask) and not task.labels:
        raise ConfigError(f"{task.name} gives amounts, and attacks change labels: attack a classification")


def _refuse_other(task: Task[Any], attack_set: AttackSet, folder: str | Path) -> None:
    """A set must be of the model's kind of examples, with its labels."""
    _refuse_amounts(task)
    is_of_questions = any(isinstance(adversary.original, SquadExample) for adversary in attack_set.adversaries)
    if not isinstance(task, SquadTask if is_of_questions else TextTask):
        raise ConfigError(f"the set is of {attack_set.task}, '{folder}' is of {task.name}")
    if task.labels != attack_set.labels:
        raise ConfigError(
            f"the set is of {attack_set.task} with labels {', '.join(attack_set.labels)}, '{folder}' answers with "
            f"{', '.join(task.labels)}"
        )


def _warn_of_others(task: Task[Any], attack_set: AttackSet, path: Path, described: Mapping[str, Any]) -> None:
    """Say what people may not have meant: a set of another task, a result in the place of another attack's."""
    if attack_set.task != task.name:
        warnings.warn(
            f"{path}: the adversaries are of {attack_set.task}, the model of {task.name}", TruenegWarning, stacklevel=3
        )
    try:
        before = load_result(path).config.get("attack") if path.is_file() else None
    except TaskError:  # torn: nothing is lost
        return
    now, before = flatten(described), flatten(before) if isinstance(before, Mapping) else None
    if before is not None and before != now:
        changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        warnings.warn(
            f"{path}: replaces the result of another attack ({', '.join(changed)}): copy results that are to be kept",
            TruenegWarning,
            stacklevel=3,
        )


def _fingerprint(folder: str | Path) -> str:
    """A name for a model's weights."""
    digest = hashlib.sha256()
    for path in sorted((Path(folder) / HUGGING_FACE).glob("*.safetensors")):
        digest.update(bytes.fromhex(checksum(path)))
    return digest.hexdigest()[:8]


def _victim(opened: FinetunedModel) -> Victim:
    task = cast(TextTask, opened.task)
    return Victim(opened.model, task, opened.tokenizer, opened.config.task.length)


def _answers(opened: FinetunedModel, examples: Sequence[Any]) -> tuple[list[Prediction], Encoded]:
    """In float32, as the search: near ties decide, and with what a text shares a batch shows in bf16's digits."""
    length = opened.config.task.length
    encoded = opened.task.encode(examples, opened.tokenizer, length, is_training=False)
    return predict_split(opened.model, opened.task, examples, encoded, pad_id(opened.tokenizer)), encoded


def _rows(encoded: Encoded, num: int) -> list[list[bytes]]:
    """What a model reads of each of so many examples."""
    found: list[list[bytes]] = [[] for _ in range(num)]
    numbers = encoded.example.tolist() if isinstance(encoded, Windows) else range(num)
    for number, row in zip(numbers, row_names(encoded.features), strict=True):
        found[number].append(row)
    return found
