"""``trueneg attack``: what a fine-tuned model makes of examples that were changed to mislead it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trueneg.cli.output import Json, Output, Quiet, Settings, refuse_given
from trueneg.cli.results import runs_of
from trueneg.errors import ConfigError
from trueneg.terminal.progress import Bar

if TYPE_CHECKING:
    from trueneg.attacks.attack_set import AttackSet
    from trueneg.attacks.registry import Attack
    from trueneg.attacks.runner import Attacked
    from trueneg.attacks.scores import Figure

_OF_MAKING = ("profile", "split", "max_examples", "seed", "neighbours", "encoder", "masked_lm", "parses", "tagger",
              "wordnet", "settings")  # fmt: skip
"""Parameters that say how adversaries are made: a set of --load is made already."""


def attack(
    context: typer.Context,
    models: Annotated[list[str], typer.Argument(help="Fine-tuned models: OUT/TASK, or OUT/TASK/seed-N.")],
    name: Annotated[str, typer.Option("--attack", help="Which: see `trueneg list attacks`.")] = "",
    profile: Annotated[str, typer.Option(help="Whose variant of it; by default its first.")] = "",
    load: Annotated[
        Path | None,
        typer.Option(help="Ask about a set instead: one of --save, TextAttack's log, TextFooler's output, or a table."),
    ] = None,
    label_names: Annotated[str, typer.Option(help="What 0,1,… of a published set stand for, by comma.")] = "",
    save: Annotated[Path | None, typer.Option(help="Write the attacked examples, to be loaded again.")] = None,
    data: Annotated[str, typer.Option(help="The task's files, if they lie elsewhere now.")] = "",
    split: Annotated[str, typer.Option(help="Which examples; by default the first that results are of.")] = "",
    max_examples: Annotated[int, typer.Option(min=0, help="How many, the same for every model; 0 for all.")] = 500,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    neighbours: Annotated[str, typer.Option(help="textfooler: word vectors, or a JSON table of neighbours.")] = "",
    encoder: Annotated[str, typer.Option(help="textfooler, masked-lm: what says how alike texts are, or none.")] = "",
    masked_lm: Annotated[str, typer.Option(help="masked-lm: a checkpoint that proposes words.")] = "",
    parses: Annotated[str, typer.Option(hidden=True)] = "",
    tagger: Annotated[str, typer.Option(help="Who tells parts of speech: pattern, spacy:MODEL, …")] = "pattern",
    wordnet: Annotated[str, typer.Option(help="WordNet's folder; by default it is looked for.")] = "",
    out: Annotated[Path | None, typer.Option(help="Also write the figures of all models to this JSON file.")] = None,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack fine-tuned models, or ask them about a set of adversaries, and show their figures before and after.

    Results lie beside each model's own, as attack-NAME-PROFILE.json, so that `trueneg compare` and `report` read them.
    Intervals are of a bootstrap over the examples (SQuAD: over paragraphs). An attack that asks no model is made
    once for all models of a task; a search is done for each model, and `--save` then takes one model's.

    Example: `trueneg attack results/hc/mr --attack textfooler --neighbours counter-fitted.txt --encoder runs/hc`

    Published adversaries: `trueneg attack results/hc/mr --load adversaries.tsv`
    """
    from trueneg.attacks.attack_set import save_attack_set
    from trueneg.attacks.registry import AttackConfig, make_attack
    from trueneg.attacks.runner import evaluate_attack, load_adversarial_examples

    if (load is None) == (not name):
        raise ConfigError("name an --attack (see `trueneg list attacks`), or give a set to --load")
    folders = runs_of(models)
    output = Output(as_json, quiet)
    if load is not None:
        refuse_given(context, _OF_MAKING, "--load")
    else:
        refuse_given(context, ("label_names",), "--attack")
    sets: Iterator[AttackSet]
    if load is not None:
        names = [label.strip() for label in label_names.split(",")] if label_names else []
        sets = repeat(load_adversarial_examples(load, folders[0], names, data))
    else:
        made = make_attack(
            AttackConfig(
                name, profile, seed, neighbours, encoder, masked_lm, parses, tagger, wordnet, tuple(settings or ())
            )
        )
        served = _served(folders, made, data)
        if save is not None and len(set(served)) > 1:
            what = "models" if made.asks_victim else "tasks"
            raise ConfigError(f"--save: {name} finds other adversaries for each of {len(set(served))} {what}: name one")
        sets = _found(folders, served, made, data, split, max_examples, quiet)
    done: list[Attacked] = []
    for folder, attack_set in zip(folders, sets, strict=False):
        if save is not None and not done:  # at once: a search takes hours, and what follows may fail
            save_attack_set(attack_set, save)
            output.say(f"wrote {save}")
        done.append(evaluate_attack(folder, attack_set, data=data))
        for remark in _remarks(done[-1]):
            output.say(remark)
    _show(done, out, output)


def _served(folders: Sequence[Path], made: Attack, data: str) -> list[str]:
    """Whom each model's set serves: the model itself, or, of an attack that asks none, all models of its task."""
    from trueneg.runs.finetuned_models import finetuned_task

    if made.asks_victim:
        return [str(folder) for folder in folders]
    return [finetuned_task(folder, [f"task.data={data}"] if data else [])[1].name for folder in folders]


def _found(
    folders: Sequence[Path], served: Sequence[str], made: Attack, data: str, split: str, max_examples: int, quiet: bool
) -> Iterator[AttackSet]:
    """Each model's set, made when it is first wanted."""
    from trueneg.attacks.runner import run_attack

    def run(folder: Path) -> AttackSet:
        with Bar(f"{made.name} {folder}", unit="examples", quiet=quiet) as bar:
            return run_attack(folder, made, split=split, data=data, max_examples=max_examples, progress=bar.tell)

    known: dict[str, AttackSet] = {}
    for folder, whom in zip(folders, served, strict=True):
        if whom not in known:
            known[whom] = run(folder)
        yield known[whom]


def _remarks(one: Attacked) -> Iterator[str]:
    """What to know before a model's figures are believed."""
    counts, where = one.result.counts, f"{one.folder}, {one.result.split}"
    if num := counts.get("truncated_away"):
        yield (
            f"{where}: {num:,} of {one.result.num_examples:,} were changed in nothing that the model reads (at most "
            f"{one.result.config['task']['length']} tokens), and count as they are"
        )
    if invalid := counts.get("invalid"):
        yield f"{where}: {invalid:,} of {one.result.num_examples:,} are noted as invalid adversaries, and count"


def _show(done: Sequence[Attacked], out: Path | None, output: Output) -> None:
    from trueneg.files.names import tell_apart
    from trueneg.files.whole import write_json

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
                "drops": [asdict(drop) for drop in one.drops],
            }
            for one in done
        ]
    }
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, data)
    names = dict(zip(folders, tell_apart(folders, least=3), strict=True))
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


def _queries(one: Attacked) -> str:
    counts = one.result.counts
    num_attacked = counts.get("succeeded", 0) + counts.get("failed", 0)
    return f"{counts['queries'] / num_attacked:.1f}" if "queries" in counts and num_attacked else "–"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command(rich_help_panel="Measure and hand on")(attack)
