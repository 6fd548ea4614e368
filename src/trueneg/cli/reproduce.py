"""``trueneg reproduce``: an experiment, from data to table, by one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trueneg.cli.options import WordNetPath
from trueneg.cli.output import Json, Output, Quiet


def reproduce(
    recipe: Annotated[
        str,
        typer.Argument(
            help="planted: what to do with a false negative, where all are known; pilot: adversarial training on "
            "adversarial and on revised examples (CLINE's Table 2)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the results: what is there is not done again.")],
    scale: Annotated[
        str, typer.Option(help="tiny (seconds; means nothing), mini (minutes a run); pilot also: paper.")
    ] = "mini",
    arms: Annotated[
        str,
        typer.Option(
            help="planted: drop,marginal@0.5/0.25 (PRECISION/RECALL), all, mlm, rtd, grid; pilot: freelb,smart."
        ),
    ] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each arm.")] = 5,
    corpus: Annotated[
        Path | None, typer.Option(help="A corpus with held-out text; by default one is made of WordNet's.")
    ] = None,
    wordnet: WordNetPath = "",
    workers: Annotated[int, typer.Option(min=1, help="Processes, of one thread each.")] = 1,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change the experiment, such as steps=300.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Do an experiment again, with seeds and intervals. Ctrl-C loses the runs under way only.

    Example: `trueneg reproduce planted --scale mini --seeds 5 --arms baseline,drop,set,ceiling --out results/planted`

    CLINE's pilot: `trueneg reproduce pilot --out results/pilot --set encoder=runs/base --set data=cline_eval
    --set task=imdb --set adversaries=textfooler-imdb.csv`
    """
    from trueneg.recipes import RECIPES
    from trueneg.registry import load

    output = Output(as_json, quiet)
    results, table = load("recipe", recipe, RECIPES)(
        out,
        scale=scale,
        arms=[name.strip() for name in arms.split(",")],
        seeds=seeds,
        corpus=corpus,
        wordnet=wordnet,
        workers=workers,
        settings=settings or (),
        say=output.say,
    )
    output.result(results, table)
