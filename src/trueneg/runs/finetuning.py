"""``finetune``: from a checkpoint and labelled data to results, with the prediction for every example."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import differences, encode, load_config, save_config
from trueneg.config.fields import names_where
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.validation import validate
from trueneg.corruption.keyed import mixed_seed
from trueneg.errors import CheckpointError
from trueneg.evaluation.predictions import evaluate_model, pad_id
from trueneg.evaluation.results.store import Result, find_results, load_result, save_result
from trueneg.models.backbone import check_length
from trueneg.models.documents import without_faulty_attention
from trueneg.models.export import save_hugging_face
from trueneg.models.loading import checkpoint_gradients, count_parameters, resolve_checkpoint
from trueneg.models.origin import origin_of
from trueneg.models.task_model import load_for_task
from trueneg.reporting.results import cut_texts
from trueneg.runs.best_weights import BEST, BestWeights, Validation, load_best
from trueneg.runs.card import finetuning_card
from trueneg.runs.configuring_finetuning import check_finetuning, refused_precisions
from trueneg.runs.finetuning_data import TaskData, data_digests, read_task_data
from trueneg.tasks import make_task
from trueneg.tasks.base import Task
from trueneg.tokenizer import load_tokenizer
from trueneg.training.adversarial import with_adversary
from trueneg.training.batches import LabelledBatches
from trueneg.training.checkpoint import State, check_same_run, latest_checkpoint, write_folder
from trueneg.training.distributed import Processes, choose_device, join_processes
from trueneg.training.folder import CHECKPOINTS, CONFIG, HUGGING_FACE, METRICS
from trueneg.training.log import Display, MetricsFile, Tracker, make_tracker
from trueneg.training.loop import Loop
from trueneg.training.precision import agree_on_precision, resolve_run_precision
from trueneg.training.step import Run


@dataclass(frozen=True)
class Finetuned:
    """Outcome of one fine-tuning run."""

    folder: Path
    """``<out>/<task>/seed-<seed>``."""
    seed: int
    reason: Literal["finished", "time", "interrupted"]
    step: int
    steps: int
    seconds: float
    results: dict[str, Result]
    """Results by split; empty unless the run finished."""


def folder_of(task: str, seed: int, out: str | Path) -> Path:
    """Folder of a run's results: ``<out>/<task>/seed-<seed>``.

    Example:
        >>> folder_of("glue/mrpc", 2, "results/hc").as_posix()
        'results/hc/mrpc/seed-2'
    """
    return Path(out) / task.removeprefix("glue/").replace("/", "-") / f"seed-{seed}"


def finetune(config: FinetuneConfig, out: str | Path, *, resume: bool = False, quiet: bool = False) -> Finetuned:
    """Fine-tune a checkpoint on a task with one seed, and evaluate it on the task's labelled splits.

    It uses the training loop of pre-training, with ``torchrun``, exact resume and a clean stop on Ctrl-C. The run's
    folder receives ``config.json``, ``metrics.jsonl``, ``<split>.json`` with ``<split>.predictions.jsonl`` for each
    split and, unless ``keep_model`` is off, ``hf/``. A run that has finished with these options is not repeated.

    Args:
        config: Everything that the result depends on.
        out: The folder of results; see ``folder_of``.
        resume: Continue an unfinished run; start if there is none.
        quiet: Show no progress.

    Raises:
        TruenegError: for anything a user can fix; see the message.
    """
    check_finetuning(config)
    task = make_task(config.task)
    folder = folder_of(task.name, config.train.seed, out)
    device = choose_device(config.train.device)
    config, precision_note = resolve_run_precision(config, device, folder, refused_precisions(config))
    check_finetuning(config)
    if finished := _finished(config, folder, task):
        return finished
    with join_processes(device.type) as processes, processes.holding(folder, "finetune", device):
        config, precision_note = agree_on_precision(config, precision_note, processes, device)
        if finished := _finished(config, folder, task):  # by a process that held the folder until now
            return finished
        found = latest_checkpoint(folder / CHECKPOINTS)
        if (found or (folder / METRICS).exists()) and not resume:
            raise CheckpointError(f"'{folder}' holds a run: continue it with --resume, or give another --out")
        return _train(_prepare(config, task, folder, found, processes, device), precision_note, quiet)


@dataclass(frozen=True)
class _Ready:
    """A run that is ready to train."""

    config: FinetuneConfig
    task: Task[Any]
    folder: Path
    found: tuple[Path, State] | None
    """The run's last checkpoint, which is restored."""
    tokenizer: PreTrainedTokenizerFast
    data: TaskData
    batches: LabelledBatches
    run: Run

    @property
    def is_main(self) -> bool:
        """Whether this process writes."""
        return self.run.processes.is_main


def _prepare(
    config: FinetuneConfig,
    task: Task[Any],
    folder: Path,
    found: tuple[Path, State] | None,
    processes: Processes,
    device: torch.device,
) -> _Ready:
    """Load data and model, and restore a checkpoint of the same run."""
    source = resolve_checkpoint(config.start_from)
    tokenizer = load_tokenizer(source)
    data = read_task_data(task, config, tokenizer)
    batches = LabelledBatches(data.train.features, pad_id(tokenizer), config.length_window, config.train, processes)
    config = _scheduled(config, batches.steps_per_epoch)
    validate(config)
    if found:
        check_same_run(found[1], config, folder, data=data.fingerprint)
    torch.manual_seed(mixed_seed(config.train.seed))
    model = load_for_task(
        task.auto_class,
        source,
        task.num_outputs,
        task.labels,
        dropout=config.dropout,
        attention=config.attention,
        head=config.head,
    )
    if config.train.gradient_checkpointing:
        checkpoint_gradients(model)
    check_length(model, config.task.length, "task.length", config.start_from)
    objective, passes = with_adversary(config, task.objective())
    # Batches differ in length, and most runs end before compilation pays off: compile only if asked to.
    train = replace(config.train, compile=config.train.compile is True)
    run = Run.new(model, objective, config.optimizer, train, device, processes, passes)
    if found:
        run.restore(*found)
    return _Ready(config, task, folder, found, tokenizer, data, batches, run)


def _train(ready: _Ready, precision_note: str, quiet: bool) -> Finetuned:
    """Train and, if the run finishes, evaluate and save."""
    config, task, folder, run = ready.config, ready.task, ready.folder, ready.run
    results: dict[str, Result] = {}
    with ExitStack() as opened:
        metrics, tracker = _begin_folder(ready, opened) if ready.is_main else (None, None)
        is_hidden = quiet or not ready.is_main
        display = opened.enter_context(Display(config.train.steps, run.step, is_hidden, "fine-tuning"))
        for note in task.notes:
            display.say(f"{task.name}: {note}")
        display.say(_introduction(ready))
        if precision_note:
            display.say(precision_note)
        valid = Validation(task, ready.data, pad_id(ready.tokenizer), run) if ready.data.valid else None
        loop = Loop(
            run,
            config,
            ready.batches,
            BestWeights(valid, folder) if valid and config.select == "best" else None,
            ready.data.fingerprint,
            folder,
            display,
            on_save=lambda: None,
            metrics=metrics,
            tracker=tracker,
            seconds_before=ready.found[1].seconds if ready.found else 0.0,
        )
        try:
            with without_faulty_attention(run.device, None):
                ending = loop.train()
            if ending.reason == "finished":
                results = _evaluate(ready, valid, ending.seconds)
        finally:
            run.leave()
    if results and ready.is_main:
        _finish(ready, results)
    return Finetuned(folder, config.train.seed, ending.reason, ending.step, config.train.steps, ending.seconds, results)


def _begin_folder(ready: _Ready, opened: ExitStack) -> tuple[MetricsFile, Tracker | None]:
    """Write the run's configuration, and open what records its metrics."""
    config, folder = ready.config, ready.folder
    folder.mkdir(parents=True, exist_ok=True)
    save_config(config, folder / CONFIG)
    metrics = opened.enter_context(closing(MetricsFile(folder / METRICS, ready.run.step)))
    tracker = make_tracker(config.train.tracker, str(folder), encode(config), folder)
    if tracker is not None:
        opened.callback(tracker.close)
    return metrics, tracker


def _evaluate(ready: _Ready, valid: Validation | None, seconds: float) -> dict[str, Result]:
    """Evaluate the trained model, or the best weights, on the labelled splits, and save the results."""
    config, task, run, data = ready.config, ready.task, ready.run, ready.data
    if valid and config.select == "best":
        load_best(run.module, ready.folder / BEST)
    trained = {
        "task": task.name,
        "data": data_digests(task),
        "num_examples": data.num_examples,
        "num_rows": len(data.train.features),
        "counts": dict(data.counts),
        "seconds": round(seconds, 3),
        "tokens_per_second": round(run.step * ready.batches.tokens_per_step / seconds, 1),
        "parameters": count_parameters(run.module.model),
    }
    if valid is not None and config.hold_out:
        trained["held_out"] = {"metrics": valid(), "num_examples": len(data.valid_examples)}
    results = {}
    for split in task.dev_splits:
        results[split], answers = evaluate_model(
            run.module.model,
            task,
            ready.tokenizer,
            config,
            split,
            step=run.step,
            trained=trained,
            processes=run.processes,
        )
        if ready.is_main:
            save_result(results[split], answers, ready.folder)
    return results


def finetune_seeds(
    config: FinetuneConfig, out: str | Path, seeds: Iterable[int], *, resume: bool = False, quiet: bool = False
) -> list[Finetuned]:
    """Fine-tune a checkpoint on a task with several seeds, one after the other.

    Seeds that have finished are not run again. If a run stops early, because it is interrupted or out of time, it is
    the last of the list.

    Args:
        config: Everything that the results depend on, except the seed.
        out: The folder of results; see ``folder_of``.
        seeds: Values of ``train.seed``.
        resume: Continue an unfinished run; start if there is none.
        quiet: Show no progress.

    Raises:
        TruenegError: for anything a user can fix; see the message.
    """
    runs: list[Finetuned] = []
    for seed in seeds:
        seeded = replace(config, train=replace(config.train, seed=seed))
        runs.append(finetune(seeded, out, resume=resume, quiet=quiet))
        if runs[-1].reason != "finished":
            break
    return runs


def _finished(config: FinetuneConfig, folder: Path, task: Task[Any]) -> Finetuned | None:
    """Return the outcome of a finished run with these options and data; None if none has finished.

    Raises:
        CheckpointError: if it had other options or data.
    """
    results = {path.stem: load_result(path) for path in find_results(folder)}
    if not results or (folder / CHECKPOINTS).exists():
        return None
    if not (folder / CONFIG).is_file():
        raise CheckpointError(f"'{folder}' holds results of a model that lies elsewhere: give another --out")
    saved = load_config(FinetuneConfig, folder / CONFIG)
    free = {*names_where(FinetuneConfig, lambda rule: rule.resume == "free")}
    free |= set() if config.keep_model else {"keep_model"}
    found = [line for line in differences(_unscheduled(saved, config), config) if line.split(":")[0] not in free]
    if found:
        raise CheckpointError(f"'{folder}' was trained with other options ({'; '.join(found)}): give another --out")
    known = next(iter(results.values())).train.get("data", {})
    if changed := [name for name, digest in data_digests(task).items() if known.get(name, digest) != digest]:
        raise CheckpointError(f"'{folder}' is of other data ({', '.join(changed)} changed since): give another --out")
    steps = saved.train.steps
    return Finetuned(folder, config.train.seed, "finished", steps, steps, 0.0, results)


def _unscheduled(saved: FinetuneConfig, wanted: FinetuneConfig) -> FinetuneConfig:
    """A saved configuration without the numbers that ``_scheduled`` filled in, unless ``wanted`` sets them."""
    train, optimizer = wanted.train, wanted.optimizer
    return replace(
        saved,
        train=replace(
            saved.train,
            steps=train.steps and saved.train.steps,
            eval_every=train.eval_every and saved.train.eval_every,
        ),
        optimizer=replace(saved.optimizer, warmup_steps=optimizer.warmup_steps and saved.optimizer.warmup_steps),
    )


def _scheduled(config: FinetuneConfig, steps_per_epoch: int) -> FinetuneConfig:
    """Fill in the numbers of steps that follow from epochs and shares."""
    train, optimizer = config.train, config.optimizer
    steps = train.steps or max(1, round(config.epochs * steps_per_epoch))
    eval_every = train.eval_every
    if config.select == "best" and not eval_every:
        eval_every = max(1, round(steps_per_epoch / config.evals_per_epoch))
    warmup = optimizer.warmup_steps or round(config.warmup_ratio * steps)
    return replace(
        config,
        train=replace(train, steps=steps, eval_every=eval_every),
        optimizer=replace(optimizer, warmup_steps=warmup),
    )


def _finish(ready: _Ready, results: Mapping[str, Result]) -> None:
    """Save the model for transformers, and delete what only an unfinished run needs."""
    config, folder = ready.config, ready.folder
    if config.keep_model:
        card = finetuning_card(config, list(results.values()), origin_of(config.start_from))
        write_folder(
            folder / HUGGING_FACE,
            lambda new: save_hugging_face(ready.run.module.model, ready.tokenizer, new, card),
            "the results are saved: make room and continue with --resume",
        )
    # In this order, as a checkpoint without the best weights could not be resumed.
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    (folder / BEST).unlink(missing_ok=True)


def _introduction(ready: _Ready) -> str:
    config, run, data = ready.config, ready.run, ready.data
    counts = dict(data.counts)
    num_rows, num_cut = len(data.train.features), counts.pop("truncated", 0)
    counted = f", {cut_texts(num_cut, num_rows, config.task.length)}" if num_cut else ""
    counted += "".join(f", {number:,} {what.replace('_', ' ')}" for what, number in counts.items() if number)
    return (
        f"{'continuing at step ' + str(run.step) if ready.found else 'training'}: {config.task.name}, seed "
        f"{config.train.seed}, {count_parameters(run.module.model):,} parameters, {data.num_examples:,} examples in "
        f"{num_rows:,} rows of {data.train.features.lengths.mean():.0f} tokens{counted}; "
        f"{config.train.steps:,} steps of {config.train.batch_size}, {run.device.type} x {run.processes.world_size}, "
        f"{config.train.precision}"
    )
