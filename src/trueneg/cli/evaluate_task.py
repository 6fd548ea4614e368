"""``trueneg evaluate task`` and ``contrast-set``: fine-tuned models, of all seeds in each folder."""

from __future__ import annotations

from typing import Annotated

import typer

from trueneg.cli.output import Json, Output, Quiet, Settings
from trueneg.cli.results import runs_of, show_results
from trueneg.terminal.progress import Bar

Models = Annotated[list[str], typer.Argument(metavar="MODEL", help="Fine-tuned models: OUT/TASK, or OUT/TASK/seed-N.")]


def task(
    models: Models,
    task: Annotated[
        str, typer.Option(help="Another task with the same labels; by default the one of fine-tuning.")
    ] = "",
    data: Annotated[str, typer.Option(help="The task's files or hub:NAME; by default those of fine-tuning.")] = "",
    split: Annotated[
        list[str] | None, typer.Option(help="Split: dev, test, …; repeatable. By default those with labels.")
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate fine-tuned models on their task, on other data or on another task with the same labels.

    Results are written next to the model's own, where `trueneg compare` finds them.

    Example: `trueneg evaluate task results/hc/mrpc --split dev`
    """
    from trueneg.runs.finetuned_models import evaluate_finetuned

    results = []
    for run in runs_of(models):
        with Bar(str(run), unit="rows", quiet=quiet) as bar:
            results += evaluate_finetuned(run, task, split or (), data=data, settings=settings or (), progress=bar.tell)
    show_results(results, Output(as_json, quiet))


def contrast_set(
    models: Models,
    data: Annotated[
        str, typer.Option("--data", "--contrast-set", help="Folder with the task's contrast set, as released.")
    ],
    split: Annotated[
        list[str] | None, typer.Option(help="test (default); for imdb and snli also dev; repeatable.")
    ] = None,
    results: Annotated[
        str, typer.Option(help="Folder for the results, as TASK/seed-N; by default each model's own.")
    ] = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate fine-tuned models on their task's contrast set: originals, revisions, and both at once.

    Example: `trueneg evaluate contrast-set results/cline/imdb --data cline_eval/`
    """
    from trueneg.runs.finetuned_models import evaluate_contrast_set

    found = [one for run in runs_of(models) for one in evaluate_contrast_set(run, data, split or ("test",), results)]
    show_results(found, Output(as_json, quiet))
