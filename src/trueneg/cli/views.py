"""``trueneg views``: CLINE's views of a text."""

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
    text: Annotated[str, typer.Argument(help="Text to rewrite, such as a sentence.")],
    corpus: Annotated[Path, typer.Option(help="Corpus built with --tag, whose words are used as replacements.")],
    num: Annotated[int, typer.Option("--num", "-n", min=1, help="Number of pairs of views to show.")] = 5,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    wordnet: WordNetPath = "",
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show views of a text: one that keeps its meaning, one that does not, with changes in colour.

    `--set` sets options as in pre-training with `--objective cline`: `--set synonym_share=0.2`, `--set senses=all`, ….
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
