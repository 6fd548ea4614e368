"""Scales of recipes: the papers' sizes, and smaller ones that test a difference's direction, or only that all runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trueneg.errors import ConfigError, unknown_name

ENCODER = "{encoder}"
"""Placeholder for the checkpoint of ``--set encoder=…``."""


@dataclass(frozen=True)
class Backbone:
    """A model of a paper's table, at a scale."""

    pretrain: tuple[str, ...]
    """Arguments of ``trueneg pretrain`` for it; CLINE and its control replace ``--objective``."""
    tokenizer: str
    checkpoint: str = ""
    """Checkpoint that pre-training continues from; CLINE's baselines are this checkpoint as released."""
    minutes: float = 1.0
    """Rough time of its pre-training."""


@dataclass(frozen=True)
class LongTask:
    """Sizes of fine-tuning on a task with long texts."""

    length: int
    """Tokens per row."""
    max_train_examples: int
    minutes: float
    """Rough time of a fine-tuning run."""


@dataclass(frozen=True)
class Scale:
    """Sizes of a recipe's models, data and runs."""

    about: str
    backbones: Mapping[str, Backbone]
    """The tables' models that this scale has, by name."""
    cline: tuple[str, ...] = ()
    """Arguments of ``trueneg pretrain`` for CLINE, after the backbone's."""
    cline_steps: int = 0
    """Steps of CLINE and of its control (masked language modelling only); 0 for those of the backbone or preset."""
    correction_steps: int = 0
    """Pre-training steps of the recipe ``corrections``; 0 for those of the backbone."""
    reads_online: bool = False
    """Whether prototypes read the text during training, which is faster if runs read little of the corpus."""
    tagger: str = ""
    """Tagger of words for CLINE; empty for the built-in one."""
    finetune: Mapping[str, object] = field(default_factory=dict)
    """Fine-tuning settings."""
    long_tasks: Mapping[str, LongTask] = field(default_factory=dict)
    """Tasks whose length and number of examples differ from the fine-tuning settings."""
    is_made_up: bool = False
    """Whether the data are made up, and therefore small."""
    neighbours: str = "*counter*fitted*"
    """Glob pattern of the file of word vectors that TextFooler takes its substitutes from."""
    glue: tuple[str, ...] = ()
    """GLUE tasks; all by default."""
    learning_rates: tuple[float, ...] = (1e-5, 2e-5, 3e-5, 4e-5, 5e-5)
    """Candidates in CLINE's Table 4; by default, its other tables use the middle one."""
    limit: int = 0
    """Maximum number of rows, triplets or attacked examples; 0 for all, or for the default of each attack."""
    minutes: float = 1.0
    """Rough time of a fine-tuning run that reads ``examples``."""
    examples: int = 0
    """Training examples of 128 tokens, times epochs; 0 if all tasks take the same time."""
    start: float = 0.0
    """Part of ``minutes`` that does not depend on the number of examples."""

    @property
    def epochs(self) -> float:
        """Number of fine-tuning epochs; 1 if the scale sets none."""
        return float(str(self.finetune.get("epochs", 1.0)))


_MEAN_OF_GLUE = 3 * 120_000
"""Three epochs of the mean training-set size of its eight tasks."""
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
# Rows of 128 tokens, a million tokens in all: with four times as many, the tables would take twenty hours instead of
# six, and a model trained for 2,000 steps of 32 rows learned nothing on GLUE either (docs/results.md).
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
        # Fewer examples, but whole texts: in IMDb's contrast set, 85 % exceed 128 tokens, and none exceeds 512.
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
"""Names of the tables' models, at any scale."""


def find_scale(name: str) -> Scale:
    """Look up a scale by its name.

    Raises:
        ConfigError: for an unknown name.
    """
    if name not in SCALES:
        raise ConfigError(unknown_name("scale", name, SCALES))
    return SCALES[name]
