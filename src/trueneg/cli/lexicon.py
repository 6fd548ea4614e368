"""``trueneg lexicon``: get WordNet, build a lookup table, show its entries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from trueneg.cli.options import Tokenizer, WordNetPath
from trueneg.cli.output import Json, Output, Quiet

app = typer.Typer(help="Download WordNet, and build and inspect lookup tables of synonyms.", no_args_is_help=True)

FormsOption = Annotated[
    str,
    typer.Option(
        help="retrieved: every lemma of every synset (the paper); lemma: synonyms' base forms; agree: their forms that "
        "agree with gold."
    ),
]


@app.command()
def fetch(
    out: Annotated[Path | None, typer.Option(help="Folder to write; by default the cache.")] = None,
    url: Annotated[str | None, typer.Option(help="HTTPS URL to download the archive from.")] = None,
    archive: Annotated[
        Path | None, typer.Option(help="Archive to unpack instead of downloading: .zip, .deb or .tar.")
    ] = None,
    sha256: Annotated[str | None, typer.Option(help="Expected SHA-256 of the archive; NLTK's is known.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Get WordNet without root: download it, or unpack an archive.

    NLTK's copy, the default, is checked against its known SHA-256.

    Example: `trueneg lexicon fetch --archive wordnet.zip`
    """
    from trueneg.lexicon.fetch import fetch_wordnet

    place = fetch_wordnet(out, url, archive, sha256)
    Output(as_json).result({"wordnet": place}, f"WordNet is in {place}")


@app.command()
def build(
    tokenizer: Tokenizer,
    out: Annotated[Path, typer.Option(help="Safetensors file to write.")],
    wordnet: WordNetPath = "",
    forms: FormsOption = "agree",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Build a tokenizer's lookup table, and report its coverage (the paper's footnote 5).

    Example: `trueneg lexicon build --tokenizer tok/ --out synonyms.safetensors`
    """
    from trueneg.lexicon.table import Forms, build_table, coverage
    from trueneg.lexicon.wordnet import WordNet
    from trueneg.tokenizer import load_tokenizer

    fast, loaded = load_tokenizer(tokenizer), WordNet.load(wordnet)
    table = build_table(fast, loaded, forms=cast(Forms, forms))
    table.save(out)
    covered = coverage(fast, loaded)
    data = {
        "out": out,
        "num_pairs": len(table),
        "num_golds": table.num_golds,
        "coverage": covered,
        "share": covered.share,
        "provenance": dict(table.provenance),
    }
    text = (
        f"{out}: {len(table):,} pairs for {table.num_golds:,} tokens; {covered.num_with_synset:,} of "
        f"{covered.num_tokens:,} tokens ({covered.share:.2%}) are in WordNet"
    )
    Output(as_json).result(data, text)


@app.command()
def show(
    words: Annotated[list[str], typer.Argument(help="Words, as they appear in text.")],
    tokenizer: Tokenizer,
    wordnet: WordNetPath = "",
    forms: FormsOption = "agree",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show the substitutes that the lookup table accepts for words.

    Example: `trueneg lexicon show --tokenizer bert-base-uncased primary stay movie`
    """
    from trueneg.lexicon.table import Forms, cached_table
    from trueneg.tokenizer import load_tokenizer

    fast = load_tokenizer(tokenizer)
    table = cached_table(fast, wordnet=wordnet, forms=cast(Forms, forms))
    found: dict[str, list[str] | None] = {}
    for word in words:
        # As in running text: byte-level vocabularies have a different token for a word after a space.
        pieces = fast(f" {word}", add_special_tokens=False)["input_ids"]
        found[word] = (
            sorted({str(fast.decode([t])).strip() for t in table.substitutes(pieces[0])}) if len(pieces) == 1 else None
        )
    rows = [(word, _describe(synonyms)) for word, synonyms in found.items()]
    Output(as_json).table({"substitutes": found, "forms": forms}, ("gold", "accepted in its place"), rows)


def _describe(synonyms: list[str] | None) -> str:
    if synonyms is None:
        return "(several pieces in this vocabulary: never corrected)"
    return ", ".join(synonyms) or "(nothing)"
