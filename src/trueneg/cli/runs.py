"""Verbs of runs: pretrain, finetune, report, export, bench."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trueneg.cli.options import (
    BatchSize,
    Checkpoint,
    LearningRate,
    Precision,
    RunOption,
    chosen_settings,
    corpus_settings,
    seeds_of,
)
from trueneg.cli.output import Json, Output, Quiet, Settings, Verify, is_main_process, refuse_given
from trueneg.cli.results import is_of_results, report_glue_zip, report_tables, show_results
from trueneg.config.validation import refuse_idle
from trueneg.errors import ConfigError, Interrupted, unknown_name
from trueneg.objectives import OBJECTIVES
from trueneg.terminal.progress import Bar

if TYPE_CHECKING:
    from trueneg.runs.bench import StepBenchmark


def pretrain(
    context: typer.Context,
    preset: Annotated[
        str | None, typer.Argument(help="Configuration to start from: a preset (see `trueneg list presets`).")
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER[:WEIGHT]",
            help="Folder made by `trueneg corpus build`; repeat for a mixture, with or without weights.",
        ),
    ] = None,
    replay: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER:SHARE",
            help="Draw a share of all rows from another corpus, such as general:0.1; repeatable.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/run"),
    start_from: Annotated[
        str | None,
        typer.Option("--from", help="Checkpoint to continue: a run, a Hugging Face folder or a hub name."),
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help=f"Training objective: {', '.join(OBJECTIVES.builtin)}, or a plugin's.")
    ] = None,
    hard_correction: Annotated[
        str | None,
        RunOption(
            "objective.correction.detector",
            "Detector of false negatives: lexical, annotated:FOLDER, … (see `trueneg list detectors`).",
        ),
    ] = None,
    soft_regularization: Annotated[
        str | None,
        RunOption("objective.regularization.level", "Level of regularization: token, sentence or token+sentence."),
    ] = None,
    steps: Annotated[int | None, RunOption("train.steps", "Number of optimizer steps.")] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Number of passes over the corpus, from which --steps is computed.")
    ] = None,
    stages: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file of [[stage]] tables that defines the run's stages.")
    ] = None,
    batch_size: BatchSize = None,
    learning_rate: LearningRate = None,
    warmup: Annotated[
        int | None,
        RunOption("optimizer.warmup_steps", "Number of warm-up steps; a preset's is not scaled with --steps."),
    ] = None,
    length: Annotated[int | None, RunOption("corpus.length", "Tokens per row.")] = None,
    pack: Annotated[bool | None, RunOption("corpus.pack", "Pack several documents into each row.", "--pack")] = None,
    extend_vocabulary: Annotated[
        bool | None,
        RunOption(
            "model.extend_vocabulary",
            "Allow a corpus tokenizer that adds words to the checkpoint's.",
            "--extend-vocabulary",
        ),
    ] = None,
    wordnet: Annotated[
        str | None, RunOption("objective.correction.wordnet", "WordNet's folder; by default, found automatically.")
    ] = None,
    precision: Precision = None,
    seed: Annotated[int | None, RunOption("train.seed", "Random seed.")] = None,
    eval_every: Annotated[
        int | None,
        RunOption("train.eval_every", "Steps between evaluations on held-out rows; 0 for one at the end only."),
    ] = None,
    save_every: Annotated[
        int | None,
        RunOption("train.save_every", "Steps between checkpoints; 0 for train.save_minutes and the end only."),
    ] = None,
    tracker: Annotated[
        str | None, RunOption("train.tracker", "Experiment tracker: trackio, wandb or tensorboard.")
    ] = None,
    max_minutes: Annotated[
        float | None, RunOption("train.max_minutes", "Save and stop after this many minutes.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Take all options from this config.json or run folder.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint in --out.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and show the stages, without training.")
    ] = False,
    verify: Verify = True,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Pre-train an encoder, or continue a checkpoint, on true negatives.

    `--set` sets any option (see `trueneg list options`). Under `torchrun --nproc-per-node 8 -m trueneg pretrain …` the
    same command trains with eight processes. On Ctrl-C, SIGHUP or SIGTERM the run saves a checkpoint and stops.

    Example: `trueneg pretrain electra-mini --corpus corpus/ --out runs/hc --steps 2000 --hard-correction lexical`

    A mixture: `trueneg pretrain electra-mini --corpus wiki:0.7 --corpus books:0.3 --out runs/mixed`; your own text
    with a tenth of general text: `trueneg pretrain --from ENCODER --corpus mine --replay general:0.1 --out runs/mine`

    In stages: `trueneg pretrain electra-mini --corpus corpus/ --out runs/staged --stages stages.toml`
    """
    from trueneg.runs.configuring import configure
    from trueneg.runs.pretraining import pretrain as run
    from trueneg.runs.pretraining import rehearse
    from trueneg.runs.stages import stage_table

    wanted = configure(
        preset,
        start_from=start_from,
        objective=objective,
        config=config,
        epochs=epochs,
        stages=stages,
        settings=[*corpus_settings(corpus or [], replay or []), *chosen_settings(context)],
    )
    if dry_run:
        planned = rehearse(wanted, verify=verify)
        if as_json:
            Output(as_json).result({"stages": planned}, "")
        else:
            Output(quiet=quiet).show(stage_table(planned))
        return
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


def finetune(
    context: typer.Context,
    checkpoint: Checkpoint,
    task: Annotated[
        str,
        typer.Option(
            help="Tasks, separated by commas: glue/mrpc, squad, … (see `trueneg list tasks`); glue: its eight tasks."
        ),
    ],
    data: Annotated[str | None, RunOption("task.data", "The task's data: a folder, a file or hub:NAME.")] = None,
    out: Annotated[Path, typer.Option(help="Results folder, one per checkpoint: OUT/TASK/seed-N.")] = Path("results"),
    seeds: Annotated[
        str, typer.Option(metavar="N or LIST", help="Runs per task: seeds 1 to N, or those listed.")
    ] = "5",
    seed: Annotated[int | None, typer.Option(min=0, help="Run only this seed.")] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="Hyper-parameters: electra-paper, electra-code, tn-electra, bert or cline; by default by encoder."
        ),
    ] = "",
    text_column: Annotated[str | None, RunOption("task.text_column", "Text column of your own data.")] = None,
    second_column: Annotated[
        str | None, RunOption("task.second_column", "Second text column of your own data, for text pairs.")
    ] = None,
    label_column: Annotated[str | None, RunOption("task.label_column", "Label column of your own data.")] = None,
    group_column: Annotated[
        str | None, RunOption("task.group_column", "Column shared by examples that belong together, of your own data.")
    ] = None,
    train_fraction: Annotated[
        float | None, RunOption("task.train_fraction", "Fraction of the training examples to use.")
    ] = None,
    epochs: Annotated[float | None, RunOption("epochs", "Number of passes over the training examples.")] = None,
    learning_rate: LearningRate = None,
    batch_size: BatchSize = None,
    length: Annotated[int | None, RunOption("task.length", "Maximum number of tokens per row.")] = None,
    precision: Precision = None,
    select: Annotated[
        str | None, RunOption("select", "Weights to use: last, or best on held-out training examples.")
    ] = None,
    adversarial: Annotated[
        str | None,
        RunOption(
            "adversarial", "freelb or smart: train on perturbed word embeddings, at two to three times the cost."
        ),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,VALUE",
            help="Train with each value, select the best: optimizer.learning_rate=1e-5,2e-5. Repeat for combinations.",
        ),
    ] = None,
    select_on: Annotated[
        str,
        typer.Option(
            help="For --sweep, data to select on: held-out (part of the training examples), dev or contrast-set:FOLDER."
        ),
    ] = "held-out",
    resume: Annotated[bool, typer.Option("--resume", help="Resume interrupted runs.")] = False,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fine-tune a checkpoint on one or more tasks, with several seeds, and save the prediction for every example.

    Finished seeds are not run again; `--resume` continues an interrupted one. `--set` sets any option (see
    `trueneg list finetune-options`).

    Example: `trueneg finetune runs/hc --task glue/mrpc --data glue/ --seeds 5 --out results/hc`

    All of GLUE: `trueneg finetune runs/hc --task glue --data glue/ --seeds 5 --out results/hc`

    Your own data: `trueneg finetune runs/hc --task classification --data reviews.csv --text-column review
    --label-column stars --out results/hc`

    `--sweep optimizer.learning_rate=1e-5,2e-5,5e-5` trains with each value; OUT/TASK holds the run selected on
    validation data, and OUT/TASK/selection.json the scores of all.
    """
    from trueneg.config.finetune_options import FinetuneConfig
    from trueneg.runs.finetuning_tasks import configure_tasks, finetune_tasks
    from trueneg.runs.sweeps import Selection
    from trueneg.runs.sweeps import sweep as run_sweep

    several = "where several seeds are run: choose one with --seed, or leave it out"
    refuse_idle(FinetuneConfig(), settings or [], ((("train.seed",), lambda config: False, several),))
    output = Output(as_json, quiet)
    if seed is not None:
        refuse_given(context, {"seeds"}, "--seed")
    numbers = [seed] if seed is not None else seeds_of(seeds)
    chosen = chosen_settings(context)
    selections: list[Selection] = []
    if sweep:
        done = run_sweep(
            *(checkpoint, task, sweep, out, numbers),
            preset=preset,
            settings=chosen,
            select_on=select_on,
            resume=resume,
            quiet=quiet,
        )
        runs, selections = done.runs, done.selections
    else:
        refuse_given(context, ["select_on"], "finetune without --sweep")
        wanted = configure_tasks(checkpoint, task, preset=preset, settings=chosen)
        runs = finetune_tasks(wanted, out, numbers, resume=resume, quiet=quiet)
    last = runs[-1]
    reached = f"step {last.step:,} of {last.steps:,} of seed {last.seed}"
    if last.reason == "interrupted":
        raise Interrupted(f"saved {reached} in '{last.folder}': continue with --resume")
    if last.reason == "time":
        output.say(f"time is up at {reached} in '{last.folder}': continue with --resume")
    if is_main_process():
        show_results([result for run in runs for result in run.results.values()], output, selections)


def report(
    context: typer.Context,
    folder: Annotated[
        list[Path],
        typer.Argument(help="Runs, results, experiments and measurement files, in any combination; baselines first."),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="html: one page on everything; tables of results and experiments: terminal, markdown, latex, csv, "
            "json; glue-zip: a submission to GLUE's server. By default, from the name of --out.",
        ),
    ] = "",
    out: Annotated[Path | None, typer.Option(help="File to write; for a page, report.html by default.")] = None,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            help="For a page: the folder to compare the others with. If repeated, each is compared with the first of "
            "its encoder and text."
        ),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="For glue-zip: fill in missing tasks, so that the server accepts it.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one page: what helped, what did not, what is undecided; curves, corrections, detectors, provenance.

    Accepts runs, results of fine-tuning and attacks, folders of `reproduce` and `try`, and what `detect benchmark`,
    `evaluate` and `attack` write with --out. The first of each kind is the baseline of the others with its task,
    encoder and text. For results alone, without --out, a table is printed.

    Example: `trueneg report runs/base runs/hc results/base results/hc --out report.html`

    Results: `trueneg report results/base results/hc --format markdown`, `trueneg report results/hc --out glue.zip`

    A recipe's table: `trueneg report repro/tn-table3 --out table.csv`
    """
    if out is not None and out.is_dir():
        raise ConfigError(f"--out {out} is a folder: name a file, as {out / 'report.html'}")
    output = Output(as_json, quiet)
    from trueneg.reporting.sources import is_experiment
    from trueneg.reporting.tables import form_of

    form = form or ("glue-zip" if out is not None and out.suffix.lower() == ".zip" else "")
    if form == "glue-zip":
        refuse_given(context, {"baseline"}, "--format glue-zip")
        report_glue_zip(folder, out or Path("glue.zip"), partial, output)
        return
    refuse_given(context, {"partial"}, "a report that is no submission to GLUE's server (name one: --out glue.zip)")
    are_results = all(is_of_results(one) for one in folder)
    is_page = not are_results or out is not None
    form = form_of(form or ("" if are_results or out else "html"), out)
    if form != "html":
        for one in folder:
            if not is_of_results(one) and not is_experiment(one):
                raise ConfigError(
                    f"--format {form}: '{one}' holds no results of fine-tuning and no experiment (of reproduce or "
                    "try), of which tables are made: leave it out, or --format"
                )
    if form == "html" and is_page:
        from trueneg.reporting.html import write_report

        page = write_report(folder, out or Path("report.html"), baselines=baseline or ())
        output.result({"report": page}, str(page))
    else:
        refuse_given(context, {"baseline"}, "a table, which compares nothing (name a page: --out report.html)")
        report_tables(folder, form, out, output)


def export(
    checkpoint: Checkpoint,
    format: Annotated[str, typer.Option(help="hf, sentence-transformers or onnx.")] = "hf",
    head: Annotated[
        str,
        typer.Option(
            help="For onnx, the graph's output: task (logits of a fine-tuned model), mlm or discriminator (logits), "
            "encoder (last_hidden_state), sentence (sentence_embedding). auto: the head that was trained."
        ),
    ] = "auto",
    step: Annotated[
        int | None, typer.Option(help="For a run: the checkpoint of this step instead of the last.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; by default next to the run's hf/.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing export in --out.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Export a checkpoint in a format that other libraries load.

    A run without hf/ is exported from its checkpoints. A run that continued a sentence encoder keeps its pooling,
    normalization, length and prompts.

    Example: `trueneg export runs/hc --format sentence-transformers --out encoder/`

    A classifier for onnxruntime: `trueneg export results/hc/reviews/seed-1 --format onnx --out classifier/`
    """
    from trueneg.runs.exporting import export as write

    with Bar(f"writing {format}", quiet=quiet):  # no countable progress
        done = write(checkpoint, format, out, head=head, step=step, overwrite=overwrite)
    output = Output(as_json, quiet)
    output.result({"format": done.format, "out": done.path, "head": done.head, "load": done.load}, str(done.path))
    if not as_json:
        output.say(f"load it:  {done.load}")


def bench(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            help="step: find bottlenecks of a training step; overhead: the cost of correction and regularization."
        ),
    ] = "step",
    corpus: Annotated[
        Path | None, typer.Option(help="Corpus folder; by default, one built from WordNet's text.")
    ] = None,
    preset: Annotated[str, typer.Option(help="Preset whose model and batch are measured.")] = "electra-mini",
    stage: Annotated[
        str, typer.Option(help="For a preset with stages: the one to measure; by default the first.")
    ] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Number of timed steps per arm, taken in turns.")] = 20,
    detector: Annotated[
        list[str] | None,
        typer.Option(help="For overhead: also measure hard correction with this detector; repeatable."),
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure a training step on this machine, and report its bottlenecks and the options that help.

    Times are compared within one run, in which the arms take turns.

    Example: `trueneg bench --preset electra-mini --corpus corpus/`

    The cost of correction and regularization: `trueneg bench overhead --json`
    """
    from trueneg.runs.bench import BENCHMARKS, bench_overhead, bench_step

    if what not in BENCHMARKS:
        raise ConfigError(unknown_name("benchmark", what, BENCHMARKS))
    output = Output(as_json, quiet)
    wanted: dict[str, Any] = {
        "preset": preset,
        "corpus": corpus,
        "rounds": rounds,
        "settings": settings or (),
        "stage": stage,
        "say": output.say,
    }
    if what == "overhead":
        result = bench_overhead(**wanted, detectors=detector or ())
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
        return
    refuse_given(context, ["detector"], "bench step")
    done = bench_step(**wanted)
    data = {**vars(done), "mfu": done.measured.mfu, "achieved_flops": done.measured.achieved}
    output.result(data, _step_in_words(done))


def _step_in_words(done: StepBenchmark) -> str:
    parts = done.measured
    host = "" if parts.host is None else f"  handed out by the host in {parts.host:.1f} ms\n"
    mfu = f", {parts.mfu:.1%} of {'the matrix rate' if parts.device == 'cpu' else 'the peak'}" if parts.mfu else ""
    rates = ", ".join(f"{rate / 1e9:,.0f} GFLOP/s in {name}" for name, rate in parts.matrix_rate.items())
    tried = "".join(
        f"  {arm.name}: {arm.milliseconds:.1f} ms, {arm.tokens_per_second:,.0f} useful tokens/s "
        f"(time x {arm.ratio:.2f}, quartiles {arm.ratio_low:.2f}–{arm.ratio_high:.2f})\n"
        for arm in done.arms
    )
    verdict = "\n".join(f"  {number}. {one.place}: {one}" for number, one in enumerate(done.bottlenecks, start=1))
    return (
        f"{done.preset} on {parts.device}, {parts.threads} of {parts.cores} threads, {parts.precision}\n"
        f"  a step of {parts.positions:,} positions, {100 * parts.fill:.0f} % of them tokens: {parts.step:.1f} ms\n"
        f"{host}  one row a micro-batch: {parts.one_row:.1f} ms; reading alone: {parts.read:.1f} ms\n"
        f"  matrix products: {rates}; the step: {parts.achieved / 1e9:,.0f}{mfu}\n"
        f"measured in turns\n{tried}bottlenecks, the largest first\n{verdict}"
    )
