"""``trueneg compare``: whether one model is better than another, and how certain that is."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trueneg.cli.output import Json, Output, Quiet
from trueneg.errors import ConfigError


def compare(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="Folders of results; the first is the baseline.")
    ],
    metric: Annotated[str, typer.Option(help="Metric to compare: primary, all or a name.")] = "primary",
    average: Annotated[
        bool, typer.Option("--average", help="Also compare averages over tasks: GLUE's, and that of all tasks.")
    ] = False,
    examples: Annotated[
        str,
        typer.Option(
            metavar="N or FILE",
            help="Show the N examples on which models differ most consistently, or write all to FILE: .csv, .html, ….",
        ),
    ] = "",
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option(min=2, help="Number of bootstrap samples of the examples.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Random seed of the bootstrap.")] = 0,
    form: Annotated[
        str, typer.Option("--format", help="terminal (a summary), or in full: markdown, latex, csv, html, json.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="File to write the table to, in the format of its suffix: .html, .csv, .md, ….")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare models task by task: differences with intervals over seeds and examples, tests and verdicts.

    Example: `trueneg compare results/base results/hc-sr --out tables/hc-sr.tex`
    """
    from trueneg.evaluation.results import comparison
    from trueneg.reporting.results import average_verdict, averages_table, comparison_table, examples_table, verdict
    from trueneg.reporting.tables import JSON, form_of, write_tables

    form = form_of(form, out)
    num_shown, file = _shown(examples)
    examples_form = form_of("", file, "--examples") if file else ""
    if len(folders) < 2:
        raise ConfigError(f"nothing to compare '{folders[0]}' with: name another folder of results")
    output = Output(as_json, quiet)
    found = comparison.compare(
        *folders, metric=metric, confidence=confidence, resamples=resamples, seed=seed, average=average
    )
    verdicts = [verdict(row, confidence) for row in found.rows]
    data = asdict(found) | {
        "verdicts": verdicts,
        "average_verdicts": [average_verdict(one, confidence) for one in found.averages],
    }
    tables = [averages_table(found)] if average else []
    if examples:
        from trueneg.evaluation.results.examples import differing_examples

        differing, notes = differing_examples(*folders)
        chosen = differing if file else differing[:num_shown]
        shown = {"examples": [asdict(one) for one in chosen], "example_notes": notes, "num_differing": len(differing)}
        listed = examples_table(chosen, found.baseline, notes, is_short=file is None and form == "terminal")
        if file:
            write_tables([listed], file, examples_form, shown)
            output.say(f"{len(differing):,} examples on which they differ: {file}")
        else:
            data |= shown
            tables.append(listed)
    if out is not None:
        write_tables([comparison_table(found), *tables], out, form, data)
    if as_json or (form == JSON and out is None):
        Output(as_json=True).result(data, "")
    elif out is not None:
        output.result({}, str(out))
    else:
        for number, table in enumerate([comparison_table(found, is_short=form == "terminal"), *tables]):
            output.show(table, form, after_another=number > 0)


def _shown(examples: str) -> tuple[int, Path | None]:
    """Parse ``--examples``: the number to show, or the file to write."""
    if not re.fullmatch(r"-?[0-9]+", examples):
        return 0, Path(examples) if examples else None
    if int(examples) < 1:
        raise ConfigError(f"--examples {examples}: give how many, at least 1, or a file to write")
    return int(examples), None
