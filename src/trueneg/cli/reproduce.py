"""``trueneg reproduce``: reproduce an experiment, from data to table, with one command."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trueneg.cli.options import WordNetPath
from trueneg.cli.output import Json, Output, Quiet, refuse_given
from trueneg.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from trueneg.recipes.reproduction import Planned

LIST, PLANTED = "list", "planted"
DEFAULT_OUT = Path("repro")
TABLE = "table"
_OF_OTHERS = {"corpus", "wordnet"}
_OF_TABLES = {"data", "join"}


def reproduce(
    context: typer.Context,
    recipe: Annotated[
        str, typer.Argument(help="A paper's table, such as tn-table3 or cline-table7; all; or list, to show them.")
    ],
    out: Annotated[
        Path, typer.Option(help="Results folder of all recipes; finished jobs are not run again.")
    ] = DEFAULT_OUT,
    scale: Annotated[str, typer.Option(help="tiny (synthetic data), mini, small or paper.")] = "mini",
    data: Annotated[
        str,
        typer.Option(help="Folder with corpus/, glue/, squad/, cline_eval/, vectors/, wikitext/ and substitution/."),
    ] = "",
    arms: Annotated[
        str,
        typer.Option(
            help="Additional pre-training arms, separated by commas: HC in context,HC agree. For planted: "
            "drop,marginal@0.5/0.25, all, mlm, rtd, grid."
        ),
    ] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds per arm.")] = 3,
    seed: Annotated[
        int | None,
        typer.Option(help="Run only this seed, others elsewhere: planted in the same folder, a table's with --join."),
    ] = None,
    join: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder OUT/RECIPE of another machine, whose seeds and rows are read from table.json and rows/."
        ),
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="For planted: corpus with held-out text; by default one of WordNet's.")
    ] = None,
    wordnet: WordNetPath = "",
    workers: Annotated[int, typer.Option(min=1, help="Number of parallel jobs.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set encoder=…, text=…, or options of all runs: finetune.epochs=2."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show the jobs and their commands, without running them; tiny writes its data, OUT/made-up-data.",
        ),
    ] = False,
    form: Annotated[
        str, typer.Option("--format", help="For --dry-run: table, or a script for shell or slurm.")
    ] = TABLE,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce an experiment, with seeds, intervals and a verdict on each claim.

    A recipe is a plan of ordinary trueneg commands. Finished jobs are not run again, unless they or jobs they depend on
    changed. After Ctrl-C, the same command continues: only running jobs are lost, unless they can be resumed.

    Example: `trueneg reproduce tn-table3 --scale mini --data data/ --out repro/`

    To check that everything runs: `trueneg reproduce all --scale tiny --seeds 2 --out repro-tiny/`
    """
    from trueneg.recipes import planted
    from trueneg.recipes.reproduction import ALL, PILOT, TABLES, listed, plan_tables
    from trueneg.recipes.scripts import SCRIPTS

    output = Output(as_json, quiet)
    if seed is not None and seed < 1:
        raise ConfigError(f"seed must be at least 1, got {seed}")
    if form != TABLE and form not in SCRIPTS:
        raise ConfigError(unknown_name("format", form, [TABLE, *SCRIPTS]))
    if form != TABLE and not dry_run:
        raise ConfigError(f"--format {form} is of --dry-run: add it")
    if form != TABLE:
        refuse_given(context, {"as_json"}, f"--format {form}")
    if recipe == LIST:
        rows = [*listed(), (PLANTED, "trueneg", "what to do with a false negative, where all are known")]
        names = ("recipe", "source", "shows")
        output.table({"recipes": [dict(zip(names, row, strict=True)) for row in rows]}, names, rows)
    elif recipe == PLANTED:
        refuse_given(context, _OF_TABLES, f"reproduce {recipe}")
        chosen = [name.strip() for name in (arms or "all").split(",")]
        out = out / recipe if out == DEFAULT_OUT else out
        if seed:
            refuse_given(context, {"seeds", "workers", "dry_run"}, f"reproduce {recipe} --seed")
        own = _Planted(out, scale, chosen, corpus, wordnet, settings or [])
        if dry_run:
            _plan_planted(own, seeds, form, output)
        elif seed:
            _seed_of_planted(own, seed, output)
        else:
            results, table = planted.reproduce(**vars(own), seeds=seeds, workers=workers, say=output.say)
            output.result(results, table)
    elif recipe in (*TABLES, ALL):
        refuse_given(context, _OF_OTHERS, f"reproduce {recipe}")
        if seed:
            refuse_given(context, {"seeds"}, f"reproduce {recipe} --seed")
        extra = [name.strip() for name in arms.split(",") if name.strip()]
        planned = plan_tables(
            recipe, out, scale=scale, data=data, seeds=seeds, seed=seed or 0, join=join or [], arms=extra,
            settings=settings or [],
        )  # fmt: skip
        if dry_run:
            _show_plan(planned, form, output)
        else:
            _run(planned, out, workers, output)
    elif recipe == "pilot":
        raise ConfigError(PILOT)
    else:
        raise ConfigError(unknown_name("recipe", recipe, [LIST, ALL, *TABLES, PLANTED]))


def check_data() -> None:
    """Fail if a job's data, as described by `reproduce --format`, changed since its script was written.

    Example: `printf '%s' '[]' | trueneg check-data`
    """
    from trueneg.recipes.scripts import check_seen, read_seen

    check_seen(read_seen(sys.stdin.buffer.read().decode(errors="replace")))


@dataclass(frozen=True)
class _Planted:
    """Options shared by all runs of the planted experiment."""

    out: Path
    scale: str
    arms: list[str]
    corpus: Path | None
    wordnet: str
    settings: list[str]


def _plan_planted(own: _Planted, seeds: int, form: str, output: Output) -> None:
    from trueneg.recipes import planted
    from trueneg.recipes.scripts import SCRIPTS

    if form != TABLE:
        typer.echo(SCRIPTS[form](planted.scripted(**vars(own), seeds=seeds)), nl=False)
        return
    runs = planted.plan(own.out, scale=own.scale, arms=own.arms, seeds=seeds, settings=own.settings)
    left = [run for run in runs if not run.is_done]
    minutes = sum(run.minutes for run in left)
    shown = [(run.arm, run.seed, "done" if run.is_done else "to do", f"{run.minutes:g}") for run in runs]
    output.table({"runs": runs, "minutes_left": minutes}, ("arm", "seed", "state", "minutes"), shown)
    output.say(f"{len(runs)} runs, {len(left)} left: about {minutes:,.0f} minutes, one after another")


def _seed_of_planted(own: _Planted, seed: int, output: Output) -> None:
    from trueneg.recipes import planted

    runs = planted.reproduce_seed(**vars(own), seed=seed)
    shown = [(run.arm, metric, f"{value:.3f}") for run in runs for metric, value in run.metrics.items()]
    output.table({"runs": [asdict(run) for run in runs]}, ("arm", "metric", f"seed {seed}"), shown)


def _run(planned: Planned, out: Path, workers: int, output: Output) -> None:
    from trueneg.recipes.reproduction import run_tables
    from trueneg.reporting.reproduced import markdown, reproduced_tables

    found = run_tables(planned, workers, output.say)
    texts = [markdown(reproduced_tables(table)) for table in found.values()]
    output.result(
        {"tables": list(found.values())},
        "\n".join([*texts, f"written below '{out}': trueneg report {shlex.quote(str(out))} makes a page of it"]),
    )


def _show_plan(planned: Planned, form: str, output: Output) -> None:
    from trueneg.recipes.scripts import SCRIPTS, scripted

    workspace, left = planned.workspace, planned.workspace.missing()
    if form != TABLE:
        typer.echo(SCRIPTS[form](scripted(workspace)), nl=False)
        return
    jobs: list[dict[str, Any]] = [
        {
            "job": name,
            "state": workspace.state(name) if name in left or workspace.state(name) == "done" else "elsewhere",
            "minutes": job.minutes,
            "command": workspace.command(name),
        }
        for name, job in workspace.plan.jobs.items()
    ]
    entries = {f"{job['job']}: {job['state']}, about {job['minutes']:g} min": job["command"] for job in jobs}
    output.definitions({"jobs": jobs, "minutes_left": planned.minutes()}, entries)
    output.say(f"{len(jobs)} jobs, {len(left)} left: about {planned.minutes():,.0f} minutes, one after another")
