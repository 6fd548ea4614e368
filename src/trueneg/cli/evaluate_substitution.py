"""``trueneg evaluate substitution``: masked models' substitutes for a word, against human judgements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trueneg.cli.options import Device, WordNetPath
from trueneg.cli.output import Json, Output, Quiet
from trueneg.cli.resources import make_resources
from trueneg.cli.results import is_finetuned
from trueneg.errors import ConfigError
from trueneg.files.names import distinct_names
from trueneg.terminal.progress import Bar

if TYPE_CHECKING:
    from trueneg.evaluation.masked_lm.substitutes import Substitutes

TASK = "substitution"
"""This evaluation's name in ``--task``."""


def substitution(
    checkpoint: Annotated[list[str], typer.Argument(help="Run folders, Hugging Face folders or hub names.")],
    data: Annotated[Path, typer.Option(help="Human judgements in the JSON format of SWORDS: a file or a folder.")],
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="masked (default): the sentence with the target masked; visible: the original sentence, then the "
            "masked one; repeatable."
        ),
    ] = None,
    words: Annotated[
        int, typer.Option(min=1, help="Number of words to predict, before forms of a lemma are merged.")
    ] = 50,
    window: Annotated[
        int, typer.Option(min=0, help="Maximum input length in tokens; 0 for the model's own, 512 at most.")
    ] = 0,
    limit: Annotated[int, typer.Option(min=0, help="Number of targets to use, drawn at random; 0 for all.")] = 0,
    resamples: Annotated[int, typer.Option(min=1, help="Number of bootstrap samples over targets.")] = 1000,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results; by default the run's own, or none if it is not a run.")
    ] = None,
    wordnet: WordNetPath = "",
    device: Device = "",
    seed: Annotated[int, typer.Option(help="Random seed of sampling and bootstrap.")] = 0,
    task: Annotated[str, typer.Option(hidden=True)] = TASK,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict substitutes with masked models, and score the ten best against human judgements: F10, P@1, GAP.

    Acceptable: to more than half of the annotators; conceivable: to one in ten. Lenient: among the words that
    annotators judged, which GAP ranks; strict: among all. `trueneg compare` and `trueneg report` read the results.

    Example: `trueneg evaluate substitution runs/base runs/hc --data swords-v1.1_dev.json.gz`
    """
    if task != TASK:
        raise ConfigError(f"--task {task}: leave it out, or name what is evaluated: trueneg evaluate --help")
    if out is not None and out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file: name a folder")
    from trueneg.evaluation.masked_lm.substitutes import evaluate_substitution, folders_of

    try:
        folders = folders_of(checkpoint, out)
    except ConfigError as error:
        if tuned := next(filter(is_finetuned, checkpoint), None):
            raise ConfigError(f"'{tuned}' is a fine-tuned model, which writes no words: name a masked one") from error
        raise
    output = Output(as_json, quiet)
    with Bar("writing", unit="targets", quiet=quiet) as bar:
        found = evaluate_substitution(
            checkpoint,
            data,
            ways=target or ("masked",),
            num_words=words,
            window=window,
            limit=limit,
            wordnet=wordnet,
            device=make_resources(wordnet, device).device,
            resamples=resamples,
            seed=seed,
            progress=bar.tell,
        )
    written = []
    for one in found:
        for line in _told(one):
            output.say(line)
        if (folder := folders[one.result.model]) is not None:
            written.append(one.save(folder))
            output.say(f"wrote {written[-1]}")
    names = dict(zip(checkpoint, distinct_names(checkpoint), strict=True))
    rows = [row for one in found for row in _rows(one, names[one.result.model])]
    data_out = {"results": [one.summary() for one in found], "written": written}
    output.table(data_out, tuple(rows[0]), [tuple(row.values()) for row in rows])


def _rows(one: Substitutes, name: str) -> list[dict[str, Any]]:
    from trueneg.tasks.metrics import GAP, SUBSTITUTION_LEVELS, SUBSTITUTION_LISTS

    def figure(name: str) -> str:
        found = one.intervals[name]
        return f"{100 * found.estimate:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"

    return [
        {"model": name, "target": one.result.config["substitution"]["target"], "words": listed}
        | {f"F10 {level}": figure(f"f10_{listed}_{level}") for level in SUBSTITUTION_LEVELS}
        | {f"P@1 {level}": figure(f"p1_{listed}_{level}") for level in SUBSTITUTION_LEVELS}
        | {"GAP": figure(GAP)}
        for listed in SUBSTITUTION_LISTS
    ]


def _told(one: Substitutes) -> list[str]:
    """Describe what the model could not read or predict."""
    counts, result = one.result.counts, one.result
    name = f"{result.model}, target {result.config['substitution']['target']}"
    window, total = result.config["substitution"]["window"], result.num_examples
    said = [
        f"{name}: {result.num_examples:,} targets in {result.seconds:.1f} s; {counts['acceptable_out_of_reach']:,} of "
        f"{counts['acceptable']:,} acceptable substitutes are no single token ({counts['acceptable_phrases']:,} are "
        f"phrases), so that F10 is at most {100 * one.ceilings['acceptable']:.1f} (conceivable: "
        f"{100 * one.ceilings['conceivable']:.1f})"
    ]
    for key, what in (
        ("contexts_cut", "contexts are cut around their target"),
        ("targets_cut", "targets are themselves longer than that, and cut at their end"),
        ("not_read", "targets are not read, as the mask does not fit: they count as nothing written"),
    ):
        if counts[key]:
            said.append(f"{name}: {counts[key]:,} of {total:,} {what} (--window {window})")
    return said
