"""Every option of a run: frozen dataclasses, with the defaults and rules of their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from trueneg.config.fields import option
from trueneg.config.mixtures import Source, names_of, parse_folders, parse_mixture
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
OF_TOKENS = "objective.regularization.level=token|token+sentence"
OF_SENTENCES = "objective.regularization.level=sentence|token+sentence"
OF_CONTRAST = "objective.cline.contrast=true"
OF_VIEWS = "objective.cline.rtd=true or objective.cline.contrast=true"
OF_ANTONYMS = "objective.cline.negatives=antonyms"
OF_SQUAD = "task.name=squad*"
OF_MUON = "optimizer.name=muon"
OF_OWN_DATA = "task.name=classification|regression"


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
class MaskingConfig:
    """Which positions are masked and what stands there instead."""

    rate: float = option(0.15, above=0, below=1)
    """Share of a row's ordinary tokens that are chosen to be predicted."""
    unit: Literal["token", "word", "span"] = "token"
    """What is chosen at once: single tokens, whole words, or spans of words."""
    mask_share: float = option(0.85, at_least=0, at_most=1)
    """Share of the chosen positions that show the mask token."""
    random_share: float = option(0.0, at_least=0, at_most=1)
    """Share of the chosen positions that show a random ordinary token; what is left shows the gold token."""
    mean_span: float = option(3.8, at_least=1, needs="objective.masking.unit=span")
    """Mean words of a span before clipping to ``max_span`` (geometric, Joshi et al. 2020)."""
    max_span: int = option(10, at_least=1, needs="objective.masking.unit=span")
    """Largest number of words of a span."""
    hard_for: str = option("", needs="objective.masking.unit=token")
    """A masked language model of this vocabulary: tokens that are hard for it, when it reads the text as it is, are
    masked first (Zhong et al. 2023, Self-Evolution). A folder, a hub name; empty for none."""
    hard_below: float = option(0.0, at_least=0, below=1, needs="objective.masking.hard_for")
    """A token is hard if its probability is less; 0 if another one is more probable."""


@dataclass(frozen=True)
class CorrectionConfig:
    """Hard correction (Zhang et al. 2023, Eq. 2 and App. A)."""

    detector: str = option("", flag="--hard-correction")
    """Detector of false negatives, such as ``lexical`` or ``contextual:ENCODER``; empty for none."""
    forms: Literal["agree", "lemma", "retrieved"] = option(
        "agree", needs="objective.correction.detector=*lexical* or objective.cline.guard=*lexical*"
    )
    """Table of a ``lexical`` without ``[forms=...]``: every lemma of every synset, as the paper has it (``retrieved``),
    base forms of synonyms (``lemma``, ours), or their forms that agree with gold (``agree``, ours)."""
    wordnet: str = option("", resume="free", needs="objective.correction.detector or objective.name=cline")
    """WordNet's folder; empty to look in the usual places."""
    use: Literal["drop", "down_weight", "marginal", "soft_targets", "restrict"] = option(
        "drop",
        needs="objective.correction.detector",
        old_values={"weigh": "down_weight", "set": "marginal", "soft": "soft_targets"},
    )
    """What credit does to the masked-LM loss of a position: takes it out (``drop``), weighs it by 1 - credit
    (``down_weight``), replaces it by that of the total probability of all accepted tokens (``marginal``), spreads
    the target over them (``soft_targets``), or restricts what ``objective.smoothing`` spreads it over
    (``restrict``)."""
    denominator: Literal["masked", "kept"] = option("masked", needs="objective.correction.detector")
    """Divide the corrected loss by all masked positions, or by those that are kept."""
    discriminator: Literal["original", "position", "ignore", "soft"] = option(
        "original", needs=("objective.name=electra", "objective.correction.detector")
    )
    """What credit does to ELECTRA's label of a replaced token: it becomes original, leaves the loss, or becomes the
    credit's remainder (``soft``). With ``judged=argmax`` that is where r_k was drawn; ``position`` makes it original
    whatever was drawn."""


SMOOTHED_BY_A_MODEL = "objective.smoothing.source=self|average|teacher:*"


@dataclass(frozen=True)
class SmoothingConfig:
    """Label smoothing: a share of the target is spread over a distribution."""

    source: str = ""
    """Over what a share of the target is spread: the vocabulary (``uniform``), what the model says (``self``: Zhong et
    al. 2023), its moving average (``average``) or another masked language model of this vocabulary
    (``teacher:CHECKPOINT``); empty for nothing."""
    share: float = option(0.1, above=0, below=1, needs="objective.smoothing.source")
    """Share of the target that is spread."""
    top: int = option(16, at_least=1, needs=SMOOTHED_BY_A_MODEL)
    """Most probable tokens of a distribution that the target is spread over, besides gold."""
    reads: Literal["original", "masked"] = option("original", needs=SMOOTHED_BY_A_MODEL)
    """The text that a distribution is of: the original, in which gold stands, or the masked one."""
    momentum: float = option(0.999, at_least=0, below=1, needs="objective.smoothing.source=average")
    """What is kept of the moving average at each step."""


@dataclass(frozen=True)
class RegularizationConfig:
    """Soft regularization (Zhang et al. 2023, Eq. 3 and section 5)."""

    level: Literal["", "token", "sentence", "token+sentence"] = option("", flag="--soft-regularization")
    """What is regularized: token embeddings, sentence predictions, both; empty for nothing."""
    weight: float = option(1.0, at_least=0, needs="objective.regularization.level")
    """Weight of the regularization in the loss."""
    variant: Literal["predicted", "soft"] = option("predicted", needs=OF_TOKENS)
    """Token level: embedding of the predicted token (Eq. 3), or its expectation under the model."""
    stop_gradient: Literal["none", "gold", "predicted"] = option("none", needs=OF_TOKENS)
    """Token level: a side whose embedding is held constant."""
    direction: Literal["predicted-original", "original-predicted"] = option("predicted-original", needs=OF_SENTENCES)
    """Sentence level: KL(predicted || original), or the other way round."""
    sentence_stop_gradient: Literal["none", "original", "predicted"] = option("original", needs=OF_SENTENCES)
    """Sentence level: a side that is held constant."""
    collapse_threshold: float = option(0.5, at_least=-1, at_most=1, needs=OF_TOKENS)
    """Token level: warn when the mean pairwise cosine of the embeddings passes this."""


AS_IN_THE_PAPER = {
    "words": "tagged",
    "senses": "all",
    "agree": False,
    "multiword": True,
    "min_count": 0,
    "min_ratio": 0.0,
    "random": "any",
    "articles": False,
}
"""Views as section 3.1 of Wang et al. (2021) has them: of what it does not ask for, nothing is asked."""

VIEWS: dict[str, dict[str, Any]] = {
    "trueneg": {},
    "paper": AS_IN_THE_PAPER,
    "released": AS_IN_THE_PAPER | {"synonym_share": 0.5, "antonym_share": 0.5, "kinds": "one", "antonym_kinds": "one"},
}
"""Name of a preset of views to where it differs from the defaults."""


@dataclass(frozen=True)
class ViewsConfig:
    """Which words of a text are replaced in its views, and by what (Wang et al. 2021, section 3.1)."""

    preset: Literal["trueneg", "paper", "released"] = option("trueneg", compared=False, presets=VIEWS)
    """What sets all options of the views: ours, those of the paper (section 3.1), or of the authors' code. Options
    that are set besides stay set, and each is recorded with the value that is used."""
    lexicon: str = ""
    """Where replacements come from: empty for WordNet, or ``wn:LEXICON`` of the package ``wn``, for other languages."""
    synonym_share: float = option(0.4, at_least=0, at_most=1)
    """Of a text's tokens, those that the synonym view replaces, as far as there are words to put there."""
    antonym_share: float = option(0.2, at_least=0, at_most=1, needs=OF_ANTONYMS)
    """Of a text's tokens, those that the antonym view replaces, as far as there are words to put there."""
    synonym_kinds: Literal["synonym+hypernym+inflection", "synonym+hypernym", "synonym+inflection", "synonym"] = (
        "synonym+hypernym+inflection"
    )
    """What the synonym view puts there; with fewer kinds it replaces fewer words, and is right about more of them."""
    kinds: Literal["mixed", "one"] = "mixed"
    """Kinds of synonyms side by side in a text, or one of them a text (the authors' code)."""
    antonym_kinds: Literal["mixed", "one"] = option("mixed", needs=(OF_ANTONYMS, "objective.cline.views.random!=none"))
    """Antonyms, with random words in the places that are left; or by a coin antonyms alone or random words alone, and
    random words where a text has no antonym (the authors' code)."""
    words: Literal["content", "tagged"] = "content"
    """Which words are replaced, and may replace others. ``content``: nouns, verbs, adjectives and adverbs, but no stop
    words, no forms of be, have and do, and in their place nothing of one or two letters. ``tagged``: all words of these
    four classes (the paper)."""
    min_count: int = option(2, at_least=0)
    """How often the corpus must have what replaces a word, in any use; 0 for no limit, as in the paper. Of several
    words the rarest counts."""
    min_ratio: float = option(0.01, at_least=0, at_most=1)
    """The same as a share of how often it has the word itself: "optics" is no synonym of "eyes"; 0 for no limit, as in
    the paper."""
    senses: Literal["first", "frequent", "all"] = "frequent"
    """Which meanings of a word supply others; all in the authors' code."""
    agree: bool = True
    """Inflect what replaces a word as the word was; the paper's code puts base forms."""
    multiword: bool = False
    """Candidates of several words, or with a hyphen, too (the authors' code)."""
    indirect: bool = option(False, needs=OF_ANTONYMS)
    """Antonyms via similar words too."""
    random: Literal["band", "uniform", "any", "none"] = option("band", needs=OF_ANTONYMS)
    """Words that fill the antonym view where there is no antonym: of the same class and about as frequent, of the same
    class, any, or none."""
    articles: bool = True
    """Write "an" before a word put there that begins with a vowel, "a" before others; the authors' code leaves them."""
    entities: Literal["tags", "capitals"] = "tags"
    """Names that stay: what the tagger calls a proper noun, or words with a capital within a sentence as well (with a
    cased tokenizer)."""


@dataclass(frozen=True)
class TripletConfig:
    """How triplets of Hits are made of sentences (Wang et al. 2021, section 4.6)."""

    preset: Literal["trueneg", "paper"] = option(
        "trueneg",
        presets={"trueneg": {}, "paper": {"words": "tagged", "senses": "all", "agree": False, "multiword": True}},
    )
    """What sets the other options: ours, or the paper's "a word [...] with its synonym/antonym from WordNet", with
    nothing else asked: 9,629 triplets of MR, where the paper has 9,626. Options that are set besides stay set."""
    replaced: Literal["one", "many"] = "one"
    """Words replaced in a view: one (the paper), or as many as in the views of training, 40 % by synonyms and 20 % by
    antonyms, as far as there are words to put there. With many, Hits mostly say that an encoder notices how many words
    changed."""
    words: Literal["content", "tagged"] = "content"
    """Which words are replaced, and may replace others; as of the views."""
    senses: Literal["first", "frequent", "all"] = "frequent"
    """Which meanings of a word supply others."""
    agree: bool = True
    """Inflect what replaces a word as the word was; else it is a base form."""
    multiword: bool = False
    """Replacements of several words, or with a hyphen, too."""
    indirect: bool = False
    """Antonyms via similar words too."""


@dataclass(frozen=True)
class ClineConfig:
    """Contrastive learning with semantic negatives (Wang et al. 2021)."""

    variant: Literal["paper", "released"] = option(
        "paper", brings={"released": ("views.preset=released", "original=masked")}
    )
    """Equations 4 and 6, or what the authors' code minimises. ``released`` sets the authors' views
    (``views.preset=released``) and original (``original=masked``), too, each unless it is set besides."""
    rtd: bool = True
    """Find the words that were replaced; False is Table 6's "w/o RTD"."""
    contrast: bool = True
    """Contrast the original with its views."""
    original: Literal["masked", "clean"] = option("masked", needs=OF_CONTRAST)
    """The original in the contrast: the masked text, which is read anyway (the authors' code), or the text itself (Eq.
    5 and 6), which is one more row to read: up to a third more time a step."""
    negatives: Literal["antonyms", "random"] = option("antonyms", needs=OF_VIEWS)
    """What the original is contrasted with: its antonym view, or another row ("w/o Hard Negative")."""
    similarity: Literal["dot", "cosine"] = option("dot", needs=OF_CONTRAST)
    """How alike two vectors are, in the contrast: their dot product (the paper) or their cosine."""
    temperature: float = option(1.0, above=0, needs=(OF_CONTRAST, "objective.cline.variant=paper"))
    """Similarities in the contrast are divided by this."""
    in_batch_negatives: bool = option(False, needs=OF_CONTRAST)
    """Contrast with all other rows of the micro-batch too."""
    pooling: Literal["cls", "mean"] = option("cls", needs=OF_CONTRAST)
    """What is contrasted: the vector of the first token (the paper), or the mean over text that most sentence encoders
    are read by."""
    weights: Literal["learned", "fixed"] = "learned"
    """Weights of the loss's terms: learned (Eq. 7), or fixed."""
    mlm_weight: float = option(1.0, at_least=0)
    """Weight of the masked-LM term, next to learned weights or not; an encoder that gives sentence vectors and has
    no head for masked words yet keeps more of them with a small one."""
    rtd_weight: float = option(1.0, at_least=0, needs="objective.cline.rtd=true")
    """Weight of finding replaced words."""
    contrast_weight: float = option(1.0, at_least=0, needs=OF_CONTRAST)
    """Weight of the contrast."""
    guard: str = option("", needs=(OF_VIEWS, f"{OF_CONTRAST} or objective.cline.variant=released"))
    """A detector, as ``correction.detector``: a row whose synonym view it discredits, or whose antonym view it credits,
    counts less in the contrast. Empty for none."""
    guard_floor: float = option(0.0, at_least=0, at_most=1, needs=("objective.cline.guard", OF_CONTRAST))
    """Smallest weight of a row in the contrast."""
    views: ViewsConfig = option(ViewsConfig(), needs=OF_VIEWS)


@dataclass(frozen=True)
class ObjectiveConfig:
    """What is minimised."""

    name: str = option("electra", flag="--objective")
    """What is minimised: ``electra``, ``mlm``, ``cline`` or a plugin's; see ``trueneg list objectives``."""
    options: str = ""
    """Options of a plugin's objective: ``key=value``, with commas between them."""
    prediction: Literal["sampled", "argmax"] = "sampled"
    """The predicted token: drawn from the model, or its best guess."""
    temperature: float = option(1.0, above=0, needs="objective.prediction=sampled")
    """Sampled predictions are drawn after the logits are divided by this."""
    loss_temperature: float = option(1.0, above=0)
    """The logits in the masked-LM loss are divided by this, corrected or not (Zhang et al. 2023, footnote 13);
    ``gold_loss`` and predictions are of the plain logits."""
    judged: Literal["predicted", "argmax"] = option(
        "predicted",
        needs=(
            "objective.name=electra",
            "objective.prediction=sampled",
            "objective.correction.detector or objective.regularization.level",
        ),
    )
    """The token r_k that correction and regularization look at in ELECTRA: the drawn one, which the discriminator reads
    too, or the generator's best guess (Zhang et al. 2023, section 3.2), while the discriminator reads the drawn one."""
    max_logits_mb: float = option(-1.0, at_least=-1, resume="free")
    """Largest size of the masked-LM head's logits that are held, in MiB of float32; larger ones are made in chunks of
    this size, and again in the backward pass. 0 for no limit; -1 for 512 on a GPU and none on a CPU."""
    generator_weight: float = option(1.0, at_least=0, needs="objective.name=electra")
    """Weight of the generator's masked-LM loss (ELECTRA)."""
    discriminator_weight: float = option(50.0, at_least=0, needs="objective.name=electra")
    """Weight of the discriminator's loss of telling replaced tokens from original ones (ELECTRA)."""
    updates: Literal["joint", "alternating"] = option(
        "joint",
        needs=("objective.name=electra", "model.embedding_sharing=none|gdes", "not objective.regularization.level"),
    )
    """Change generator and discriminator at once, or the generator first and then the discriminator, gradients clipped
    for each (ELECTRA; alternating: as DeBERTaV3)."""
    masking: MaskingConfig = option(MaskingConfig())
    correction: CorrectionConfig = option(CorrectionConfig())
    smoothing: SmoothingConfig = option(SmoothingConfig())
    regularization: RegularizationConfig = option(RegularizationConfig())
    cline: ClineConfig = option(ClineConfig(), needs="objective.name=cline")


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
