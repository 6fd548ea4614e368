"""``trueneg export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trueneg.cli.output import Json, Output, Quiet
from trueneg.terminal.progress import Bar


def export(
    checkpoint: Annotated[str, typer.Argument(help="A run folder, a Hugging Face folder or a hub name.")],
    format: Annotated[str, typer.Option(help="hf, sentence-transformers or onnx.")] = "hf",
    head: Annotated[
        str,
        typer.Option(
            help="Of onnx, what the graph gives: task (logits of a fine-tuned model), mlm or discriminator (logits), "
            "encoder (last_hidden_state), sentence (sentence_embedding). auto: the head that was trained."
        ),
    ] = "auto",
    step: Annotated[int | None, typer.Option(help="Of a run: the checkpoint of this step, not the last one.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; by default beside the run's hf/.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export that lies in --out.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a checkpoint as other libraries load it.

    A run whose hf/ is gone is exported from its checkpoints. What continued a sentence encoder keeps its pooling,
    norm, length and prompts.

    Example: `trueneg export runs/hc --format sentence-transformers --out encoder/`

    A classifier for onnxruntime: `trueneg export results/hc/reviews/seed-1 --format onnx --out classifier/`
    """
    from trueneg.runs.exporting import export as write

    with Bar(f"writing {format}", quiet=quiet):  # nothing in it can be counted
        done = write(checkpoint, format, out, head=head, step=step, overwrite=overwrite)
    output = Output(as_json, quiet)
    output.result({"format": done.format, "out": done.path, "head": done.head, "load": done.load}, str(done.path))
    if not as_json:
        output.say(f"load it:  {done.load}")
