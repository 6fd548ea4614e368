"""Every option there is: frozen dataclasses, with what a run does by default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class CorpusConfig:
    """What is read: a folder made by ``trueneg corpus build``."""

    path: str = ""
    """Folder made by ``trueneg corpus build``."""
    length: int = 128
    """Tokens of a row, its start and end tokens included."""
    pack: bool = False
    """Fill rows with pieces of several documents, under attention that stops at their borders."""
    eval_rows: int = 512
    """Held-out rows that an evaluation reads; 0 for none. Without a held-out split there is no evaluation."""


PROJECTED = ("electra", "albert")
"""Architectures whose embeddings have a width of their own, so that encoders of different widths can share them."""


@dataclass(frozen=True)
class ModelConfig:
    """The encoder: a Hugging Face architecture from nothing, or a checkpoint to continue."""

    start_from: str = ""
    """The checkpoint to continue: a run folder, a Hugging Face folder or a hub name; empty for random weights of the
    sizes below."""
    architecture: str = "electra"
    """A Hugging Face ``model_type`` with a masked-LM head."""
    num_layers: int = 12
    """Number of Transformer layers."""
    hidden_size: int = 256
    """Width of the hidden states."""
    num_heads: int = 4
    """Attention heads of a layer; they share the hidden size."""
    intermediate_size: int = 1024
    """Width of the feed-forward layers."""
    embedding_size: int = 128
    """Width of the embeddings, where the architecture has one of its own (ELECTRA)."""
    max_positions: int = 512
    """Positions of the model, and so the longest row it can ever read."""
    dropout: float = -1.0
    """Dropout of every layer; negative for the checkpoint's own, or the architecture's usual one."""
    generator_width: float = 0.25
    """The generator's hidden size, heads and feed-forward size as a share of the discriminator's (ELECTRA)."""
    generator_depth: float = 1.0
    """The generator's layers as a share of the discriminator's (ELECTRA)."""
    frozen_steps: int = 0
    """Steps at the start in which the continued encoder stays as it is and heads learn (of ELECTRA: the discriminator's
    encoder with the shared embeddings stays, its head and the generator's layers learn)."""
    generator_from: str = ""
    """A masked-LM checkpoint for the generator; empty: the ``generator/`` beside ``start_from``, or new."""
    extend_vocabulary: bool = False
    """Allow a corpus tokenizer that adds entries to the checkpoint's: a new row is the mean of its pieces."""
    attention: Literal["sdpa", "eager"] = "sdpa"
    """How transformers computes attention: fused (``sdpa``) or step by step (``eager``)."""


@dataclass(frozen=True)
class MaskingConfig:
    """Which positions are masked and what stands there instead."""

    rate: float = 0.15
    """Share of a row's ordinary tokens that are chosen to be predicted."""
    unit: Literal["token", "word", "span"] = "token"
    """What is chosen at once: single tokens, whole words, or spans of words."""
    mask_share: float = 0.85
    """Share of the chosen positions that show the mask token."""
    random_share: float = 0.0
    """Share of the chosen positions that show a random ordinary token; what is left shows the gold token."""
    mean_span: float = 3.8
    """Mean words of a span before clipping to ``max_span`` (geometric, Joshi et al. 2020)."""
    max_span: int = 10
    """Words of a span at most."""


@dataclass(frozen=True)
class CorrectionConfig:
    """Hard correction (Zhang et al. 2023, Eq. 2 and App. A)."""

    detector: str = ""
    """Detector of false negatives, such as ``lexical`` or ``contextual:ENCODER``; empty for none."""
    forms: Literal["agree", "lemma"] = "agree"
    """Lexical table: the form of a synonym that agrees with gold, or its base form."""
    wordnet: str = ""
    """WordNet's folder; empty to look in the usual places."""
    use: Literal["drop", "weigh", "set", "soft"] = "drop"
    """What credit does to the masked-LM loss of a position: takes it out (``drop``), weighs it down (``weigh``), lets
    the model choose among all accepted tokens (``set``), or spreads the target over them (``soft``)."""
    denominator: Literal["masked", "kept"] = "masked"
    """Divide the corrected loss by all masked positions, or by those that are kept."""
    discriminator: Literal["original", "ignore", "soft"] = "original"
    """What credit does to ELECTRA's label of a replaced token: it becomes original, leaves the loss, or becomes the
    credit's remainder (``soft``)."""


@dataclass(frozen=True)
class RegularizationConfig:
    """Soft regularization (Zhang et al. 2023, Eq. 3 and section 5)."""

    level: Literal["", "token", "sentence", "token+sentence"] = ""
    """What is regularized: token embeddings, sentence predictions, both; empty for nothing."""
    weight: float = 1.0
    """Weight of the regularization in the loss."""
    variant: Literal["predicted", "soft"] = "predicted"
    """Token level: embedding of the predicted token (Eq. 3), or its expectation under the model."""
    stop_gradient: Literal["none", "gold", "predicted"] = "none"
    """Token level: a side whose embedding is held constant."""
    direction: Literal["predicted-original", "original-predicted"] = "predicted-original"
    """Sentence level: KL(predicted || original), or the other way round."""
    sentence_stop_gradient: Literal["none", "original", "predicted"] = "original"
    """Sentence level: a side that is held constant."""
    collapse_threshold: float = 0.5
    """Token level: warn when the mean pairwise cosine of the embeddings passes this."""


@dataclass(frozen=True)
class ViewsConfig:
    """Which words of a text are replaced in its views, and by what (Wang et al. 2021, section 3.1)."""

    lexicon: str = ""
    """Where replacements come from: empty for WordNet, or ``wn:LEXICON`` of the package ``wn``, for other languages."""
    synonym_share: float = 0.4
    """Of a text's tokens, those that the synonym view replaces, as far as there are words to put there."""
    antonym_share: float = 0.2
    """Of a text's tokens, those that the antonym view replaces, as far as there are words to put there."""
    synonym_kinds: Literal["synonym+hypernym+inflection", "synonym+hypernym", "synonym+inflection", "synonym"] = (
        "synonym+hypernym+inflection"
    )
    """What the synonym view puts there; with fewer kinds it replaces fewer words, and is right about more of them."""
    kinds: Literal["mixed", "one"] = "mixed"
    """Kinds of synonyms side by side in a text, or one of them a text (the authors' code)."""
    senses: Literal["first", "frequent", "all"] = "frequent"
    """Which meanings of a word supply others; all in the authors' code."""
    agree: bool = True
    """Inflect what replaces a word as the word was; the paper's code puts base forms."""
    multiword: bool = False
    """Candidates of several words, or with a hyphen, too (the authors' code)."""
    indirect: bool = False
    """Antonyms by way of similar words too."""
    random: Literal["band", "uniform", "none"] = "band"
    """Words that fill the antonym view where there is no antonym: of the same class and about as frequent, of the same
    class, or none."""
    articles: bool = True
    """Write "an" before a word put there that begins with a vowel, "a" before others; the authors' code leaves them."""
    entities: Literal["tags", "capitals"] = "tags"
    """Names that stay: what the tagger calls a proper noun, or words with a capital within a sentence as well (with a
    cased tokenizer)."""


@dataclass(frozen=True)
class ClineConfig:
    """Contrastive learning with semantic negatives (Wang et al. 2021)."""

    variant: Literal["paper", "released"] = "paper"
    """Equations 4 and 6, or what the authors' code minimises."""
    rtd: bool = True
    """Find the words that were replaced; False is Table 6's "w/o RTD"."""
    contrast: bool = True
    """Contrast the original with its views."""
    negatives: Literal["antonyms", "random"] = "antonyms"
    """What the original is contrasted with: its antonym view, or another row ("w/o Hard Negative")."""
    similarity: Literal["dot", "cosine"] = "dot"
    """How alike two vectors are, in the contrast: their dot product (the paper) or their cosine."""
    temperature: float = 1.0
    """Similarities in the contrast are divided by this."""
    in_batch_negatives: bool = False
    """Contrast with all other rows of the micro-batch too."""
    pooling: Literal["cls", "mean"] = "cls"
    """What is contrasted: the vector of the first token (the paper), or the mean over text that most sentence encoders
    are read by."""
    weights: Literal["learned", "fixed"] = "learned"
    """Weights of the loss's terms: learned (Eq. 7), or fixed."""
    mlm_weight: float = 1.0
    """Weight of the masked-LM term, beside learned weights or not; an encoder that is there to give sentence vectors,
    and has no head for masked words yet, keeps more of them with a small one."""
    rtd_weight: float = 1.0
    """Weight of finding replaced words."""
    contrast_weight: float = 1.0
    """Weight of the contrast."""
    guard: str = ""
    """A detector, as ``correction.detector``: a row whose synonym view it discredits, or whose antonym view it credits,
    counts less in the contrast. Empty for none."""
    guard_floor: float = 0.0
    """The least that a view is trusted."""
    views: ViewsConfig = field(default_factory=ViewsConfig)


@dataclass(frozen=True)
class ObjectiveConfig:
    """What is minimised."""

    name: str = "electra"
    """What is minimised: ``electra``, ``mlm``, ``cline`` or a plugin's; see ``trueneg list objectives``."""
    options: str = ""
    """Options of a plugin's objective: ``key=value``, with commas between them."""
    prediction: Literal["sampled", "argmax"] = "sampled"
    """The predicted token: drawn from the model, or its best guess."""
    temperature: float = 1.0
    """Sampled predictions are drawn after the logits are divided by this."""
    generator_weight: float = 1.0
    """Weight of the generator's masked-LM loss (ELECTRA)."""
    discriminator_weight: float = 50.0
    """Weight of the discriminator's loss of telling replaced tokens from original ones (ELECTRA)."""
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    correction: CorrectionConfig = field(default_factory=CorrectionConfig)
    regularization: RegularizationConfig = field(default_factory=RegularizationConfig)
    cline: ClineConfig = field(default_factory=ClineConfig)


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW and the course of its learning rate."""

    name: Literal["adamw", "electra-code"] = "adamw"
    """AdamW, or as Google's ELECTRA was trained, without bias correction (``electra-code``)."""
    learning_rate: float = 5e-4
    """Peak of the learning rate, which warm-up leads to."""
    schedule: Literal["linear", "cosine", "wsd", "constant"] = "linear"
    """Course after warm-up: down to ``final_share`` in a line or a cosine; constant with a decay at the end (wsd);
    constant."""
    warmup_steps: int = 0
    """Steps in which the learning rate rises from 0 to its peak."""
    decay_share: float = 0.1
    """Share of the steps in which a warm-up-stable-decay schedule decays."""
    final_share: float = 0.0
    """Share of the learning rate that is left at the last step."""
    weight_decay: float = 0.01
    """Decoupled weight decay, of matrices only: biases and norms have none."""
    beta1: float = 0.9
    """Decay of AdamW's mean of gradients."""
    beta2: float = 0.999
    """Decay of AdamW's mean of squared gradients."""
    epsilon: float = 1e-6
    """Added to AdamW's denominator."""
    max_norm: float = 1.0
    """Gradients are clipped to this norm; 0 for no clipping."""
    layer_decay: float = 1.0
    """Each layer's learning rate as a share of the one above it."""


@dataclass(frozen=True)
class TrainConfig:
    """How long, how much at once, and what is written when."""

    steps: int = 1000
    """Optimizer steps of the whole run."""
    batch_size: int = 32
    """Rows of an optimizer step, over all processes and micro-batches."""
    accumulation: int = 1
    """Micro-batches that a step is cut into, to save memory."""
    seed: int = 1
    """Everything random follows from it."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Full float32, or bfloat16 where autocast allows it, with weights in float32."""
    compile: bool = False
    """Compile the step with ``torch.compile``: slow to begin, then faster."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass: less memory, slower."""
    log_every: int = 50
    """Steps between records of the training loss."""
    eval_every: int = 500
    """Steps between evaluations on held-out rows; 0 for one at the end only."""
    save_every: int = 500
    """Steps between checkpoints; 0 for one at the end, and by ``save_minutes``."""
    save_minutes: float = 30.0
    """Save also when the last checkpoint is so old; 0 for not."""
    keep: int = 2
    """Checkpoints kept; at least 2, so that a torn one has a predecessor."""
    max_minutes: float = 0.0
    """Save and stop after this many minutes; 0 for no limit."""
    device: str = ""
    """Where the model is trained: ``cpu``, ``cuda`` or ``cuda:N``; empty for this process's GPU if there is one, else
    the CPU."""
    tracker: Literal["", "trackio", "wandb", "tensorboard"] = ""
    """Experiment tracker that is sent every record; empty for none."""


@dataclass(frozen=True)
class PretrainConfig:
    """One pre-training run, whole: ``runs/x/config.json`` holds it and re-runs it."""

    preset: str = ""
    """Name of the preset that the run began with, for the record."""
    plugins: str = ""
    """Modules that add names to trueneg's own, with commas between them: what ``--plugin`` named."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


@dataclass(frozen=True)
class TaskConfig:
    """Labelled data, and how it is read."""

    name: str = ""
    """``glue/mrpc``, ``squad``, …; over one's own data ``classification``, ``regression`` or ``tagging``."""
    data: str = ""
    """The task's files: a folder or a file, or ``hub:NAME``."""
    text_column: str = ""
    """Column of the text, in one's own data."""
    second_column: str = ""
    """Column of the second text, in one's own data of pairs; empty for single texts."""
    label_column: str = ""
    """Column of the label, in one's own data."""
    length: int = 128
    """Tokens of a row at most."""
    train_fraction: float = 1.0
    """Share of the training examples that is used, drawn by the seed with each label's share kept."""
    max_train_examples: int = 0
    """At most so many of them, drawn likewise; 0 for no limit."""
    max_dev_examples: int = 0
    """Evaluate on so many examples of each split, the same for every seed; 0 for all."""
    swap_pairs: bool = False
    """Train on each pair in both orders (ELECTRA's code, for MRPC and STS-B)."""
    doc_stride: int = 128
    """Reading comprehension: tokens between the starts of windows over a long text."""
    max_query: int = 64
    """Reading comprehension: tokens of a question at most."""
    max_answer: int = 30
    """Reading comprehension: tokens of an answer at most."""
    num_best: int = 20
    """Reading comprehension: starts and ends that are combined."""
    null_threshold: float = 0.0
    """SQuAD 2.0 says "no answer" where its score exceeds that of the best span by more than this."""


@dataclass(frozen=True)
class FreeLBConfig:
    """Free large-batch adversarial training (Zhu et al. 2020, Algorithm 1)."""

    steps: int = 3
    """Passes forward and backward, each at a perturbation; fairseq's ``--adv-steps`` counts one less."""
    step_size: float = 0.1
    """Length of a step of ascent, in ``norm``."""
    magnitude: float = 0.1
    """Length of the perturbation that the first pass sees, drawn at random; 0 for none."""
    bound: float = 0.0
    """Norm of a perturbation at most; 0 for no limit."""
    norm: Literal["l2", "linf"] = "l2"
    """Norm in which a perturbation is measured, over all tokens and dimensions of an example."""


@dataclass(frozen=True)
class SmartConfig:
    """Smoothness-inducing adversarial regularization (Jiang et al. 2020, section 3.1)."""

    weight: float = 1.0
    """Weight of the regularization in the loss."""
    steps: int = 1
    """Steps of gradient ascent to the worst perturbation."""
    step_size: float = 1e-3
    """Largest change of a dimension in a step of ascent."""
    noise: float = 1e-5
    """Standard deviation of the random perturbation from which the first step ascends: at the text itself all
    directions are equal. bf16 rounds the paper's 1e-5 away; 1e-2 it keeps."""
    bound: float = 0.0
    """Largest value of a perturbation's dimension; 0 for no limit (the paper's is 1e-5)."""


@dataclass(frozen=True)
class FinetuneConfig:
    """One fine-tuning run, whole: of one checkpoint, on one task, with one seed (``train.seed``)."""

    preset: str = ""
    """Name of the hyper-parameters that the run began with, for the record."""
    plugins: str = ""
    """Modules that add names to trueneg's own, with commas between them: what ``--plugin`` named."""
    start_from: str = ""
    """The checkpoint to fine-tune: a run folder, a Hugging Face folder or a hub name."""
    task: TaskConfig = field(default_factory=TaskConfig)
    epochs: float = 3.0
    """Times that the training examples are seen, unless ``train.steps`` says how many steps."""
    warmup_share: float = 0.1
    """Share of the steps that warm up, unless ``optimizer.warmup_steps`` says how many."""
    dropout: float = -1.0
    """Dropout of every layer; negative for the checkpoint's own."""
    select: Literal["last", "best"] = "last"
    """Weights that are evaluated: the last, or those best on a validation part split off the training examples."""
    valid_fraction: float = 0.1
    """Share of the training examples that ``select=best`` holds out for choosing."""
    evals_per_epoch: float = 1.0
    """Times an epoch that ``select=best`` looks."""
    length_window: int = 64
    """Batches among which rows are sorted by length; 1 for plain shuffling."""
    keep_model: bool = True
    """Leave the fine-tuned model in the result's folder."""
    attention: Literal["sdpa", "eager"] = "sdpa"
    """How transformers computes attention: fused (``sdpa``) or step by step (``eager``)."""
    adversarial: Literal["", "freelb", "smart"] = ""
    """Train on word embeddings that are perturbed to the model's harm: by FreeLB, by SMART, or not (empty)."""
    freelb: FreeLBConfig = field(default_factory=FreeLBConfig)
    smart: SmartConfig = field(default_factory=SmartConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    train: TrainConfig = field(default_factory=lambda: TrainConfig(steps=0, log_every=100, eval_every=0, save_every=0))
