"""``trueneg corpus``: build, inspect and annotate corpora."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trueneg.cli.options import Device, Lines, MaxDocumentMib, TextField, Tokenizer, WordNetPath
from trueneg.cli.output import Json, Output, Quiet, Verify
from trueneg.cli.resources import make_resources
from trueneg.errors import ConfigError
from trueneg.terminal.progress import Bar

if TYPE_CHECKING:
    from trueneg.corpus.annotations import AnnotationsInfo
    from trueneg.corpus.store import CorpusInfo

app = typer.Typer(help="Build, inspect and annotate corpora.", no_args_is_help=True)


@app.command()
def build(
    text: Annotated[
        list[str],
        typer.Argument(
            help="Files (.txt, .jsonl, .csv, .tsv, .parquet; .gz, .zst, .xz), folders, globs, URLs or hub data sets."
        ),
    ],
    tokenizer: Tokenizer,
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    workers: Annotated[int, typer.Option(min=1, help="Number of tokenizer processes.")] = 1,
    valid: Annotated[str | None, typer.Option(help="Held-out text: a file, or a fraction of the documents.")] = None,
    text_field: TextField = "text",
    lines: Lines = False,
    max_document_mib: MaxDocumentMib = 64,
    shard_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens per shard, which ends with the document that reaches them.")
    ] = 1 << 26,
    seed: Annotated[int, typer.Option(help="Random seed for choosing held-out documents.")] = 0,
    tag: Annotated[bool, typer.Option("--tag", help="Tag words with their parts of speech, for CLINE.")] = False,
    tagger: Annotated[
        str | None,
        typer.Option(help="Part-of-speech tagger, implies --tag: pattern, pattern-all, pattern-fast, spacy:MODEL."),
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="Process only a part of the files, such as 3/16 (see `corpus finish`).")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a finished or different corpus in --out.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tokenize text into a memory-mapped corpus. An interrupted build is resumed.

    In a text file, documents are separated by blank lines; with `--lines`, every line is one. A finished build whose
    inputs have not changed is kept.

    `--tag` also stores the part of speech of every word, which the objective `cline` needs.

    `--part 3/16` tokenizes every sixteenth file, starting with the third, while other machines process the others.
    `corpus finish` then merges the parts.

    Example: `trueneg corpus build texts/ --tokenizer tok/ --out corpus/ --valid 0.01 --workers 8`
    """
    from trueneg.corpus.build import build_corpus
    from trueneg.corpus.parts import build_part
    from trueneg.corpus.remote import is_remote
    from trueneg.corpus.sources import text_bytes
    from trueneg.corpus.store import INFO_FILE

    options: dict[str, Any] = {
        "valid": valid,
        "seed": seed,
        "shard_tokens": shard_tokens,
        "text_field": text_field,
        "lines": lines,
        "max_document_mib": max_document_mib,
        "tagger": tagger or ("pattern" if tag else None),
    }
    if part is not None:
        if overwrite or workers > 1:
            raise ConfigError(
                f"--part {part}: one process tokenizes a part, and none overwrites another's: leave out "
                f"--workers and --overwrite, or remove '{out}'"
            )
        with Bar("building", None, unit="MB", per=1_000_000, quiet=quiet) as bar:
            num_files = build_part(
                text,
                tokenizer,
                out,
                part,
                **options,
                progress=bar.advance,
            )
        said = f"{out}: part {part}: {num_files:,} files; when all parts are there, run  trueneg corpus finish {out}"
        Output(as_json).result({"out": out, "part": part, "num_files": num_files}, said)
        return
    held_out = [valid] if valid is not None and (is_remote(valid) or Path(valid).exists()) else []
    total = text_bytes([*text, *held_out])
    is_kept = (out / INFO_FILE).exists() and not overwrite  # or the build is refused
    with Bar("building", total, unit="MB", per=1_000_000, quiet=quiet) as bar:
        info = build_corpus(
            text,
            tokenizer,
            out,
            workers=workers,
            **options,
            overwrite=overwrite,
            progress=bar.advance,
        )
    _tell_corpus(out, info, " (built already, nothing has changed)" * is_kept, as_json)


def _tell_corpus(out: Path, info: CorpusInfo, remark: str, as_json: bool) -> None:
    from trueneg.corpus.rows import describe_tags

    told = [f"{out}: fingerprint {info.fingerprint}{remark}"]
    for name, split in info.splits.items():
        told.append(
            f"  {name}: {split.num_documents:,} documents, {split.num_tokens:,} tokens "
            f"({split.num_unknown_tokens:,} unknown; {split.num_empty_documents:,} empty documents left out)"
        )
    tags = describe_tags(out)
    told += _tag_lines(tags)
    Output(as_json).result({"out": out, "info": info, "tags": tags}, "\n".join(told))


@app.command()
def finish(
    folder: Annotated[Path, typer.Argument(help="Folder of a corpus, or of annotations, in parts.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Merge the parts made by `corpus build --part` or `corpus annotate --part`.

    The result is byte for byte that of a single run. If a part is missing, the error names it.

    Example: `trueneg corpus finish corpus/`
    """
    from trueneg.corpus.annotations import AnnotationsInfo
    from trueneg.corpus.finish import finish as finish_parts

    with Bar("finishing", None, unit="MB", per=1_000_000, quiet=quiet) as bar:
        info = finish_parts(folder, bar.advance)
    if isinstance(info, AnnotationsInfo):
        _tell_annotations(folder, info, as_json)
    else:
        _tell_corpus(folder, info, "", as_json)


@app.command()
def annotate(
    corpus: Annotated[Path, typer.Argument(help="A corpus folder.")],
    detector: Annotated[str, typer.Option(help="Detector that lists substitutes: lexical, prototypes:FILE & fits, …")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    split: Annotated[list[str] | None, typer.Option(help="Split to annotate; repeatable. By default all.")] = None,
    most: Annotated[int, typer.Option(min=1, help="Maximum number of substitutes kept per token, the best ones.")] = 32,
    length: Annotated[
        int, typer.Option(min=3, help="Tokens per row, the context in which substitutes are judged.")
    ] = 128,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows per batch.")] = 256,
    max_rows: Annotated[
        int | None, typer.Option(min=1, help="Annotate only this many rows of each split, for a trial.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="Process only a part of the rows, such as 3/16 (see `corpus finish`).")
    ] = None,
    wordnet: WordNetPath = "",
    device: Device = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace finished or different annotations in --out.")
    ] = False,
    verify: Verify = True,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Precompute the substitutes that a detector accepts for every token, for training to look up.

    An interrupted run is resumed.

    Example: `trueneg corpus annotate corpus/ --detector "prototypes:FILE & fits" --out notes/`, then
    `trueneg pretrain electra-mini --corpus corpus/ --hard-correction annotated:notes/ --out runs/hc`
    """
    from trueneg.corpus.annotate import write_annotations
    from trueneg.corpus.store import Corpus
    from trueneg.detectors.annotator import make_annotator
    from trueneg.detectors.language import warn_of_another_language

    opened = Corpus.open(corpus, verify=False)  # done below, for each split
    splits = opened.info.splits
    total = sum(_to_annotate(corpus, name, length, max_rows) for name in splits if not split or name in split)
    fast = opened.load_tokenizer()
    annotator = make_annotator(detector, fast, make_resources(wordnet, device))
    warn_of_another_language(detector, opened, fast, wordnet)
    with Bar("annotating", total, unit="tokens", quiet=quiet) as bar:
        info = write_annotations(
            corpus,
            annotator,
            out,
            splits=split or None,
            most=most,
            length=length,
            batch_size=batch_size,
            max_rows=max_rows,
            part=part,
            overwrite=overwrite,
            verify=verify,
            progress=bar.advance,
        )
    if part is not None:
        said = f"{out}: part {part}; when all parts are there, run  trueneg corpus finish {out}"
        Output(as_json).result({"out": out, "part": part, "info": info}, said)
        return
    _tell_annotations(out, info, as_json)


def _tell_annotations(out: Path, info: AnnotationsInfo, as_json: bool) -> None:
    lines = [f"{out}: {info.detector}, fingerprint {info.fingerprint}; use it with --hard-correction annotated:{out}"]
    for name, found in info.splits.items():
        lines.append(
            f"  {name}: {found.num_with_substitutes:,} of {found.num_annotated:,} tokens have a substitute, "
            f"{found.num_pairs:,} in all ({found.num_left_out:,} beyond {info.most} a token left out)"
        )
    if info.share < 1:
        lines.append(f"  only {info.share:.2%} of the corpus is annotated: in the rest nothing will be corrected")
    data = {"out": out, "info": info, "share": info.share}
    Output(as_json).result(data, "\n".join(lines))


def _to_annotate(corpus: Path, split: str, length: int, max_rows: int | None) -> int:
    """Number of tokens to annotate; with ``max_rows``, an estimate from the mean row."""
    from trueneg.corpus.rows import RowIndex
    from trueneg.corpus.store import Corpus

    opened = Corpus.open(corpus, split, verify=False)
    if not max_rows:
        return opened.num_tokens
    num_rows = len(RowIndex(opened, min(length, opened.num_tokens + 2)))
    return round(opened.num_tokens * min(1.0, max_rows / num_rows))


@app.command()
def info(
    corpus: Annotated[
        list[str],
        typer.Argument(metavar="CORPUS...", help="Corpus folder; several, as FOLDER:WEIGHT, are a mixture."),
    ],
    length: Annotated[int, typer.Option(min=3, help="Tokens per row, for the row counts.")] = 128,
    temperature: Annotated[
        float, typer.Option(min=0, max=1, help="For a mixture without weights: see the option corpus.temperature.")
    ] = 1.0,
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte and compare checksums.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a corpus contains, or the shares of a mixture of several.

    Example: `trueneg corpus info corpus/ --length 128`

    A mixture: `trueneg corpus info wiki:0.7 books:0.3`
    """
    from trueneg.corpus.rows import describe
    from trueneg.corpus.store import Corpus
    from trueneg.corpus.tags import Tags

    if len(corpus) > 1:
        _mixture_info(corpus, length, temperature, verify, Output(as_json))
        return
    if temperature != 1:
        raise ConfigError("--temperature is for a mixture of several corpora: leave it out, or name the others")
    folder = corpus[0]
    data = describe(folder, length)
    if verify:
        for opened in (Corpus.open(folder, split, verify=False) for split in data["splits"]):
            opened.verify()
            if (tags := Tags.find(opened)) is not None:
                tags.verify()
        data["verified"] = True
    Output(as_json).result(data, "\n".join(_lines(data)))


def _mixture_info(corpora: list[str], length: int, temperature: float, verify: bool, output: Output) -> None:
    from trueneg.cli.options import corpus_settings
    from trueneg.config.options import CorpusConfig
    from trueneg.corpus.mixture import describe_mixture

    if verify:
        raise ConfigError("--verify reads one corpus: name each by itself")
    mixture = corpus_settings(corpora)[0].partition("=")[2]
    config = CorpusConfig(mixture=mixture, temperature=temperature, length=length)
    sources = describe_mixture(config)
    rows = [
        (
            one["name"],
            f"{one['num_rows']:,}",
            f"{one['row_fill']:.1%}",
            f"{one['share']:.2%}",
            f"{one['share_of_tokens']:.2%}",
            f"{one['epochs']:.2f}",
        )
        for one in sources
    ]
    data = {"mixture": mixture, "length": length, "temperature": temperature, "sources": sources}
    output.table(data, ("corpus", "rows", "full", "share of rows", "of tokens", "times read in an epoch of all"), rows)


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
    lines += _tag_lines(data["tags"])
    lines.append("sources: " + ", ".join(f"{source['name']} ({_size(source)})" for source in data["sources"]))
    if data.get("verified"):
        lines.append("every byte is as it was written")
    return lines


def _tag_lines(tags: Mapping[str, Any] | None) -> list[str]:
    if tags is None:
        return []
    words = ", ".join(f"{name} {num:,}" for name, num in tags["num_words"].items())
    versions = ", ".join(f"{name} {version}" for name, version in tags["provenance"].items())
    return [f"tagged words: {words} (by '{tags['tagger']}', {versions})"]


def _size(source: Mapping[str, Any]) -> str:
    return "from the hub" if source["num_bytes"] is None else f"{source['num_bytes']:,} bytes"
