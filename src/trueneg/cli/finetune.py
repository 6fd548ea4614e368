"""``trueneg finetune``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trueneg.cli.output import Json, LearningRate, Output, Quiet, Settings, is_main_process
from trueneg.cli.results import show_results
from trueneg.config.validation import Needs, refuse_idle
from trueneg.errors import Interrupted

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
    from trueneg.runs.finetuning import configure_finetuning, finetune_seeds

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
    output = Output(as_json, quiet)
    numbers = [seed] if seed is not None else range(1, seeds + 1)
    runs = finetune_seeds(wanted, out, numbers, resume=resume, quiet=quiet)
    last = runs[-1]
    reached = f"step {last.step:,} of {last.steps:,} of seed {last.seed}"
    if last.reason == "interrupted":
        raise Interrupted(f"saved {reached} in '{last.folder}': go on with --resume")
    if last.reason == "time":
        output.say(f"time is up at {reached}: continue with --resume")
    if is_main_process():
        show_results([result for run in runs for result in run.results.values()], output)


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command(rich_help_panel="Train")(finetune)
