"""Files and folders in a run's folder."""

from __future__ import annotations

from pathlib import Path

CONFIG = "config.json"
"""The run's configuration, from which it can be run again."""

METRICS = "metrics.jsonl"
"""Its metrics, one record per line."""

FALSE_NEGATIVES = "false-negatives.json"
"""Results of its last evaluation on held-out text."""

PROVENANCE = "provenance.json"
"""The versions and the command that it was started with."""

CHECKPOINTS = "checkpoints"
"""Its checkpoints, to resume from."""

KEPT = "kept"
"""Its models at the steps of ``train.keep_at``, each in the format of ``HUGGING_FACE``."""

HUGGING_FACE = "hf"
"""Its model, in the format that transformers loads."""

ORIGIN = "origin"
"""What turns checkpoints into whole models: shapes, tokenizer, and what is kept of the checkpoint it continues."""

SIMILARITY = "sentence-similarity.json"
"""Results of its evaluation on sentence similarity, if there was one."""


def kept_folder(run: Path, step: int) -> Path:
    """Folder in which a run keeps its model of a step of ``train.keep_at``."""
    return run / KEPT / f"step-{step:09d}"


def kept_models(run: Path) -> dict[int, Path]:
    """Steps at which a run kept its model, in order, each mapped to its Hugging Face folder."""
    found = sorted((run / KEPT).glob("step-*"))
    return {int(path.name.removeprefix("step-")): path for path in found if (path / "config.json").is_file()}
