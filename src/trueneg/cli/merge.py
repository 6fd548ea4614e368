"""``trueneg merge``: merge several checkpoints into one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trueneg.cli.output import Json, Output, Quiet
from trueneg.errors import ConfigError
from trueneg.terminal.progress import Bar


def merge(
    checkpoints: Annotated[
        list[str], typer.Argument(help="Runs, RUN@STEP or Hugging Face folders, all of one architecture.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write, in Hugging Face format.")],
    method: Annotated[str, typer.Option(help="mean, linear, ema (in the given order) or ties.")] = "mean",
    weights: Annotated[str, typer.Option(help="For linear and ties: one per checkpoint, separated by commas.")] = "",
    decay: Annotated[float, typer.Option(help="For ema: share of the average kept with each checkpoint.")] = 0.5,
    base: Annotated[str, typer.Option(help="For ties: the checkpoint that all were continued from.")] = "",
    density: Annotated[float, typer.Option(help="For ties: share of each one's differences to keep.")] = 0.2,
    scale: Annotated[float, typer.Option(help="For ties: factor of the merged difference.")] = 1.0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Average the weights of several checkpoints.

    The average of a run's last checkpoints, or of runs from one start with different seeds or text, can be better than
    any of them alone. `train.keep_at` and `train.keep` determine which steps of a run are available.

    Example: `trueneg merge runs/hc@1600 runs/hc@1800 runs/hc --method mean --out merged/`

    Differences from a common start: `trueneg merge runs/law runs/medicine --method ties --base roberta/ --out merged/`
    """
    from trueneg.models.merging import MergeConfig
    from trueneg.runs.merging import merge as run

    try:
        numbers = tuple(float(word) for word in weights.split(",") if word.strip())
    except ValueError as error:
        raise ConfigError(f"--weights {weights}: numbers by comma, such as 0.7,0.3") from error
    with Bar("merging", quiet=quiet):  # no countable progress
        done = run(checkpoints, out, MergeConfig(method, numbers, decay, density, scale), base=base)
    text = (
        f"{done.num_models} checkpoints, {done.num_tensors:,} tensors, {done.num_parameters:,} parameters: "
        f"transformers loads {done.path}"
    )
    Output(as_json, quiet).result(vars(done), text)
