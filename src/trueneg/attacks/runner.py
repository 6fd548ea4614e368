"""Attack fine-tuned models and evaluate them before and after: the implementation of ``trueneg attack``."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from trueneg.attacks.attack_set import AttackSet, is_attack_set, load_attack_set, save_attack_set
from trueneg.attacks.base import AdversarialExample, Attack, Progress
from trueneg.attacks.published import read_published, read_published_squad
from trueneg.attacks.registry import make_attack
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
from trueneg.attacks.setup import AttackConfig
from trueneg.attacks.victim import Victim, row_names
from trueneg.config.codec import flatten
from trueneg.errors import ConfigError, TaskError, TruenegWarning
from trueneg.evaluation.predictions import SUBSET_SEED, make_result, pad_id, predict_split
from trueneg.evaluation.results.store import Result, columns_of, load_result, save_result
from trueneg.files.digests import checksum
from trueneg.files.lock import locked
from trueneg.runs.finetuned_models import (
    FinetunedModel,
    finetuned_task,
    is_unseen,
    open_finetuned,
    results_folder,
    seed_folders,
)
from trueneg.tasks.base import Encoded, Prediction, Split, Task, digest_of
from trueneg.tasks.metrics import METRICS
from trueneg.tasks.squad_reading import SquadExample
from trueneg.tasks.squad_windows import Windows
from trueneg.tasks.text import TextTask
from trueneg.training.folder import HUGGING_FACE

_CHUNK = 100  # examples of a query-free attack between calls of progress


@dataclass(frozen=True)
class AttackResult:
    """One model under one attack."""

    folder: Path
    attack_set: AttackSet
    result: Result
    drops: list[Drop]
    path: Path
    """The result file."""


@dataclass
class _Model:
    """A fine-tuned model of one seed, whose weights are loaded once, when they are needed."""

    folder: Path
    data: str = ""
    split: str = ""

    @cached_property
    def task(self) -> Task[Any]:
        return self.opened.task if "opened" in self.__dict__ else finetuned_task(self.folder, self._settings)[1]

    @cached_property
    def opened(self) -> FinetunedModel:
        return open_finetuned(self.folder, self._settings)

    @cached_property
    def examples(self) -> Split[Any]:
        """Examples to attack: those of a split, or all of a single file that the model was not trained on."""
        split = self.split or self.task.dev_splits[0]
        return self.task.read(split, is_whole=is_unseen(self.folder, self.task, split, self.data))

    @property
    def _settings(self) -> list[str]:
        return [f"task.data={self.data}"] if self.data else []


def _ignore(*_: Any) -> None:
    return None


def run_attacks(
    models: str | Path | Sequence[str | Path],
    attack: AttackConfig | AttackSet | Path,
    *,
    split: str = "",
    data: str = "",
    max_examples: int = 500,
    label_names: Sequence[str] = (),
    save: str | Path | None = None,
    results_in: str | Path = "",
    progress: Callable[[str], AbstractContextManager[Progress]] = lambda title: nullcontext(_ignore),
    on_result: Callable[[AttackResult], None] = _ignore,
) -> list[AttackResult]:
    """Attack fine-tuned models, and evaluate each before and after; see ``evaluate_attack`` for the results.

    A query-free attack runs once for all models of a task. A search runs for each model, which is loaded once.

    Args:
        models: Folders ``<out>/<task>`` of all seeds, or ``<out>/<task>/seed-<seed>`` of one.
        attack: The attack to run, an existing set, or a file: one written with ``save``, or published adversarial
            examples, see ``load_adversarial_examples``.
        split: See ``run_attack``, as for ``data`` and ``max_examples``.
        data: The task's files, if they have moved.
        max_examples: Number of examples, the same for every model; 0 for all.
        label_names: Names of the labels 0, 1, … of published examples.
        save: File to write the attacked examples to; there must be one set for all models.
        results_in: A folder for results as ``<results_in>/<task>/seed-<seed>``; by default the models' own.
        progress: Given a title, returns a context whose value is called with the number of examples done.
        on_result: Called with each result once it is saved.

    Raises:
        BusyError: if another process runs the same attack.
        ConfigError: if a folder holds no fine-tuned model, or for an attack that is not for its task.
        TaskError: if the attack changed nothing, or for examples that cannot be read.
    """
    named = [models] if isinstance(models, str | Path) else models
    opened = [_Model(folder, data, split) for model in named for folder in seed_folders(model)]
    made = make_attack(attack) if isinstance(attack, AttackConfig) else None
    sets: dict[str, AttackSet] = {}
    if isinstance(attack, Path):
        attack = load_adversarial_examples(attack, opened[0].folder, label_names, data)
    # Which models share a set: one model, all models of a task, or all.
    served = ["" if made is None else _served(model, made) for model in opened]
    if save is not None and len(set(served)) > 1:
        what = "models" if made and made.queries_victim else "tasks"
        raise ConfigError(f"--save: there are other examples for each of {len(set(served))} {what}: name one")
    results = []
    for model, whom in zip(opened, served, strict=True):
        if whom not in sets:
            if isinstance(attack, AttackSet):
                sets[whom] = attack
            else:
                assert made is not None
                with progress(f"{made.name} {model.folder}") as tell:
                    sets[whom] = _made(model, made, max_examples, tell)
            if save is not None:  # immediately, as a search takes hours and later steps may fail
                save_attack_set(sets[whom], Path(save))
        results.append(_evaluated(model, sets[whom], results_in))
        on_result(results[-1])
    return results


def _served(model: _Model, attack: Attack) -> str:
    """Key of the models that share a set: one model, or all with the same examples, as your tasks may share a name."""
    return str(model.folder) if attack.queries_victim else f"{model.task.name} {digest_of(model.examples.examples)}"


def run_attack(
    folder: str | Path,
    attack: Attack,
    *,
    split: str = "",
    data: str = "",
    max_examples: int = 500,
    progress: Progress = _ignore,
) -> AttackSet:
    """Attack a split's examples.

    Args:
        folder: A fine-tuned model of one seed: the victim, or, for a query-free attack, a model of the task.
        attack: See ``make_attack``.
        split: A labelled split of the task; by default the first that results are reported on.
        data: The task's files, if they have moved.
        max_examples: Number of examples, the same for every model; 0 for all.
        progress: Called with the number of examples done, and the total.

    Raises:
        BusyError: if another process runs this attack on this model.
        ConfigError: for an attack on another kind of task, or a regression task.
        TaskError: for a split without labels.
    """
    return _made(_Model(Path(folder), data, split), attack, max_examples, progress)


def evaluate_attack(folder: str | Path, attack_set: AttackSet, data: str = "") -> AttackResult:
    """Evaluate a fine-tuned model on every example of a set, before and after.

    In SQuAD, only questions that were changed count; the original score in the first paper's Table 5 is on these, too.
    For a question with several adversarial versions, the worst counts. For texts, all examples count, except in a set
    that was searched against another model: there only those that fooled that model, the actual adversarial examples,
    count (``left_out`` counts the others).

    The result is written next to those of the model's own task, named by ``result_name``, for ``compare`` and
    ``report``. Its ``counts`` contain the outcomes, how many adversarial texts were ``truncated``, and for how many the
    model reads exactly the tokens of the original (``truncated_away``).

    Warns:
        TruenegWarning: if the set is of another task, or its result replaces that of another attack.

    Raises:
        BusyError: if another process evaluates the same attack.
        ConfigError: if the set is of another kind of task, or has other labels.
        TaskError: if the attack changed nothing.
    """
    return _evaluated(_Model(Path(folder), data), attack_set)


def _made(model: _Model, attack: Attack, max_examples: int, progress: Progress) -> AttackSet:
    task = model.task
    if task.kind not in attack.kinds:
        raise ConfigError(f"{attack.name} is not for {task.name}: see `trueneg list attacks`")
    _refuse_regression(task)
    read, split = model.examples, model.split or task.dev_splits[0]
    if not read.is_labelled:
        raise TaskError(f"{task.name}: '{split}' has no labels, so nothing says when an attack succeeds")
    examples = read.examples
    if 0 < max_examples < len(examples):
        examples = task.subset(examples, max_examples, SUBSET_SEED)
    description = attack.description
    if not attack.queries_victim:
        return AttackSet(description, task.name, split, task.labels, _in_chunks(attack, examples, progress))
    with _holding(model.folder, f"attack-{attack.name}-{description['profile']}"):
        opened = model.opened
        victim = Victim(opened.model, cast(TextTask, task), opened.tokenizer, opened.config.task.length)
        description = {**description, "victim": _fingerprint(model.folder)}
        return AttackSet(description, task.name, split, task.labels, attack.run(victim, examples, progress=progress))


def _in_chunks(attack: Attack, examples: Sequence[Any], progress: Progress) -> list[AdversarialExample[Any]]:
    found: list[AdversarialExample[Any]] = []
    for start in range(0, len(examples), _CHUNK):
        found += attack.run(examples[start : start + _CHUNK])
        progress(len(found), len(examples))
    return found


def _evaluated(model: _Model, attack_set: AttackSet, results_in: str | Path = "") -> AttackResult:
    started = time.monotonic()
    folder, opened = model.folder, model.opened
    task, config = opened.task, opened.config
    _refuse_other(task, attack_set, folder)
    is_squad = task.kind == "squad"
    examples = _to_evaluate(attack_set, folder, is_squad)
    name = result_name(attack_set, task.name, folder)
    with _holding(folder, name):
        before, read_before = _predictions(opened, [example.original for example in examples])
        after, read_after = _predictions(opened, [example.adversarial for example in examples])
        rows = (_rows_read(read, len(examples)) for read in (read_before, read_after))
        happened = {
            **read_after.counts,
            "left_out": attack_set.attack.get("left_out", 0)
            + (0 if is_squad else len(attack_set.examples) - len(examples)),
            "missing_predictions": sum(bool(prediction.get("is_missing")) for prediction in after),
            "truncated_away": sum(
                example.adversarial != example.original and then == now
                for example, then, now in zip(examples, *rows, strict=True)
            ),
        }
        predictions = (squad_predictions if is_squad else text_predictions)(examples, before, after)
        columns = columns_of(predictions)
        result = make_result(
            task,
            name,
            predictions,
            config,
            examples=[example.original for example in examples],
            metrics={metric: METRICS[metric](columns) for metric in (SQUAD_METRICS if is_squad else TEXT_METRICS)},
            counts=outcomes(attack_set.examples) | {name: num for name, num in happened.items() if num},
            step=config.train.steps,
            trained=opened.trained,
            started=started,
        )
        described = {**attack_set.attack, "task": attack_set.task, "split": attack_set.split}
        result = replace(result, config={**result.config, "attack": described})
        target = results_folder(folder, opened, results_in)
        _warn_of_others(task, attack_set, target / f"{result.split}.json", described)
        path = save_result(result, predictions, target)
    return AttackResult(folder, attack_set, result, drops(predictions, SQUAD_DROPS if is_squad else TEXT_DROPS), path)


def _to_evaluate(attack_set: AttackSet, folder: Path, is_squad: bool) -> list[AdversarialExample[Any]]:
    victim = attack_set.attack.get("victim")
    if is_squad:
        found = [one for one in attack_set.examples if one.outcome != "unchanged"]
        did = "changed"
    elif victim is not None and victim != _fingerprint(folder):
        found = [one for one in attack_set.examples if one.outcome == "succeeded"]
        did = "fooled its victim with"
    else:
        return list(attack_set.examples)
    if not found:
        raise TaskError(f"{attack_set.name} {did} none of {len(attack_set.examples):,} examples: nothing to evaluate")
    return found


def result_name(attack_set: AttackSet, task: str, folder: str | Path) -> str:
    """Name the result of a set, without ``.json``.

    ``attack-<name>-<profile>``, or ``attack-<file>`` for published examples; with ``-of-<fingerprint>`` for a set that
    was searched against another model, and ``-on-<task>`` for one of another task, to distinguish them from this
    attack on this model.

    Args:
        attack_set: The set that the model is evaluated on.
        task: The model's own task.
        folder: The model's folder.
    """
    attack = attack_set.attack
    if attack_set.name == "published":
        name = Path(attack["file"]).stem
    else:
        name, victim = f"{attack_set.name}-{attack['profile']}", attack.get("victim")
        name += "" if victim is None or victim == _fingerprint(folder) else f"-of-{victim}"
    return f"attack-{name}" + ("" if attack_set.task == task else f"-on-{attack_set.task.replace('/', '-')}")


def load_adversarial_examples(path: Path, folder: str | Path, names: Sequence[str] = (), data: str = "") -> AttackSet:
    """Read a saved set, or published adversarial examples, of which only successful attacks are kept.

    Args:
        path: A file of ``save_attack_set``, or one that ``read_published`` or ``read_published_squad`` reads.
        folder: A fine-tuned model whose task and labels are used to read published examples.
        names: Names of the labels 0, 1, … of published examples.
        data: The task's files, if they have moved; its examples show whether it has pairs.

    Raises:
        TaskError: naming file and line, for a file that is neither, or for pairs if the task has single texts.
    """
    if is_attack_set(path):
        return load_attack_set(path)
    task = _Model(Path(folder), data).task
    attack = {"name": "published", "file": path.name}
    if task.kind == "squad":
        return AttackSet(attack, task.name, path.stem, task.labels, read_published_squad(path))
    if task.kind != "text":
        raise ConfigError(
            f"--load {path}: published examples are texts with labels or SQuAD, '{folder}' is of {task.name}"
        )
    _refuse_regression(task)
    is_of_pairs = any(example.second is not None for example in task.read(task.dev_splits[0]).examples)
    examples = read_published(path, task.labels, names, is_of_pairs=is_of_pairs)
    clean = cast(TextTask, task).cleaned
    examples = [replace(one, original=clean(one.original), adversarial=clean(one.adversarial)) for one in examples]
    kept = [example for example in examples if example.outcome in ("succeeded", "changed")]
    return AttackSet({**attack, "left_out": len(examples) - len(kept)}, task.name, path.stem, task.labels, kept)


def _holding(folder: str | Path, name: str) -> AbstractContextManager[None]:
    """Lock an attack on a model; other processes may run other attacks on it at the same time.

    Raises:
        BusyError: if another process holds the lock.
    """
    return locked(Path(folder), name, f".{name}.lock")


def _refuse_regression(task: Task[Any]) -> None:
    if task.kind == "text" and not task.labels:
        raise ConfigError(f"{task.name} is a regression task, and attacks change labels: attack a classification task")


def _refuse_other(task: Task[Any], attack_set: AttackSet, folder: str | Path) -> None:
    """Refuse a set of another kind of examples than the model's, or with other labels."""
    _refuse_regression(task)
    is_of_questions = any(isinstance(example.original, SquadExample) for example in attack_set.examples)
    if task.kind != ("squad" if is_of_questions else "text"):
        raise ConfigError(f"the set is of {attack_set.task}, '{folder}' is of {task.name}")
    if task.labels != attack_set.labels:
        raise ConfigError(
            f"the set is of {attack_set.task} with labels {', '.join(attack_set.labels)}, '{folder}' answers with "
            f"{', '.join(task.labels)}"
        )


def _warn_of_others(task: Task[Any], attack_set: AttackSet, path: Path, described: Mapping[str, Any]) -> None:
    """Warn of probable mistakes: a set of another task, or a result that replaces another attack's."""
    if attack_set.task != task.name:
        warnings.warn(
            f"{path}: the examples are of {attack_set.task}, the model of {task.name}", TruenegWarning, stacklevel=3
        )
    try:
        before = load_result(path).config.get("attack") if path.is_file() else None
    except TaskError:  # damaged: nothing is lost
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
    """Short hash of a model's weights."""
    digest = hashlib.sha256()
    for path in sorted((Path(folder) / HUGGING_FACE).glob("*.safetensors")):
        digest.update(bytes.fromhex(checksum(path)))
    return digest.hexdigest()[:8]


def _predictions(opened: FinetunedModel, examples: Sequence[Any]) -> tuple[list[Prediction], Encoded]:
    """Predict in float32, as the search does: in bf16, near ties would depend on the composition of a batch."""
    length = opened.config.task.length
    encoded = opened.task.encode(examples, opened.tokenizer, length, is_training=False)
    return predict_split(opened.model, opened.task, examples, encoded, pad_id(opened.tokenizer)), encoded


def _rows_read(encoded: Encoded, num: int) -> list[list[bytes]]:
    """Collect the rows that a model reads for each of ``num`` examples."""
    found: list[list[bytes]] = [[] for _ in range(num)]
    numbers = encoded.example.tolist() if isinstance(encoded, Windows) else range(num)
    for number, row in zip(numbers, row_names(encoded.features), strict=True):
        found[number].append(row)
    return found
