"""Detectors: how acceptable a word is in place of another.

There are two kinds. A *scorer* scores words in text, for any tokenizer, in benchmarks and on the command line; a
*detector* gives credit to tokens of rows, in training and for annotations. ``specification`` defines the syntax of
both, and any scorer can be used as a detector through ``OnlineDetector``.
"""

from __future__ import annotations

from typing import TypeGuard

from transformers import PreTrainedTokenizerFast

from trueneg.config.objective_options import CorrectionConfig
from trueneg.detectors.base import Detector
from trueneg.detectors.combination import CombinedDetector, CombinedScorer
from trueneg.detectors.online import OnlineDetector
from trueneg.detectors.scorers.base import SubstitutionScorer
from trueneg.detectors.specification import Combination, Leaf, Resources, Specification, leaves, parse
from trueneg.errors import ConfigError, unknown_name
from trueneg.registry import Registry

SCORERS = Registry(
    "detector",
    "scorers",
    {
        "lexical": "trueneg.detectors.scorers.lexical:lexical",
        "first-sense": "trueneg.detectors.scorers.lexical:first_sense",
        "antonym": "trueneg.detectors.scorers.lexical:antonym",
        "sister": "trueneg.detectors.scorers.lexical:sister",
        "hypernym": "trueneg.detectors.scorers.lexical:hypernym",
        "calendar": "trueneg.detectors.scorers.lexical:calendar",
        "number": "trueneg.detectors.scorers.lexical:number",
        "name": "trueneg.detectors.scorers.lexical:name",
        "derived": "trueneg.detectors.scorers.families:derived",
        "proper": "trueneg.detectors.scorers.families:proper",
        "fits": "trueneg.detectors.scorers.compatible:make_scorer",
        "neighbours": "trueneg.detectors.scorers.neighbours:make_scorer",
        "contextual": "trueneg.detectors.scorers.contextual:make_scorer",
        "prototypes": "trueneg.detectors.scorers.prototypes:make_scorer",
        "teacher": "trueneg.detectors.scorers.teacher:make_scorer",
        "learned": "trueneg.detectors.scorers.learned:make_scorer",
        "calibrated": "trueneg.detectors.scorers.calibrated:make_scorer",
    },
    reserved=("annotated", "ema"),
)
"""Name to a function of (leaf, resources) that makes a :class:`SubstitutionScorer`; its docstring's first line
describes it."""

DETECTORS = Registry(
    "detector",
    "detectors",
    {
        "lexical": "trueneg.detectors.scorers.lexical:make_detector",
        "neighbours": "trueneg.detectors.scorers.neighbours:make_detector",
        "prototypes": "trueneg.detectors.prototype_detector:make_detector",
        "derived": "trueneg.detectors.scorers.families:make_derived",
        "proper": "trueneg.detectors.scorers.families:make_proper",
        "fits": "trueneg.detectors.scorers.compatible:make_detector",
        "annotated": "trueneg.detectors.annotated:make_detector",
        "ema": "trueneg.detectors.ema:make_detector",
    },
    reserved=SCORERS.builtin,
)
"""Name to a function of (leaf, tokenizer, resources) that makes a :class:`Detector` for training."""


def make_scorer(specification: str | Specification, resources: Resources | None = None) -> SubstitutionScorer:
    """Make the scorer that a specification describes.

    Raises:
        ConfigError: for a malformed specification, an unknown name, or one that cannot score words, such as ``ema``.
        LexiconError, ModelError: if a file or model that it needs is missing.

    Example:
        >>> make_scorer("lexcial")
        Traceback (most recent call last):
        trueneg.errors.ConfigError: unknown detector 'lexcial': did you mean 'lexical'? Known: ...
    """
    wanted = parse(specification) if isinstance(specification, str) else specification
    resources = resources or Resources()
    if isinstance(wanted, Combination):
        return CombinedScorer(wanted.operator, [make_scorer(part, resources) for part in wanted.parts])
    _check_name(wanted)
    if wanted.name not in SCORERS:
        raise ConfigError(f"detector '{wanted.text}' works in training only: it scores no words by themselves")
    made = SCORERS.load(wanted.name)(wanted, resources.with_maker(lambda part: make_scorer(part, resources)))
    scorer: SubstitutionScorer = made
    return scorer if wanted.threshold is None else scorer.with_threshold(wanted.threshold)


def make_detector(
    config: CorrectionConfig | str, tokenizer: PreTrainedTokenizerFast, resources: Resources | None = None
) -> Detector:
    """Make the detector that a configuration describes, for the tokens of a tokenizer.

    A name in ``DETECTORS`` is always made as a detector for tokens: ``lexical`` is the same table by itself and in
    ``lexical | contextual:ENCODER``. The others are scorers that are called during training; those that are combined
    with each other, as one scorer.

    Args:
        config: The configuration, or a specification.
        tokenizer: The tokenizer of the rows.
        resources: By default those that the configuration names.

    Raises:
        ConfigError: for a malformed specification, an unknown name, or a detector that is not fitted yet.
        LexiconError, ModelError: if a file or model that it needs is missing.
    """
    if isinstance(config, str):
        specification, resources = parse(config), resources or Resources()
    else:
        resources = resources or Resources(wordnet=config.wordnet, forms=config.forms)
        specification = parse(config.detector)
    for leaf in leaves(specification):
        _check_name(leaf)
        if leaf.name == "learned":
            raise ConfigError(
                f"detector '{leaf.text}' has yet to learn: 'trueneg detect calibrate' writes a file that is a detector"
            )
    return _detector(specification, tokenizer, resources)


def _detector(wanted: Specification, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> Detector:
    if _is_scored(wanted):
        scorer = make_scorer(wanted, resources)
        return OnlineDetector(scorer, tokenizer, None) if resources.annotates else OnlineDetector(scorer, tokenizer)
    if isinstance(wanted, Leaf):
        detector: Detector = DETECTORS.load(wanted.name)(wanted, tokenizer, resources)
        return detector
    scored = tuple(part for part in wanted.parts if _is_scored(part))
    # A scorer gives no credit to pairs that it is not asked about, such as short words; a veto must not reject them.
    vetoes = [part for part in scored if _is_veto(part)]
    if wanted.operator == "&" and len(vetoes) < len(scored):
        vetoes = []  # another scorer gives them no credit anyway, and one question is enough
    scored = tuple(part for part in scored if part not in vetoes)
    parts = [part for part in wanted.parts if not _is_scored(part)]
    if scored:
        parts.append(Combination(wanted.operator, scored) if len(scored) > 1 else scored[0])
    made = [_detector(part, tokenizer, resources) for part in parts]
    made += [CombinedDetector("!", [_detector(part.parts[0], tokenizer, resources)]) for part in vetoes]
    return CombinedDetector(wanted.operator, made)


def _is_veto(wanted: Specification) -> TypeGuard[Combination]:
    return isinstance(wanted, Combination) and wanted.operator == "!"


def _is_scored(wanted: Specification) -> bool:
    """Whether no part is in ``DETECTORS``."""
    return all(leaf.name not in DETECTORS for leaf in leaves(wanted))


def _check_name(leaf: Leaf) -> None:
    if leaf.name not in SCORERS and leaf.name not in DETECTORS:
        raise ConfigError(unknown_name("detector", leaf.name, {*SCORERS, *DETECTORS}))
