"""``trueneg tokenizer``: train and extend tokenizers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from trueneg.cli.options import Lines, MaxDocumentMib, TextField
from trueneg.cli.output import Json, Output, Quiet, check_new
from trueneg.errors import ConfigError, unknown_name
from trueneg.files.text import conversion, foreign_encoding

app = typer.Typer(help="Train a tokenizer, or add words to one.", no_args_is_help=True)

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write to --out even if it is not empty.")]


@app.command()
def train(
    text: Annotated[list[str], typer.Argument(help="Files, folders, globs or hub data sets.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    vocab_size: Annotated[int, typer.Option(min=1, help="Vocabulary size, including special tokens.")] = 8192,
    kind: Annotated[str, typer.Option(help="wordpiece (like BERT) or bpe (byte-level, like RoBERTa).")] = "wordpiece",
    cased: Annotated[bool, typer.Option("--cased", help="Keep upper case.")] = False,
    min_frequency: Annotated[int, typer.Option(min=1, help="Minimum frequency of a pair of pieces to be merged.")] = 2,
    text_field: TextField = "text",
    lines: Lines = False,
    max_document_mib: MaxDocumentMib = 64,
    sample: Annotated[float, typer.Option(help="Fraction of the documents to train on.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Random seed of the sample.")] = 0,
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a tokenizer on text.

    Example: `trueneg tokenizer train texts/*.txt --vocab-size 8192 --out tok/`
    """
    from trueneg.corpus.tokenizer_training import Kind, train_tokenizer

    if kind not in get_args(Kind):
        raise ConfigError(unknown_name("kind of tokenizer", kind, get_args(Kind)))
    check_new(out, overwrite)
    tokenizer = train_tokenizer(
        text,
        out,
        vocab_size=vocab_size,
        kind=cast(Kind, kind),
        lowercase=not cased,
        min_frequency=min_frequency,
        text_field=text_field,
        lines=lines,
        max_document_mib=max_document_mib,
        sample=sample,
        seed=seed,
    )
    data = {"out": out, "vocab_size": len(tokenizer), "kind": kind, "cased": cased}
    Output(as_json).result(data, f"{out}: {len(tokenizer):,} entries ({kind}, {'cased' if cased else 'lower case'})")


@app.command()
def extend(
    source: Annotated[str, typer.Argument(help="A tokenizer's folder, a checkpoint or a hub name.")],
    words: Annotated[Path, typer.Option(help="File with one word per line.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add domain-specific words to a tokenizer, to continue a checkpoint with.

    Build the corpus with the result and continue with `--extend-vocabulary`: the embedding of each new
    word is initialized with the mean of its former pieces.

    Example: `trueneg tokenizer extend bert-base-uncased --words terms.txt --out tok/`
    """
    from trueneg.corpus.tokenizer_training import extend_tokenizer

    check_new(out, overwrite)
    num_added, known = extend_tokenizer(source, _read_words(words), out)
    data = {"out": out, "num_added": num_added, "already_known": known}
    Output(as_json).result(data, f"{out}: {num_added:,} words added, {len(known):,} were known already")


def _read_words(path: Path) -> list[str]:
    try:
        content = path.read_bytes()
        if encoding := foreign_encoding(content[:4096]):
            raise UnicodeDecodeError(encoding, content, 0, 1, "")
        words = [line.strip() for line in content.decode("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        remedy = conversion(content[:4096])
        raise ConfigError(f"--words {path} is not UTF-8 at byte {error.start}: {remedy}") from error
    except OSError as error:
        raise ConfigError(f"--words {path}: {error.strerror}: name a file with one word a line") from error
    if not words:
        raise ConfigError(f"--words {path} holds no word: write one a line")
    return words
