"""How verbs are told where documents begin and end in the text that they read."""

from __future__ import annotations

from typing import Annotated

import typer

TextField = Annotated[str, typer.Option(help="Field or column of the text in JSON, CSV, TSV, Parquet and hub.")]
Lines = Annotated[bool, typer.Option("--lines", help="Every line is a document of its own.")]
MaxDocumentMib = Annotated[
    float, typer.Option(min=0.001, help="Most MiB of a document, or of a line; longer ones are refused.")
]
