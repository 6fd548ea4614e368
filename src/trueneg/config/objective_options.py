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
