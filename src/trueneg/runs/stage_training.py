"""One stage of a run, from its first step or from a checkpoint within it; a run without stages is one stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import decode, encode, save_config
from trueneg.config.costs import num_readings
from trueneg.config.options import PretrainConfig
from trueneg.config.stages import Stage, describe_stages, stages_of, steps_kept
from trueneg.corpus.mixture import check_epochs, open_corpora
from trueneg.corpus.rows import NumberedRows
from trueneg.corpus.store import Corpus
from trueneg.corruption.rows import ReadRows
from trueneg.detectors.annotated import movable
from trueneg.detectors.language import warn_of_another_language
from trueneg.evaluation.results.provenance import note_provenance
from trueneg.models.backbone import Encoder
from trueneg.models.disentangled import weights_behind
from trueneg.models.documents import without_faulty_attention
from trueneg.models.flops import training_flops
from trueneg.models.loading import count_parameters
from trueneg.models.origin import keep_origin
from trueneg.objectives import objective_kind
from trueneg.objectives.base import Objective
from trueneg.runs.automatic import resolve_attention, resolve_norms, resolve_packing
from trueneg.runs.building import build, build_again, reader_of
from trueneg.runs.exporting import save_run_model
from trueneg.runs.keeping import warn_of_steps_not_kept
from trueneg.runs.notes import introduction, warmup_note, warn_of_sentence_encoder
from trueneg.runs.session import Session
from trueneg.runs.sources import ending_of, table_of, warn_of_repetition
from trueneg.runs.stages import begun_stages, check_ahead, check_places, stage_table
from trueneg.training.batches import CorpusBatches, HeldOut, held_out_by_source, held_out_sources, rows_of
from trueneg.training.checkpoint import State, check_same_run, load_model_weights, tables_digest, write_folder
from trueneg.training.folder import CONFIG, HUGGING_FACE, METRICS, ORIGIN, PROVENANCE, kept_folder
from trueneg.training.log import Display, make_tracker, read_metrics
from trueneg.training.loop import Ending, Loop
from trueneg.training.speed import Workload, peak_of
from trueneg.training.step import Run

Found = tuple[Path, State]
"""The folder of a run's last checkpoint, and its state."""


@dataclass(frozen=True)
class _Ready:
    """A stage whose data, model and objective are loaded, and whose ``auto`` options are resolved."""

    own: PretrainConfig
    """The stage's configuration."""
    stage: Stage
    found: Found | None
    """Checkpoint to restore: within this stage, or at the end of the one before."""
    is_begun: bool
    """Whether the checkpoint is within this stage."""
    corpora: Sequence[Corpus]
    tokenizer: PreTrainedTokenizerFast
    rows: NumberedRows
    read: ReadRows
    batches: CorpusBatches
    tables: str
    """Digest of the tables that the objective and its reader use."""
    model: nn.Module
    objective: Objective[Any, Any]
    encoders: Sequence[Encoder]
    notes: Sequence[str]
    """What was decided for ``auto`` options."""


def train_stage(session: Session, number: int, found: Found | None) -> Ending:
    """Train a stage, from its first step or from a checkpoint within it.

    Args:
        session: State shared with the other stages.
        number: Index of the stage.
        found: The run's last checkpoint, if there is one: within this stage, or at the end of the one before.

    Raises:
        TruenegError: for anything a user can fix; see the message.
    """
    is_first = session.display is None
    ready = _prepare(session, number, found)
    own, is_main = ready.own, session.processes.is_main
    if is_first and found:
        _check_same_run(session, ready, *found)
    objective_kind(own.objective.name).check(own, ready.batches.micro_batch)
    if is_first:
        later = stages_of(session.config)[number + 1 :]
        check_ahead(later, ready.model, ready.tokenizer, session.processes, verify=session.verify)
    held_out = held_out_sources(own, ready.corpora, ready.rows, session.processes)
    run = _make_run(session, ready, number)
    if is_first and is_main:
        _begin_folder(session, ready)
    display = session.display or session.open(run.step if found else -1)  # step 0 may be evaluated again
    if is_first and found and is_main:
        # If the run was killed between a checkpoint and its export, hf/ holds an older model or none.
        _export(session, ready, run, session.folder / HUGGING_FACE)
        warn_of_steps_not_kept(session.config, run.step, session.folder)
    workload = _workload(own, ready.encoders, session.device)
    for line in _introduction(session, ready, run, workload, is_first):
        display.say(line)
    warn_of_repetition(ready.rows, own, ready.stage.place + ready.stage.num_rows)
    evaluate = partial(_evaluate, run, held_out, own.corpus.eval_rows, ready.read) if held_out else None
    loop = _make_loop(session, ready, run, display, evaluate, workload)
    try:
        with without_faulty_attention(session.device, ready.rows.length):
            if evaluate is not None and len(held_out) > 1 and own.model.start_from and not found:
                loop.measure(evaluate)  # a baseline for measuring what the run forgets
            ending = loop.train()
        if is_main and (ending.reason != "finished" or ending.step == own.train.steps):
            for line in ending_of(ready.rows, read_metrics(session.folder / METRICS)):
                display.say(line)
        return ending
    finally:
        run.leave()


def _prepare(session: Session, number: int, found: Found | None) -> _Ready:
    """Load a stage's data, model and objective, and resolve its ``auto`` options."""
    stage = stages_of(session.config)[number]
    own, device = stage.config, session.device
    is_begun = found is not None and found[1].step > stage.steps.start
    corpora = open_corpora(own.corpus, verify=session.verify)
    tokenizer = corpora[0].load_tokenizer()
    rows = rows_of(own, corpora)
    correction = own.objective.correction
    for corpus in corpora if correction.detector else ():
        warn_of_another_language(correction.detector, corpus, tokenizer, correction.wordnet)
    model, objective = build_again(own, session.folder, tokenizer) if found else build(own, tokenizer)
    if found and not is_begun:
        load_model_weights(found[0], model)  # the objective must see the weights that training starts from
    encoders = objective_kind(own.objective.name).encoders(model)
    own, packing = resolve_packing(own, rows, device, encoders)
    if own.corpus.is_packed and not rows.is_packed:
        rows = rows_of(own, corpora)
    own, attention = resolve_attention(own, rows, device, encoders)
    if not found:  # runs of former versions have "auto" in their checkpoints, and go on so
        own = resolve_norms(own, encoders)
    stage = session.settle(own, number)
    check_epochs(rows.epochs(stage.place + stage.num_rows), len(stage.steps), own.corpus.max_epochs)
    read = reader_of(own, rows, tokenizer)
    return _Ready(
        own,
        stage,
        found,
        is_begun,
        corpora,
        tokenizer,
        rows,
        read,
        batches=CorpusBatches(rows, own.train, session.processes, read, stage),
        tables=tables_digest(objective, *filter(None, [getattr(read, "digest", "")])),
        model=model,
        objective=objective,
        encoders=encoders,
        notes=(packing, attention),
    )


def _check_same_run(session: Session, ready: _Ready, checkpoint: Path, state: State) -> None:
    """Refuse a checkpoint of a run with other options, data or tables.

    Data and tables are a stage's own: those of the checkpoint are this stage's only if it has begun.
    """
    depends = ready.objective.depends_on_micro_batch and ready.is_begun
    check_same_run(
        state,
        session.config,
        session.folder,
        data=ready.rows.fingerprint if ready.is_begun else "",
        tables=ready.tables if ready.is_begun else "",
        micro_batch=ready.batches.micro_batch if depends else 0,
        comparable=movable,
        parts=partial(begun_stages, step=state.step),
    )
    check_places(decode(PretrainConfig, state.config), session.config, session.folder)


def _make_run(session: Session, ready: _Ready, number: int) -> Run:
    """Put model, objective and optimizer on the device, and restore a checkpoint."""
    own = ready.own
    run = Run.new(
        ready.model,
        ready.objective,
        own.optimizer,
        own.train,
        session.device,
        session.processes,
        frozen=weights_behind(ready.encoders[0].model),
        frozen_steps=own.model.frozen_steps,
        steps=ready.stage.steps,
    )
    if own.train.compile == "auto":
        session.settle(replace(own, train=replace(own.train, compile=run.is_compiled)), number)
    if ready.found:
        run.restore(*ready.found)
    session.num_parameters = count_parameters(ready.model)
    return run


def _begin_folder(session: Session, ready: _Ready) -> None:
    """Write the run's configuration and, if it is new, where it comes from."""
    config, folder = session.config, session.folder
    # Fails on a missing package before anything is written.
    session.tracker = make_tracker(config.train.tracker, folder.name, encode(config), folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_config(config, folder / CONFIG)
    if not ready.found:
        note_provenance(folder / PROVENANCE)
        keep_origin(folder / ORIGIN, ready.own.model.start_from, ready.model, ready.tokenizer)
        warn_of_sentence_encoder(ready.own, folder)


def _introduction(session: Session, ready: _Ready, run: Run, workload: Workload, is_first: bool) -> Iterator[str]:
    """Yield what is said before training: once a run, and once a stage."""
    if is_first and session.config.stages:
        yield from stage_table(list(describe_stages(session.config))).terminal().splitlines()
    yield introduction(ready.stage, ready.own, run, ready.rows, ready.is_begun)
    if is_first:
        yield f"speed: mfu is the model's share of {workload.peak}"
        yield from filter(None, (session.precision_note, *ready.notes))
    num_rows = ready.stage.place + ready.stage.num_rows
    yield from filter(None, (warmup_note(ready.stage), *table_of(ready.rows, num_rows)))


def _make_loop(
    session: Session,
    ready: _Ready,
    run: Run,
    display: Display,
    evaluate: Callable[[], Mapping[str, float]] | None,
    workload: Workload,
) -> Loop:
    folder = session.folder
    return Loop(
        run,
        session.config,
        ready.batches,
        evaluate,
        ready.rows.fingerprint,
        folder,
        display,
        on_save=lambda: _export(session, ready, run, folder / HUGGING_FACE),
        on_keep=lambda: _export(session, ready, run, kept_folder(folder, run.step)),
        kept=steps_kept(session.config),
        stage=ready.stage.name,
        begun=session.begun,
        metrics=session.metrics,
        tracker=session.tracker,
        seconds_before=ready.found[1].seconds if ready.found else 0.0,
        tables=ready.tables,
        workload=workload,
    )


def _evaluate(run: Run, held_out: Sequence[HeldOut], num_rows: int, read: ReadRows) -> Mapping[str, float]:
    """Metrics on held-out rows: of the trained weights, and of their moving average if there is one."""
    found = held_out_by_source(run, held_out, num_rows, read)
    if run.average is None:
        return found
    with run.exported():
        averaged = held_out_by_source(run, held_out, num_rows, read)
    return {**found, **{f"averaged_{name}": value for name, value in averaged.items()}}


def _export(session: Session, ready: _Ready, run: Run, target: Path) -> None:
    """Write the model atomically as a Hugging Face folder, replacing an older one."""
    whole = f"step {run.step} itself is saved" if target.name == HUGGING_FACE else "checkpoints are untouched"
    with run.exported():
        write_folder(
            target,
            lambda new: save_run_model(
                run.module.model, ready.tokenizer, session.config, session.folder, run.step, new
            ),
            f"{whole}: make room and continue with --resume",
        )


def _workload(config: PretrainConfig, encoders: Sequence[Encoder], device: torch.device) -> Workload:
    """FLOPs per position, and the peak of this device."""
    flops = training_flops(encoders, config.corpus.length, config.objective.masking.rate, num_readings(config))
    return Workload(flops, peak_of(device, config.train.precision))
