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
    """The task's labelled data, and how it is read."""

    name: str = option("", flag="--task")
    """``glue/mrpc``, ``squad``, …; over one's own data ``classification``, ``regression`` or ``tagging``."""
    data: str = option("", resume="free")
    """The task's files: a folder or a file, or ``hub:NAME``."""
    text_column: str = option("", needs=OF_OWN_DATA)
    """Column of the text, in one's own data."""
    second_column: str = option("", needs=OF_OWN_DATA)
    """Column of the second text, in one's own data of pairs; empty for single texts."""
    label_column: str = option("", needs=OF_OWN_DATA)
    """Column of the label, in one's own data."""
    length: int = option(128, at_least=3)
    """Largest number of tokens of a row."""
    train_fraction: float = option(1.0, above=0, at_most=1)
    """Share of the training examples that is used, drawn by the seed with each label's share kept."""
    max_train_examples: int = option(0, at_least=0)
    """Largest number of training examples, drawn likewise; 0 for no limit."""
    max_dev_examples: int = option(0, at_least=0, resume="unfinished", compared=True)
    """Evaluate on so many examples of each split, the same for every seed; 0 for all."""
    swap_pairs: bool = False
    """Train on each pair in both orders (ELECTRA's code, for MRPC and STS-B)."""
    doc_stride: int = option(128, at_least=1, needs=OF_SQUAD)
    """Reading comprehension: tokens between the starts of windows over a long text."""
    max_query: int = option(64, at_least=1, needs=OF_SQUAD)
    """Reading comprehension: largest number of tokens of a question."""
    max_answer: int = option(30, at_least=1, needs=OF_SQUAD)
    """Reading comprehension: largest number of tokens of an answer."""
    num_best: int = option(20, at_least=1, needs=OF_SQUAD)
    """Reading comprehension: starts and ends that are combined."""
    null_threshold: float = option(0.0, needs="task.name=squad/v2.0")
    """SQuAD 2.0 says "no answer" where its score exceeds that of the best span by more than this."""


@dataclass(frozen=True)
class FreeLBConfig:
    """Free large-batch adversarial training (Zhu et al. 2020, Algorithm 1)."""

    steps: int = option(3, at_least=1)
    """Passes forward and backward, each at a perturbation; fairseq's ``--adv-steps`` counts one less."""
    step_size: float = option(0.1, at_least=0)
    """Length of a step of ascent, in ``norm``."""
    magnitude: float = option(0.1, at_least=0)
    """Length of the perturbation that the first pass sees, drawn at random; 0 for none."""
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
    """Steps of gradient ascent to the worst perturbation."""
    step_size: float = option(1e-3, at_least=0)
    """Largest change of a dimension in a step of ascent."""
    noise: float = option(1e-5, at_least=0)
    """Standard deviation of the random perturbation from which the first step ascends: at the text itself all
    directions are equal. bf16 rounds the paper's 1e-5 away; 1e-2 it keeps."""
    bound: float = option(0.0, at_least=0)
    """Largest value of a perturbation's dimension; 0 for no limit (the paper's is 1e-5)."""


@dataclass(frozen=True)
class FinetuneConfig:
    """One fine-tuning run, whole: of one checkpoint, on one task, with one seed (``train.seed``)."""

    preset: str = option("", resume="free", is_record=True)
    """Name of the hyper-parameters that the run began with, for the record."""
    plugins: str = option("", resume="free")
    """Modules that add names to trueneg's own, with commas between them: what ``--plugin`` named."""
    start_from: str = option("", compared=False)
    """The checkpoint to fine-tune: a run folder, a Hugging Face folder or a hub name."""
    task: TaskConfig = option(TaskConfig())
    epochs: float = option(3.0, above=0, needs="not train.steps")
    """Times that the training examples are seen, unless ``train.steps`` says how many steps."""
    warmup_ratio: float = option(
        0.1, at_least=0, at_most=1, needs="not optimizer.warmup_steps", formerly=("warmup_share",)
    )
    """Share of the steps that warm up, unless ``optimizer.warmup_steps`` says how many."""
    dropout: float = option(-1.0, below=1)
    """Dropout of every layer; negative for the checkpoint's own."""
    select: Literal["last", "best"] = option("last", flag="--select")
    """Weights that are evaluated: the last, or those best on a validation part split off the training examples."""
    hold_out: bool = option(False, compared=False)
    """Hold a part of the training examples out with ``select=last``, too, and measure the evaluated weights on it: what
    ``finetune --sweep`` selects by."""
    valid_fraction: float = option(0.1, above=0, below=1, needs="select=best or hold_out=true")
    """Share of the training examples that ``select=best`` and ``hold_out`` hold out for choosing."""
    evals_per_epoch: float = option(
        1.0, above=0, at_most=100, compared=False, needs=("select=best", "not train.eval_every")
    )
    """Times an epoch that ``select=best`` looks."""
    length_window: int = option(64, at_least=1)
    """Batches among which rows are sorted by length; 1 for plain shuffling."""
    keep_model: bool = option(True, resume="unfinished")
    """Leave the fine-tuned model in the result's folder."""
    attention: Literal["sdpa", "eager"] = "sdpa"
    """How transformers computes attention: fused (``sdpa``) or step by step (``eager``)."""
    head: Literal["transformers", "linear"] = "transformers"
    """Of an ELECTRA that classifies texts: transformers' head of two layers, or one linear layer on the first token's
    vector (Clark et al. 2020, section 3.1), which is saved as the head of two layers that computes the same."""
    adversarial: Literal["", "freelb", "smart"] = option("", flag="--adversarial")
    """Train on word embeddings that are perturbed to the model's harm: by FreeLB, by SMART, or not (empty)."""
    freelb: FreeLBConfig = option(FreeLBConfig(), needs="adversarial=freelb")
    smart: SmartConfig = option(SmartConfig(), needs="adversarial=smart")
    optimizer: OptimizerConfig = option(OptimizerConfig())
    train: TrainConfig = option(
        TrainConfig(steps=0, log_every=100, eval_every=0, save_every=0),
        members={"steps": {"at_least": 0}, "eval_every": {"needs": ("select=best",)}},
    )
