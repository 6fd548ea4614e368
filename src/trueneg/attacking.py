"""``attack``: from fine-tuned models and an attack to figures before and after."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from trueneg.attacks.attack_set import AttackSet, is_attack_set, load_attack_set
from trueneg.attacks.making import Attack, Progress
from trueneg.attacks.published import read_published
from trueneg.attacks.scores import SQUAD_METRICS, TEXT_METRICS, Drop, drops, outcomes, squad_answers, text_answers
from trueneg.attacks.victim import Victim
from trueneg.corpus.files import checksum
from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.answering import SUBSET_SEED, answer, make_result, pad_id
from trueneg.evaluation.metrics import METRICS
from trueneg.evaluation.results import Result, columns_of, save_result
from trueneg.evaluation.tasks.base import Answer, Split, Task
from trueneg.evaluation.tasks.squad import SquadTask
from trueneg.evaluation.tasks.text import TextTask
from trueneg.finetuned import OpenedModel, finetuned_task, open_finetuned
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
    max_examples: int = 0,
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
        ConfigError: for an attack on another kind of task.
        TaskError: for a split without labels.
    """
    settings = [f"task.data={data}"] if data else []
    task: Task[Any] = finetuned_task(folder, settings)[1]
    if not isinstance(task, tuple(_KINDS[kind] for kind in attack.of)):
        raise ConfigError(f"{attack.name} is not for {task.name}: see `trueneg list attacks`")
    split = split or task.dev_splits[0]
    read: Split[Any] = task.read(split)
    if not read.is_labelled:
        raise TaskError(f"{task.name}: '{split}' has no labels, so nothing says when an attack succeeds")
    examples = read.examples
    if 0 < max_examples < len(examples):
        examples = task.subset(examples, max_examples, SUBSET_SEED)
    if not attack.asks_victim:
        return AttackSet(attack.description, task.name, split, task.labels, attack.run(examples, None, progress))
    victim = _victim(open_finetuned(folder, settings))
    described = {**attack.description, "victim": _fingerprint(folder)}
    return AttackSet(described, task.name, split, task.labels, attack.run(examples, victim, progress))


def attack_with(folder: str | Path, attack_set: AttackSet, data: str = "") -> Attacked:
    """Ask a fine-tuned model about every example of a set, before and after.

    Of SQuAD only the questions that were changed count: what the first paper's Table 5 calls the original score is on
    these too. Of texts all count, and those that a victim had wrong already count as wrong.

    The result lies beside those of the model's own task as ``attack-<name>-<profile>.json``, for ``compare`` and
    ``report``; of a set that was searched against another model as ``attack-<name>-<profile>-of-<its fingerprint>``.

    Raises:
        ConfigError: if the set is of another task.
        TaskError: if the attack changed nothing.
    """
    started = time.monotonic()
    opened = open_finetuned(folder, [f"task.data={data}"] if data else [])
    task, config = opened.task, opened.config
    if attack_set.labels and task.labels != attack_set.labels:
        raise ConfigError(
            f"the set is of {attack_set.task} with labels {', '.join(attack_set.labels)}, '{folder}' answers with "
            f"{', '.join(task.labels)}"
        )
    is_squad = isinstance(task, SquadTask)
    if is_squad != (not attack_set.labels):
        raise ConfigError(f"the set is of {attack_set.task}, '{folder}' is of {task.name}")
    adversaries = attack_set.adversaries
    asked = [a for a in adversaries if a.outcome != "unchanged"] if is_squad else list(adversaries)
    if not asked:
        raise TaskError(f"{attack_set.name} changed none of {len(adversaries):,} examples: nothing to ask about")
    before, after = (
        _answers(opened, examples) for examples in ([a.original for a in asked], [a.adversarial for a in asked])
    )
    answers = (squad_answers if is_squad else text_answers)(asked, before, after)
    metrics = SQUAD_METRICS if is_squad else TEXT_METRICS
    columns = columns_of(answers)
    result = make_result(
        task,
        f"attack-{_named(attack_set, folder)}",
        answers,
        config,
        metrics={metric: METRICS[metric](columns) for metric in metrics},
        counts=outcomes(adversaries),
        step=config.train.steps,
        trained=opened.trained,
        started=started,
    )
    result = replace(result, config={**result.config, "attack": dict(attack_set.attack)})
    path = save_result(result, answers, Path(folder))
    return Attacked(Path(folder), attack_set, result, drops(answers, metrics), path)


def load_adversaries(path: Path, folder: str | Path, names: Sequence[str] = ()) -> AttackSet:
    """Read a set that was saved, or published adversaries: those of their authors' attacks that succeeded.

    Args:
        path: A file of ``save_attack_set``, or one that ``read_published`` reads.
        folder: Of a fine-tuned model whose task and labels published ones are read with.
        names: What the labels 0, 1, … of published ones stand for.

    Raises:
        TaskError: naming file and line, for what is neither.
    """
    if is_attack_set(path):
        return load_attack_set(path)
    _, task = finetuned_task(folder)
    if not isinstance(task, TextTask):
        raise ConfigError(f"--load {path}: published adversaries are texts with labels, '{folder}' is of {task.name}")
    adversaries = read_published(path, task.labels, names)
    asked = [adversary for adversary in adversaries if adversary.outcome in ("succeeded", "changed")]
    attack = {"name": "published", "file": path.name, "left_out": len(adversaries) - len(asked)}
    return AttackSet(attack, task.name, path.stem, task.labels, asked)


def _named(attack_set: AttackSet, folder: str | Path) -> str:
    """What a set's result on a model is called: adversaries of another model are not an attack on this one."""
    attack = attack_set.attack
    if attack_set.name == "published":
        return Path(attack["file"]).stem
    name, victim = f"{attack_set.name}-{attack['profile']}", attack.get("victim")
    return name if victim in (None, _fingerprint(folder)) else f"{name}-of-{victim}"


def _fingerprint(folder: str | Path) -> str:
    """A name for a model's weights."""
    digest = hashlib.sha256()
    for path in sorted((Path(folder) / HUGGING_FACE).glob("*.safetensors")):
        digest.update(bytes.fromhex(checksum(path)))
    return digest.hexdigest()[:8]


def _victim(opened: OpenedModel) -> Victim:
    task = cast(TextTask, opened.task)
    return Victim(opened.model, task, opened.tokenizer, opened.config.task.length)


def _answers(opened: OpenedModel, examples: Sequence[Any]) -> list[Answer]:
    """In float32, as the search: near ties decide, and with what a text shares a batch shows in bf16's digits."""
    length = opened.config.task.length
    encoded = opened.task.encode(examples, opened.tokenizer, length, is_training=False)
    return answer(opened.model, opened.task, examples, encoded, pad_id(opened.tokenizer))
