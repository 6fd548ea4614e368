"""``finetune``: from a checkpoint and labelled data to results, with the prediction for every example."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from trueneg.config.codec import differences, encode, load_config, save_config
from trueneg.config.fields import names_where
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.validation import validate
from trueneg.corruption.keyed import mixed_seed
from trueneg.errors import CheckpointError, TaskError
from trueneg.evaluation.predictions import evaluate_model, pad_id, predict_split, score
from trueneg.evaluation.results.store import Result, find_results, load_result, save_result
from trueneg.files.arrays import ArrayFile
from trueneg.models.backbone import check_length
from trueneg.models.documents import without_faulty_attention
from trueneg.models.export import save_hugging_face
from trueneg.models.loading import checkpoint_gradients, count_parameters, resolve_checkpoint
from trueneg.models.origin import origin_of
from trueneg.models.task_model import load_for_task
from trueneg.reporting.results import cut_texts
from trueneg.runs.card import finetuning_card
from trueneg.runs.configuring_finetuning import check_finetuning, refused_precisions
from trueneg.tasks import make_task
from trueneg.tasks.base import Encoded, Task, digest_of
from trueneg.tasks.split import hold_out, train_fraction
from trueneg.tokenizer import load_tokenizer
from trueneg.training.adversarial import with_adversary
from trueneg.training.batches import LabelledBatches
from trueneg.training.checkpoint import check_same_run, latest_checkpoint, write_folder
from trueneg.training.distributed import choose_device, join_processes
from trueneg.training.features import Features
from trueneg.training.folder import CHECKPOINTS, CONFIG, HUGGING_FACE, METRICS
from trueneg.training.log import Display, MetricsFile, make_tracker, read_metrics
from trueneg.training.loop import Loop
from trueneg.training.precision import agree_on_precision, resolve_run_precision
from trueneg.training.step import Run

BEST = "best.safetensors"
_BEST_FILE = ArrayFile("best weights", "1", CheckpointError, "remove the run's folder and fine-tune again")
"""File in a run's folder with the weights that were best on the validation part so far."""


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
        source = resolve_checkpoint(config.start_from)
        tokenizer = load_tokenizer(source)
        data = _read(task, config, tokenizer)
        padding = pad_id(tokenizer)
        batches = LabelledBatches(data.train.features, padding, config.length_window, config.train, processes)
        config = _scheduled(config, batches.steps_per_epoch)
        validate(config)
        fingerprint = _fingerprint(data.train.features)
        if found:
            check_same_run(found[1], config, folder, data=fingerprint)
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
        metrics = None
        if processes.is_main:
            folder.mkdir(parents=True, exist_ok=True)
            save_config(config, folder / CONFIG)
            metrics = MetricsFile(folder / METRICS, run.step)
        valid = _Validation(task, data, padding, run) if data.valid else None
        choice = _Choice(valid, folder) if valid and config.select == "best" else None
        tracker = make_tracker(config.train.tracker, str(folder), encode(config), folder) if metrics else None
        with (
            Display(config.train.steps, run.step, quiet or not processes.is_main, "fine-tuning") as display,
            ExitStack() as opened,
        ):
            for one in (metrics, tracker):
                if one is not None:
                    opened.callback(one.close)
            for note in task.notes:
                display.say(f"{task.name}: {note}")
            display.say(_introduction(config, run, data, found is not None))
            if precision_note:
                display.say(precision_note)
            loop = Loop(
                run,
                config,
                batches,
                choice,
                fingerprint,
                folder,
                display,
                on_save=lambda: None,
                metrics=metrics,
                tracker=tracker,
                seconds_before=found[1].seconds if found else 0.0,
            )
            results = {}
            try:
                with without_faulty_attention(device, None):
                    ending = loop.train()
                if ending.reason == "finished":
                    if choice is not None:
                        _load_best(run.module, folder / BEST)
                    trained = {
                        "task": task.name,
                        "data": data_digests(task),
                        "num_examples": data.num_examples,
                        "num_rows": len(data.train.features),
                        "counts": dict(data.counts),
                        "seconds": round(ending.seconds, 3),
                        "tokens_per_second": round(run.step * batches.tokens_per_step / ending.seconds, 1),
                        "parameters": count_parameters(model),
                    }
                    if valid is not None and config.hold_out:
                        trained["held_out"] = {"metrics": valid(), "num_examples": len(data.valid_examples)}
                    for split in task.dev_splits:
                        results[split], answers = evaluate_model(
                            model,
                            task,
                            tokenizer,
                            config,
                            split,
                            step=run.step,
                            trained=trained,
                            processes=processes,
                        )
                        if processes.is_main:
                            save_result(results[split], answers, folder)
            finally:
                run.leave()
        if results and processes.is_main:
            _finish(model, tokenizer, config, results, folder)
        return Finetuned(
            folder, config.train.seed, ending.reason, ending.step, config.train.steps, ending.seconds, results
        )


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


@dataclass(frozen=True)
class _Data:
    """Training examples of a run and, if it has one, its validation part."""

    train: Encoded
    valid_examples: Sequence[Any]
    valid: Encoded | None
    num_examples: int
    counts: Mapping[str, int]


class _Validation:
    """Evaluates the current weights on the validation part."""

    def __init__(self, task: Task[Any], data: _Data, pad_id: int, run: Run) -> None:
        self.task, self.run, self._data, self._pad_id = task, run, data, pad_id

    def __call__(self) -> dict[str, float]:
        run, data = self.run, self._data
        assert data.valid is not None
        answers = predict_split(
            run.module.model,
            self.task,
            data.valid_examples,
            data.valid,
            self._pad_id,
            precision=run.config.precision,
            processes=run.processes,
        )
        return score(self.task, answers)


class _Choice:
    """Evaluation for the training loop that keeps the weights that are best on the validation part."""

    def __init__(self, valid: _Validation, folder: Path) -> None:
        self._valid, self._folder, self._metric = valid, folder, valid.task.metrics[0]
        records = read_metrics(folder / METRICS) if valid.run.step else []
        self._best = max((r[self._metric] for r in records if r["kind"] == "eval"), default=float("-inf"))

    def __call__(self) -> dict[str, float]:
        figures = self._valid()
        if figures[self._metric] > self._best:
            self._best = figures[self._metric]
            if self._valid.run.processes.is_main:
                arrays = {name: tensor.cpu().numpy() for name, tensor in self._valid.run.module.state_dict().items()}
                _BEST_FILE.write(self._folder / BEST, arrays, {})
        return figures


def _load_best(module: torch.nn.Module, path: Path) -> None:
    arrays, _ = _BEST_FILE.read(path, dict[str, str])
    try:
        module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    except RuntimeError as error:
        raise _BEST_FILE.damaged(path, "it is of another model") from error


def data_digests(task: Task[Any]) -> dict[str, str]:
    """Digests (``tasks.base.digest_of``) that identify the data of a task's labelled splits."""
    return {split: digest_of(task.read(split).examples) for split in (task.train_split, *task.dev_splits)}


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


def _read(task: Task[Any], config: FinetuneConfig, tokenizer: PreTrainedTokenizerFast) -> _Data:
    """Read, sample, split and encode the training examples."""
    split, options = task.read(task.train_split), config.task
    if not split.is_labelled:
        raise TaskError(f"the split '{task.train_split}' of '{task.name}' has no labels: nothing to train on")
    seed = config.train.seed
    examples = chosen_examples(task, config, split.examples)
    valid: list[Any] = []
    if config.select == "best" or config.hold_out:
        examples, valid = hold_out(task, examples, config.valid_fraction, mixed_seed(seed, 1))
    num_examples = len(examples)
    if options.swap_pairs:
        examples = task.swapped(examples)
    train = task.encode(examples, tokenizer, options.length, is_training=True)
    if not len(train.features):
        raise TaskError(f"no example of '{task.name}' can be trained on: {dict(split.counts)}")
    return _Data(
        train,
        valid,
        task.encode(valid, tokenizer, options.length, is_training=False) if valid else None,
        num_examples,
        {**split.counts, **train.counts},
    )


def chosen_examples(task: Task[Any], config: FinetuneConfig, examples: Sequence[Any]) -> list[Any]:
    """Select the training examples that a run uses, the same for the same seed."""
    options, seed = config.task, config.train.seed
    chosen = train_fraction(task, examples, options.train_fraction, seed)
    if 0 < options.max_train_examples < len(chosen):
        chosen = task.subset(chosen, options.max_train_examples, seed)
    return list(chosen)


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


def _fingerprint(features: Features) -> str:
    """Hash of the training data."""
    digest = hashlib.sha256()
    for array in (
        features.input_ids,
        features.starts,
        *features.row_targets.values(),
        *features.token_targets.values(),
    ):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def _finish(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    config: FinetuneConfig,
    results: Mapping[str, Result],
    folder: Path,
) -> None:
    """Save the model for transformers, and delete what only an unfinished run needs."""
    if config.keep_model:
        card = finetuning_card(config, list(results.values()), origin_of(config.start_from))
        write_folder(
            folder / HUGGING_FACE,
            lambda new: save_hugging_face(model, tokenizer, new, card),
            "the results are saved: make room and continue with --resume",
        )
    # In this order, as a checkpoint without the best weights could not be resumed.
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    (folder / BEST).unlink(missing_ok=True)


def _introduction(config: FinetuneConfig, run: Run, data: _Data, is_resumed: bool) -> str:
    counts = dict(data.counts)
    num_rows, num_cut = len(data.train.features), counts.pop("truncated", 0)
    counted = f", {cut_texts(num_cut, num_rows, config.task.length)}" if num_cut else ""
    counted += "".join(f", {number:,} {what.replace('_', ' ')}" for what, number in counts.items() if number)
    return (
        f"{'continuing at step ' + str(run.step) if is_resumed else 'training'}: {config.task.name}, seed "
        f"{config.train.seed}, {count_parameters(run.module.model):,} parameters, {data.num_examples:,} examples in "
        f"{num_rows:,} rows of {data.train.features.lengths.mean():.0f} tokens{counted}; "
        f"{config.train.steps:,} steps of {config.train.batch_size}, {run.device.type} x {run.processes.world_size}, "
        f"{config.train.precision}"
    )
