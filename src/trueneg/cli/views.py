"""``trueneg views``: what CLINE makes of a text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from trueneg.cli.options import WordNetPath
from trueneg.cli.output import Json, Output, Quiet, Settings
from trueneg.terminal.printable import printable

STYLES = {"kept": "", "synonym": "green", "antonym": "bold red"}


def views(
    text: Annotated[str, typer.Argument(help="A sentence or so.")],
    corpus: Annotated[Path, typer.Option(help="A corpus built with --tag: its words are what others are replaced by.")],
    num: Annotated[int, typer.Option("--num", "-n", min=1, help="Pairs of views to show.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 1,
    wordnet: WordNetPath = "",
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show views of a text: one that keeps its meaning, one that does not, what changed in colour.

    `--set` changes what pre-training with `--objective cline` would: `--set synonym_share=0.2`, `--set senses=all`, ….
    Other languages: `--set lexicon=wn:LEXICON --set agree=false --set senses=first`.

    Example: `trueneg views "Batman is a fictional superhero written by ..." --corpus corpus/ -n 5`
    """
    from trueneg.corruption.views.examples import show_views

    shown = show_views(text, corpus, num=num, seed=seed, wordnet=wordnet, settings=settings or ())
    output = Output(as_json, quiet)
    for warning in shown.warnings:
        output.say(warning)
    if as_json:
        output.result(shown.as_data(), "")
        return
    console = Console(highlight=False)
    for pair in shown.pairs:
        for name, words in pair.items():
            line = Text(f"{name:8}")
            for word in words:
                line.append(" ")
                line.append(printable(word.text), style=STYLES[word.label])
            console.print(line, soft_wrap=True)
