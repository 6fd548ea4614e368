"""Options of a pre-training run: frozen dataclasses, with the defaults and rules of their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trueneg.config.fields import option
from trueneg.config.mixtures import Source, names_of, parse_folders, parse_mixture
from trueneg.config.objective_options import ObjectiveConfig
from trueneg.errors import ConfigError


@dataclass(frozen=True)
class CorpusConfig:
    """The corpus to train on."""

    path: str = option("", resume="free", needs="not corpus.mixture")
    """Folder made by ``trueneg corpus build``."""
    mixture: str = ""
    """Several corpora of one tokenizer in the place of ``path``, with weights (``wiki:0.7, books:0.3``) or without:
    then sizes say. Weights are shares of rows; a resumed run may find the folders elsewhere."""
    temperature: float = option(1.0, at_least=0, at_most=1, needs="corpus.mixture")
    """Weights of a mixture that names none: rows of each corpus to this power; 1 in proportion to sizes, 0 the same for
    all (mBERT 0.7; mmBERT 0.7, 0.5, then 0.3)."""
    max_epochs: float = option(0.0, at_least=0, resume="free")
    """Refuse a run that would read a corpus, or one of a mixture, more often than this; 0 for no limit. Of a run in
    stages, those that read the same rows count together, and a stage of another mixture by itself."""
    held_out: str = option("", resume="free")
    """Other corpora, with commas between them, whose held-out rows are measured beside those trained on: what a run
    forgets."""
    length: int = option(128, at_least=3)
    """Tokens of a row, its start and end tokens included."""
    pack: Literal["auto", True, False] = "auto"
    """Fill rows with pieces of several documents, under attention that stops at their borders; ``auto``: on a GPU,
    where rows of one document each are less than 95 % full and the objective is ``mlm`` or ``electra``. Settled when a
    run begins."""
    eval_rows: int = option(512, at_least=0, resume="free")
    """Held-out rows that an evaluation reads; 0 for none. Without a held-out split there is no evaluation."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The corpora that are read: one, or those of the mixture.

        Raises:
            ConfigError: for what is no mixture, or a temperature beside weights.
        """
        if not self.mixture:
            return (Source(self.path),)
        sources = parse_mixture(self.mixture)
        if self.temperature != 1 and sources[0].weight is not None:
            raise ConfigError(
                f"corpus.temperature={self.temperature:g} is for a mixture without weights, and {self.mixture} has "
                f"them: leave them out, or corpus.temperature"
            )
        return sources

    @property
    def names(self) -> dict[str, str]:
        """Folder of each corpus that is read or measured to its short name."""
        paths = [*(source.path for source in self.sources), *self.measured]
        return dict(zip(paths, names_of(paths), strict=True))

    @property
    def measured(self) -> tuple[str, ...]:
        """Further corpora whose held-out rows are measured.

        Raises:
            ConfigError: for one with a weight.
        """
        return parse_folders(self.held_out, "corpus.held_out")

    @property
    def is_packed(self) -> bool:
        """Whether rows have several documents: as a run has settled it, before that no."""
        return self.pack is True


PROJECTED = ("electra", "albert")
"""Architectures whose embeddings have a width of their own, so that encoders of different widths can share them."""

# Conditions that several options share; see ``fields.holds``.
WITH_PROJECTION = f"model.start_from or model.architecture={'|'.join(PROJECTED)}"
OF_MUON = "optimizer.name=muon"


@dataclass(frozen=True)
class ModelConfig:
    """The encoder: a Hugging Face architecture from nothing, or a checkpoint to continue."""

    start_from: str = option("", flag="--from")
    """The checkpoint to continue: a run folder, a Hugging Face folder or a hub name; empty for random weights of the
    sizes below."""
    architecture: str = option("electra", needs="not model.start_from")
    """A Hugging Face ``model_type`` with a masked-LM head."""
    num_layers: int = option(12, at_least=1, needs="not model.start_from")
    """Number of Transformer layers."""
    hidden_size: int = option(256, at_least=1, needs="not model.start_from")
    """Width of the hidden states."""
    num_heads: int = option(4, at_least=1, needs="not model.start_from")
    """Attention heads of a layer; they share the hidden size."""
    intermediate_size: int = option(1024, at_least=1, needs="not model.start_from")
    """Width of the feed-forward layers."""
    embedding_size: int = option(128, at_least=1, needs=("not model.start_from", "model.architecture=electra|albert"))
    """Width of the embeddings, where the architecture has one of its own (ELECTRA)."""
    max_positions: int = option(512, at_least=1, needs="not model.start_from")
    """Positions of the model, and so the longest row it can ever read."""
    dropout: float = option(-1.0, below=1)
    """Dropout of every layer; negative for the checkpoint's own, or the architecture's usual one."""
    generator_width: float = option(
        0.25, above=0, at_most=1, needs=("objective.name=electra", WITH_PROJECTION, "not model.generator_from")
    )
    """The generator's hidden size, heads and feed-forward size as a share of the discriminator's (ELECTRA)."""
    generator_depth: float = option(
        1.0, above=0, at_most=1, needs=("objective.name=electra", "not model.generator_from")
    )
    """The generator's layers as a share of the discriminator's (ELECTRA)."""
    embedding_sharing: Literal["shared", "none", "gdes"] = option("shared", needs="objective.name=electra")
    """What embeddings generator and discriminator share (ELECTRA): all; none; or the discriminator has the generator's,
    held constant, plus a difference of its own (gradient-disentangled: He et al. 2023, Eq. 2)."""
    part: Literal["generator", "discriminator"] = option(
        "generator", needs=("model.start_from", "objective.name!=electra")
    )
    """What of an ELECTRA run another objective continues: the generator, which has a masked-LM head, or the
    discriminator, which gets a new one."""
    rope_theta: float = option(0.0, at_least=0)
    """Base of rotary positions (ModernBERT and its kin), where some layers have a window that of the others; 0 for the
    checkpoint's own, or the architecture's usual one. Stages change it as rows grow longer."""
    rope_theta_local: float = option(0.0, at_least=0)
    """The same of layers with a window (``sliding_attention``)."""
    frozen_steps: int = option(0, at_least=0, needs="model.start_from")
    """Steps at the start in which the continued encoder stays as it is and heads learn (of ELECTRA: the discriminator's
    encoder with the shared embeddings stays, its head and the generator's layers learn)."""
    generator_from: str = option("", needs=("model.start_from", "objective.name=electra"))
    """A masked-LM checkpoint for the generator; empty: the ``generator/`` next to ``start_from``, or new."""
    extend_vocabulary: bool = option(False, needs="model.start_from")
    """Allow a corpus tokenizer that adds entries to the checkpoint's: a new row is the mean of its pieces."""
    attention: Literal["auto", "documents", "sdpa", "eager"] = "auto"
    """How attention is computed: by document boundaries, without dropout in attention (``documents``: torch's varlen
    kernel on a GPU in bf16, elsewhere under a mask); fused under a mask (``sdpa``); step by step (``eager``); ``auto``:
    ``documents`` where that kernel runs and rows are not full, else ``sdpa``. Settled when a run begins."""
    fused: Literal["auto", True, False] = option("auto", resume="free")
    """One product for queries, keys and values, and no lookup of token types, which are all 0 (BERT, RoBERTa, XLM-R,
    CamemBERT, ELECTRA): the same numbers but for rounding, in fewer launches. ``auto``: on a GPU."""
    norms: Literal["auto", "autocast", "bf16"] = option("auto", needs="train.precision!=fp32")
    """Layer norms of the same architectures: as torch's autocast computes them, in float32 on a GPU; or read and given
    in bf16, with mean and variance in float32, which saves a GPU an eighth of the bytes. ``auto``: bf16 on a GPU."""


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and the course of its learning rate."""

    name: Literal["adamw", "electra-code", "stableadamw", "muon"] = "adamw"
    """AdamW; as Google's ELECTRA was trained, without bias correction (``electra-code``); AdamW with Adafactor's update
    clipping, as ModernBERT was trained (``stableadamw``: Wortsman et al. 2023); Muon for the matrices within layers and
    AdamW for the rest (``muon``)."""
    learning_rate: float = option(5e-4, at_least=0)
    """Peak of the learning rate, which warm-up leads to."""
    schedule: Literal["linear", "cosine", "1-sqrt", "wsd", "constant"] = "linear"
    """Course after warm-up: down to ``min_lr_ratio`` in a line, a cosine or as 1 - sqrt (Hägele et al. 2024); constant
    with a decay at the end (wsd: the trapezoid); constant. Of a stage it is that of its own steps."""
    warmup_steps: int = option(0, at_least=0)
    """Steps in which the learning rate rises from 0 to its peak."""
    decay_ratio: float = option(0.1, at_least=0, at_most=1, needs="optimizer.schedule=wsd", formerly=("decay_share",))
    """Share of the steps in which a warm-up-stable-decay schedule decays."""
    decay_shape: Literal["linear", "1-sqrt"] = option("linear", needs="optimizer.schedule=wsd")
    """Course of that decay."""
    min_lr_ratio: float = option(
        0.0, at_least=0, at_most=1, needs="optimizer.schedule!=constant", formerly=("final_share",)
    )
    """Learning rate of the last step as a share of the peak."""
    weight_decay: float = option(0.01, at_least=0)
    """Decoupled weight decay, of matrices only: biases and norms have none. A step takes learning rate times it off."""
    decay_embeddings: bool = True
    """Whether embedding tables have weight decay, too."""
    beta1: float = option(0.9, at_least=0, below=1)
    """Decay of AdamW's mean of gradients."""
    beta2: float = option(0.999, at_least=0, below=1)
    """Decay of AdamW's mean of squared gradients."""
    epsilon: float = option(1e-6, above=0)
    """Added to AdamW's denominator."""
    max_grad_norm: float = option(1.0, at_least=0, formerly=("max_norm",))
    """Gradients are clipped to this norm; 0 for no clipping."""
    layer_decay: float = option(1.0, above=0, at_most=1)
    """Each layer's learning rate as a share of the one above it."""
    muon_adjust_lr: Literal["match_rms_adamw", "original"] = option("match_rms_adamw", needs=OF_MUON)
    """What Muon multiplies the learning rate of an A x B matrix by: 0.2 sqrt(max(A, B)), with which AdamW's own
    learning rates fit (Liu et al. 2025), or sqrt(max(1, A / B)) (Jordan 2024)."""
    muon_learning_rate_ratio: float = option(1.0, above=0, needs=OF_MUON)
    """Learning rate of Muon's matrices as a share of ``learning_rate``, which the rest has."""
    muon_weight_decay: float = option(-1.0, at_least=-1, needs=OF_MUON)
    """Weight decay of Muon's matrices; negative for ``weight_decay``."""
    muon_momentum: float = option(0.95, at_least=0, below=1, needs=OF_MUON)
    """Decay of Muon's mean of gradients."""


@dataclass(frozen=True)
class TrainConfig:
    """How long, how much at once, and what is written when."""

    steps: int = option(1000, at_least=1)
    """Optimizer steps of the whole run, of all its stages together."""
    batch_size: int = option(32, at_least=1)
    """Rows of an optimizer step, over all processes and micro-batches."""
    batch_warmup_steps: int = option(0, at_least=0)
    """Steps in which the rows of a step rise from ``batch_warmup_from`` to ``batch_size``, as many at each size."""
    batch_warmup_from: int = option(1, at_least=1, needs="train.batch_warmup_steps")
    """Rows of the first step, where they rise."""
    batch_warmup_by: int = option(0, at_least=0, needs="train.batch_warmup_steps")
    """Rows by which they rise at a time; 0 for as many as they begin with."""
    accumulation: int = option(1, at_least=1, resume="free")
    """Micro-batches that a step is cut into, to save memory."""
    seed: int = option(1, compared=False)
    """Everything random follows from it."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "fp32"
    """Full float32, or bfloat16 or float16 where autocast allows it, with weights in float32. With ``fp16`` the loss is
    scaled; a step whose gradient overflows is left out. ``auto``: ``bf16`` where the device computes it in hardware,
    else ``fp16`` on a GPU (``cuda``, ``xpu``), else ``fp32``: the run's configuration keeps which it was."""
    compile: Literal["auto", True, False] = option("auto", resume="free")
    """Compile the step with ``torch.compile``: a minute or more to begin, then faster. ``auto`` compiles pre-training
    on a GPU and nothing else; the run's configuration keeps which it was, as compiled dropout draws others than plain
    does."""
    cuda_graphs: bool = option(False, resume="free", needs="train.compile!=false")
    """Record the compiled step's launches once and replay them (CUDA graphs), where steps are so short that the host
    cannot keep up: on one GPU, for more memory."""
    gradient_checkpointing: bool = option(False, resume="free")
    """Compute activations again in the backward pass: less memory, slower."""
    log_every: int = option(50, at_least=1, resume="free")
    """Steps between records of the training loss."""
    eval_every: int = option(500, at_least=0, resume="free", needs="corpus.eval_rows")
    """Steps between evaluations on held-out rows; 0 for one at the end only."""
    save_every: int = option(500, at_least=0, resume="free")
    """Steps between checkpoints; 0 for one at the end, and by ``save_minutes``."""
    save_minutes: float = option(30.0, at_least=0, resume="free")
    """Save also when the last checkpoint is so many minutes old; 0 disables it."""
    keep: int = option(2, at_least=2, resume="free")
    """Checkpoints kept; at least 2, so that a torn one has a predecessor."""
    keep_at: str = option("", resume="free")
    """Shares of the steps, rising and with commas between them (``0.0625,0.125,0.25,0.5,0.8,1``), at which the model is
    kept for good in ``kept/step-N``, a Hugging Face folder without optimizer state; empty for none."""
    keep_every: int = option(0, at_least=0, resume="free")
    """Steps between models that are kept for good in ``kept/step-N``, besides those of ``keep_at``; 0 for none."""
    ema: float = option(0.0, at_least=0, below=1)
    """Keep an exponential moving average of the weights, of which each step leaves so much (0.999); ``hf/`` and
    ``kept/`` then hold the average, and it is evaluated, too (``averaged_loss``). 0 for none."""
    max_minutes: float = option(0.0, at_least=0, resume="free")
    """Save and stop after this many minutes; 0 for no limit."""
    device: str = option("", resume="free")
    """Where the model is trained: ``cpu``, ``cuda`` (NVIDIA, AMD), ``xpu`` (Intel), each also with a number as in
    ``cuda:1``, or ``mps`` (Apple); empty for this process's ``cuda`` if there is one, else ``xpu``, else the CPU."""
    timeout_seconds: float = option(60.0, at_least=1, resume="free")
    """Of several processes: stop all where one does not answer the others for so many seconds within a step; while a
    run begins, saves and ends they wait half an hour."""
    tracker: Literal["", "trackio", "wandb", "tensorboard"] = option("", resume="free")
    """Experiment tracker that is sent every record; empty for none."""


@dataclass(frozen=True)
class StageConfig:
    """A stretch of a run in which some options differ from the run's."""

    name: str = ""
    """What it is called: letters, digits, ``-`` and ``_``."""
    steps: int = 0
    """How many optimizer steps it has."""
    settings: tuple[str, ...] = ()
    """``key=value``, over the run's own options."""
    keep: bool = False
    """Keep the model of its last step in ``kept/step-N``."""


@dataclass(frozen=True)
class PretrainConfig:
    """One pre-training run, whole: ``runs/x/config.json`` holds it and re-runs it."""

    preset: str = option("", resume="free", is_record=True)
    """Name of the preset that the run began with, for the record."""
    plugins: str = option("", resume="free")
    """Modules that add names to trueneg's own, with commas between them: what ``--plugin`` named."""
    corpus: CorpusConfig = option(CorpusConfig())
    model: ModelConfig = option(ModelConfig())
    objective: ObjectiveConfig = option(ObjectiveConfig())
    optimizer: OptimizerConfig = option(OptimizerConfig())
    train: TrainConfig = option(TrainConfig())
    stages: tuple[StageConfig, ...] = ()
    """Stages of the run, one after the other: ``--stages FILE`` reads them, ``--set stages.NAME.KEY=VALUE`` changes
    them. Without any the run is one stage. A resumed run may change those that have not begun."""
