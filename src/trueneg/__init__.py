"""trueneg: pre-train text encoders on true negatives.

A masked model that predicts "main" where the text had "primary" is right, and should not be punished. This
package finds such false negatives, keeps them out of the loss, and measures what that gains. Importing it
loads nothing heavy; each name below is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "TruenegError": "trueneg.errors:TruenegError",
    "attack_with": "trueneg.attacking:attack_with",
    "build_corpus": "trueneg.corpus.build:build_corpus",
    "bench_overhead": "trueneg.bench:bench_overhead",
    "build_table": "trueneg.lexicon.table:build_table",
    "cached_table": "trueneg.lexicon.table:cached_table",
    "compare": "trueneg.evaluation.comparison:compare",
    "configure": "trueneg.pretraining:configure",
    "configure_finetuning": "trueneg.finetuning:configure_finetuning",
    "describe_corpus": "trueneg.corpus.rows:describe",
    "diagnose": "trueneg.doctor:diagnose",
    "evaluate": "trueneg.evaluation.held_out:evaluate_held_out",
    "export": "trueneg.models.export:export",
    "extend_tokenizer": "trueneg.corpus.tokenizer_training:extend_tokenizer",
    "evaluate_finetuned": "trueneg.finetuned:evaluate_finetuned",
    "fetch_wordnet": "trueneg.lexicon.fetch:fetch_wordnet",
    "finetune": "trueneg.finetuning:finetune",
    "load_tokenizer": "trueneg.tokenizer:load_tokenizer",
    "make_attack": "trueneg.attacks.making:make_attack",
    "pretrain": "trueneg.pretraining:pretrain",
    "report": "trueneg.reporting.html:write_report",
    "run_demo": "trueneg.demo:run_demo",
    "run_attack": "trueneg.attacking:run_attack",
    "train_tokenizer": "trueneg.corpus.tokenizer_training:train_tokenizer",
}
"""Public name to where it is; the command line's verbs call the same functions."""

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'trueneg' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    return __all__
