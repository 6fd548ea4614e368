"""``trueneg evaluate encoder``: encoders without fine-tuning, by triplets (Hits) and sentence similarity (STS-B)."""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from trueneg.cli.options import Device
from trueneg.cli.output import Json, Output, Quiet, check_out, refuse_given
from trueneg.cli.resources import make_resources
from trueneg.config.codec import override
from trueneg.config.objective_options import TripletConfig
from trueneg.errors import ConfigError, TruenegWarning, unknown_name
from trueneg.evaluation.results.provenance import versions
from trueneg.files.digests import fingerprint_of
from trueneg.files.whole import write_json
from trueneg.terminal.progress import Bar

if TYPE_CHECKING:
    from trueneg.evaluation.encoders.triplets import Triplet
    from trueneg.evaluation.statistics.intervals import Interval

T = TypeVar("T")

ENCODER_TASKS = ("triplets", "sts")

UNUSED = {"triplets": {"split"}, "sts": {"wordnet", "settings"}}
"""Parameters that have no effect for a task, only for the other one."""

SUBSET_SEED = 0x5EED
"""Seed for drawing the triplets or pairs of ``--limit``, the same for every checkpoint."""

RESULTS = ".json"
"""Suffix of a file of results; to any other, triplets are written."""

_DATA = {
    "triplets": "a .jsonl of triplets, or sentences to make them of (a text file, or rt-polaritydata/)",
    "sts": "GLUE's STS-B/, or hub:nyu-mll/glue",
}


def encoder(
    context: typer.Context,
    checkpoint: Annotated[list[str], typer.Argument(help="Run folders, Hugging Face folders or hub names.")],
    task: Annotated[
        str,
        typer.Option(help="triplets: are synonyms closer than antonyms? sts: sentence similarity (STS-B)."),
    ],
    data: Annotated[str, typer.Option(help=f"For triplets: {_DATA['triplets']}; for sts: {_DATA['sts']}.")] = "",
    split: Annotated[list[str] | None, typer.Option(help="For sts: dev (default) or test.")] = None,
    wordnet: Annotated[str, typer.Option(help="For triplets: WordNet's folder; by default, found automatically.")] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="For triplets: how they are made from sentences, such as preset=paper or replaced=many "
            "(see `trueneg list triplet-options`).",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", "--limit", min=0, help="Number of triplets or pairs, drawn at random; 0 for all.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write: results for `trueneg report` if it ends in .json, else the triplets."),
    ] = None,
    device: Device = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate encoders without fine-tuning: by synonyms and antonyms, or by sentence similarity.

    Example: `trueneg evaluate encoder bert-base-uncased runs/cline --task triplets --data rt-polaritydata/`

    A triplet is a sentence, a copy with a word replaced by a synonym, and a copy with one replaced by an antonym.

    Sentence similarity: `trueneg evaluate encoder runs/hc --task sts --data glue/`
    """
    if task not in ENCODER_TASKS:
        raise ConfigError(unknown_name("task of encoders", task, ENCODER_TASKS))
    refuse_given(context, UNUSED[task], f"--task {task}")
    if not data:
        raise ConfigError(f"--task {task} reads --data: {_DATA[task]}")
    output = Output(as_json, quiet)
    evaluate_encoders(checkpoint, task, data, split or (), wordnet, settings or (), rows, out, output, device)


def evaluate_encoders(
    checkpoints: Sequence[str],
    task: str,
    data: str,
    splits: Sequence[str],
    wordnet: str,
    settings: Sequence[str],
    limit: int,
    out: Path | None,
    output: Output,
    device: str = "",
) -> None:
    """Evaluate encoders without fine-tuning."""
    if len(splits) > 1:
        raise ConfigError(f"--split {splits[1]}: --task {task} reads one split: name one")
    if out is not None:
        check_out(out, f"{task}{RESULTS}")
    device = make_resources(wordnet, device).device
    holds_triplets = task == "triplets" and out is not None and out.suffix != RESULTS
    if task == "triplets":
        triplets, made = _read_or_made(data, wordnet, settings, limit, output)
        if out is not None and holds_triplets:
            from trueneg.evaluation.encoders.triplets import write_triplets

            write_triplets(out, triplets)
        rows, records = _hits(checkpoints, triplets, made, device, output)
        read = {"split": "", "rows": limit, "examples": _digest(triplets)}
    else:
        split = (splits or ("dev",))[0]
        rows, records, digest = _similarity(checkpoints, data, split, limit, device, output)
        read = {"split": split, "rows": limit, "examples": digest}
    if out is not None and not holds_triplets:
        write_json(out, {task: records, "data": data, **read, "versions": versions()})
    output.table({task: records}, tuple(rows[0]), [tuple(row.values()) for row in rows])
    if task == "sts":
        _keep(records, (splits or ("dev",))[0])


def _subset(items: Sequence[T], limit: int) -> list[T]:
    """Draw ``limit`` items at random, keeping their order; 0 for all."""
    if not limit or limit >= len(items):
        return list(items)
    return [items[number] for number in sorted(random.Random(SUBSET_SEED).sample(range(len(items)), limit))]


def _digest(examples: Sequence[Any]) -> str:
    """Fingerprint the examples: reports compare encoders only on the same ones."""
    return fingerprint_of([asdict(one) for one in examples])


def _percent(interval: Interval) -> str:
    return f"{100 * interval.estimate:.2f} [{100 * interval.low:.2f}, {100 * interval.high:.2f}]"


def _read_or_made(
    data: str, wordnet: str, settings: Sequence[str], limit: int, output: Output
) -> tuple[list[Triplet], dict[str, Any]]:
    """Read triplets from a file or make them from sentences; also return all that is needed to make them again."""
    from trueneg.evaluation.encoders.triplet_making import make_triplets
    from trueneg.evaluation.encoders.triplets import form_of, read_triplets
    from trueneg.lexicon.tagging import make_tagger
    from trueneg.lexicon.wordnet import WordNet

    path = Path(data)
    if path.suffix == ".jsonl":
        for flag, given in (("--wordnet", wordnet), ("--set", settings)):
            if given:
                raise ConfigError(f"{flag} does nothing for triplets that are made already ({data}): leave it out")
        triplets, about = read_triplets(path), {}
    else:
        config = override(TripletConfig(), settings)
        sentences, tagger, lexicon = _sentences(path), make_tagger("pattern"), WordNet.load(wordnet or None)
        triplets = make_triplets(sentences, tagger, lexicon, config=config)
        output.say(f"{len(triplets):,} triplets of {len(sentences):,} sentences: {form_of(triplets)}")
        about = {
            "made": asdict(config),
            "settings": list(settings),
            "num_sentences": len(sentences),
            "num_made": len(triplets),
            "tagger": tagger.name,
            "wordnet_digest": lexicon.digest,
        }
    triplets = _subset(triplets, limit)
    return triplets, {"form": form_of(triplets), "num_triplets": len(triplets), **about}


def _hits(
    checkpoints: Sequence[str], triplets: Sequence[Triplet], made: Mapping[str, Any], device: str, output: Output
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    from trueneg.evaluation.encoders.triplets import SIMILARITIES, hits, margins
    from trueneg.models.text_reader import TextReader

    rows, records = [], []
    for checkpoint in checkpoints:
        with Bar(checkpoint, len(triplets), unit="triplets", quiet=output.quiet) as bar:
            measured = margins(TextReader(checkpoint, device=device), triplets, bar.tell)
        for way in SIMILARITIES:
            found = hits(measured, way)
            rows.append(
                {
                    "checkpoint": checkpoint,
                    "replaced": made["form"],
                    "by": way,
                    "hits (paper: best layer)": f"{100 * found.paper:.2f} (layer {found.paper_layer})",
                    "hits (layer chosen on a fifth)": f"{_percent(found.chosen)} (layer {found.chosen_layer})",
                    "ties": f"{found.chosen_ties:.2%}",
                }
            )
            record = {"checkpoint": checkpoint, "way": way, **made, "counts": dict(measured.counts)}
            records.append(record | asdict(found))
    return rows, records


def _sentences(path: Path) -> list[str]:
    from trueneg.tasks.cline import decoded

    files = sorted(path.glob("rt-polarity.*")) if path.is_dir() else [path]
    if not files or not all(file.is_file() for file in files):
        raise ConfigError(f"--data {path}: no such file: give {_DATA['triplets']}")
    texts = [decoded(file.read_bytes())[0] for file in files]
    return [line.strip() for text in texts for line in text.split("\n") if line.strip()]


def _similarity(
    checkpoints: Sequence[str], data: str, split: str, limit: int, device: str, output: Output
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    from trueneg.evaluation.encoders.sentence_similarity import sentence_similarity
    from trueneg.models.text_reader import POOLINGS, TextReader
    from trueneg.runs.exporting import sentence_source
    from trueneg.tasks.glue import GlueTask

    before = [source for checkpoint in checkpoints if (source := sentence_source(checkpoint)) not in ("", *checkpoints)]
    for source in before:
        output.say(f"'{source}' is measured, too: a sentence encoder that a run continues")
    examples = _subset(GlueTask("stsb", data).read(split).examples, limit)
    rows, records = [], []
    for checkpoint in dict.fromkeys([*before, *checkpoints]):
        with Bar(checkpoint, unit="sentences", quiet=output.quiet) as bar:
            found = sentence_similarity(TextReader(checkpoint, device=device), examples, bar.tell)
        for pooling in POOLINGS:
            interval = found.interval(pooling)
            figures = {"Spearman x 100": _percent(interval), "pairs": f"{len(examples):,}"}
            rows.append({"checkpoint": checkpoint, "vectors": pooling} | figures)
            measured = {"spearman": interval.estimate, "interval": [interval.low, interval.high]}
            records.append({"checkpoint": checkpoint, "pooling": pooling, **measured, "num_examples": len(examples)})
    return rows, records, _digest(examples)


def _keep(records: Sequence[dict[str, Any]], split: str) -> None:
    """Record each run's similarity, and that of the encoder it continues, for its model card."""
    from trueneg.runs.exporting import note_similarity, sentence_source

    measured = dict[str, dict[str, float]]()
    for record in records:
        measured.setdefault(record["checkpoint"], {})[record["pooling"]] = record["spearman"]
    for checkpoint, after in measured.items():
        try:
            before = measured.get(sentence_source(checkpoint), {})
            note_similarity(checkpoint, split, records[0]["num_examples"], after, before)
        except OSError as error:
            warnings.warn(f"'{checkpoint}' keeps no record of this ({error})", TruenegWarning, stacklevel=2)
