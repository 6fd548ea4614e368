"""Tasks, one family per file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trueneg.errors import ConfigError, unknown_name
from trueneg.registry import Registry

if TYPE_CHECKING:
    from trueneg.config.finetune_options import TaskConfig
    from trueneg.tasks.base import Task

ABOUT = {
    "glue/cola": "is a sentence acceptable (Matthews correlation)",
    "glue/sst2": "is a sentence of a film review positive (accuracy)",
    "glue/mrpc": "do two sentences say the same (accuracy, F1)",
    "glue/stsb": "how alike are two sentences (Spearman, Pearson)",
    "glue/qqp": "are two questions the same (accuracy, F1)",
    "glue/mnli": "does a sentence follow from another, matched and mismatched genres (accuracy)",
    "glue/qnli": "does a sentence answer a question (accuracy)",
    "glue/rte": "does a sentence follow from a text (accuracy)",
    "glue/wnli": "does a pronoun mean this (accuracy)",
    "glue/ax": "diagnostic pairs, for a model of glue/mnli (Matthews correlation)",
    "squad": "find the answer to a question in a paragraph, v1.1 (exact match, F1)",
    "squad/v2.0": "or say that it has none (exact match, F1)",
    "imdb": "is a film review positive (accuracy)",
    "snli": "does a sentence follow from another (accuracy)",
    "perspectrum": "does a perspective support a claim (accuracy)",
    "boolq": "is the answer to a question about a passage yes (accuracy)",
    "ag": "which topic has a news item (accuracy)",
    "mr": "is a sentence of a film review positive (accuracy)",
    "classification": "texts or pairs of one's own with labels: --data FILE, FOLDER or hub:NAME, --text-column, …",
    "regression": "texts or pairs of one's own with numbers",
    "tagging": "words of one's own with tags, in CoNLL's columns: names (entity F1) or parts of speech (accuracy)",
}
"""Every built-in task, and what it is about."""

FAMILIES = Registry(
    "task",
    "tasks",
    {
        "glue": "trueneg.tasks.glue:GlueTask",
        "squad": "trueneg.tasks.squad:SquadTask",
        **dict.fromkeys(("imdb", "snli", "perspectrum", "boolq", "ag", "mr"), "trueneg.tasks.cline:ClineTask"),
        **dict.fromkeys(("classification", "regression"), "trueneg.tasks.tabular:TabularTask"),
        "tagging": "trueneg.tasks.tagging:TaggingTask",
    },
    about=ABOUT,
)
"""A task's name, or the first part of it, to its ``Task`` class."""


GROUPS: dict[str, tuple[str, ...]] = {
    "glue": tuple(f"glue/{name}" for name in ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")),
}
"""Name of a group to its tasks. GLUE is without WNLI and the diagnostic set, as in both papers."""


def tasks_named(names: str) -> list[str]:
    """Return the tasks that ``--task`` names: one, several separated by commas, or a group's.

    Raises:
        ConfigError: for a task that does not exist, naming the closest one, or that is named twice.

    Example:
        >>> tasks_named("glue")[:3], tasks_named("glue/rte, squad")
        (['glue/cola', 'glue/sst2', 'glue/mrpc'], ['glue/rte', 'squad'])
    """
    known = [*known_tasks(), *GROUPS]
    named = [name.strip() for name in names.split(",")]
    if unknown := [name for name in named if name not in known]:
        raise ConfigError(unknown_name("task", unknown[0], known))
    tasks = [task for name in named for task in GROUPS.get(name, (name,))]
    if twice := [task for number, task in enumerate(tasks) if task in tasks[:number]]:
        raise ConfigError(f"--task {names}: {twice[0]} is named twice: name it once")
    return tasks


def known_tasks() -> list[str]:
    """Return the names of all tasks, including those of plugins; families such as ``glue`` are not tasks."""
    return [name for name in FAMILIES.known() if name in ABOUT or name not in FAMILIES.builtin]


def task_class(name: str) -> type[Task[Any]]:
    """Return the class of a task, which has what is known without data: the kind of its examples, the preset family.

    Raises:
        ConfigError: for a task that does not exist, naming the closest one.
    """
    if name not in (known := known_tasks()):
        raise ConfigError(unknown_name("task", name, known))
    found: type[Task[Any]] = FAMILIES.load(name if name in FAMILIES else name.partition("/")[0])
    return found


def make_task(options: TaskConfig, labels: Sequence[str] | None = None) -> Task[Any]:
    """Make the task that a configuration names.

    Args:
        options: Name, data and columns.
        labels: Labels of an existing model; then your own data needs no training split.

    Raises:
        ConfigError: for an unknown name, or no data.
    """
    made = task_class(options.name)
    if not options.data:
        raise ConfigError(f"no data for {options.name}: give --data a folder or a file, or hub:NAME")
    return made.from_config(options, labels)
