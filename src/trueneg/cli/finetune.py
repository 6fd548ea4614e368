"""``trueneg finetune``, and ``trueneg evaluate`` for what it made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trueneg.cli.output import Json, LearningRate, Output, Quiet, Settings, is_main_process
from trueneg.config.validation import Needs, refuse_idle
from trueneg.errors import ConfigError, Interrupted, unknown_name
from trueneg.terminal.progress import Bar

if TYPE_CHECKING:
    from trueneg.evaluation.results.store import Result


_OF_SEEDS: Needs = (
    (("train.seed",), lambda config: False, "where several seeds are run: choose one with --seed, or leave it out"),
)


def finetune(
    checkpoint: Annotated[str, typer.Argument(help="A run folder, a Hugging Face folder or a hub name.")],
    task: Annotated[str, typer.Option(help="What to learn: glue/mrpc, squad, …; see `trueneg list tasks`.")],
    data: Annotated[str, typer.Option(help="The task's files: a folder or a file, or hub:NAME.")] = "",
    out: Annotated[Path, typer.Option(help="Folder of results, one a checkpoint: OUT/TASK/seed-N.")] = Path("results"),
    seeds: Annotated[int, typer.Option(min=1, help="Runs, with seeds 1 to this.")] = 5,
    seed: Annotated[int | None, typer.Option(help="One run, with this seed.")] = None,
    preset: Annotated[
        str, typer.Option(help="electra-paper, electra-code or bert; by default as the encoder is.")
    ] = "",
    text_column: Annotated[str, typer.Option(help="Of one's own data.")] = "",
    second_column: Annotated[str, typer.Option(help="Of one's own data, where texts come in pairs.")] = "",
    label_column: Annotated[str, typer.Option(help="Of one's own data.")] = "",
    train_fraction: Annotated[float | None, typer.Option(help="Share of the training examples to use.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Times that the training examples are seen.")] = None,
    learning_rate: LearningRate = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows a step, over all processes.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens a row at most.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32 or bf16.")] = None,
    select: Annotated[str | None, typer.Option(help="last, or best on a part split off the training examples.")] = None,
    adversarial: Annotated[
        str | None,
        typer.Option(help="freelb or smart: train on perturbed word embeddings, at two to three times the cost."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was interrupted.")] = False,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fine-tune a checkpoint on a task with several seeds, and keep every example's answer.

    Seeds that have finished are not run again; with `--resume`, one that was interrupted goes on. `--set` reaches
    every option (`trueneg list finetune-options`).

    Example: `trueneg finetune runs/hc --task glue/mrpc --data glue/ --seeds 5 --out results/hc`

    One's own: `trueneg finetune runs/hc --task classification --data reviews.csv --text-column review
    --label-column stars --out results/hc`
    """
    from trueneg.runs.finetuning import configure_finetuning
    from trueneg.runs.finetuning import finetune as run

    named = {
        "task.data": data,
        "task.text_column": text_column,
        "task.second_column": second_column,
        "task.label_column": label_column,
        "task.train_fraction": train_fraction,
        "task.length": length,
        "epochs": epochs,
        "select": select,
        "adversarial": adversarial,
        "optimizer.learning_rate": learning_rate,
        "train.batch_size": batch_size,
        "train.precision": precision,
    }
    chosen = [f"{key}={value}" for key, value in named.items() if value not in (None, "")]
    wanted = configure_finetuning(checkpoint, task, preset=preset, settings=[*chosen, *(settings or [])])
    refuse_idle(wanted, settings or [], _OF_SEEDS)
    output, results = Output(as_json, quiet), list[Any]()
    for number in [seed] if seed is not None else range(1, seeds + 1):
        done = run(replace(wanted, train=replace(wanted.train, seed=number)), out, resume=resume, quiet=quiet)
        if done.reason == "interrupted":
            raise Interrupted(
                f"saved step {done.step:,} of {done.steps:,} of seed {number} in '{done.folder}': go on with --resume"
            )
        if done.reason == "time":
            output.say(f"time is up at step {done.step:,} of {done.steps:,} of seed {number}: continue with --resume")
            break
        results += done.results.values()
    if is_main_process():
        _show(results, output)


def evaluate_task(
    folders: Sequence[str],
    task: str,
    data: str,
    splits: Sequence[str],
    contrast_set: str,
    settings: Sequence[str],
    output: Output,
) -> None:
    """Evaluate fine-tuned models, those of all seeds below each folder."""
    from trueneg.runs.finetuned_models import evaluate_contrast_set, evaluate_finetuned

    runs = [run for folder in folders for run in runs_of(folder)]
    if contrast_set:
        if task or data or settings:
            raise ConfigError("--contrast-set is of the task that a model was fine-tuned on: leave the rest out")
        asked = splits or ("test",)
        _show([found for run in runs for found in evaluate_contrast_set(run, contrast_set, asked)], output)
        return
    results: list[Result] = []
    for run in runs:
        with Bar(str(run), unit="rows", quiet=output.quiet) as bar:
            results += evaluate_finetuned(run, task, splits, data=data, settings=settings, progress=bar.tell)
    _show(results, output)


def check_task(task: str, others: Sequence[str]) -> None:
    """Refuse the name of a task that does not exist.

    Args:
        task: As it was written; empty for the one that a model was fine-tuned for.
        others: Tasks of models that were not fine-tuned.

    Raises:
        ConfigError: with the closest name.
    """
    from trueneg.tasks import known_tasks

    if task and task not in (known := (*others, *known_tasks())):
        raise ConfigError(unknown_name("task", task, known))


def is_finetuned(checkpoint: str) -> bool:
    """Whether a folder is one of ``finetune``'s: of one seed, or of several."""
    path = Path(checkpoint)
    return (path.name.startswith("seed-") and path.is_dir()) or any(path.glob("seed-*/config.json"))


def runs_of(folder: str) -> list[Path]:
    """Folders of each seed of a fine-tuned model.

    Raises:
        ConfigError: if there are none.
    """
    path = Path(folder)
    found = [path] if path.name.startswith("seed-") else sorted(path.glob("seed-*"))
    if not found:
        raise ConfigError(f"'{folder}' holds no fine-tuned model: give OUT/TASK, or OUT/TASK/seed-N")
    return found


def _show(results: Sequence[Result], output: Output) -> None:
    rows = [
        (result.task, result.split, result.seed, f"{result.num_examples:,}", name, f"{100 * value:.2f}")
        for result in results
        for name, value in result.metrics.items()
    ]
    output.table(
        {"results": [asdict(result) for result in results]},
        ("task", "split", "seed", "examples", "metric", "x 100"),
        rows,
    )


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command(rich_help_panel="Train")(finetune)
