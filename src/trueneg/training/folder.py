"""What a run's folder holds."""

from __future__ import annotations

from pathlib import Path

CONFIG = "config.json"
"""The run's configuration, which re-runs it."""

METRICS = "metrics.jsonl"
"""Its readings, a record a line."""

FALSE_NEGATIVES = "false-negatives.json"
"""What its last evaluation on held-out text found."""

PROVENANCE = "provenance.json"
"""The versions and the command that it was begun with."""

CHECKPOINTS = "checkpoints"
"""What it resumes from."""

KEPT = "kept"
"""Its models at the steps of ``train.keep_at``, each as ``HUGGING_FACE`` is."""

HUGGING_FACE = "hf"
"""Its model, as transformers loads it."""

ORIGIN = "origin"
"""What makes its checkpoints whole models: shapes, tokenizer, and what it keeps of the checkpoint it continues."""

SIMILARITY = "sentence-similarity.json"
"""How well its vectors tell how alike sentences are, if that was measured."""


def kept_folder(run: Path, step: int) -> Path:
    """Where a run keeps its model of a step of ``train.keep_at``."""
    return run / KEPT / f"step-{step:09d}"


def kept_models(run: Path) -> dict[int, Path]:
    """Steps at which a run kept its model, in order, each with the Hugging Face folder."""
    found = sorted((run / KEPT).glob("step-*"))
    return {int(path.name.removeprefix("step-")): path for path in found if (path / "config.json").is_file()}
