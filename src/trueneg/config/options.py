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
    """Several corpora with the same tokenizer, instead of ``path``. Weights (``wiki:0.7, books:0.3``) are shares of
    rows; without weights, sizes decide. When a run is resumed, the folders may be elsewhere."""
    temperature: float = option(1.0, at_least=0, at_most=1, needs="corpus.mixture")
    """Exponent of corpus sizes in a mixture without weights; 1 in proportion to size, 0 equal for all (mBERT 0.7;
    mmBERT 0.7, 0.5, then 0.3)."""
    max_epochs: float = option(0.0, at_least=0, resume="free")
    """Refuse a run that would read a corpus, or one of a mixture, more often than this; 0 for no limit. Stages that
    read the same rows are counted together; a stage with another mixture is counted separately."""
    held_out: str = option("", resume="free")
    """Other corpora, separated by commas, whose held-out rows are evaluated too, to see what a run forgets."""
    length: int = option(128, at_least=3)
    """Tokens per row, including its start and end tokens."""
    pack: Literal["auto", True, False] = "auto"
    """Fill rows with pieces of several documents, with attention only within each document. ``auto``: on a GPU, if rows
    of one document each are less than 95 % full and the objective is ``mlm`` or ``electra``. Decided when a run
    begins."""
    eval_rows: int = option(512, at_least=0, resume="free")
    """Held-out rows per evaluation; 0 for no evaluation. Without a held-out split there is none either."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The corpora to read: one, or those of the mixture.

        Raises:
            ConfigError: for an invalid mixture, or a temperature in addition to weights.
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
        """Short name of each corpus that is read or evaluated, by its folder."""
        paths = [*(source.path for source in self.sources), *self.measured]
        return dict(zip(paths, names_of(paths), strict=True))

    @property
    def measured(self) -> tuple[str, ...]:
        """Further corpora whose held-out rows are evaluated.

        Raises:
            ConfigError: for one with a weight.
        """
        return parse_folders(self.held_out, "corpus.held_out")

    @property
    def is_packed(self) -> bool:
        """Whether rows hold several documents; False until the run has resolved ``auto``."""
        return self.pack is True


PROJECTED = ("electra", "albert")
"""Architectures with an embedding size of their own, so that encoders of different widths can share embeddings."""

# Conditions that several options share; see ``fields.holds``.
WITH_PROJECTION = f"model.start_from or model.architecture={'|'.join(PROJECTED)}"
OF_MUON = "optimizer.name=muon"


@dataclass(frozen=True)
class ModelConfig:
    """The encoder: a Hugging Face architecture with random weights, or a checkpoint to continue."""

    start_from: str = option("", flag="--from")
    """The checkpoint to continue: a run folder, a Hugging Face folder or a hub name; empty for random weights with the
    sizes below."""
    architecture: str = option("electra", needs="not model.start_from")
    """A Hugging Face ``model_type`` with a masked-LM head."""
    num_layers: int = option(12, at_least=1, needs="not model.start_from")
    """Number of Transformer layers."""
    hidden_size: int = option(256, at_least=1, needs="not model.start_from")
    """Width of the hidden states."""
    num_heads: int = option(4, at_least=1, needs="not model.start_from")
    """Attention heads per layer; the hidden size is divided among them."""
    intermediate_size: int = option(1024, at_least=1, needs="not model.start_from")
    """Width of the feed-forward layers."""
    embedding_size: int = option(128, at_least=1, needs=("not model.start_from", "model.architecture=electra|albert"))
    """Width of the embeddings, if the architecture has a separate one (ELECTRA)."""
    max_positions: int = option(512, at_least=1, needs="not model.start_from")
    """Positions of the model: the longest row that it can ever read."""
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
    """Embeddings that generator and discriminator share (ELECTRA): all; none; or the discriminator adds a learned
    difference to the generator's, which it does not update (gradient-disentangled: He et al. 2023, Eq. 2)."""
    part: Literal["generator", "discriminator"] = option(
        "generator", needs=("model.start_from", "objective.name!=electra")
    )
    """Part of an ELECTRA run that another objective continues: the generator, which has a masked-LM head, or the
    discriminator, which gets a new one."""
    rope_theta: float = option(0.0, at_least=0)
    """Base of the rotary position embeddings (ModernBERT and similar); if some layers have a sliding window, of the
    others only. 0 for the checkpoint's own, or the architecture's usual one. Stages change it as rows grow longer."""
    rope_theta_local: float = option(0.0, at_least=0)
    """Base of the rotary position embeddings in layers with a sliding window (``sliding_attention``)."""
    frozen_steps: int = option(0, at_least=0, needs="model.start_from")
    """Steps at the start during which the continued encoder is frozen and only heads are trained (ELECTRA: the
    discriminator's encoder and the shared embeddings are frozen, its head and the generator's layers are trained)."""
    generator_from: str = option("", needs=("model.start_from", "objective.name=electra"))
    """A masked-LM checkpoint for the generator; empty: ``generator/`` next to ``start_from``, or a new generator."""
    extend_vocabulary: bool = option(False, needs="model.start_from")
    """Allow a corpus tokenizer that adds tokens to the checkpoint's: a new embedding is the mean of its pieces'."""
    attention: Literal["auto", "documents", "sdpa", "eager"] = "auto"
    """How attention is computed: within document boundaries, without attention dropout (``documents``: torch's varlen
    kernel on a GPU in bf16, elsewhere with a mask); fused, with a mask (``sdpa``); unfused (``eager``); ``auto``:
    ``documents`` where that kernel runs and rows are not full, else ``sdpa``. Decided when a run begins."""
    fused: Literal["auto", True, False] = option("auto", resume="free")
    """Compute queries, keys and values in one product, and skip the lookup of token types, which are all 0 (BERT,
    RoBERTa, XLM-R, CamemBERT, ELECTRA): same results up to rounding, fewer kernel launches. ``auto``: on a GPU."""
    norms: Literal["auto", "autocast", "bf16"] = option("auto", needs="train.precision!=fp32")
    """Layer norms of the architectures of ``fused``: as in torch's autocast, float32 on a GPU; or with input and output
    in bf16, mean and variance in float32, which moves an eighth fewer bytes on a GPU. ``auto``: bf16 on a GPU. Decided
    when a run begins."""


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its learning-rate schedule."""

    name: Literal["adamw", "electra-code", "stableadamw", "muon"] = "adamw"
    """AdamW; AdamW without bias correction, as Google's ELECTRA was trained (``electra-code``); AdamW with Adafactor's
    update clipping, as ModernBERT was trained (``stableadamw``: Wortsman et al. 2023); Muon for the matrices within
    layers and AdamW for the rest (``muon``)."""
    learning_rate: float = option(5e-4, at_least=0)
    """Peak learning rate, reached at the end of warm-up."""
    schedule: Literal["linear", "cosine", "1-sqrt", "wsd", "constant"] = "linear"
    """Schedule after warm-up: decay to ``min_lr_ratio`` linearly, as a cosine or as 1 - sqrt (Hägele et al. 2024);
    constant with a decay at the end (wsd, the trapezoid); constant. In a stage it spans the stage's own steps."""
    warmup_steps: int = option(0, at_least=0)
    """Steps over which the learning rate rises from 0 to its peak."""
    decay_ratio: float = option(0.1, at_least=0, at_most=1, needs="optimizer.schedule=wsd", formerly=("decay_share",))
    """Share of the steps, at the end, over which a warm-up-stable-decay schedule decays."""
    decay_shape: Literal["linear", "1-sqrt"] = option("linear", needs="optimizer.schedule=wsd")
    """Shape of the decay of a warm-up-stable-decay schedule."""
    min_lr_ratio: float = option(
        0.0, at_least=0, at_most=1, needs="optimizer.schedule!=constant", formerly=("final_share",)
    )
    """Learning rate of the last step as a share of the peak."""
    weight_decay: float = option(0.01, at_least=0)
    """Decoupled weight decay, scaled by the learning rate; for matrices only, not for biases and norms."""
    decay_embeddings: bool = True
    """Whether weight decay also applies to embedding tables."""
    beta1: float = option(0.9, at_least=0, below=1)
    """Decay rate of AdamW's running mean of gradients."""
    beta2: float = option(0.999, at_least=0, below=1)
    """Decay rate of AdamW's running mean of squared gradients."""
    epsilon: float = option(1e-6, above=0)
    """Added to AdamW's denominator."""
    max_grad_norm: float = option(1.0, at_least=0, formerly=("max_norm",))
    """Gradients are clipped to this norm; 0 for no clipping."""
    layer_decay: float = option(1.0, above=0, at_most=1)
    """Each layer's learning rate as a share of that of the layer above."""
    muon_adjust_lr: Literal["match_rms_adamw", "original"] = option("match_rms_adamw", needs=OF_MUON)
    """Factor by which Muon scales the learning rate of an A x B matrix: 0.2 sqrt(max(A, B)), so that learning rates
    tuned for AdamW fit (Liu et al. 2025), or sqrt(max(1, A / B)) (Jordan 2024)."""
    muon_learning_rate_ratio: float = option(1.0, above=0, needs=OF_MUON)
    """Learning rate of Muon's matrices as a share of ``learning_rate``, which other parameters have."""
    muon_weight_decay: float = option(-1.0, at_least=-1, needs=OF_MUON)
    """Weight decay of Muon's matrices; negative for ``weight_decay``."""
    muon_momentum: float = option(0.95, at_least=0, below=1, needs=OF_MUON)
    """Decay rate of Muon's running mean of gradients."""


@dataclass(frozen=True)
class TrainConfig:
    """Length, batch size, precision and device of a run, and what it saves when."""

    steps: int = option(1000, at_least=1)
    """Optimizer steps of the whole run, of all its stages together."""
    batch_size: int = option(32, at_least=1)
    """Rows per optimizer step, over all processes and micro-batches."""
    batch_warmup_steps: int = option(0, at_least=0)
    """Steps over which the batch grows from ``batch_warmup_from`` to ``batch_size`` rows, equally many at each size."""
    batch_warmup_from: int = option(1, at_least=1, needs="train.batch_warmup_steps")
    """Rows of the first step of the batch warm-up."""
    batch_warmup_by: int = option(0, at_least=0, needs="train.batch_warmup_steps")
    """Rows added at a time during batch warm-up; 0 for ``batch_warmup_from``."""
    accumulation: int = option(1, at_least=1, resume="free")
    """Micro-batches per step (gradient accumulation), to save memory."""
    seed: int = option(1, compared=False)
    """Seed of all randomness."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "fp32"
    """Full float32, or autocast to bfloat16 or float16 with weights in float32. With ``fp16`` the loss is scaled and
    steps whose gradient overflows are skipped. ``auto``: ``bf16`` where the device computes faster in it, else
    ``fp16`` on a GPU (``cuda``, ``xpu``), else ``fp32``: the run's configuration records the choice."""
    compile: Literal["auto", True, False] = option("auto", resume="free")
    """Compile the step with ``torch.compile``: a minute or more at the start, then faster. ``auto`` compiles only
    pre-training on a GPU; the run's configuration records the choice, since compiled dropout draws other random
    numbers."""
    cuda_graphs: bool = option(False, resume="free", needs="train.compile!=false")
    """Record the compiled step's kernel launches once and replay them (CUDA graphs), for steps so short that the host
    cannot keep up: on one GPU only, at the cost of memory."""
    gradient_checkpointing: bool = option(False, resume="free")
    """Recompute activations in the backward pass: less memory, slower."""
    log_every: int = option(50, at_least=1, resume="free")
    """Steps between log records of the training loss."""
    eval_every: int = option(500, at_least=0, resume="free", needs="corpus.eval_rows")
    """Steps between evaluations on held-out rows; 0 for one at the end only."""
    save_every: int = option(500, at_least=0, resume="free")
    """Steps between checkpoints; 0 to save only at the end and by ``save_minutes``."""
    save_minutes: float = option(30.0, at_least=0, resume="free")
    """Save also when the last checkpoint is this many minutes old; 0 disables it."""
    keep: int = option(2, at_least=2, resume="free")
    """Number of checkpoints kept; at least 2, so that an incomplete one has a predecessor."""
    keep_at: str = option("", resume="free")
    """Shares of the steps, increasing and separated by commas (``0.0625,0.125,0.25,0.5,0.8,1``), at which the model is
    kept permanently in ``kept/step-N``, a Hugging Face folder without optimizer state; empty for none."""
    keep_every: int = option(0, at_least=0, resume="free")
    """Steps between models that are kept permanently in ``kept/step-N``, besides those of ``keep_at``; 0 for none."""
    ema: float = option(0.0, at_least=0, below=1)
    """Keep an exponential moving average of the weights with this decay (such as 0.999); ``hf/`` and ``kept/`` then
    hold the average, and it is evaluated, too (``averaged_loss``). 0 for none."""
    max_minutes: float = option(0.0, at_least=0, resume="free")
    """Save and stop after this many minutes; 0 for no limit."""
    device: str = option("", resume="free")
    """Device to train on: ``cpu``, ``cuda`` (NVIDIA, AMD), ``xpu`` (Intel), each also with a number as in ``cuda:1``,
    or ``mps`` (Apple); empty for this process's ``cuda`` if there is one, else ``xpu``, else the CPU."""
    timeout_seconds: float = option(60.0, at_least=1, resume="free")
    """With several processes: stop all if one does not answer the others for this many seconds within a step; while a
    run begins, saves and ends they wait half an hour."""
    tracker: Literal["", "trackio", "wandb", "tensorboard"] = option("", resume="free")
    """Experiment tracker to which every log record is sent; empty for none."""


@dataclass(frozen=True)
class StageConfig:
    """A part of a run in which some options differ from the run's."""

    name: str = ""
    """Its name: letters, digits, ``-`` and ``_``."""
    steps: int = 0
    """Number of optimizer steps."""
    settings: tuple[str, ...] = ()
    """``key=value``, overriding the run's own options."""
    keep: bool = False
    """Keep the model of its last step in ``kept/step-N``."""


@dataclass(frozen=True)
class PretrainConfig:
    """The complete configuration of a pre-training run: ``runs/x/config.json`` holds it and can re-run it."""

    listed_as = "options"  # by `trueneg list`

    preset: str = option("", resume="free", is_record=True)
    """Name of the preset that the run started from, for the record."""
    plugins: str = option("", resume="free")
    """Plugin modules that register further names, separated by commas: those given with ``--plugin``."""
    corpus: CorpusConfig = option(CorpusConfig())
    model: ModelConfig = option(ModelConfig())
    objective: ObjectiveConfig = option(ObjectiveConfig())
    optimizer: OptimizerConfig = option(OptimizerConfig())
    train: TrainConfig = option(TrainConfig())
    stages: tuple[StageConfig, ...] = ()
    """Stages of the run, in order: ``--stages FILE`` reads them, ``--set stages.NAME.KEY=VALUE`` changes them. Without
    any the run is one stage. A resumed run may change those that have not begun."""
