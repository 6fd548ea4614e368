"""What a run's folder holds."""

from __future__ import annotations

CONFIG = "config.json"
"""The run's configuration, which re-runs it."""

METRICS = "metrics.jsonl"
"""Its readings, a record a line."""

FALSE_NEGATIVES = "false-negatives.json"
"""What its last evaluation on held-out text found."""

CHECKPOINTS = "checkpoints"
"""What it resumes from."""

HUGGING_FACE = "hf"
"""Its model, as transformers loads it."""

ORIGIN = "origin"
"""What makes its checkpoints whole models: shapes, tokenizer, and what it keeps of the checkpoint it continues."""

SIMILARITY = "sentence-similarity.json"
"""How well its vectors tell how alike sentences are, if that was measured."""
