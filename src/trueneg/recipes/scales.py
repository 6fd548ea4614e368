"""How large a recipe is made: the papers' sizes, and smaller ones that say whether a direction holds, or only run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trueneg.errors import ConfigError, unknown_name

ENCODER = "{encoder}"
"""Stands for the checkpoint of ``--set encoder=…``."""


@dataclass(frozen=True)
class Backbone:
    """A model of a paper's table, at a scale."""

    pretrain: tuple[str, ...]
    """Arguments of ``trueneg pretrain`` that make it; ``--objective`` is the arm's where it is CLINE's."""
    tokenizer: str
    checkpoint: str = ""
    """What it is continued from, which CLINE's baselines are as they were released."""
    minutes: float = 1.0
    """Rough time of its pre-training."""


@dataclass(frozen=True)
class Scale:
    """Sizes of everything."""

    about: str
    backbones: Mapping[str, Backbone]
    """The tables' rows that this scale has."""
    cline: tuple[str, ...] = ()
    """Arguments of ``trueneg pretrain`` for CLINE, after the backbone's."""
    finetune: Mapping[str, object] = field(default_factory=dict)
    """Settings of fine-tuning."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """Tokens a row of tasks with long texts."""
    is_made_up: bool = False
    """Whether the data are made up, and so small."""
    neighbours: str = "*counter*fitted*"
    """File of the vectors that TextFooler takes its substitutes from."""
    glue: tuple[str, ...] = ()
    """GLUE's tasks; all by default."""
    learning_rates: tuple[float, ...] = (1e-5, 2e-5, 3e-5, 4e-5, 5e-5)
    """That CLINE's Table 4 selects from."""
    limit: int = 0
    """Rows, triplets or attacked examples to read; 0 for all."""
    minutes: float = 1.0
    """Rough time of a fine-tuning."""


_TINY_MODEL = (
    *("--steps", "16", "--length", "24", "--batch-size", "4", "--set", "corpus.eval_rows=8"),
    *("--set", "train.eval_every=16", "--set", "train.save_every=16", "--set", "train.precision=fp32"),
)
_TINY_BERT = Backbone(
    ("electra-tiny", "--objective", "mlm", "--set", "model.architecture=bert", *_TINY_MODEL), "", minutes=0.1
)
_TINY_ELECTRA = Backbone(("electra-tiny", *_TINY_MODEL), "", minutes=0.1)
_MINI_STEPS = ("--length", "128", "--batch-size", "32", "--precision", "bf16")
_MINI_BERT = Backbone(
    (
        *("--from", ENCODER, "--objective", "mlm", "--steps", "1000", "--warmup", "100", "--lr", "1e-4", *_MINI_STEPS),
        *("--set", "train.save_every=250", "--set", "train.eval_every=250"),
    ),
    ENCODER,
    ENCODER,
    minutes=25,
)
_MINI_ELECTRA = Backbone(("electra-mini", "--steps", "4000", "--set", "train.save_every=500"), ENCODER, minutes=20)

SCALES = {
    "tiny": Scale(
        "seconds a job, on made-up data: to see that everything runs; its figures mean nothing",
        {
            "BERT-base": _TINY_BERT,
            "RoBERTa-base": replace(_TINY_BERT, pretrain=(*_TINY_BERT.pretrain, "--lr", "1e-3")),
            "ELECTRA-small": _TINY_ELECTRA,
            "ELECTRA-small-512": replace(_TINY_ELECTRA, pretrain=(*_TINY_ELECTRA.pretrain, "--length", "32")),
        },
        finetune={"train.steps": 2, "train.batch_size": 4, "task.length": 48, "train.precision": "fp32"},
        is_made_up=True,
        neighbours="*.50d*.txt",
        glue=("cola", "rte"),
        learning_rates=(1e-4, 1e-3),
        limit=8,
        minutes=0.1,
    ),
    "mini": Scale(
        "minutes a job on two cores: all-MiniLM-L6-v2 as BERT-base, electra-mini as ELECTRA-small, parts of tasks",
        {"BERT-base": _MINI_BERT, "ELECTRA-small": _MINI_ELECTRA, "ELECTRA-small-512": _MINI_ELECTRA},
        finetune={
            "task.max_train_examples": 3000,
            "task.max_dev_examples": 1000,
            "task.length": 64,
            "epochs": 2.0,
            "train.precision": "bf16",
        },
        lengths={"imdb": 256, "boolq": 256, "squad": 256},
        glue=("cola", "mrpc", "stsb", "rte"),
        learning_rates=(2e-5, 5e-5, 1e-4),
        limit=300,
        minutes=2,
    ),
    "small": Scale(
        "hours on one GPU: ELECTRA-small from nothing and BERT-base continued, fewer steps than the papers",
        {
            "BERT-base": Backbone(
                ("tn-bert-base", "--steps", "10000"), "google-bert/bert-base-uncased", "google-bert/bert-base-uncased",
                minutes=120,
            ),
            "ELECTRA-small": Backbone(
                ("tn-electra-small", "--steps", "50000"), "google-bert/bert-base-uncased", minutes=60
            ),
            "ELECTRA-small-512": Backbone(
                ("tn-electra-small-512", "--steps", "25000"), "google-bert/bert-base-uncased", minutes=90
            ),
            "RoBERTa-base": Backbone(
                ("cline-roberta-base", "--steps", "2000"), "FacebookAI/roberta-base", "FacebookAI/roberta-base",
                minutes=120,
            ),
        },
        cline=("--steps", "2000"),
        minutes=5,
    ),
    "paper": Scale(
        "the papers' own sizes: days on several GPUs",
        {
            "BERT-base": Backbone(
                ("tn-bert-base",), "google-bert/bert-base-uncased", "google-bert/bert-base-uncased", minutes=6000
            ),
            "BERT-large": Backbone(
                ("tn-bert-large",), "google-bert/bert-large-uncased", "google-bert/bert-large-uncased", minutes=18000
            ),
            "ELECTRA-small": Backbone(("tn-electra-small",), "google-bert/bert-base-uncased", minutes=4000),
            "ELECTRA-small-512": Backbone(("tn-electra-small-512",), "google-bert/bert-base-uncased", minutes=16000),
            "ELECTRA-base": Backbone(("tn-electra-base",), "google-bert/bert-base-uncased", minutes=7000),
            "RoBERTa-base": Backbone(
                ("cline-roberta-base",), "FacebookAI/roberta-base", "FacebookAI/roberta-base", minutes=12000
            ),
        },
        minutes=30,
    ),
}  # fmt: skip


def find_scale(name: str) -> Scale:
    """Look a scale up.

    Raises:
        ConfigError: for an unknown name.
    """
    if name not in SCALES:
        raise ConfigError(unknown_name("scale", name, SCALES))
    return SCALES[name]
