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
class LongTask:
    """What fine-tuning reads of a task with long texts."""

    length: int
    """Tokens a row."""
    max_train_examples: int
    minutes: float
    """Rough time of a fine-tuning."""


@dataclass(frozen=True)
class Scale:
    """Sizes of everything."""

    about: str
    backbones: Mapping[str, Backbone]
    """The tables' rows that this scale has."""
    cline: tuple[str, ...] = ()
    """Arguments of ``trueneg pretrain`` for CLINE, after the backbone's."""
    cline_steps: int = 0
    """Steps of CLINE and of its control, masked language modelling alone; 0 for the backbone's or the preset's."""
    correction_steps: int = 0
    """Steps of the rivals of hard correction; 0 for the backbone's."""
    reads_online: bool = False
    """Whether prototypes read the text as a run trains, which pays where runs read little of a corpus."""
    tagger: str = ""
    """Tags words for CLINE; empty for ours."""
    finetune: Mapping[str, object] = field(default_factory=dict)
    """Settings of fine-tuning."""
    long_tasks: Mapping[str, LongTask] = field(default_factory=dict)
    """Tasks that are read at another length than the settings of fine-tuning say."""
    is_made_up: bool = False
    """Whether the data are made up, and so small."""
    neighbours: str = "*counter*fitted*"
    """File of the vectors that TextFooler takes its substitutes from."""
    glue: tuple[str, ...] = ()
    """GLUE's tasks; all by default."""
    learning_rates: tuple[float, ...] = (1e-5, 2e-5, 3e-5, 4e-5, 5e-5)
    """That CLINE's Table 4 selects from; its other tables take the middle one."""
    limit: int = 0
    """Rows, triplets or attacked examples to read; 0 for all."""
    minutes: float = 1.0
    """Rough time of a fine-tuning that reads ``examples``."""
    examples: int = 0
    """Training examples of 128 tokens, times epochs; 0 where all tasks take the same time."""
    start: float = 0.0
    """Minutes of these that no example takes."""

    @property
    def epochs(self) -> float:
        """Of fine-tuning, where the scale has its own."""
        return float(str(self.finetune.get("epochs", 1.0)))


_MEAN_OF_GLUE = 3 * 120_000
"""Three epochs of the mean of its eight tasks."""
_BERT, _ROBERTA = "bert-base-uncased", "roberta-base"
_TINY_MODEL = (
    *("--steps", "16", "--length", "24", "--batch-size", "4", "--set", "corpus.eval_rows=8"),
    *("--set", "train.eval_every=16", "--set", "train.save_every=16", "--set", "train.precision=fp32"),
)
_TINY_BERT = Backbone(
    ("electra-tiny", "--objective", "mlm", "--set", "model.architecture=bert", *_TINY_MODEL), "", minutes=0.1
)
_TINY_ELECTRA = Backbone(("electra-tiny", *_TINY_MODEL), "", minutes=0.1)
_MINI_STEPS = ("--length", "64", "--batch-size", "16", "--precision", "bf16", "--set", "model.dropout=0")
_PAPERS_CLINE = ("--set", "objective.cline.original=clean", "--set", "objective.cline.views.preset=paper")
_MINI_BERT = Backbone(
    (
        *("--from", ENCODER, "--objective", "mlm", "--steps", "300", "--warmup", "30", "--lr", "1e-4", *_MINI_STEPS),
        *("--set", "train.save_every=100", "--set", "train.eval_every=150"),
    ),
    ENCODER,
    ENCODER,
    minutes=6,
)
# Rows of 128 tokens, a million of them in all: four times as many would take the tables' hours from six to twenty, and
# a model of 2,000 steps of 32 rows learned nothing of GLUE either (docs/results.md).
_MINI_ELECTRA = Backbone(
    ("electra-mini", "--steps", "1000", "--warmup", "100", "--batch-size", "8", "--set", "train.save_every=250"),
    ENCODER,
    minutes=4,
)

SCALES = {
    "tiny": Scale(
        "seconds a job, on made-up data: to see that everything runs; its figures mean nothing",
        {
            "BERT-base": _TINY_BERT,
            "RoBERTa-base": replace(_TINY_BERT, pretrain=(*_TINY_BERT.pretrain, "--lr", "1e-3")),
            "ELECTRA-small": _TINY_ELECTRA,
            "ELECTRA-small-512": replace(_TINY_ELECTRA, pretrain=(*_TINY_ELECTRA.pretrain, "--length", "32")),
        },
        cline=_PAPERS_CLINE,
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
        cline=_PAPERS_CLINE,
        finetune={
            "task.max_train_examples": 2000,
            "task.max_dev_examples": 1000,
            "task.length": 128,
            "epochs": 2.0,
            "train.batch_size": 16,
            "train.precision": "bf16",
        },
        # Whole texts of fewer examples: 85 % of IMDb's contrast set is longer than 128 tokens, none of it than 512.
        long_tasks={
            "imdb": LongTask(512, 750, minutes=5),
            "boolq": LongTask(256, 1000, minutes=4),
            "squad": LongTask(256, 1500, minutes=6),
        },
        glue=("cola", "mrpc", "stsb", "rte"),
        learning_rates=(5e-5, 1e-4, 2e-4),
        limit=300,
        correction_steps=1000,
        reads_online=True,
        minutes=1.5,
        examples=2 * 2000,
        start=0.5,
    ),
    "small": Scale(
        "hours on one GPU: ELECTRA-small from nothing and BERT-base continued, fewer steps than the papers",
        {
            "BERT-base": Backbone(("tn-bert-base", "--steps", "10000"), _BERT, _BERT),
            "ELECTRA-small": Backbone(("tn-electra-small", "--steps", "50000"), _BERT),
            "ELECTRA-small-512": Backbone(("tn-electra-small-512", "--steps", "25000"), _BERT),
            "RoBERTa-base": Backbone(("cline-roberta-base",), _ROBERTA, _ROBERTA),
        },
        cline_steps=2000,
        minutes=5,
        examples=_MEAN_OF_GLUE,
        start=0.5,
    ),
    "paper": Scale(
        "the papers' own sizes: days on several GPUs",
        {
            "BERT-base": Backbone(("tn-bert-base",), _BERT, _BERT),
            "BERT-large": Backbone(("tn-bert-large",), "bert-large-uncased", "bert-large-uncased"),
            "ELECTRA-small": Backbone(("tn-electra-small",), _BERT),
            "ELECTRA-small-512": Backbone(("tn-electra-small-512",), _BERT),
            "ELECTRA-base": Backbone(("tn-electra-base",), "google/electra-base-discriminator"),
            "RoBERTa-base": Backbone(("cline-roberta-base",), _ROBERTA, _ROBERTA),
        },
        tagger="spacy:en_core_web_sm",
        minutes=30,
        examples=_MEAN_OF_GLUE,
        start=1.0,
    ),
}  # fmt: skip

MODELS = tuple(dict.fromkeys(name for scale in SCALES.values() for name in scale.backbones))
"""Models of the tables, of any scale."""


def find_scale(name: str) -> Scale:
    """Look a scale up.

    Raises:
        ConfigError: for an unknown name.
    """
    if name not in SCALES:
        raise ConfigError(unknown_name("scale", name, SCALES))
    return SCALES[name]
