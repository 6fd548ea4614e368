"""``trueneg merge``: one model of several checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trueneg.cli.output import Json, Output, Quiet
from trueneg.errors import ConfigError
from trueneg.terminal.progress import Bar


def merge(
    checkpoints: Annotated[
        list[str], typer.Argument(help="Runs, RUN@STEP or Hugging Face folders, of one architecture.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write, which transformers loads.")],
    method: Annotated[str, typer.Option(help="mean, linear, ema (in the given order) or ties.")] = "mean",
    weights: Annotated[str, typer.Option(help="Of linear and ties: one a checkpoint, by comma.")] = "",
    decay: Annotated[float, typer.Option(help="Of ema: share of the average that each checkpoint leaves.")] = 0.5,
    base: Annotated[str, typer.Option(help="Of ties: what all checkpoints were continued from.")] = "",
    density: Annotated[float, typer.Option(help="Of ties: share of each one's differences that is kept.")] = 0.2,
    scale: Annotated[float, typer.Option(help="Of ties: factor of the merged difference.")] = 1.0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Average the weights of several checkpoints.

    The last checkpoints of a run, or runs of one start with other seeds or text, can make a better model together than
    any of them alone. `train.keep_at` and `train.keep` say which steps of a run are there.

    Example: `trueneg merge runs/hc@1600 runs/hc@1800 runs/hc --method mean --out merged/`

    Differences from a common start: `trueneg merge runs/law runs/medicine --method ties --base roberta/ --out merged/`
    """
    from trueneg.models.merging import MergeConfig
    from trueneg.runs.merging import merge as run

    try:
        numbers = tuple(float(word) for word in weights.split(",") if word.strip())
    except ValueError as error:
        raise ConfigError(f"--weights {weights}: numbers by comma, such as 0.7,0.3") from error
    with Bar("merging", quiet=quiet):  # nothing in it can be counted
        done = run(checkpoints, out, MergeConfig(method, numbers, decay, density, scale), base=base)
    text = (
        f"{done.num_models} checkpoints, {done.num_tensors:,} tensors, {done.num_parameters:,} parameters: "
        f"transformers loads {done.path}"
    )
    Output(as_json, quiet).result(vars(done), text)
