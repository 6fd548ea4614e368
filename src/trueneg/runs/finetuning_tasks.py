"""Fine-tuning on several tasks, each with several seeds, one run after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from trueneg.config.codec import override
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.results.store import SELECTION
from trueneg.registry import load_plugins
from trueneg.runs.configuring_finetuning import configure_finetuning
from trueneg.runs.finetuning import Finetuned, finetune_seeds, folder_of
from trueneg.tasks import make_task, tasks_named


def configure_tasks(
    start_from: str, tasks: str, *, preset: str = "", settings: Sequence[str] = ()
) -> list[FinetuneConfig]:
    """Assemble the configurations of several tasks, each from its own preset.

    Args:
        start_from: A run folder, a Hugging Face folder or a hub name.
        tasks: As ``tasks.tasks_named`` reads them: ``glue``, or ``glue/cola,glue/rte``.
        preset: One of ``finetune_presets``; by default the one for the encoder's architecture.
        settings: ``key=value``, applied to all of them.

    Raises:
        ConfigError: if there is no checkpoint or no task, or an option is unknown or has no effect for one of them.
    """
    load_plugins(override(FinetuneConfig(), settings).plugins)  # a task may come from a plugin
    return [configure_finetuning(start_from, task, preset=preset, settings=settings) for task in tasks_named(tasks)]


def finetune_tasks(
    configs: Sequence[FinetuneConfig],
    out: str | Path,
    seeds: Iterable[int],
    *,
    resume: bool = False,
    quiet: bool = False,
) -> list[Finetuned]:
    """Fine-tune a checkpoint on each task with each seed: see ``finetune_seeds``.

    The data of all tasks are read before training starts. If a run stops early, because it is interrupted or out of
    time, it is the last of the list.

    Args:
        configs: One per task.
        out: The folder of results; see ``folder_of``.
        seeds: Values of ``train.seed``.
        resume: Continue an unfinished run; start if there is none.
        quiet: Show no progress.

    Raises:
        ConfigError: if a folder of results holds a sweep's selection.
        TaskError: naming every task whose data is missing or damaged.
        TruenegError: for anything else a user can fix; see the message.
    """
    check_data(configs)
    selected = {path.parent for path in Path(out).glob(f"*/{SELECTION}")}
    for config in configs if selected else ():
        folder = folder_of(make_task(config.task).name, 0, out).parent  # of one's own data, by their file's name
        if folder in selected:
            raise ConfigError(f"'{folder}' holds what a sweep selected: run that --sweep again, or give another --out")
    chosen = list(seeds)
    runs: list[Finetuned] = []
    for config in configs:
        runs += finetune_seeds(config, out, chosen, resume=resume, quiet=quiet)
        if runs[-1].reason != "finished":
            break
    return runs


def check_data(configs: Sequence[FinetuneConfig]) -> None:
    """Refuse, in one error, all tasks whose data cannot be read. A single task raises its own error when trained."""
    faults = []
    for config in configs if len(configs) > 1 else ():
        try:
            task = make_task(config.task)
            for split in (task.train_split, *task.dev_splits):
                task.read(split)
        except TaskError as error:
            faults.append(f"{config.task.name} ({error})")
    if faults:
        raise TaskError(f"{len(faults)} of {len(configs)} tasks cannot be read: {'; '.join(faults)}")
