"""Options of a fine-tuning: frozen dataclasses, with the defaults and rules of their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trueneg.config.fields import option
from trueneg.config.options import OptimizerConfig, TrainConfig

# Conditions that several options share; see ``fields.holds``.
OF_SQUAD = "task.name=squad*"
OF_OWN_DATA = "task.name=classification|regression"


@dataclass(frozen=True)
class TaskConfig:
    """The task's labelled data, and how they are read."""

    name: str = option("", flag="--task")
    """``glue/mrpc``, ``squad``, …; for your own data ``classification``, ``regression`` or ``tagging``."""
    data: str = option("", resume="free")
    """The task's files: a folder or a file, or ``hub:NAME``."""
    text_column: str = option("", needs=OF_OWN_DATA)
    """Name of the text column, for your own data."""
    second_column: str = option("", needs=OF_OWN_DATA)
    """Name of the second text column, for your own data of text pairs; empty for single texts."""
    label_column: str = option("", needs=OF_OWN_DATA)
    """Name of the label column, for your own data."""
    group_column: str = option("", needs=OF_OWN_DATA)
    """Name of a column shared by examples that belong together (one author's, one document's), for your own data: a
    part set aside as ``dev`` has whole groups, and intervals are over groups."""
    length: int = option(128, at_least=3)
    """Largest number of tokens of a row."""
    train_fraction: float = option(1.0, above=0, at_most=1)
    """Share of the training examples that is used, drawn with the seed and stratified by label."""
    max_train_examples: int = option(0, at_least=0)
    """Largest number of training examples, drawn like ``train_fraction``; 0 for no limit."""
    max_dev_examples: int = option(0, at_least=0, resume="unfinished", compared=True)
    """Evaluate on this many examples of each split, the same for every seed; 0 for all."""
    swap_pairs: bool = False
    """Train on each pair in both orders (ELECTRA's code, for MRPC and STS-B)."""
    doc_stride: int = option(128, at_least=1, needs=OF_SQUAD)
    """Reading comprehension: tokens between the starts of windows over a long text."""
    max_query: int = option(64, at_least=1, needs=OF_SQUAD)
    """Reading comprehension: largest number of tokens of a question."""
    max_answer: int = option(30, at_least=1, needs=OF_SQUAD)
    """Reading comprehension: largest number of tokens of an answer."""
    num_best: int = option(20, at_least=1, needs=OF_SQUAD)
    """Reading comprehension: number of best spans among which an answer's probability is normalized."""
    null_threshold: float = option(0.0, needs="task.name=squad/v2.0")
    """SQuAD 2.0: predict "no answer" if its score exceeds that of the best span by more than this."""


@dataclass(frozen=True)
class FreeLBConfig:
    """Free large-batch adversarial training (Zhu et al. 2020, Algorithm 1)."""

    steps: int = option(3, at_least=1)
    """Forward and backward passes, each with its own perturbation; fairseq's ``--adv-steps`` counts one less."""
    step_size: float = option(0.1, at_least=0)
    """Length of an ascent step, measured in ``norm``."""
    magnitude: float = option(0.1, at_least=0)
    """Length of the random perturbation in the first pass; 0 for none."""
    bound: float = option(0.0, at_least=0)
    """Largest norm of a perturbation; 0 for no limit."""
    norm: Literal["l2", "linf"] = "l2"
    """Norm in which a perturbation is measured, over all tokens and dimensions of an example."""


@dataclass(frozen=True)
class SmartConfig:
    """Smoothness-inducing adversarial regularization (Jiang et al. 2020, section 3.1)."""

    weight: float = option(1.0, at_least=0)
    """Weight of the regularization in the loss."""
    steps: int = option(1, at_least=1)
    """Gradient ascent steps towards the worst perturbation."""
    step_size: float = option(1e-3, at_least=0)
    """Largest change of a dimension in an ascent step."""
    noise: float = option(1e-5, at_least=0)
    """Standard deviation of the random perturbation from which the first step ascends, since at the text itself the
    gradient is zero. bf16 rounds the paper's 1e-5 away, but not 1e-2."""
    bound: float = option(0.0, at_least=0)
    """Largest absolute value of a perturbation's dimension; 0 for no limit (the paper's is 1e-5)."""


@dataclass(frozen=True)
class FinetuneConfig:
    """The complete configuration of a fine-tuning run: one checkpoint, one task, one seed (``train.seed``)."""

    listed_as = "finetune-options"  # by `trueneg list`

    preset: str = option("", resume="free", is_record=True)
    """Name of the hyper-parameter preset that the run started from, for the record."""
    plugins: str = option("", resume="free")
    """Plugin modules that register further names, separated by commas: those given with ``--plugin``."""
    start_from: str = option("", compared=False)
    """The checkpoint to fine-tune: a run folder, a Hugging Face folder or a hub name."""
    task: TaskConfig = option(TaskConfig())
    epochs: float = option(3.0, above=0, needs="not train.steps")
    """Number of passes over the training examples, unless ``train.steps`` is set."""
    warmup_ratio: float = option(
        0.1, at_least=0, at_most=1, needs="not optimizer.warmup_steps", formerly=("warmup_share",)
    )
    """Share of the steps used for warm-up, unless ``optimizer.warmup_steps`` is set."""
    dropout: float = option(-1.0, below=1)
    """Dropout of every layer; negative for the checkpoint's own."""
    select: Literal["last", "best"] = option("last", flag="--select")
    """Weights that are evaluated: the last, or the best on a validation part split off the training examples."""
    hold_out: bool = option(False, compared=False)
    """Hold out a part of the training examples with ``select=last``, too, and score the evaluated weights on it:
    ``finetune --sweep`` selects by this score."""
    valid_fraction: float = option(0.1, above=0, below=1, needs="select=best or hold_out=true")
    """Share of the training examples that ``select=best`` and ``hold_out`` hold out for selection."""
    evals_per_epoch: float = option(
        1.0, above=0, at_most=100, compared=False, needs=("select=best", "not train.eval_every")
    )
    """Evaluations per epoch for ``select=best``."""
    length_window: int = option(64, at_least=1)
    """Number of batches within which rows are sorted by length; 1 for plain shuffling."""
    keep_model: bool = option(True, resume="unfinished")
    """Keep the fine-tuned model in the result's folder."""
    attention: Literal["sdpa", "eager"] = "sdpa"
    """How transformers computes attention: fused (``sdpa``) or unfused (``eager``)."""
    head: Literal["transformers", "linear"] = "transformers"
    """For an ELECTRA that classifies texts: transformers' two-layer head, or one linear layer on the first token's
    vector (Clark et al. 2020, section 3.1), which is saved as a two-layer head that computes the same."""
    adversarial: Literal["", "freelb", "smart"] = option("", flag="--adversarial")
    """Train on adversarially perturbed word embeddings: with FreeLB, with SMART, or not (empty)."""
    freelb: FreeLBConfig = option(FreeLBConfig(), needs="adversarial=freelb")
    smart: SmartConfig = option(SmartConfig(), needs="adversarial=smart")
    optimizer: OptimizerConfig = option(OptimizerConfig())
    train: TrainConfig = option(
        TrainConfig(steps=0, log_every=100, eval_every=0, save_every=0),
        members={"steps": {"at_least": 0}, "eval_every": {"needs": ("select=best",)}},
    )
