"""Options of the objectives: frozen dataclasses, with the defaults and rules of their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from trueneg.config.fields import option

# Conditions that several options share; see ``fields.holds``.
OF_TOKENS = "objective.regularization.level=token|token+sentence"
OF_SENTENCES = "objective.regularization.level=sentence|token+sentence"
OF_CONTRAST = "objective.cline.contrast=true"
OF_VIEWS = "objective.cline.rtd=true or objective.cline.contrast=true"
OF_ANTONYMS = "objective.cline.negatives=antonyms"


@dataclass(frozen=True)
class MaskingConfig:
    """Which positions are masked, and what replaces their tokens."""

    rate: float = option(0.15, above=0, below=1)
    """Share of a row's non-special tokens that are selected for prediction."""
    unit: Literal["token", "word", "span"] = "token"
    """Unit of selection: single tokens, whole words, or spans of words."""
    mask_share: float = option(0.85, at_least=0, at_most=1)
    """Share of the selected positions that show the mask token."""
    random_share: float = option(0.0, at_least=0, at_most=1)
    """Share of the selected positions that show a random token; the rest show the gold token."""
    mean_span: float = option(3.8, at_least=1, needs="objective.masking.unit=span")
    """Mean number of words of a span before clipping to ``max_span`` (geometric, Joshi et al. 2020)."""
    max_span: int = option(10, at_least=1, needs="objective.masking.unit=span")
    """Largest number of words of a span."""
    hard_for: str = option("", needs="objective.masking.unit=token")
    """A masked language model with the same vocabulary (folder or hub name): tokens that are hard for it, given the
    unmasked text, are masked first (Zhong et al. 2023, Self-Evolution). Empty for none."""
    hard_below: float = option(0.0, at_least=0, below=1, needs="objective.masking.hard_for")
    """A token is hard if its probability is below this; with 0, if another token is more probable."""


@dataclass(frozen=True)
class CorrectionConfig:
    """Hard correction (Zhang et al. 2023, Eq. 2 and App. A)."""

    detector: str = option("", flag="--hard-correction")
    """Detector of false negatives, such as ``lexical`` or ``contextual:ENCODER``; empty for none."""
    forms: Literal["agree", "lemma", "retrieved"] = option(
        "agree", needs="objective.correction.detector=*lexical* or objective.cline.guard=*lexical*"
    )
    """Substitutes of a ``lexical`` detector without ``[forms=...]``: every lemma of every synset, as in the paper
    (``retrieved``), base forms of synonyms (``lemma``, ours), or their forms that agree with gold (``agree``, ours)."""
    wordnet: str = option("", resume="free", needs="objective.correction.detector or objective.name=cline")
    """Folder of WordNet; empty to look in the usual places."""
    use: Literal["drop", "down_weight", "marginal", "soft_targets", "restrict"] = option(
        "drop",
        needs="objective.correction.detector",
        old_values={"weigh": "down_weight", "set": "marginal", "soft": "soft_targets"},
    )
    """What the detector's credit does to the masked-LM loss of a position: removes it (``drop``), weights it by
    1 - credit (``down_weight``), replaces it by that of the total probability of all accepted tokens (``marginal``),
    spreads the target over them (``soft_targets``), or restricts the tokens over which ``objective.smoothing`` spreads
    it (``restrict``)."""
    denominator: Literal["masked", "kept"] = option("masked", needs="objective.correction.detector")
    """Divide the corrected loss by the number of masked positions, or of those that are kept."""
    discriminator: Literal["original", "position", "ignore", "soft"] = option(
        "original", needs=("objective.name=electra", "objective.correction.detector")
    )
    """What the detector's credit does to ELECTRA's label of a replaced token: it becomes original, is left out of the
    loss (``ignore``), or becomes 1 - credit (``soft``). With ``judged=argmax`` this applies only where r_k itself was
    sampled; ``position`` makes the label original whichever token was sampled."""


SMOOTHED_BY_A_MODEL = "objective.smoothing.source=self|average|teacher:*"


@dataclass(frozen=True)
class SmoothingConfig:
    """Label smoothing: a share of the target is spread over a distribution."""

    source: str = ""
    """What a share of the target is spread over: the vocabulary (``uniform``), or predictions of the model itself
    (``self``: Zhong et al. 2023), its moving average (``average``) or another masked language model with the same
    vocabulary (``teacher:CHECKPOINT``); empty for none."""
    share: float = option(0.1, above=0, below=1, needs="objective.smoothing.source")
    """Share of the target that is spread."""
    top: int = option(16, at_least=1, needs=SMOOTHED_BY_A_MODEL)
    """Number of most probable tokens that the target is spread over, besides gold."""
    reads: Literal["original", "masked"] = option("original", needs=SMOOTHED_BY_A_MODEL)
    """Text for which the distribution is predicted: the original, which contains gold, or the masked one."""
    momentum: float = option(0.999, at_least=0, below=1, needs="objective.smoothing.source=average")
    """Share of the moving average that is kept at each step."""


@dataclass(frozen=True)
class RegularizationConfig:
    """Soft regularization (Zhang et al. 2023, Eq. 3 and section 5)."""

    level: Literal["", "token", "sentence", "token+sentence"] = option("", flag="--soft-regularization")
    """What is regularized: token embeddings, sentence predictions, both; empty for none."""
    weight: float = option(1.0, at_least=0, needs="objective.regularization.level")
    """Weight of the regularization in the loss."""
    variant: Literal["predicted", "soft"] = option("predicted", needs=OF_TOKENS)
    """Token level: embedding of the predicted token (Eq. 3), or its expectation under the model."""
    stop_gradient: Literal["none", "gold", "predicted"] = option("none", needs=OF_TOKENS)
    """Token level: the side whose embedding gets no gradient."""
    direction: Literal["predicted-original", "original-predicted"] = option("predicted-original", needs=OF_SENTENCES)
    """Sentence level: KL(predicted || original), or the other way round."""
    sentence_stop_gradient: Literal["none", "original", "predicted"] = option("original", needs=OF_SENTENCES)
    """Sentence level: the side that gets no gradient."""
    collapse_threshold: float = option(0.5, at_least=-1, at_most=1, needs=OF_TOKENS)
    """Token level: warn when the mean pairwise cosine of the embeddings exceeds this."""


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
"""Views as in section 3.1 of Wang et al. (2021), without conditions that it does not mention."""

VIEWS: dict[str, dict[str, Any]] = {
    "trueneg": {},
    "paper": AS_IN_THE_PAPER,
    "released": AS_IN_THE_PAPER | {"synonym_share": 0.5, "antonym_share": 0.5, "kinds": "one", "antonym_kinds": "one"},
}
"""Presets of views: name to the options that differ from the defaults."""


@dataclass(frozen=True)
class ViewsConfig:
    """Which words of a text are replaced in its views, and by what (Wang et al. 2021, section 3.1)."""

    preset: Literal["trueneg", "paper", "released"] = option("trueneg", compared=False, presets=VIEWS)
    """Sets all options of the views: ours, those of the paper (section 3.1), or of the authors' code (``released``).
    Options that are set explicitly keep their values; each is recorded with the value that is used."""
    lexicon: str = ""
    """Source of replacements: empty for WordNet, or ``wn:LEXICON`` of the package ``wn``, for other languages."""
    synonym_share: float = option(0.4, at_least=0, at_most=1)
    """Share of a text's tokens that the synonym view replaces, as far as there are replacements."""
    antonym_share: float = option(0.2, at_least=0, at_most=1, needs=OF_ANTONYMS)
    """Share of a text's tokens that the antonym view replaces, as far as there are replacements."""
    synonym_kinds: Literal["synonym+hypernym+inflection", "synonym+hypernym", "synonym+inflection", "synonym"] = (
        "synonym+hypernym+inflection"
    )
    """Kinds of replacements in the synonym view; with fewer kinds, fewer words are replaced, more of them correctly."""
    kinds: Literal["mixed", "one"] = "mixed"
    """Mix the kinds of synonyms within a text, or use one kind per text (the authors' code)."""
    antonym_kinds: Literal["mixed", "one"] = option("mixed", needs=(OF_ANTONYMS, "objective.cline.views.random!=none"))
    """Antonyms, with random words in the remaining places; or, at random per text, only antonyms or only random words,
    and random words where a text has no antonym (the authors' code)."""
    words: Literal["content", "tagged"] = "content"
    """Which words are replaced, and may replace others. ``content``: nouns, verbs, adjectives and adverbs, but no stop
    words, no forms of be, have and do, and no replacements of one or two letters. ``tagged``: all words of these four
    classes (the paper)."""
    min_count: int = option(2, at_least=0)
    """Minimum count of a replacement in the corpus, in any use; 0 for no limit, as in the paper. Of several words the
    rarest counts."""
    min_ratio: float = option(0.01, at_least=0, at_most=1)
    """Minimum count of a replacement in the corpus as a share of that of the replaced word: "optics" is no synonym of
    "eyes"; 0 for no limit, as in the paper."""
    senses: Literal["first", "frequent", "all"] = "frequent"
    """Which meanings of a word supply replacements; all in the authors' code."""
    agree: bool = True
    """Inflect a replacement like the replaced word; the paper's code uses base forms."""
    multiword: bool = False
    """Allow replacements of several words, or with a hyphen (the authors' code)."""
    indirect: bool = option(False, needs=OF_ANTONYMS)
    """Also use antonyms of similar words."""
    random: Literal["band", "uniform", "any", "none"] = option("band", needs=OF_ANTONYMS)
    """Words that fill the antonym view where there is no antonym: of the same class and about as frequent, of the same
    class, any, or none."""
    articles: bool = True
    """Write "an" before a replacement that begins with a vowel, "a" before others; the authors' code does not."""
    entities: Literal["tags", "capitals"] = "tags"
    """Names that are not replaced: words tagged as proper nouns, or also capitalized words within a sentence (with a
    cased tokenizer)."""


@dataclass(frozen=True)
class TripletConfig:
    """How triplets for Hits are made from sentences (Wang et al. 2021, section 4.6)."""

    listed_as = "triplet-options"  # by `trueneg list`

    preset: Literal["trueneg", "paper"] = option(
        "trueneg",
        presets={"trueneg": {}, "paper": {"words": "tagged", "senses": "all", "agree": False, "multiword": True}},
    )
    """Sets the other options: ours, or the paper's "a word [...] with its synonym/antonym from WordNet", without
    further conditions: 9,629 triplets of MR, where the paper has 9,626. Options that are set explicitly keep their
    values."""
    replaced: Literal["one", "many"] = "one"
    """Words replaced in a view: one (the paper), or as many as in the views of training, 40 % by synonyms and 20 % by
    antonyms, as far as there are replacements. With many, Hits mostly measure whether an encoder notices how many words
    changed."""
    words: Literal["content", "tagged"] = "content"
    """Which words are replaced, and may replace others; as in the views."""
    senses: Literal["first", "frequent", "all"] = "frequent"
    """Which meanings of a word supply replacements."""
    agree: bool = True
    """Inflect a replacement like the replaced word; else it is a base form."""
    multiword: bool = False
    """Allow replacements of several words, or with a hyphen."""
    indirect: bool = False
    """Also use antonyms of similar words."""


@dataclass(frozen=True)
class ClineConfig:
    """Contrastive learning with semantic negatives (Wang et al. 2021)."""

    variant: Literal["paper", "released"] = option(
        "paper", brings={"released": ("views.preset=released", "original=masked")}
    )
    """Equations 4 and 6, or the loss of the authors' code. ``released`` also sets the authors' views
    (``views.preset=released``) and original (``original=masked``), unless these are set explicitly."""
    rtd: bool = True
    """Detect the words that were replaced; False is Table 6's "w/o RTD"."""
    contrast: bool = True
    """Contrast the original with its views."""
    original: Literal["masked", "clean"] = option("masked", needs=OF_CONTRAST)
    """The original in the contrast: the masked text, which is encoded anyway (the authors' code), or the unmasked text
    (Eq. 5 and 6), which is one more row to encode: up to a third more time per step."""
    negatives: Literal["antonyms", "random"] = option("antonyms", needs=OF_VIEWS)
    """What the original is contrasted with: its antonym view, or another row ("w/o Hard Negative")."""
    similarity: Literal["dot", "cosine"] = option("dot", needs=OF_CONTRAST)
    """Similarity of two vectors in the contrast: their dot product (the paper) or their cosine."""
    temperature: float = option(1.0, above=0, needs=(OF_CONTRAST, "objective.cline.variant=paper"))
    """Similarities in the contrast are divided by this."""
    in_batch_negatives: bool = option(False, needs=OF_CONTRAST)
    """Contrast also with all other rows of the micro-batch."""
    pooling: Literal["cls", "mean"] = option("cls", needs=OF_CONTRAST)
    """Contrasted vector: that of the first token (the paper), or the mean over the text, as in most sentence
    encoders."""
    weights: Literal["learned", "fixed"] = "learned"
    """Weights of the loss's terms: learned (Eq. 7), or fixed."""
    mlm_weight: float = option(1.0, at_least=0)
    """Weight of the masked-LM term, also with learned weights; a small one better preserves the vectors of a sentence
    encoder that has no masked-LM head yet."""
    rtd_weight: float = option(1.0, at_least=0, needs="objective.cline.rtd=true")
    """Weight of the term that detects replaced words."""
    contrast_weight: float = option(1.0, at_least=0, needs=OF_CONTRAST)
    """Weight of the contrast."""
    guard: str = option("", needs=(OF_VIEWS, f"{OF_CONTRAST} or objective.cline.variant=released"))
    """A detector, as in ``correction.detector``: a row counts less in the contrast if the detector rejects its synonym
    view or accepts its antonym view. Empty for none."""
    guard_floor: float = option(0.0, at_least=0, at_most=1, needs=("objective.cline.guard", OF_CONTRAST))
    """Smallest factor that each of its views multiplies a row's weight in the contrast by."""
    views: ViewsConfig = option(ViewsConfig(), needs=OF_VIEWS)


@dataclass(frozen=True)
class ObjectiveConfig:
    """The objective that is minimised, and its options."""

    name: str = option("electra", flag="--objective")
    """The objective: ``electra``, ``mlm``, ``cline`` or a plugin's; see ``trueneg list objectives``."""
    options: str = ""
    """Options of a plugin's objective: ``key=value``, separated by commas."""
    prediction: Literal["sampled", "argmax"] = "sampled"
    """The predicted token: sampled from the model, or its most probable token."""
    temperature: float = option(1.0, above=0, needs="objective.prediction=sampled")
    """Logits are divided by this before predictions are sampled."""
    loss_temperature: float = option(1.0, above=0)
    """The logits in the masked-LM loss are divided by this, corrected or not (Zhang et al. 2023, footnote 13);
    ``gold_loss`` and predictions use the undivided logits."""
    judged: Literal["predicted", "argmax"] = option(
        "predicted",
        needs=(
            "objective.name=electra",
            "objective.prediction=sampled",
            "objective.correction.detector or objective.regularization.level",
        ),
    )
    """The token r_k that correction and regularization judge in ELECTRA: the sampled one, which the discriminator also
    reads, or the generator's argmax (Zhang et al. 2023, section 3.2), while the discriminator reads the sampled one."""
    max_logits_mb: float = option(-1.0, at_least=-1, resume="free")
    """Largest size of the masked-LM head's logits in memory, in MiB of float32; larger ones are computed in chunks of
    this size, and recomputed in the backward pass. 0 for no limit; -1 for 512 on a GPU and no limit on a CPU."""
    generator_weight: float = option(1.0, at_least=0, needs="objective.name=electra")
    """Weight of the generator's masked-LM loss (ELECTRA)."""
    discriminator_weight: float = option(50.0, at_least=0, needs="objective.name=electra")
    """Weight of the discriminator's replaced-token detection loss (ELECTRA)."""
    updates: Literal["joint", "alternating"] = option(
        "joint",
        needs=("objective.name=electra", "model.embedding_sharing=none|gdes", "not objective.regularization.level"),
    )
    """Update generator and discriminator together, or the generator first and then the discriminator, with gradients
    clipped for each (ELECTRA; alternating: as DeBERTaV3)."""
    masking: MaskingConfig = option(MaskingConfig())
    correction: CorrectionConfig = option(CorrectionConfig())
    smoothing: SmoothingConfig = option(SmoothingConfig())
    regularization: RegularizationConfig = option(RegularizationConfig())
    cline: ClineConfig = option(ClineConfig(), needs="objective.name=cline")
