"""Model cards: what a checkpoint is, how it was made and how to load it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trueneg import __version__
from trueneg.config import FinetuneConfig, PretrainConfig
from trueneg.evaluation.results import Result

CITATIONS = """```bibtex
@inproceedings{zhang2023truenegatives,
  title = {Language Model Pre-training on True Negatives},
  author = {Zhang, Zhuosheng and Zhao, Hai and Utiyama, Masao and Sumita, Eiichiro},
  booktitle = {AAAI},
  year = {2023}
}
```"""


def pretraining_card(config: PretrainConfig, records: Sequence[Mapping[str, Any]], step: int, name: str) -> str:
    """Write the card of a pre-trained encoder.

    Args:
        config: The run's configuration.
        records: Its ``metrics.jsonl``.
        step: Steps done.
        name: The run's name.
    """
    is_electra = config.objective.name == "electra"
    correction, regularization = config.objective.correction, config.objective.regularization
    facts = {
        "objective": config.objective.name,
        "architecture": config.model.start_from or config.model.architecture,
        "steps": f"{step:,} of {config.train.steps:,}",
        "rows a step": f"{config.train.batch_size} of {config.corpus.length} tokens",
        "hard correction": f"{correction.detector}, {correction.use}" if correction.detector else "none",
        "soft regularization": regularization.level or "none",
        "seed": config.train.seed,
        "trueneg": __version__,
    }
    rows = "\n".join(f"| {key} | {value} |" for key, value in facts.items())
    kind = "AutoModelForPreTraining" if is_electra else "AutoModelForMaskedLM"
    pipeline = "generator" if is_electra else "."
    return f"""---
library_name: transformers
tags: [trueneg, {"replaced-token-detection" if is_electra else "fill-mask"}]
---

# {name}

A text encoder pre-trained on true negatives with trueneg: predictions as good as the original token are not
punished where a detector finds them.

| | |
|---|---|
{rows}

{_readings(records)}
```python
from transformers import AutoModel, AutoTokenizer, {kind}, pipeline

tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")
encoder = AutoModel.from_pretrained("path/to/this/folder")
model = {kind}.from_pretrained("path/to/this/folder")
fill = pipeline("fill-mask", "path/to/this/folder{"/generator" if pipeline == "generator" else ""}")
```

{CITATIONS}
"""


def finetuning_card(config: FinetuneConfig, results: Sequence[Result]) -> str:
    """Write the card of a fine-tuned model.

    Args:
        config: The run's configuration.
        results: Its results, one a split.
    """
    facts = {
        "task": config.task.name,
        "encoder": config.start_from,
        "settings": config.preset,
        "steps": f"{config.train.steps:,} of {config.train.batch_size} rows",
        "learning rate": config.optimizer.learning_rate,
        "seed": config.train.seed,
        "trueneg": __version__,
    }
    rows = "\n".join(f"| {key} | {value} |" for key, value in facts.items())
    figures = "\n".join(
        f"| {result.split} | {name} | {value:.4f} | {result.num_examples:,} |"
        for result in results
        for name, value in result.metrics.items()
    )
    return f"""---
library_name: transformers
tags: [trueneg]
---

# {config.task.name}

| | |
|---|---|
{rows}

| split | metric | value | examples |
|---|---|---|---|
{figures}
"""


def _readings(records: Sequence[Mapping[str, Any]]) -> str:
    evaluations = [record for record in records if record.get("kind") == "eval"]
    if not evaluations:
        return "There was no held-out text to measure it on.\n"
    last = evaluations[-1]
    shown = {name: value for name, value in last.items() if isinstance(value, float)}
    lines = "\n".join(f"| {name} | {value:.4g} |" for name, value in shown.items())
    return f"On held-out text, at step {last['step']:,}:\n\n| reading | value |\n|---|---|\n{lines}\n"
