"""``trueneg push``: upload a run's models to the Hugging Face hub."""

from __future__ import annotations

from typing import Annotated

import typer

from trueneg.cli.output import Json, Output, Quiet
from trueneg.terminal.progress import Bar


def push(
    checkpoint: Annotated[str, typer.Argument(help="A run's folder or a Hugging Face folder.")],
    repository: Annotated[str, typer.Argument(help="OWNER/NAME on the hub; created if it does not exist.")],
    step: Annotated[
        list[int] | None, typer.Option(help="For a run: push this step's model, as revision step-N; repeatable.")
    ] = None,
    kept: Annotated[bool, typer.Option("--kept", help="For a run: push every kept model, each as a revision.")] = False,
    private: Annotated[bool, typer.Option("--private", help="If the repository is created, make it private.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite existing revisions.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Push a run's model to the Hugging Face hub, or its kept steps as revisions.

    Without --step and --kept, the run's last model is pushed to main. `train.keep_at` and `train.keep_every` keep steps
    permanently. The token is that of `hf auth login`, or HF_TOKEN.

    Example: `trueneg push runs/hc me/hc-encoder`

    Every kept step, loaded by `AutoModel.from_pretrained("me/hc-encoder", revision="step-1000")`:
    `trueneg push runs/hc me/hc-encoder --kept`
    """
    from trueneg.runs.pushing import push as write

    with Bar("pushing", quiet=quiet):  # the library shows its own progress
        done = write(checkpoint, repository, steps=step or (), kept=kept, private=private, overwrite=overwrite)
    output = Output(as_json, quiet)
    rows = [{**vars(one), "load": one.load} for one in done]
    output.result({"pushed": rows}, "\n".join(f"{one.revision}: {one.commit}" for one in done))
    if not as_json:
        output.say(f"load it:  {done[-1].load}")
