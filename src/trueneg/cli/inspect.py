"""``trueneg inspect``: a model's predictions for the words of a text, and detectors' verdicts on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from trueneg.cli.options import Checkpoint, WordNetPath
from trueneg.cli.output import Json, Output, Quiet
from trueneg.cli.resources import make_resources
from trueneg.errors import ConfigError
from trueneg.terminal.printable import printable


def inspect(
    checkpoint: Checkpoint,
    text: Annotated[str, typer.Argument(help="Text to inspect, such as a sentence.")],
    detector: Annotated[
        list[str] | None,
        typer.Option(help="Detector that judges predictions: lexical, contextual:ENCODER, …; repeatable."),
    ] = None,
    mask: Annotated[list[str] | None, typer.Option(help="Word of the text to mask; repeatable.")] = None,
    every_word: Annotated[
        bool, typer.Option("--every-word", help="Mask every word in turn; the default without --mask.")
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="Number of predictions to show per word.")] = 5,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained HTML page to this file.")] = None,
    wordnet: WordNetPath = "",
    device: Annotated[
        str, typer.Option(help="Device: cpu, cuda, xpu, mps, cuda:N; by default a GPU if available.")
    ] = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Mask words one at a time; show gold, predictions, detectors' verdicts and WordNet's synonyms (Figure 3).

    Example: `trueneg inspect runs/hc "an adaptive immune system whose primary function" --mask primary`
    """
    if mask and every_word:
        raise ConfigError("--mask and --every-word exclude each other: one names words, the other means all")
    if html is not None and html.is_dir():
        raise ConfigError(f"--html {html} is a folder: name a file, as {html / 'inspection.html'}")

    from trueneg.evaluation.masked_lm.inspection import inspect_text

    found = inspect_text(
        checkpoint,
        text,
        detectors=detector or ("lexical",),
        masks=mask or (),
        top=top,
        wordnet=wordnet,
        device=device and make_resources(wordnet, device).device,
    )
    summary = found.summary()
    if html is not None:
        from trueneg.reporting.inspection import write_inspection

        write_inspection(summary, html)
    if as_json:
        Output(as_json).result(summary, "")
        return
    console = Console(highlight=False, markup=False)
    for part in _told(summary):
        console.print(part)
    if html is not None:
        console.print(printable(str(html)), soft_wrap=True)


def _told(summary: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Render an inspection as blocks for a terminal; colours only repeat what the text says."""
    from trueneg.reporting.inspection import share
    from trueneg.reporting.tables import short_names

    names = short_names(summary["detectors"])
    text = summary["text"]
    yield Text(printable(f"predictions of {summary['checkpoint']}"), style="dim")
    yield ""
    for word in summary["words"]:
        before, gold, after = (printable(part) for part in (text[: word["start"]], word["gold"], text[word["end"] :]))
        yield Text.assemble(before, (f"[{gold}]", "bold"), after)
        rank = "" if word["gold_rank"] is None else f" and ranks {word['gold_rank']:,}"
        pieces = "" if len(word["pieces"]) == 1 else f"; pieces {' '.join(word['pieces'])}, masked together"
        note = f"; {word['note']}" if word["note"] else ""
        yield Text(printable(f"  gold has {share(word['gold_probability'])}{rank}{pieces}{note}"), style="dim")
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        table.add_column("  predicted")
        table.add_column("p", justify="right")
        for detector, threshold in zip(summary["detectors"], summary["thresholds"], strict=True):
            at = "" if "@" in detector else f" ≥ {threshold:.2f}"
            table.add_column(printable(f"{names[detector]}{at}"), overflow="fold")
        for predicted in word["predictions"]:
            table.add_row(printable(f"  {predicted['text']}"), share(predicted["probability"]), *_verdicts(predicted))
        yield table
        if word["synonyms"] is not None:
            listed = printable(", ".join(word["synonyms"])) or "none"
            yield Text(f"  WordNet's synonyms in the vocabulary: {listed}")
        yield ""
    yield Text("✓ accepted, ✗ rejected, with the score; in brackets where training never asks", style="dim")


def _verdicts(predicted: Mapping[str, Any]) -> Iterator[Text]:
    if predicted["is_gold"]:
        yield Text("gold", style="bold")
        return
    for verdict in predicted["verdicts"]:
        if verdict["score"] is None:
            yield Text("no word", style="dim")
            continue
        said = f"{'✓' if verdict['is_accepted'] else '✗'} {verdict['score']:.2f}"
        if predicted["is_correctable"]:
            yield Text(said, style="green" if verdict["is_accepted"] else "red")
        else:
            yield Text(f"({said})", style="dim")
