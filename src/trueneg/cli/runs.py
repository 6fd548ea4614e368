"""``trueneg pretrain`` and what follows it: report, export, bench."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trueneg.cli.export import export
from trueneg.cli.output import (
    Json,
    LearningRate,
    Output,
    Quiet,
    Settings,
    Verify,
    is_main_process,
)
from trueneg.cli.results import has_results, report_glue_zip, report_table
from trueneg.errors import ConfigError, Interrupted, unknown_name
from trueneg.objectives import OBJECTIVES


def pretrain(
    preset: Annotated[str | None, typer.Argument(help="A named configuration: see `trueneg list presets`.")] = None,
    corpus: Annotated[str | None, typer.Option(help="A folder made by `trueneg corpus build`.")] = None,
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/run"),
    start_from: Annotated[
        str | None,
        typer.Option("--from", help="Continue a checkpoint: a run, a Hugging Face folder or a hub name."),
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help=f"What is minimised: {', '.join(OBJECTIVES.builtin)}, or a plugin's.")
    ] = None,
    hard_correction: Annotated[
        str | None,
        typer.Option(help="A detector of false negatives: lexical, annotated:FOLDER, …; see `trueneg list detectors`."),
    ] = None,
    soft_regularization: Annotated[str | None, typer.Option(help="token, sentence or token+sentence.")] = None,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps.")] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Times that the corpus is read, instead of --steps, which follow from it.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows a step, over all processes.")] = None,
    learning_rate: LearningRate = None,
    warmup: Annotated[
        int | None, typer.Option(help="Steps in which the learning rate rises; a preset's fits its own steps.")
    ] = None,
    length: Annotated[int | None, typer.Option(help="Tokens a row.")] = None,
    pack: Annotated[bool, typer.Option("--pack", help="Fill rows with several documents.")] = False,
    extend_vocabulary: Annotated[
        bool, typer.Option("--extend-vocabulary", help="The corpus's tokenizer has words the checkpoint lacks.")
    ] = False,
    wordnet: Annotated[str | None, typer.Option(help="WordNet's folder; by default it is looked for.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32 or bf16.")] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random follows from it.")] = None,
    eval_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations on held-out rows; 0 for one at the end.")
    ] = None,
    save_every: Annotated[int | None, typer.Option(help="Steps between checkpoints; 0 for one at the end.")] = None,
    tracker: Annotated[str | None, typer.Option(help="Experiment tracker: trackio, wandb or tensorboard.")] = None,
    max_minutes: Annotated[float | None, typer.Option(help="Save and stop after so long.")] = None,
    config: Annotated[Path | None, typer.Option(help="A config.json, or the folder of a run, to do again.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")] = False,
    verify: Verify = True,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Pre-train an encoder, or continue one, on true negatives.

    `--set` reaches every option (`trueneg list options`). Under
    `torchrun --nproc-per-node 8 -m trueneg pretrain …` the same command trains on eight processes. Ctrl-C, SIGHUP and
    SIGTERM save, then stop.

    Example: `trueneg pretrain electra-mini --corpus corpus/ --out runs/hc --steps 2000 --hard-correction lexical`
    """
    from trueneg.runs.pretraining import configure
    from trueneg.runs.pretraining import pretrain as run

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
        "optimizer.learning_rate": learning_rate,
        "optimizer.warmup_steps": warmup,
        "train.precision": precision,
        "train.seed": seed,
        "train.eval_every": eval_every,
        "train.save_every": save_every,
        "train.tracker": tracker,
        "train.max_minutes": max_minutes,
    }
    chosen = [f"{key}={value}" for key, value in named.items() if value is not None]
    wanted = configure(
        preset,
        start_from=start_from,
        objective=objective,
        config=config,
        epochs=epochs,
        settings=[*chosen, *(settings or [])],
    )
    done = run(wanted, out, resume=resume, quiet=quiet, verify=verify)
    if done.reason == "interrupted":
        raise Interrupted(f"saved step {done.step:,} of {wanted.train.steps:,} in '{out}': continue with --resume")
    if is_main_process():
        ended = "time is up" if done.reason == "time" else "finished"
        held_out = f"held-out loss {done.held_out['loss']:.4f}; " if done.held_out else ""
        text = (
            f"{ended} at step {done.step:,} of {wanted.train.steps:,} after {done.seconds:,.0f} s; {held_out}"
            f"{done.num_parameters:,} parameters; transformers loads {done.hugging_face}"
        )
        Output(as_json).result(vars(done), text)


def report(
    folder: Annotated[list[Path], typer.Argument(help="Run folders, or folders of results, side by side.")],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="Of runs: html. Of results: terminal, markdown, latex, csv, html, json; glue-zip for GLUE's server. "
            "By default as --out is named.",
        ),
    ] = "",
    out: Annotated[Path | None, typer.Option(help="The file to write; of runs report.html by default.")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="glue-zip: fill in tasks that are missing, so that the server takes it.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write about runs one page (curves, settings, corrections); about results of fine-tuning a table.

    Example: `trueneg report runs/base runs/hc --out report.html`

    Results: `trueneg report results/base results/hc --format markdown`, `trueneg report results/hc --out glue.zip`
    """
    if out is not None and out.is_dir():
        raise ConfigError(f"--out {out} is a folder: name a file, as {out / 'report.html'}")
    output = Output(as_json, quiet)
    from trueneg.reporting.tables import form_of

    form = form or ("glue-zip" if out is not None and out.suffix.lower() == ".zip" else "")
    if not has_results(folder):
        if out is not None and form_of(form, out) != "html":
            raise ConfigError(f"--out {out}: about runs a page is written: name it .html")
        if form not in ("", "html"):
            raise ConfigError(
                f"--format {form}: '{folder[0]}' holds no results of fine-tuning, of which tables are made"
            )
        from trueneg.reporting.html import write_report

        page = write_report(folder, out or Path("report.html"))
        output.result({"report": page}, str(page))
    elif form == "glue-zip":
        report_glue_zip(folder, out or Path("glue.zip"), partial, output)
    else:
        report_table(folder, form, out, output)


def bench(
    what: Annotated[str, typer.Argument(help="overhead: what correction and regularization cost a step.")] = "overhead",
    corpus: Annotated[Path | None, typer.Option(help="A corpus; by default one of WordNet's text.")] = None,
    preset: Annotated[str, typer.Option(help="The model and batch to measure.")] = "electra-mini",
    rounds: Annotated[int, typer.Option(min=1, help="Times that the arms take turns.")] = 20,
    detector: Annotated[
        list[str] | None, typer.Option(help="Measure hard correction with this detector too; may be repeated.")
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure speed as ratios in one run, the arms taking turns.

    Example: `trueneg bench overhead --json`
    """
    from trueneg.runs.bench import BENCHMARKS

    if what not in BENCHMARKS:
        raise ConfigError(unknown_name("benchmark", what, BENCHMARKS))
    output = Output(as_json, quiet)
    result = BENCHMARKS[what](
        preset=preset,
        corpus=corpus,
        rounds=rounds,
        detectors=detector or (),
        settings=settings or (),
        say=output.say,
    )
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
    for verb in (report, export, bench):
        app.command(rich_help_panel="Measure and hand on")(verb)
