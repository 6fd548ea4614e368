"""``trueneg corpus``: build one, look at one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from trueneg.cli.output import Json, Output, Quiet

app = typer.Typer(help="Turn text into a corpus that training reads.", no_args_is_help=True)


@app.command()
def build(
    text: Annotated[
        list[str],
        typer.Argument(help="Files (.txt, .jsonl, .parquet, .gz, .zst, .xz), folders, globs or hub data sets."),
    ],
    tokenizer: Annotated[str, typer.Option(help="A tokenizer's folder, a checkpoint or a hub name.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    workers: Annotated[int, typer.Option(min=1, help="Processes that tokenize.")] = 1,
    valid: Annotated[str | None, typer.Option(help="Held-out text: a file, or a fraction of the documents.")] = None,
    text_field: Annotated[str, typer.Option(help="Field of the text in JSON, Parquet and hub sources.")] = "text",
    shard_tokens: Annotated[
        int, typer.Option(min=1, help="A shard ends with the document that reaches so many tokens.")
    ] = 1 << 26,
    seed: Annotated[int, typer.Option(help="Chooses the documents held out.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished corpus.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tokenize text into a memory-mapped corpus. A build that was killed goes on where it was.

    In a text file a blank line ends a document.

    Example: `trueneg corpus build texts/ --tokenizer tok/ --out corpus/ --valid 0.01 --workers 8`
    """
    from trueneg.corpus.build import build_corpus
    from trueneg.corpus.sources import text_bytes

    held_out = [valid] if valid is not None and Path(valid).exists() else []
    total = text_bytes([*text, *held_out])
    bar = Progress(
        TextColumn("building"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=quiet or not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task("building", total=total)
        info = build_corpus(
            text,
            tokenizer,
            out,
            workers=workers,
            valid=valid,
            seed=seed,
            shard_tokens=shard_tokens,
            text_field=text_field,
            overwrite=overwrite,
            progress=lambda num: bar.advance(task, num),
        )
    lines = [f"{out}: fingerprint {info.fingerprint}"]
    for name, split in info.splits.items():
        lines.append(
            f"  {name}: {split.num_documents:,} documents, {split.num_tokens:,} tokens "
            f"({split.num_unknown_tokens:,} unknown; {split.num_empty_documents:,} empty documents left out)"
        )
    Output(as_json).result({"out": out, "info": info}, "\n".join(lines))


@app.command()
def info(
    corpus: Annotated[Path, typer.Argument(help="A corpus folder.")],
    length: Annotated[int, typer.Option(min=3, help="Row length to describe it for.")] = 128,
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte and compare checksums.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what a corpus holds.

    Example: `trueneg corpus info corpus/ --length 128`
    """
    from trueneg.corpus.rows import describe
    from trueneg.corpus.store import Corpus

    data = describe(corpus, length)
    if verify:
        for split in Corpus.open(corpus).info.splits:
            Corpus.open(corpus, split).verify()
        data["verified"] = True
    Output(as_json).result(data, "\n".join(_lines(data)))


def _lines(data: Mapping[str, Any]) -> list[str]:
    kept = {"fingerprint": "fingerprint", "tokenizer_fingerprint": "tokenizer's fingerprint"}
    lines = [f"{data['path']}: {data['vocab_size']:,} entries, stored as {data['dtype']}"]
    lines += [f"{title}: {data[name]}" for name, title in kept.items()]
    for name, split in data["splits"].items():
        lines.append(
            f"{name}: {split['num_documents']:,} documents ({split['num_empty_documents']:,} empty ones left out), "
            f"{split['num_tokens']:,} tokens ({split['num_unknown_tokens']:,} unknown), {split['num_shards']:,} shards"
        )
        if not split["num_rows"]:
            lines.append(f"  does not fill one row of {data['length']}")
        for kind, option in (("single", "a document a row"), ("packed", "with --pack")):
            if kind in split["num_rows"]:
                fill = split["row_fill"][kind]
                lines.append(f"  {split['num_rows'][kind]:,} rows of {data['length']}, {fill:.1%} full ({option})")
    lines.append("sources: " + ", ".join(f"{source['name']} ({_size(source)})" for source in data["sources"]))
    if data.get("verified"):
        lines.append("every byte is as it was written")
    return lines


def _size(source: Mapping[str, Any]) -> str:
    return "from the hub" if source["num_bytes"] is None else f"{source['num_bytes']:,} bytes"
