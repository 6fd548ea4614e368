"""``trueneg compare``: whether one model is better than another, and how sure that is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from trueneg.cli.output import Json, Output, Quiet
from trueneg.errors import ConfigError


def compare(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="Folders of results; the first is the baseline.")
    ],
    metric: Annotated[str, typer.Option(help="primary, all, or a metric's name.")] = "primary",
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option(min=2, help="Bootstrap samples of the examples.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    form: Annotated[
        str, typer.Option("--format", help="terminal (the headline), or in full: markdown, latex, csv, html.")
    ] = "terminal",
    out: Annotated[Path | None, typer.Option(help="A file to write the table to.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare models task by task: differences with intervals over seeds and examples, tests, and a verdict each.

    Example: `trueneg compare results/base results/hc-sr --format latex --out tables/hc-sr.tex`
    """
    from trueneg.evaluation import comparison
    from trueneg.reporting.results import comparison_table, verdict
    from trueneg.reporting.tables import check_form, write_tables

    check_form(form)
    if len(folders) < 2:
        raise ConfigError(f"nothing to compare '{folders[0]}' with: name another folder of results")
    if out is not None and out.is_dir():
        raise ConfigError(f"--out {out} is a folder: name a file")
    output = Output(as_json, quiet)
    found = comparison.compare(*folders, metric=metric, confidence=confidence, resamples=resamples, seed=seed)
    if out is not None:
        write_tables([comparison_table(found)], out, form)
    if as_json:
        verdicts = [verdict(row, confidence) for row in found.rows]
        output.result(asdict(found) | {"verdicts": verdicts}, "")
    elif out is not None:
        output.result({}, str(out))
    else:
        table = comparison_table(found, is_short=form == "terminal")
        width = Console().width if form == "terminal" and Console().is_terminal else None
        typer.echo(table.render(form, width), nl=False)


def register(app: typer.Typer) -> None:
    """Add this verb to the program."""
    app.command(rich_help_panel="Measure and hand on")(compare)
