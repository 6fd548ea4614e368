"""``pretrain``: from a corpus and a configuration to a folder that transformers loads."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import encode, full_name, load_config, override, save_config
from trueneg.config.costs import num_readings
from trueneg.config.mixtures import write_mixture
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import CONTINUE, PRESETS
from trueneg.config.presets import preset as find_preset
from trueneg.config.validation import check_options_apply, steps_to_keep, validate
from trueneg.corpus.mixture import check_epochs, open_corpora
from trueneg.corpus.rows import NumberedRows
from trueneg.corruption.keyed import mixed_seed
from trueneg.corruption.rows import ReadRows
from trueneg.detectors.annotated import movable
from trueneg.detectors.language import warn_of_another_language
from trueneg.detectors.specification import check_forms_apply
from trueneg.errors import CheckpointError, ConfigError, ModelError, TruenegWarning
from trueneg.evaluation.results.provenance import note_provenance
from trueneg.files.whole import PART, restore_folder
from trueneg.models.backbone import Encoder, check_length, check_packing
from trueneg.models.disentangled import weights_behind
from trueneg.models.documents import sound_kernels
from trueneg.models.flops import training_flops
from trueneg.models.fused import fuse
from trueneg.models.loading import checkpoint_gradients, count_parameters, objective_of
from trueneg.models.origin import keep_origin, read_origin
from trueneg.objectives import objective_kind, with_objective
from trueneg.objectives.base import Objective
from trueneg.registry import load_plugins, loaded_plugins
from trueneg.runs.automatic import as_recorded, with_attention, with_packing
from trueneg.runs.exporting import RECIPE, save_run_model
from trueneg.runs.sources import ending_of, table_of, warn_of_repetition
from trueneg.training.batches import CorpusBatches, HeldOut, held_out_by_source, held_out_sources, rows_of
from trueneg.training.checkpoint import (
    check_same_run,
    latest_checkpoint,
    tables_digest,
    write_folder,
)
from trueneg.training.distributed import choose_device, join_processes
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
    kept_models,
)
from trueneg.training.log import Display, MetricsFile, Tracker, make_tracker, read_metrics
from trueneg.training.loop import Loop
from trueneg.training.precision import settle_run
from trueneg.training.speed import Workload, peak_of
from trueneg.training.step import Run

_OF_A_RUN = {CONFIG, METRICS, CHECKPOINTS, KEPT, HUGGING_FACE, ORIGIN, SIMILARITY, "tensorboard", PROVENANCE}
"""Besides names with a dot in front: locks, and what is being written."""


MUCH_WARMUP = 0.25
"""Share of a run's steps beyond which its warm-up is remarked on."""


@dataclass(frozen=True)
class Pretrained:
    """What a run came to."""

    folder: Path
    reason: Literal["finished", "time", "interrupted"]
    step: int
    seconds: float
    num_parameters: int
    hugging_face: Path
    """Where the model lies, as of the last save."""
    held_out: Mapping[str, float] = field(default_factory=dict)
    """Readings of the last evaluation on held-out rows, with its ``step``; empty if there was none."""


def configure(
    preset: str | None = None,
    *,
    start_from: str | None = None,
    objective: str | None = None,
    config: str | Path | None = None,
    epochs: float | None = None,
    settings: Sequence[str] = (),
) -> PretrainConfig:
    """Put a run's configuration together.

    Args:
        preset: A named configuration. Without one, a checkpoint to continue has ``CONTINUE``'s settings.
        start_from: A checkpoint to continue, instead of the preset's if that names one. Continuing without a word about
            the objective means ``mlm``, or ``electra`` if the checkpoint is an ELECTRA discriminator.
        objective: What is minimised.
        config: A ``config.json`` or a run's folder to take everything from, instead of a preset.
        epochs: Times that the corpus is read, from which ``train.steps`` follows.
        settings: ``key=value``, applied last.

    Raises:
        ConfigError: if none of preset, checkpoint and configuration is given, or preset and configuration are; for a
            setting that does nothing in this configuration; for epochs beside steps, or not above 0.
        CorpusError: for epochs of a corpus that cannot be opened.

    Example:
        >>> configure("electra-mini", settings=["train.steps=10"]).train.steps
        10
    """
    if config is not None and preset is not None:
        raise ConfigError("a preset and --config exclude each other: both say everything")
    if config is not None:
        base = _with_paths_found(load_run_config(config), Path(config))
    elif preset is not None:
        base = find_preset(preset)
    elif start_from:
        base = CONTINUE
        objective = objective or objective_of(start_from)
    else:
        raise ConfigError(f"nothing to train: name a preset ({', '.join(PRESETS)}) or continue a checkpoint (--from)")
    if objective:
        base = with_objective(base, objective)
    if start_from:
        # A preset's generator belongs to the preset's own checkpoint.
        base = replace(base, model=replace(base.model, start_from=start_from, generator_from=""))
    named = override(base, settings)
    load_plugins(named.plugins)
    chosen = override(with_objective(base, named.objective.name), settings)
    chosen = replace(chosen, plugins=loaded_plugins())
    check_options_apply(chosen, settings)
    check_forms_apply(chosen, settings)
    return chosen if epochs is None else _with_epochs(chosen, epochs, settings)


def _with_paths_found(config: PretrainConfig, saved: Path) -> PretrainConfig:
    """Look for what a saved configuration names and is not here from where its run lies: one stood above it then."""
    corpus, model = config.corpus, config.model
    found = [replace(source, path=_found_above(saved, source.path)) for source in corpus.sources]
    is_mixture = bool(corpus.mixture)
    corpus = replace(corpus, mixture=write_mixture(found)) if is_mixture else replace(corpus, path=found[0].path)
    model = replace(
        model,
        start_from=_found_above(saved, model.start_from),
        generator_from=_found_above(saved, model.generator_from),
    )
    return replace(config, corpus=corpus, model=model)


def _found_above(saved: Path, name: str) -> str:
    if not name or Path(name).exists():
        return name
    above = (folder / name for folder in saved.resolve().parents)
    if not (found := next((path for path in above if path.exists()), None)):
        return name
    warnings.warn(f"'{name}' of '{saved}' is not here: taking '{found}'", TruenegWarning, stacklevel=2)
    return str(found)


def _with_epochs(config: PretrainConfig, epochs: float, settings: Sequence[str]) -> PretrainConfig:
    """Replace the steps by as many as read the corpus so many times."""
    if not (0 < epochs < math.inf):
        raise ConfigError(f"--epochs {epochs}: must be above 0")
    if any(full_name(config, setting.partition("=")[0].strip()) == "train.steps" for setting in settings):
        raise ConfigError("--epochs and --steps (train.steps) both say how long: leave one out")
    validate(config)
    _check_corpus(config)
    corpora = open_corpora(config.corpus)
    plain = replace(config, objective=PretrainConfig().objective)  # of which no tags or annotations are read
    rows = rows_of(plain, corpora)
    settled, _ = with_packing(config, rows, choose_device(config.train.device))
    if settled.corpus.is_packed and not rows.is_packed:
        rows = rows_of(replace(plain, corpus=settled.corpus), corpora)
    steps = math.ceil(epochs * len(rows) / config.train.batch_size)
    return replace(config, train=replace(config.train, steps=steps))


def build(config: PretrainConfig, tokenizer: PreTrainedTokenizerFast) -> tuple[nn.Module, Objective[Any, Any]]:
    """Make the model and the objective that a configuration describes; weights follow from the seed."""
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
    return model, kind.make_objective(config.objective, tokenizer, encoders[0].embeddings.shape[0])


def _build_again(
    config: PretrainConfig, folder: Path, tokenizer: PreTrainedTokenizerFast
) -> tuple[nn.Module, Objective[Any, Any]]:
    """Make what a checkpoint of this run fits into.

    What was continued may be gone by now, and the run's own ``hf/`` has the same shapes; that may be gone, too.
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
    """How rows of a corpus become what the objective is given.

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

    Run under ``torchrun`` it trains on all processes; the curve is the same but for rounding, unless the objective
    depends on the rows of a micro-batch (``Objective.depends_on_micro_batch``). ``out`` receives
    ``config.json`` (which re-runs it), ``metrics.jsonl``, ``checkpoints/``, with every checkpoint ``hf/``, and at the
    steps of ``train.keep_at`` and ``train.keep_every`` a ``kept/step-N/``.

    Args:
        config: Everything that the result depends on.
        out: The run's folder.
        resume: Continue from the last checkpoint in ``out``; start if there is none.
        quiet: Show no progress.
        verify: Compare the files of the corpus, its tags and its annotations with their checksums before, those that
            changed since that was last done; no part of what makes a run the same run.

    Raises:
        TruenegError: for anything a user can fix; see the message.
    """
    folder = Path(out)
    _check(config, folder)
    kind = objective_kind(config.objective.name)
    device = choose_device(config.train.device)
    with join_processes(device.type) as processes, processes.holding(folder, "pretrain", device):
        config, precision_note = settle_run(config, device, folder)
        if processes.is_main:
            restore_folder(folder / HUGGING_FACE)
        processes.barrier()
        found = latest_checkpoint(folder / CHECKPOINTS)
        if (found or (folder / METRICS).exists()) and not resume:
            raise CheckpointError(f"'{folder}' already holds a run: continue it with --resume, or give another --out")
        corpora = open_corpora(config.corpus, verify=verify)
        tokenizer = corpora[0].load_tokenizer()
        if found:
            config = as_recorded(config, found[1].config)
        rows = rows_of(config, corpora)
        correction = config.objective.correction
        for corpus in corpora if correction.detector else ():
            warn_of_another_language(correction.detector, corpus, tokenizer, correction.wordnet)
        model, objective = _build_again(config, folder, tokenizer) if found else build(config, tokenizer)
        encoders = kind.encoders(model)
        config, packing = with_packing(config, rows, device, encoders)
        if config.corpus.is_packed and not rows.is_packed:
            rows = rows_of(config, corpora)
        check_epochs(
            rows.epochs(config.train.steps * config.train.batch_size), config.train.steps, config.corpus.max_epochs
        )
        config, attention = with_attention(config, rows, device, encoders)
        read = reader_of(config, rows, tokenizer)
        tables = tables_digest(objective, *filter(None, [getattr(read, "digest", "")]))
        batches = CorpusBatches(rows, config.train, processes, read)
        if found:
            check_same_run(
                found[1],
                config,
                folder,
                data=rows.fingerprint,
                tables=tables,
                micro_batch=batches.micro_batch if objective.depends_on_micro_batch else 0,
                comparable=movable,
            )
        kind.check(config, batches.micro_batch)
        held_out = held_out_sources(config, corpora, rows, processes)
        tracker = _tracker(config, folder) if processes.is_main else None
        run = Run.new(
            model,
            objective,
            config.optimizer,
            config.train,
            device,
            processes,
            frozen=weights_behind(encoders[0].model),
            frozen_steps=config.model.frozen_steps,
        )
        if config.train.compile == "auto":
            config = replace(config, train=replace(config.train, compile=run.is_compiled))
        if found:
            run.restore(*found)
        metrics = None
        if processes.is_main:
            folder.mkdir(parents=True, exist_ok=True)
            save_config(config, folder / CONFIG)
            if not found:
                note_provenance(folder / PROVENANCE)
                keep_origin(folder / ORIGIN, config.model.start_from, model, tokenizer)
                _warn_of_sentence_encoder(config, folder)
            metrics = MetricsFile(folder / METRICS, run.step if found else -1)  # step 0 may be measured again
            if found:
                # A kill between the checkpoint and its export left an older model, or none, in hf/.
                _export(run, config, tokenizer, folder, folder / HUGGING_FACE)
                _warn_of_steps_not_kept(config, run.step, folder)
        with Display(config.train.steps, run.step, quiet or not processes.is_main) as display:
            display.say(_introduction(config, run, rows, found is not None))
            workload = _workload(config, encoders, device)
            display.say(f"speed: mfu is the model's share of {workload.peak}")
            for note in filter(
                None, (precision_note, packing, attention, _warmup_note(config), *table_of(rows, config))
            ):
                display.say(note)
            warn_of_repetition(rows, config)
            evaluate = partial(_evaluate, run, held_out, config.corpus.eval_rows, read) if held_out else None
            loop = Loop(
                run,
                config,
                batches,
                evaluate,
                rows.fingerprint,
                folder,
                display,
                on_save=lambda: _export(run, config, tokenizer, folder, folder / HUGGING_FACE),
                on_keep=lambda: _export(run, config, tokenizer, folder, kept_folder(folder, run.step)),
                metrics=metrics,
                tracker=tracker,
                seconds_before=found[1].seconds if found else 0.0,
                tables=tables,
                workload=workload,
            )
            try:
                with sound_kernels(device, rows.length):
                    if evaluate is not None and len(held_out) > 1 and config.model.start_from and not found:
                        loop.measure(evaluate)  # what a run forgets is seen from where it began
                    ending = loop.train()
                if processes.is_main:
                    for line in ending_of(rows, read_metrics(folder / METRICS)):
                        display.say(line)
            finally:
                run.leave()
        return Pretrained(
            folder,
            ending.reason,
            ending.step,
            ending.seconds,
            count_parameters(model),
            folder / HUGGING_FACE,
            ending.held_out,
        )


def load_run_config(path: str | Path) -> PretrainConfig:
    """Read the configuration of a run, given its folder or its ``config.json``.

    Raises:
        ConfigError: if there is none, or it is not one.
    """
    path = Path(path)
    return load_config(PretrainConfig, path / CONFIG if path.is_dir() else path)


def _check(config: PretrainConfig, folder: Path) -> None:
    """Find mistakes before anything is loaded."""
    validate(config)
    _check_corpus(config)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"'{folder}' is a file: give another --out")
    if folder.is_dir() and not (folder / METRICS).exists() and not (folder / CHECKPOINTS).exists():
        # A kill in the first write leaves a part of it.
        names = {path.name.removesuffix(PART) for path in folder.iterdir() if path.name[0] != "."}
        foreign = sorted(names - _OF_A_RUN)
        if foreign:
            raise ConfigError(f"'{folder}' holds something that is no run ('{foreign[0]}'): give another --out")


def _check_corpus(config: PretrainConfig) -> None:
    if not config.corpus.path and not config.corpus.mixture:
        raise ConfigError("no corpus: give --corpus (corpus.path) a folder made by 'trueneg corpus build'")


def _warn_of_sentence_encoder(config: PretrainConfig, folder: Path) -> None:
    if read_origin(folder / ORIGIN, config.model.start_from).is_sentence_encoder:
        warnings.warn(
            f"'{config.model.start_from}' is a sentence encoder: continued with the objective {config.objective.name} "
            f"its vectors lose what they know of sentences (STS-B 86.7 before, 66.5 after the demo's 240 steps). A "
            f"recipe that keeps them: {RECIPE}; what is left:  "
            f"trueneg evaluate encoder {folder} --task sts --data GLUE",
            TruenegWarning,
            stacklevel=3,
        )


def _evaluate(run: Run, held_out: Sequence[HeldOut], num_rows: int, read: ReadRows) -> Mapping[str, float]:
    """Readings on held-out rows: of the weights in training, and of their average where there is one."""
    found = held_out_by_source(run, held_out, num_rows, read)
    if run.average is None:
        return found
    with run.exported():
        averaged = held_out_by_source(run, held_out, num_rows, read)
    return {**found, **{f"averaged_{name}": value for name, value in averaged.items()}}


def _tracker(config: PretrainConfig, folder: Path) -> Tracker | None:
    return make_tracker(config.train.tracker, folder.name, encode(config), folder)


def _export(run: Run, config: PretrainConfig, tokenizer: PreTrainedTokenizerFast, folder: Path, target: Path) -> None:
    """Write the model as a Hugging Face folder anew, whole or not at all."""
    whole = f"step {run.step} itself is saved" if target.name == HUGGING_FACE else "checkpoints are untouched"
    with run.exported():
        write_folder(
            target,
            lambda new: save_run_model(run.module.model, tokenizer, config, folder, run.step, new),
            f"{whole}: make room and continue with --resume",
        )


def _warn_of_steps_not_kept(config: PretrainConfig, step: int, folder: Path) -> None:
    """Say which steps of ``train.keep_at`` and ``keep_every`` a resumed run has behind it without having kept them."""
    lost = [number for number in steps_to_keep(config.train) if number <= step and number not in kept_models(folder)]
    if lost:
        which = ", ".join(f"{one:,}" for one in lost)
        asked = "train.keep_at" if config.train.keep_at.strip() else "train.keep_every"
        warnings.warn(
            f"{asked}: the run is at step {step:,} and did not keep {which}: only a new run can",
            TruenegWarning,
            stacklevel=3,
        )


def _introduction(config: PretrainConfig, run: Run, rows: NumberedRows, is_resumed: bool) -> str:
    train = config.train
    tokens = train.batch_size * config.corpus.length
    return (
        f"{'continuing at step ' + str(run.step) if is_resumed else 'training'}: {config.objective.name}, "
        f"{count_parameters(run.module.model):,} parameters, {len(rows):,} rows ({rows.mean_fill:.0%} full), "
        f"{train.steps:,} steps of {tokens:,} tokens ({train.steps * train.batch_size / len(rows):.1f} epochs), "
        f"{run.device.type} x {run.processes.world_size}, {train.precision}{', compiled' if run.is_compiled else ''}"
    )


def _workload(config: PretrainConfig, encoders: Sequence[Encoder], device: torch.device) -> Workload:
    """What a position costs, and what this device could do."""
    flops = training_flops(encoders, config.corpus.length, config.objective.masking.rate, num_readings(config))
    return Workload(flops, peak_of(device, config.train.precision))


def _warmup_note(config: PretrainConfig) -> str:
    """What is to be said of a warm-up that takes much of the run: presets' are made for their own steps."""
    warmup, steps = config.optimizer.warmup_steps, config.train.steps
    if warmup <= MUCH_WARMUP * steps:
        return ""
    end = "and never reaches its peak" if warmup >= steps else f"which is {warmup / steps:.0%} of the run"
    return (
        f"note: the learning rate warms up over {warmup:,} of {steps:,} steps, {end}: a tenth would be "
        f"--warmup {max(1, steps // 10)} (optimizer.warmup_steps)"
    )
