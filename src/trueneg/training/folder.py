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
