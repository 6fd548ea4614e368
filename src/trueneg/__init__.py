"""trueneg: pre-train text encoders on true negatives.

A masked language model that predicts "main" where the text had "primary" is right, and should not be punished.
This package finds such false negatives, keeps them out of the loss, and measures the gain. Importing it loads
nothing heavy; each name below is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trueneg.version import __version__

if TYPE_CHECKING:  # so that type checkers and editors see the functions themselves
    from trueneg.attacks.registry import make_attack as make_attack
    from trueneg.attacks.runner import evaluate_attack as evaluate_attack
    from trueneg.attacks.runner import run_attack as run_attack
    from trueneg.attacks.runner import run_attacks as run_attacks
    from trueneg.attacks.setup import AttackConfig as AttackConfig
    from trueneg.config.options import StageConfig as StageConfig
    from trueneg.corpus.build import build_corpus as build_corpus
    from trueneg.corpus.rows import describe as describe_corpus
    from trueneg.corpus.tokenizer_training import extend_tokenizer as extend_tokenizer
    from trueneg.corpus.tokenizer_training import train_tokenizer as train_tokenizer
    from trueneg.detectors.base import Detector as Detector
    from trueneg.errors import TruenegError as TruenegError
    from trueneg.evaluation.masked_lm.held_out import evaluate_held_out as evaluate
    from trueneg.evaluation.results.comparison import compare as compare
    from trueneg.lexicon.fetch import fetch_wordnet as fetch_wordnet
    from trueneg.lexicon.table import build_table as build_table
    from trueneg.lexicon.table import cached_table as cached_table
    from trueneg.models.backbone import MaskedLanguageModel as MaskedLanguageModel
    from trueneg.models.merging import MergeConfig as MergeConfig
    from trueneg.objectives.correction import HardCorrection as HardCorrection
    from trueneg.objectives.labels import BatchDetector as BatchDetector
    from trueneg.objectives.labels import correct as correct
    from trueneg.objectives.labels import make_detector as make_detector
    from trueneg.objectives.mlm import MaskedLM as MaskedLM
    from trueneg.objectives.rtd import ReplacedTokenDetection as ReplacedTokenDetection
    from trueneg.registry import load_plugins as load_plugins
    from trueneg.reporting.html import write_report as report
    from trueneg.runs.bench import bench_overhead as bench_overhead
    from trueneg.runs.bench import bench_step as bench_step
    from trueneg.runs.configuring import configure as configure
    from trueneg.runs.configuring_finetuning import configure_finetuning as configure_finetuning
    from trueneg.runs.demo import run_demo as run_demo
    from trueneg.runs.doctor import diagnose as diagnose
    from trueneg.runs.exporting import export as export
    from trueneg.runs.finetuned_models import evaluate_finetuned as evaluate_finetuned
    from trueneg.runs.finetuning import finetune as finetune
    from trueneg.runs.finetuning import finetune_seeds as finetune_seeds
    from trueneg.runs.merging import merge as merge
    from trueneg.runs.pretraining import pretrain as pretrain
    from trueneg.runs.pushing import push as push
    from trueneg.tokenizer import load_tokenizer as load_tokenizer


__all__ = [
    "AttackConfig",
    "BatchDetector",
    "Detector",
    "HardCorrection",
    "MaskedLM",
    "MaskedLanguageModel",
    "MergeConfig",
    "ReplacedTokenDetection",
    "StageConfig",
    "TruenegError",
    "__version__",
    "bench_overhead",
    "bench_step",
    "build_corpus",
    "build_table",
    "cached_table",
    "compare",
    "configure",
    "configure_finetuning",
    "correct",
    "describe_corpus",
    "diagnose",
    "evaluate",
    "evaluate_attack",
    "evaluate_finetuned",
    "export",
    "extend_tokenizer",
    "fetch_wordnet",
    "finetune",
    "finetune_seeds",
    "load_plugins",
    "load_tokenizer",
    "make_attack",
    "make_detector",
    "merge",
    "pretrain",
    "push",
    "report",
    "run_attack",
    "run_attacks",
    "run_demo",
    "train_tokenizer",
]

_PUBLIC = {
    "BatchDetector": "trueneg.objectives.labels:BatchDetector",
    "bench_overhead": "trueneg.runs.bench:bench_overhead",
    "bench_step": "trueneg.runs.bench:bench_step",
    "build_corpus": "trueneg.corpus.build:build_corpus",
    "build_table": "trueneg.lexicon.table:build_table",
    "cached_table": "trueneg.lexicon.table:cached_table",
    "compare": "trueneg.evaluation.results.comparison:compare",
    "configure": "trueneg.runs.configuring:configure",
    "configure_finetuning": "trueneg.runs.configuring_finetuning:configure_finetuning",
    "correct": "trueneg.objectives.labels:correct",
    "describe_corpus": "trueneg.corpus.rows:describe",
    "Detector": "trueneg.detectors.base:Detector",
    "diagnose": "trueneg.runs.doctor:diagnose",
    "evaluate": "trueneg.evaluation.masked_lm.held_out:evaluate_held_out",
    "AttackConfig": "trueneg.attacks.setup:AttackConfig",
    "evaluate_attack": "trueneg.attacks.runner:evaluate_attack",
    "evaluate_finetuned": "trueneg.runs.finetuned_models:evaluate_finetuned",
    "export": "trueneg.runs.exporting:export",
    "extend_tokenizer": "trueneg.corpus.tokenizer_training:extend_tokenizer",
    "fetch_wordnet": "trueneg.lexicon.fetch:fetch_wordnet",
    "finetune": "trueneg.runs.finetuning:finetune",
    "finetune_seeds": "trueneg.runs.finetuning:finetune_seeds",
    "HardCorrection": "trueneg.objectives.correction:HardCorrection",
    "StageConfig": "trueneg.config.options:StageConfig",
    "load_plugins": "trueneg.registry:load_plugins",
    "load_tokenizer": "trueneg.tokenizer:load_tokenizer",
    "make_attack": "trueneg.attacks.registry:make_attack",
    "make_detector": "trueneg.objectives.labels:make_detector",
    "MaskedLanguageModel": "trueneg.models.backbone:MaskedLanguageModel",
    "MaskedLM": "trueneg.objectives.mlm:MaskedLM",
    "merge": "trueneg.runs.merging:merge",
    "MergeConfig": "trueneg.models.merging:MergeConfig",
    "pretrain": "trueneg.runs.pretraining:pretrain",
    "push": "trueneg.runs.pushing:push",
    "ReplacedTokenDetection": "trueneg.objectives.rtd:ReplacedTokenDetection",
    "report": "trueneg.reporting.html:write_report",
    "run_attack": "trueneg.attacks.runner:run_attack",
    "run_attacks": "trueneg.attacks.runner:run_attacks",
    "run_demo": "trueneg.runs.demo:run_demo",
    "train_tokenizer": "trueneg.corpus.tokenizer_training:train_tokenizer",
    "TruenegError": "trueneg.errors:TruenegError",
}
"""Public names, and where they are defined; the subcommands of the command line call the same functions."""


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # a type checker would conclude that every name exists

    def __getattr__(name: str) -> Any:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'trueneg' has no attribute {name!r}")
        module, _, attribute = _PUBLIC[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
