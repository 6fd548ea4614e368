"""``pretrain``: from a corpus and a configuration to a folder that transformers loads."""

from __future__ import annotations

import gc
import itertools
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import decode, encode, save_config
from trueneg.config.costs import num_readings
from trueneg.config.options import PretrainConfig
from trueneg.config.stages import check_stages, describe_stages, naming, stage_at, stages_of, steps_kept
from trueneg.corpus.mixture import check_epochs, open_corpora
from trueneg.corpus.rows import NumberedRows
from trueneg.corruption.keyed import mixed_seed
from trueneg.corruption.rows import ReadRows
from trueneg.detectors.annotated import movable
from trueneg.detectors.language import warn_of_another_language
from trueneg.errors import CheckpointError, ConfigError, ModelError, TruenegWarning
from trueneg.evaluation.results.provenance import note_provenance
from trueneg.files.whole import PART, restore_folder
from trueneg.models.backbone import Encoder, check_length, check_packing
from trueneg.models.disentangled import weights_behind
from trueneg.models.documents import without_faulty_attention
from trueneg.models.flops import training_flops
from trueneg.models.fused import fuse
from trueneg.models.loading import checkpoint_gradients, count_parameters
from trueneg.models.origin import keep_origin
from trueneg.objectives import objective_kind
from trueneg.objectives.base import Objective
from trueneg.objectives.hard_tokens import HardTokens
from trueneg.objectives.smoothing import Smoothing
from trueneg.runs.automatic import resolve_attention, resolve_from_checkpoint, resolve_norms, resolve_packing
from trueneg.runs.configuring import check_has_corpus
from trueneg.runs.exporting import save_run_model
from trueneg.runs.keeping import refuse_other_steps_kept, warn_of_steps_not_kept
from trueneg.runs.notes import introduction, warmup_note, warn_of_sentence_encoder
from trueneg.runs.session import Session
from trueneg.runs.sources import ending_of, table_of, warn_of_repetition
from trueneg.runs.stages import begun_stages, check_ahead, check_places, stage_table
from trueneg.training.batches import CorpusBatches, HeldOut, held_out_by_source, held_out_sources, rows_of
from trueneg.training.checkpoint import (
    State,
    check_same_run,
    latest_checkpoint,
    load_model_weights,
    tables_digest,
    write_folder,
)
from trueneg.training.distributed import Processes, choose_device, join_processes
from trueneg.training.folder import (
    CHECKPOINTS,
    CONFIG,
    HUGGING_FACE,
    KEPT,
    METRICS,
    ORIGIN,
    PROVENANCE,
    SIMILARITY,
    kept_folder,
)
from trueneg.training.log import Tracker, make_tracker, read_metrics
from trueneg.training.loop import Ending, Loop
from trueneg.training.precision import agree_on_precision, resolve_run_precision
from trueneg.training.speed import Workload, peak_of
from trueneg.training.step import Run

_OF_A_RUN = {CONFIG, METRICS, CHECKPOINTS, KEPT, HUGGING_FACE, ORIGIN, SIMILARITY, "tensorboard", PROVENANCE}
"""Names in a run's folder, besides those that start with a dot: locks, and files being written."""


@dataclass(frozen=True)
class Pretrained:
    """Outcome of a run."""

    folder: Path
    reason: Literal["finished", "time", "interrupted"]
    step: int
    seconds: float
    num_parameters: int
    hugging_face: Path
    """Folder of the model as of the last save."""
    held_out: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the last evaluation on held-out rows, with its ``step``; empty if there was none."""


def build(config: PretrainConfig, tokenizer: PreTrainedTokenizerFast) -> tuple[nn.Module, Objective[Any, Any]]:
    """Make the model and the objective that a configuration describes; weights are initialized from the seed."""
    torch.manual_seed(mixed_seed(config.train.seed))
    kind = objective_kind(config.objective.name)
    kind.options(config.objective)
    model = kind.make_model(config, tokenizer)
    encoders = kind.encoders(model)
    for encoder in encoders:
        if config.corpus.is_packed:
            check_packing(encoder)
        if config.train.gradient_checkpointing:
            checkpoint_gradients(encoder.model)
        fuse(encoder.model, config.model, is_gpu=choose_device(config.train.device).type == "cuda")
    check_length(encoders[0].model, config.corpus.length, "corpus.length", config.model.start_from)
    objective = kind.make_objective(config.objective, tokenizer, encoders[0].embeddings.shape[0])
    readers = [part.frozen for part in objective.modules() if isinstance(part, Smoothing | HardTokens)]
    for reader in itertools.chain.from_iterable(readers):
        check_length(reader.model, config.corpus.length, "corpus.length", reader.model.name_or_path or "")
        if config.corpus.is_packed:
            check_packing(reader)
    return model, objective


def _build_again(
    config: PretrainConfig, folder: Path, tokenizer: PreTrainedTokenizerFast
) -> tuple[nn.Module, Objective[Any, Any]]:
    """Make the model and the objective into which a checkpoint of this run is loaded.

    The continued checkpoint may no longer exist, so the run's own ``hf/``, with the same shapes, is used if it exists.
    """
    saved = folder / HUGGING_FACE
    if not (config.model.start_from and saved.is_dir()):
        return build(config, tokenizer)
    try:
        return build(
            replace(config, model=replace(config.model, start_from=str(saved), generator_from="", part="generator")),
            tokenizer,
        )
    except ModelError as error:
        warnings.warn(f"{error}; it is written anew", TruenegWarning, stacklevel=2)
        return build(config, tokenizer)


def reader_of(config: PretrainConfig, rows: NumberedRows, tokenizer: PreTrainedTokenizerFast) -> ReadRows:
    """Make the reader that turns rows of a corpus into the objective's input.

    Args:
        config: The run's.
        rows: Of the training split.
        tokenizer: The corpus's.
    """
    return objective_kind(config.objective.name).make_reader(config, rows, tokenizer)


def pretrain(
    config: PretrainConfig, out: str | Path, *, resume: bool = False, quiet: bool = False, verify: bool = True
) -> Pretrained:
    """Pre-train, or continue pre-training, an encoder.

    Under ``torchrun`` it trains on all processes; the loss curve is the same up to rounding, unless the objective
    depends on the rows of a micro-batch (``Objective.depends_on_micro_batch``). ``out`` receives
    ``config.json`` (which can re-run it), ``metrics.jsonl``, ``checkpoints/``, ``hf/`` with every checkpoint, and
    ``kept/step-N/`` at the steps of ``train.keep_at`` and ``train.keep_every``.

    Args:
        config: Everything that the result depends on.
        out: The run's folder.
        resume: Continue from the last checkpoint in ``out``; start a new run if there is none.
        quiet: Show no progress.
        verify: First verify the checksums of files of the corpus, its tags and its annotations that changed since they
            were last verified; a resumed run may change it.

    Raises:
        TruenegError: for anything a user can fix; see the message.
    """
    folder = Path(out)
    _check(config)
    _check_folder(folder)
    device = choose_device(config.train.device)
    with (
        join_processes(device.type) as processes,
        processes.holding(folder, "pretrain", device),
        ExitStack() as opened,
    ):
        config, precision_note = agree_on_precision(*resolve_run_precision(config, device, folder), processes, device)
        if processes.is_main:
            restore_folder(folder / HUGGING_FACE)
        processes.barrier()
        found = latest_checkpoint(folder / CHECKPOINTS)
        if (found or (folder / METRICS).exists()) and not resume:
            raise CheckpointError(f"'{folder}' already holds a run: continue it with --resume, or give another --out")
        if found:
            config = resolve_from_checkpoint(config, found[1].config)
            refuse_other_steps_kept(config, found[1], folder)
        session = Session(config, folder, processes, device, opened, quiet, verify, precision_note)
        first, num_stages = stage_at(stages_of(config), found[1].step if found else 0), len(stages_of(config))
        for number in range(first, num_stages):
            with naming(stages_of(session.config)[number]):
                ending = _train_stage(session, number, found)
            if ending.reason != "finished" or number == num_stages - 1:
                break
            # A stage begins like a resumed run: from the last checkpoint of the stage before it.
            session.begun = ending.begun
            gc.collect()
            found = latest_checkpoint(folder / CHECKPOINTS)
            if found is None or found[1].step != ending.step:
                raise CheckpointError(f"'{folder}': the checkpoint of step {ending.step} is torn: use --resume")
        return Pretrained(
            folder,
            ending.reason,
            ending.step,
            ending.seconds,
            session.num_parameters,
            folder / HUGGING_FACE,
            ending.held_out,
        )


def rehearse(config: PretrainConfig, *, verify: bool = True) -> list[dict[str, Any]]:
    """Run all checks that ``pretrain`` makes before training, on one process, without training.

    Args:
        config: The run's.
        verify: Compare the files of corpora with their checksums.

    Returns:
        A description of each stage; a run without stages has one.

    Raises:
        TruenegError: as for ``pretrain``.
    """
    _check(config)
    stages = stages_of(config)
    tokenizer = open_corpora(stages[0].config.corpus, verify=verify)[0].load_tokenizer()
    model, _ = build(stages[0].config, tokenizer)
    check_ahead(stages, model, tokenizer, Processes(), verify=verify)
    return list(describe_stages(config))


def _train_stage(session: Session, number: int, found: tuple[Path, State] | None) -> Ending:
    """Train a stage, from its first step or from a checkpoint within it.

    Args:
        session: State shared with the other stages.
        number: Index of the stage.
        found: The run's last checkpoint, if there is one: within this stage, or at the end of the one before.
    """
    folder, processes, device = session.folder, session.processes, session.device
    stage = stages_of(session.config)[number]
    own, is_first = stage.config, session.display is None
    is_begun = found is not None and found[1].step > stage.steps.start
    kind = objective_kind(own.objective.name)
    corpora = open_corpora(own.corpus, verify=session.verify)
    tokenizer = corpora[0].load_tokenizer()
    rows = rows_of(own, corpora)
    correction = own.objective.correction
    for corpus in corpora if correction.detector else ():
        warn_of_another_language(correction.detector, corpus, tokenizer, correction.wordnet)
    model, objective = _build_again(own, folder, tokenizer) if found else build(own, tokenizer)
    if found and not is_begun:
        load_model_weights(found[0], model)  # the objective must see the weights that training starts from
    encoders = kind.encoders(model)
    own, packing = resolve_packing(own, rows, device, encoders)
    if own.corpus.is_packed and not rows.is_packed:
        rows = rows_of(own, corpora)
    own, attention = resolve_attention(own, rows, device, encoders)
    if not found:  # runs of former versions have "auto" in their checkpoints, and go on so
        own = resolve_norms(own, encoders)
    stage = session.settle(own, number)
    num_rows = stage.place + stage.num_rows
    check_epochs(rows.epochs(num_rows), len(stage.steps), own.corpus.max_epochs)
    read = reader_of(own, rows, tokenizer)
    tables = tables_digest(objective, *filter(None, [getattr(read, "digest", "")]))
    batches = CorpusBatches(rows, own.train, processes, read, stage)
    if found and is_first:
        check_same_run(
            found[1],
            session.config,
            folder,
            data=rows.fingerprint if is_begun else "",
            tables=tables if is_begun else "",
            micro_batch=batches.micro_batch if objective.depends_on_micro_batch and is_begun else 0,
            comparable=movable,
            parts=partial(begun_stages, step=found[1].step),
        )
        check_places(decode(PretrainConfig, found[1].config), session.config, folder)
    kind.check(own, batches.micro_batch)
    if is_first:
        check_ahead(stages_of(session.config)[number + 1 :], model, tokenizer, processes, verify=session.verify)
    held_out = held_out_sources(own, corpora, rows, processes)
    run = Run.new(
        model,
        objective,
        own.optimizer,
        own.train,
        device,
        processes,
        frozen=weights_behind(encoders[0].model),
        frozen_steps=own.model.frozen_steps,
        steps=stage.steps,
    )
    if own.train.compile == "auto":
        own = replace(own, train=replace(own.train, compile=run.is_compiled))
        session.settle(own, number)
    if found:
        run.restore(*found)
    session.num_parameters = count_parameters(model)
    if is_first and processes.is_main:
        session.tracker = _tracker(session.config, folder)  # fails on a missing package before anything is written
        folder.mkdir(parents=True, exist_ok=True)
        save_config(session.config, folder / CONFIG)
        if not found:
            note_provenance(folder / PROVENANCE)
            keep_origin(folder / ORIGIN, own.model.start_from, model, tokenizer)
            warn_of_sentence_encoder(own, folder)
    display = session.display or session.open(run.step if found else -1)  # step 0 may be evaluated again
    if is_first and found and processes.is_main:
        # If the run was killed between a checkpoint and its export, hf/ holds an older model or none.
        _export(run, session.config, tokenizer, folder, folder / HUGGING_FACE)
        warn_of_steps_not_kept(session.config, run.step, folder)
    workload = _workload(own, encoders, device)
    if is_first and session.config.stages:
        for line in stage_table(list(describe_stages(session.config))).terminal().splitlines():
            display.say(line)
    display.say(introduction(stage, own, run, rows, is_begun))
    if is_first:
        display.say(f"speed: mfu is the model's share of {workload.peak}")
    notes = (session.precision_note, packing, attention) if is_first else ()
    for note in filter(None, (*notes, warmup_note(stage), *table_of(rows, num_rows))):
        display.say(note)
    warn_of_repetition(rows, own, num_rows)
    evaluate = partial(_evaluate, run, held_out, own.corpus.eval_rows, read) if held_out else None
    loop = Loop(
        run,
        session.config,
        batches,
        evaluate,
        rows.fingerprint,
        folder,
        display,
        on_save=lambda: _export(run, session.config, tokenizer, folder, folder / HUGGING_FACE),
        on_keep=lambda: _export(run, session.config, tokenizer, folder, kept_folder(folder, run.step)),
        kept=steps_kept(session.config),
        stage=stage.name,
        begun=session.begun,
        metrics=session.metrics,
        tracker=session.tracker,
        seconds_before=found[1].seconds if found else 0.0,
        tables=tables,
        workload=workload,
    )
    try:
        with without_faulty_attention(device, rows.length):
            if evaluate is not None and len(held_out) > 1 and own.model.start_from and not found:
                loop.measure(evaluate)  # a baseline for measuring what the run forgets
            ending = loop.train()
        if processes.is_main and (ending.reason != "finished" or ending.step == own.train.steps):
            for line in ending_of(rows, read_metrics(folder / METRICS)):
                display.say(line)
        return ending
    finally:
        run.leave()


def _check(config: PretrainConfig) -> None:
    """Check the configuration before anything is loaded."""
    check_stages(config)
    for stage in stages_of(config):
        with naming(stage):
            check_has_corpus(stage.config)


def _check_folder(folder: Path) -> None:
    """Refuse a folder that holds something other than a run."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"'{folder}' is a file: give another --out")
    if folder.is_dir() and not (folder / METRICS).exists() and not (folder / CHECKPOINTS).exists():
        # A run killed during its first write leaves a partial file.
        names = {path.name.removesuffix(PART) for path in folder.iterdir() if path.name[0] != "."}
        foreign = sorted(names - _OF_A_RUN)
        if foreign:
            raise ConfigError(f"'{folder}' holds something that is no run ('{foreign[0]}'): give another --out")


def _evaluate(run: Run, held_out: Sequence[HeldOut], num_rows: int, read: ReadRows) -> Mapping[str, float]:
    """Metrics on held-out rows: of the trained weights, and of their moving average if there is one."""
    found = held_out_by_source(run, held_out, num_rows, read)
    if run.average is None:
        return found
    with run.exported():
        averaged = held_out_by_source(run, held_out, num_rows, read)
    return {**found, **{f"averaged_{name}": value for name, value in averaged.items()}}


def _tracker(config: PretrainConfig, folder: Path) -> Tracker | None:
    return make_tracker(config.train.tracker, folder.name, encode(config), folder)


def _export(run: Run, config: PretrainConfig, tokenizer: PreTrainedTokenizerFast, folder: Path, target: Path) -> None:
    """Write the model atomically as a Hugging Face folder, replacing an older one."""
    whole = f"step {run.step} itself is saved" if target.name == HUGGING_FACE else "checkpoints are untouched"
    with run.exported():
        write_folder(
            target,
            lambda new: save_run_model(run.module.model, tokenizer, config, folder, run.step, new),
            f"{whole}: make room and continue with --resume",
        )


def _workload(config: PretrainConfig, encoders: Sequence[Encoder], device: torch.device) -> Workload:
    """FLOPs per position, and the peak of this device."""
    flops = training_flops(encoders, config.corpus.length, config.objective.masking.rate, num_readings(config))
    return Workload(flops, peak_of(device, config.train.precision))
