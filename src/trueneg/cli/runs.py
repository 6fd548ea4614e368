"""``trueneg pretrain`` and what follows it: evaluate, report, export, bench."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from trueneg.cli.output import Json, Output, Quiet, Settings
from trueneg.config import CorpusConfig
from trueneg.errors import ConfigError, Interrupted, unknown_name

READINGS = {
    "gold_loss": ("loss of the gold token, in nats", ".4f"),
    "accuracy": ("masked tokens predicted right", ".2%"),
    "mispredicted": ("masked tokens mispredicted", ".2%"),
    "corrected": ("mispredictions that are false negatives", ".2%"),
    "corrected_rows": ("rows with a false negative", ".2%"),
}
"""Readings of an evaluation that people are shown, with their format; ``--json`` has all of them."""

Checkpoint = Annotated[str, typer.Argument(help="A run folder, a Hugging Face folder or a hub name.")]


def pretrain(
    preset: Annotated[str | None, typer.Argument(help="A named configuration: see `trueneg list presets`.")] = None,
    corpus: Annotated[str | None, typer.Option(help="A folder made by `trueneg corpus build`.")] = None,
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/run"),
    start_from: Annotated[
        str | None,
        typer.Option("--from", help="Continue a checkpoint: a run, a Hugging Face folder or a hub name."),
    ] = None,
    objective: Annotated[str | None, typer.Option(help="electra or mlm.")] = None,
    hard_correction: Annotated[str | None, typer.Option(help="A detector of false negatives: lexical.")] = None,
    soft_regularization: Annotated[str | None, typer.Option(help="token, sentence or token+sentence.")] = None,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows a step, over all processes.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens a row.")] = None,
    pack: Annotated[bool, typer.Option("--pack", help="Fill rows with several documents.")] = False,
    extend_vocabulary: Annotated[
        bool, typer.Option("--extend-vocabulary", help="The corpus's tokenizer has words the checkpoint lacks.")
    ] = False,
    wordnet: Annotated[str | None, typer.Option(help="WordNet's folder; by default it is looked for.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32 or bf16.")] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random follows from it.")] = None,
    max_minutes: Annotated[float | None, typer.Option(help="Save and stop after so long.")] = None,
    config: Annotated[Path | None, typer.Option(help="A config.json, or the folder of a run, to do again.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")] = False,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Pre-train an encoder, or continue one, on true negatives.

    `--set` reaches every option (`trueneg list options`). Under
    `torchrun --nproc-per-node 8 -m trueneg pretrain …` the same command trains on eight processes. Ctrl-C and
    SIGTERM save, then stop.

    Example: `trueneg pretrain electra-mini --corpus corpus/ --out runs/hc --steps 2000 --hard-correction lexical`
    """
    from trueneg.pretraining import configure
    from trueneg.pretraining import pretrain as run

    named = {
        "corpus.path": corpus,
        "corpus.length": length,
        "corpus.pack": pack or None,
        "model.extend_vocabulary": extend_vocabulary or None,
        "objective.correction.detector": hard_correction,
        "objective.correction.wordnet": wordnet,
        "objective.regularization.level": soft_regularization,
        "train.steps": steps,
        "train.batch_size": batch_size,
        "train.precision": precision,
        "train.seed": seed,
        "train.max_minutes": max_minutes,
    }
    chosen = [f"{key}={value}" for key, value in named.items() if value is not None]
    wanted = configure(
        preset, start_from=start_from, objective=objective, config=config, settings=[*chosen, *(settings or [])]
    )
    done = run(wanted, out, resume=resume, quiet=quiet)
    if done.reason == "interrupted":
        raise Interrupted(f"saved step {done.step:,} of {wanted.train.steps:,} in '{out}': continue with --resume")
    if int(os.environ.get("RANK", "0")) == 0:
        ended = "time is up" if done.reason == "time" else "finished"
        text = (
            f"{ended} at step {done.step:,} of {wanted.train.steps:,} after {done.seconds:,.0f} s; "
            f"{done.num_parameters:,} parameters; transformers loads {done.hugging_face}"
        )
        Output(as_json).result(vars(done), text)


def evaluate(
    checkpoint: Checkpoint,
    corpus: Annotated[Path, typer.Option(help="A corpus with held-out text, of the checkpoint's tokenizer.")],
    task: Annotated[
        str, typer.Option(help="false-negatives: what a masked model is punished for (Table 2).")
    ] = "false-negatives",
    detector: Annotated[str, typer.Option(help="Who judges mispredictions.")] = "lexical",
    wordnet: Annotated[str, typer.Option(help="WordNet's folder; by default it is looked for.")] = "",
    rows: Annotated[int, typer.Option(min=0, help="Held-out rows to read; 0 for all.")] = 0,
    length: Annotated[
        int | None, typer.Option(min=3, help="Tokens a row; by default as the run had, or 128 if it is no run.")
    ] = None,
    pack: Annotated[bool, typer.Option("--pack", help="Several documents a row, as in a run that packs.")] = False,
    out: Annotated[Path | None, typer.Option(help="Result file to write.")] = None,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure a masked model on held-out text: its loss, its mispredictions, and how many of them are none.

    Example: `trueneg evaluate runs/hc --corpus corpus/ --task false-negatives`
    """
    from trueneg.evaluation.held_out import TASKS, evaluate_held_out

    if task not in TASKS:
        raise ConfigError(unknown_name("task", task, TASKS))
    rows_of = _corpus_config(checkpoint)
    result = evaluate_held_out(
        checkpoint,
        corpus,
        detector=detector,
        wordnet=wordnet,
        num_rows=rows,
        length=length or rows_of.length,
        pack=pack or rows_of.pack,
        settings=settings or (),
    )
    if out is not None:
        result.save(out)
    lines = [f"{checkpoint} on {result.num_rows:,} held-out rows of {corpus}:"]
    lines += [f"  {what}: {result.readings[name]:{form}}" for name, (what, form) in READINGS.items()]
    if result.corrections:
        lines += ["", "the corrections it was surest of (gold → predicted, its own probability):"]
        lines += [f"  {c.probability:4.0%}  {c.sentence}" for c in result.most_convincing(10)]
    else:
        lines += ["", f"no misprediction was one that '{detector}' accepts"]
    Output(as_json).result(result.summary(), "\n".join(lines))


def _corpus_config(checkpoint: str) -> CorpusConfig:
    """How a run reads its rows; for what is no run, the defaults."""
    from trueneg.pretraining import METRICS, load_run_config

    is_run = (Path(checkpoint) / METRICS).is_file()
    return load_run_config(checkpoint).corpus if is_run else CorpusConfig()


def report(
    run: Annotated[list[Path], typer.Argument(help="Run folders, side by side in the report.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one page about runs, from their result files: curves, settings, corrections.

    Example: `trueneg report runs/base runs/hc --out report.html`
    """
    from trueneg.reporting.html import write_report

    if out.is_dir():
        raise ConfigError(f"--out {out} is a folder: name a file, as {out / 'report.html'}")
    page = write_report(run, out)
    Output(as_json).result({"report": page}, str(page))


def export(
    checkpoint: Checkpoint,
    format: Annotated[str, typer.Option(help="hf, sentence-transformers or onnx.")] = "hf",
    out: Annotated[Path | None, typer.Option(help="Folder to write; by default beside the run's hf/.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a checkpoint as other libraries load it.

    Example: `trueneg export runs/hc --format sentence-transformers --out encoder/`
    """
    from trueneg.models.export import export as write

    written = write(checkpoint, format, out)
    Output(as_json).result({"format": format, "out": written}, str(written))


def bench(
    what: Annotated[str, typer.Argument(help="overhead: what correction and regularization cost a step.")] = "overhead",
    corpus: Annotated[Path | None, typer.Option(help="A corpus; by default one of WordNet's text.")] = None,
    preset: Annotated[str, typer.Option(help="The model and batch to measure.")] = "electra-mini",
    rounds: Annotated[int, typer.Option(min=1, help="Times that the arms take turns.")] = 20,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure speed as ratios in one run, the arms taking turns.

    Example: `trueneg bench overhead --json`
    """
    from trueneg.bench import BENCHMARKS

    if what not in BENCHMARKS:
        raise ConfigError(unknown_name("benchmark", what, BENCHMARKS))
    output = Output(as_json, quiet)
    result = BENCHMARKS[what](preset=preset, corpus=corpus, rounds=rounds, settings=settings or (), say=output.say)
    rows = [
        (
            arm.name,
            f"{arm.milliseconds:.1f}",
            f"{arm.tokens_per_second:,.0f}",
            f"{arm.ratio:.3f}",
            f"{arm.ratio_low:.3f}–{arm.ratio_high:.3f}",
        )
        for arm in result.arms
    ]
    output.table(vars(result), ("arm", "ms a step", "tokens/s", "ratio", "quartiles"), rows)


def register(app: typer.Typer) -> None:
    """Add these verbs to the program."""
    app.command(rich_help_panel="Train")(pretrain)
    for verb in (evaluate, report, export, bench):
        app.command(rich_help_panel="Measure and hand on")(verb)
