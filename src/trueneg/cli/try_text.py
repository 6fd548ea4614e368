"""``trueneg try``: does it help on my text?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from trueneg.cli.options import Lines, TextField, WordNetPath, seeds_of
from trueneg.cli.output import Json, Output, Quiet, refuse_given


def try_text(
    context: typer.Context,
    text: Annotated[
        list[str],
        typer.Argument(
            help="Your text: files (.txt, .jsonl, .csv, .tsv, .parquet; .gz, .zst, .xz), folders, globs or hub data "
            "sets."
        ),
    ],
    start_from: Annotated[
        str, typer.Option("--from", help="Checkpoint to continue: a run, a Hugging Face folder or a hub name.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the trial; finished jobs are not run again.")] = Path("try"),
    seeds: Annotated[str, typer.Option(metavar="N or LIST", help="Runs per arm: seeds 1 to N, or those listed.")] = "3",
    minutes: Annotated[
        float,
        typer.Option(help="Time limit for everything on this machine; the number of steps is chosen by timing a step."),
    ] = 60.0,
    arms: Annotated[
        str,
        typer.Option(
            help="Arms besides the baseline, separated by commas: lexical, in-context, in-context-drop, "
            "regularization. By default lexical,in-context,regularization."
        ),
    ] = "",
    data: Annotated[
        str,
        typer.Option(
            help="Labelled data for the probe of --task; without --task, GLUE's folder for sentence similarity (STS-B)."
        ),
    ] = "",
    task: Annotated[
        str,
        typer.Option(help="Fine-tune every arm, and the checkpoint, on this task as a probe (see finetune --task)."),
    ] = "",
    text_column: Annotated[str, typer.Option(help="Text column of the probe's data.")] = "",
    label_column: Annotated[str, typer.Option(help="Label column of the probe's data.")] = "",
    lines: Lines = False,
    text_field: TextField = "text",
    wordnet: WordNetPath = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the jobs and their commands, without running them.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set options of all runs, as for pretrain; train.steps instead of --minutes; finetune.KEY=VALUE "
            "for the probe.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find out whether trueneg helps on your text: train the baseline and the recommended arms alike, and compare.

    A tenth of the text is held out. All arms train for the same number of steps with the same seeds. Then the models
    are compared by held-out loss, their predictions and, if data are given, sentence similarity and a probe, before and
    after, with intervals over seeds and a verdict in words; in the terminal, in OUT/try.json and on one page,
    OUT/try.html. After Ctrl-C, the same command continues, and no finished work is lost.

    Example: `trueneg try my.txt --from bert-base-uncased --seeds 3 --minutes 60`
    """
    from trueneg.recipes.own_text import ask
    from trueneg.recipes.trial import PAGE, planned, run_trial
    from trueneg.reporting.trial import headline, trial_tables

    output = Output(as_json, quiet)
    named = (("--text-column", text_column), ("--label-column", label_column))
    own = ask(
        text,
        start_from,
        seeds=seeds_of(seeds),
        minutes=minutes,
        arms=[name.strip() for name in arms.split(",") if name.strip()],
        lines=lines,
        text_field=text_field,
        data=data,
        task=task,
        columns=[word for flag, value in named if value for word in (flag, value)],
        wordnet=wordnet,
        settings=settings or (),
    )
    if own.steps:
        refuse_given(context, {"minutes"}, "--set train.steps")
    if dry_run:
        workspace, why = planned(own, out)
        jobs: list[dict[str, Any]] = [
            {"job": name, "state": workspace.state(name), "command": workspace.command(name)}
            for name in workspace.plan.jobs
        ]
        output.definitions(
            {"jobs": jobs, "steps": why}, {f"{job['job']}: {job['state']}": job["command"] for job in jobs}
        )
        output.say(f"{len(jobs)} jobs, {len(workspace.missing())} left; {why}")
        return
    trial = run_trial(own, out, output.say)
    if as_json:
        output.result(vars(trial), "")
        return
    for table in trial_tables(trial):
        output.show(table)
        typer.echo()
    output.result({}, "\n".join([headline(trial), "", *trial.notes, f"the page: {out / PAGE}"]))
