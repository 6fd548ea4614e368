"""``trueneg attack``: evaluate fine-tuned models on examples that were changed to mislead them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trueneg.cli.options import Device, WordNetPath
from trueneg.cli.output import Json, Output, Quiet, Settings, refuse_given
from trueneg.cli.resources import make_resources
from trueneg.errors import ConfigError
from trueneg.terminal.progress import Bar

if TYPE_CHECKING:
    from trueneg.attacks.base import Progress
    from trueneg.attacks.runner import AttackResult
    from trueneg.attacks.scores import Figure


def attack(
    context: typer.Context,
    models: Annotated[list[str], typer.Argument(help="Fine-tuned models: OUT/TASK, or OUT/TASK/seed-N.")],
    name: Annotated[str, typer.Option("--attack", help="Attack to run (see `trueneg list attacks`).")] = "",
    profile: Annotated[str, typer.Option(help="Variant of the attack; by default its first.")] = "",
    load: Annotated[
        Path | None,
        typer.Option(
            help="Evaluate on an existing set: from --save, or published (a log, a table, adversarial SQuAD)."
        ),
    ] = None,
    label_names: Annotated[
        str, typer.Option(help="Labels that 0,1,… of a published set stand for, separated by commas.")
    ] = "",
    save: Annotated[Path | None, typer.Option(help="Write the attacked examples to this file, for --load.")] = None,
    data: Annotated[str, typer.Option(help="The task's files, if they have moved.")] = "",
    split: Annotated[str, typer.Option(help="Split to attack; by default the first that has results.")] = "",
    max_examples: Annotated[
        int, typer.Option(min=0, help="Number of examples, the same for every model; 0 for all.")
    ] = 500,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    neighbours: Annotated[str, typer.Option(help="For textfooler: word vectors, or a JSON table of neighbours.")] = "",
    encoder: Annotated[
        str, typer.Option(help="For textfooler and masked-lm: encoder that measures text similarity, or none.")
    ] = "",
    masked_lm: Annotated[str, typer.Option(help="For masked-lm: checkpoint that proposes words.")] = "",
    parses: Annotated[str, typer.Option(hidden=True)] = "",
    tagger: Annotated[str, typer.Option(help="Part-of-speech tagger: pattern, spacy:MODEL, …")] = "pattern",
    wordnet: WordNetPath = "",
    device: Device = "",
    out: Annotated[Path | None, typer.Option(help="Also write the metrics of all models to this JSON file.")] = None,
    results: Annotated[
        str, typer.Option(help="Folder for the results, as TASK/seed-N; by default each model's own.")
    ] = "",
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack fine-tuned models, or evaluate them on a set of adversarial examples, and show metrics before and after.

    Results are written next to each model's own, as attack-NAME-PROFILE.json, where `trueneg compare` and `report`
    find them. Intervals are from a bootstrap over the examples (SQuAD: over paragraphs). A query-free attack runs once
    for all models of a task; a search runs for each model, and `--save` is then only possible for a single model.

    Example: `trueneg attack results/hc/mr --attack textfooler --neighbours counter-fitted.txt --encoder runs/hc`

    Published examples: `trueneg attack results/hc/mr --load adversaries.tsv`
    """
    from trueneg.attacks.runner import run_attacks
    from trueneg.attacks.setup import AttackConfig

    if (load is None) == (not name):
        raise ConfigError("name an --attack (see `trueneg list attacks`), or give a set to --load")
    if parses:
        raise ConfigError("add-sentence has no --parses any more: evaluate on adversarial SQuAD with --load")
    options = [option.name for option in fields(AttackConfig) if option.name != "name"]
    if load is not None:
        refuse_given(context, (*options, "split", "max_examples"), "--load")
    else:
        refuse_given(context, ("label_names",), "--attack")
    given = {option: context.params[option] for option in options if option != "settings"}
    given["device"] = device and make_resources(wordnet, device).device
    config = AttackConfig(name=name, settings=tuple(settings or ()), **given)
    output = Output(as_json, quiet)

    @contextmanager
    def progress(title: str) -> Iterator[Progress]:
        with Bar(title, unit="examples", quiet=quiet) as bar:
            yield bar.tell

    def remark(one: AttackResult) -> None:
        for said in _remarks(one):
            output.say(said)

    done = run_attacks(
        models,
        load or config,
        split=split,
        data=data,
        max_examples=max_examples,
        label_names=[label.strip() for label in label_names.split(",")] if label_names else [],
        save=save,
        results_in=results,
        progress=progress,
        on_result=remark,
    )
    if save is not None:
        output.say(f"wrote {save}")
    _show(done, out, output)


def _remarks(one: AttackResult) -> Iterator[str]:
    """Yield caveats about a model's figures."""
    counts, where = one.result.counts, f"{one.folder}, {one.result.split}"
    if num := counts.get("truncated_away"):
        yield (
            f"{where}: {num:,} of {one.result.num_examples:,} were changed in nothing that the model reads (at most "
            f"{one.result.config['task']['length']} tokens), and count as they are"
        )
    if "sweep" in one.result.train:
        yield f"{where}: {one.result.selection}"
    if invalid := counts.get("invalid"):
        yield f"{where}: {invalid:,} of {one.result.num_examples:,} are noted as invalid, and count"


def _show(done: Sequence[AttackResult], out: Path | None, output: Output) -> None:
    from trueneg.files.names import distinct_names
    from trueneg.files.whole import write_json
    from trueneg.reporting.tables import finite

    folders = list(dict.fromkeys(one.folder for one in done))
    data = {
        "attacked": [
            {
                "model": str(one.folder),
                "attack": one.result.config["attack"],
                "result": str(one.path),
                "num_examples": one.result.num_examples,
                "metrics": one.result.metrics,
                "counts": one.result.counts,
                "selection": one.result.selection,
                "drops": [asdict(drop) for drop in one.drops],
            }
            for one in done
        ]
    }
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, finite(data))
    names = dict(zip(folders, distinct_names(folders, min_parts=3), strict=True))
    rows = [
        (
            names[one.folder],
            one.result.split.removeprefix("attack-"),
            f"{one.result.num_examples:,}",
            drop.metric,
            _percent(drop.before),
            _percent(drop.after),
            _percent(drop.drop),
            _queries(one),
        )
        for one in done
        for drop in one.drops
    ]
    columns = ("model", "attack", "examples", "x 100", "before", "after", "drop", "queries each")
    output.table(data, columns, rows)


def _percent(figure: Figure) -> str:
    interval = (
        "" if figure.low is None or figure.high is None else f" [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"
    )
    return f"{100 * figure.estimate:.1f}{interval}"


def _queries(one: AttackResult) -> str:
    counts = one.result.counts
    num_attacked = counts.get("succeeded", 0) + counts.get("failed", 0)
    return f"{counts['queries'] / num_attacked:.1f}" if "queries" in counts and num_attacked else "–"
