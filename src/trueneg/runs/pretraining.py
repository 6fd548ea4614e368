"""``pretrain``: from a corpus and a configuration to a folder that transformers loads."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trueneg.config.options import PretrainConfig
from trueneg.config.stages import check_stages, describe_stages, naming, stage_at, stages_of
from trueneg.corpus.mixture import open_corpora
from trueneg.errors import CheckpointError, ConfigError
from trueneg.files.whole import PART, restore_folder
from trueneg.runs.automatic import resolve_from_checkpoint
from trueneg.runs.building import build
from trueneg.runs.configuring import check_has_corpus
from trueneg.runs.keeping import refuse_other_steps_kept
from trueneg.runs.session import Session
from trueneg.runs.stage_training import train_stage
from trueneg.runs.stages import check_ahead
from trueneg.training.checkpoint import latest_checkpoint
from trueneg.training.distributed import Processes, choose_device, join_processes
from trueneg.training.folder import CHECKPOINTS, CONFIG, HUGGING_FACE, KEPT, METRICS, ORIGIN, PROVENANCE, SIMILARITY
from trueneg.training.precision import agree_on_precision, resolve_run_precision

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
                ending = train_stage(session, number, found)
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
