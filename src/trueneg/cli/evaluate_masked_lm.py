"""``trueneg evaluate masked-lm``: mispredictions of masked language models on held-out text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trueneg.cli.options import WordNetPath
from trueneg.cli.output import Json, Output, Quiet, Settings, Verify
from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.masked_lm.corrections import judgement, load_false_negatives
from trueneg.terminal.progress import Bar
from trueneg.training.folder import FALSE_NEGATIVES

if TYPE_CHECKING:
    from trueneg.evaluation.masked_lm.held_out import HeldOutResult

READINGS = {
    "gold_loss": ("loss of the gold token, in nats", ".4f"),
    "accuracy": ("masked tokens predicted right", ".2%"),
    "mispredicted": ("masked tokens mispredicted", ".2%"),
    "corrected": ("mispredictions that the detector accepts", ".2%"),
    "corrected_rows": ("rows with an accepted misprediction", ".2%"),
}
"""Metrics of an evaluation that are printed, with their format; ``--json`` has all of them."""

PICTURES = (".png", ".svg", ".pdf")

TASK = "false-negatives"
"""This evaluation's name in ``--task``."""


def masked_lm(
    checkpoint: Annotated[list[str], typer.Argument(help="Run folders, Hugging Face folders or hub names.")],
    corpus: Annotated[
        list[Path] | None, typer.Option(help="Corpus with held-out text and the checkpoint's tokenizer; repeatable.")
    ] = None,
    text: Annotated[
        list[Path] | None, typer.Option(help="File or folder of held-out text, instead of a corpus; repeatable.")
    ] = None,
    detector: Annotated[
        list[str] | None,
        typer.Option(help="Detector of false negatives: lexical, contextual:ENCODER, …; repeatable."),
    ] = None,
    over_training: Annotated[
        bool,
        typer.Option("--over-training", help="Evaluate every kept step (train.keep_at, keep), not only the last."),
    ] = False,
    wordnet: WordNetPath = "",
    rows: Annotated[
        int, typer.Option("--rows", "--limit", min=0, help="Number of held-out rows of each text; 0 for all.")
    ] = 0,
    length: Annotated[
        int | None, typer.Option(min=3, help="Tokens per row; by default as in the run, or 128 for other checkpoints.")
    ] = None,
    sequences: Annotated[
        list[str] | None,
        typer.Option(
            help="Content of a row: documents, packed or, of --text, lines; repeatable. By default as in the run."
        ),
    ] = None,
    pack: Annotated[bool, typer.Option("--pack", help="Same as --sequences packed.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Result file to write; by default one in each run's folder, for its report.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot corrections over training to this .png.")] = None,
    task: Annotated[str, typer.Option(hidden=True)] = TASK,
    verify: Verify = True,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate masked models on held-out text: loss, mispredictions, and how many of them are false negatives.

    Each checkpoint reads a text once, and all detectors score the same predictions.

    Example: `trueneg evaluate masked-lm runs/hc --corpus corpus/`

    Table 2: `trueneg evaluate masked-lm runs/hc --over-training --text wiki.txt --sequences lines --sequences packed
    --detector 'lexical[forms=retrieved]' --detector contextual:ENCODER --out table2.json --plot table2.png`
    """
    if task != TASK:
        raise ConfigError(f"--task {task}: leave it out, or name what is evaluated: trueneg evaluate --help")
    from trueneg.evaluation.masked_lm.held_out import evaluate_table

    for file in (out, plot):
        if file is not None and file.is_dir():
            raise ConfigError(f"'{file}' is a folder: name a file to write")
    output = Output(as_json, quiet)
    if plot is not None and not over_training:
        raise ConfigError(f"--plot {plot}: it draws corrections over training: add --over-training")
    if plot is not None and plot.suffix not in PICTURES:
        raise ConfigError(f"--plot {plot}: name the picture {', '.join(PICTURES)}")
    with Bar("evaluating", unit="rows", quiet=quiet) as bar:
        table = evaluate_table(
            checkpoint,
            corpora=corpus or (),
            texts=text or (),
            sequences=[*(sequences or ()), *(["packed"] if pack and "packed" not in (sequences or ()) else [])],
            detectors=detector or ("lexical",),
            over_training=over_training,
            wordnet=wordnet,
            num_rows=rows,
            length=length,
            settings=settings or (),
            verify=verify,
            say=bar.print,
            progress=bar.tell,
        )
    before = {path: _text_of(path) for path in (Path(one) / FALSE_NEGATIVES for one in checkpoint)}
    if out is not None:
        table.save(out)
        files = [out]
    else:
        files = table.save_in_runs()
    for written in files:
        output.say(f"wrote {written}: trueneg report shows it")
        if (replaced := before.get(written)) and replaced != _text_of(written):
            output.say(f"it replaces the results on {replaced}: --out FILE keeps both")
    summary = table.summary()
    if plot is not None:
        from trueneg.reporting.corrections import plot_over_training

        plot_over_training(summary["records"], plot)
    if len(table.records) > 1:
        from trueneg.reporting.corrections import heading, table_rows

        output.table(summary, heading(summary["records"]), table_rows(summary["records"]))
    else:
        output.result(summary, "\n".join(_shown(table.records[0])))


def _text_of(path: Path) -> str:
    """Describe the rows that saved results are of; empty if there are none, or they are damaged."""
    try:
        saved = load_false_negatives(path) if path.is_file() else []
    except TaskError:
        return ""
    return ", ".join(dict.fromkeys(f"{one.num_rows:,} rows of {one.text}" for one in saved))


def _shown(result: HeldOutResult) -> list[str]:
    """Describe one result in words."""
    lines = [f"{result.checkpoint} on {result.num_rows:,} held-out rows of {result.text}:"]
    lines += [f"  {what}: {result.readings.get(name, 0):{form}}" for name, (what, form) in READINGS.items()]
    if interval := result.shares["of_mispredicted"]:
        lines += [f"  of mispredictions, 95 % interval over rows: {interval.low:.2%} to {interval.high:.2%}"]
    if not result.corrections:
        return [*lines, "", f"no misprediction was one that '{result.detector}' accepts"]
    lines += ["", f"accepted by '{result.detector}': {judgement(result.detector)}"]
    lines += ["the most confident ones (probability, gold → predicted):"]
    return [*lines, *(f"  {c.probability:4.0%}  {c.sentence}" for c in result.most_convincing(10))]
