"""Attacks by name, with what they need loaded and their options decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trueneg.attacks.base import AdversarialExample
from trueneg.config.codec import override
from trueneg.config.validation import Needs, refuse_idle
from trueneg.errors import ConfigError, unknown_name
from trueneg.lexicon.wordnet_location import wordnet_digest
from trueneg.registry import Registry

if TYPE_CHECKING:
    from trueneg.attacks.victim import Victim
    from trueneg.attacks.word_substitution.neighbours import NeighbourTable
    from trueneg.lexicon.tagging import Tagger
    from trueneg.lexicon.vectors import Vectors
    from trueneg.lexicon.wordnet import WordNet

ABOUT: Mapping[str, str] = {
    "textfooler": "words become counter-fitted neighbours until a classifier errs (Jin et al. 2020): --neighbours FILE",
    "masked-lm": "words become what a masked LM proposes until a classifier errs (Li et al. 2020): --masked-lm FOLDER",
    "typos": "slips of the keyboard in texts or SQuAD contexts: a control that asks no model",
    "swap-synonyms": "words of a SQuAD context become synonyms by WordNet (TextFlint's SwapSynWordNet)",
    "add-sentence": "a SQuAD context gets a sentence that answers another question (Jia and Liang 2017)",
}

ATTACKS = Registry(
    "attack",
    "attacks",
    {
        "textfooler": "trueneg.attacks.registry:make_textfooler",
        "masked-lm": "trueneg.attacks.registry:make_masked_lm",
        "typos": "trueneg.attacks.registry:make_typos",
        "swap-synonyms": "trueneg.attacks.registry:make_swap_synonyms",
        "add-sentence": "trueneg.attacks.registry:make_add_sentence",
    },
    about=ABOUT,
)
"""Name to a function of an :class:`AttackConfig` that makes the attack."""

Progress = Callable[[int, int], None]

_AT_ONCE = 100


@dataclass(frozen=True)
class AttackConfig:
    """What a user asks for."""

    name: str
    """One of :data:`ATTACKS`."""
    profile: str = ""
    """Whose variant; by default the attack's first."""
    seed: int = 0
    neighbours: str = ""
    """A table of neighbours (JSON), or word vectors."""
    encoder: str = ""
    """A checkpoint whose mean vectors say how alike texts are; ``none`` for no limit."""
    masked_lm: str = ""
    """A checkpoint that proposes words."""
    parses: str = ""
    """Bracketed trees of questions, JSONL."""
    tagger: str = "pattern"
    wordnet: str = ""
    settings: Sequence[str] = ()
    """``key=value``, of the attack's own options."""


@dataclass(frozen=True)
class Attack:
    """An attack, ready to run."""

    name: str
    of: Sequence[Literal["text", "squad"]]
    """Kinds of examples."""
    asks_victim: bool
    """Whether it depends on the model: else one set serves all."""
    description: Mapping[str, Any]
    """Options, seed and resources, as JSON: what a set of it is labelled with."""
    run: Callable[[Sequence[Any], Victim | None, Progress], list[AdversarialExample[Any]]]


def make_attack(request: AttackConfig) -> Attack:
    """Load what an attack needs.

    Raises:
        ConfigError: for an unknown attack, profile or option, or something that it needs and nobody named.
        TruenegError: for resources that cannot be read.
    """
    made: Attack = ATTACKS.load(request.name)(request)
    return made


def make_textfooler(request: AttackConfig) -> Attack:
    """TextFooler, in the profiles ``textattack`` and ``jin2019``."""
    from trueneg.attacks.word_substitution.textfooler import PROFILES, textfooler
    from trueneg.lexicon.tagging import make_tagger

    options = _options(request, PROFILES)
    _refuse_others(request, "neighbours", "encoder", "tagger")
    neighbours = _neighbours(request)
    similarity = _similarity(request)
    tagger = make_tagger(request.tagger)
    resources = {**neighbours.provenance, **_provenance(similarity), "tagger": tagger.name}

    search = partial(textfooler, neighbours=neighbours, tagger=tagger, similarity=similarity, options=options)
    return _with_victim(request, _described(request, PROFILES, options, resources), search)


def make_masked_lm(request: AttackConfig) -> Attack:
    """Words of a masked LM, in the profiles ``bert-attack``, ``bae`` and ``strict``."""
    from trueneg.attacks.word_substitution.greedy import greedy_attack
    from trueneg.attacks.word_substitution.masked_lm import BERT_MASK, PROFILES, MaskedLMCandidates
    from trueneg.lexicon.relations import Relations
    from trueneg.lexicon.tagging import make_tagger
    from trueneg.lexicon.wordnet import WordNet

    options = _options(request, PROFILES)
    is_tagged, is_filtered = options.part_of_speech != "any", not options.opposites
    read = [*(["tagger"] if is_tagged else []), *(["wordnet"] if is_filtered else [])]
    _refuse_others(request, "masked_lm", "encoder", *read)
    if not request.masked_lm:
        raise ConfigError(f"{request.name} needs --masked-lm: a checkpoint that proposes words")
    # Only a masked word's proposals are blind to what it meant: there a limit is left out on purpose or not at all.
    similarity = _similarity(request) if request.encoder or options.is_masked else None
    wordnet = WordNet.load(request.wordnet or None) if is_filtered else None
    candidates = MaskedLMCandidates(request.masked_lm, options, Relations(wordnet) if wordnet else None)
    tagger = make_tagger(request.tagger) if is_tagged else None
    resources = {
        **candidates.provenance,
        **_provenance(similarity),
        **({"tagger": tagger.name} if tagger else {}),
        **({"wordnet": wordnet_digest(wordnet.path)} if wordnet else {}),
    }

    def search(victim: Victim, examples: Sequence[Any], *, progress: Progress) -> list[AdversarialExample[Any]]:
        mask = victim.tokenizer.mask_token if options.unknown == BERT_MASK else None
        return greedy_attack(
            victim,
            examples,
            candidates,
            options=replace(options, unknown=mask) if mask else options,
            tagger=tagger,
            similarity=similarity,
            progress=progress,
        )

    return _with_victim(request, _described(request, PROFILES, options, resources), search)


def make_typos(request: AttackConfig) -> Attack:
    """Slips of the keyboard, in the one profile ``default``."""
    from trueneg.attacks.typos import TypoOptions, typos

    profiles = {"default": TypoOptions()}
    options = _options(request, profiles)
    _refuse_others(request)
    transform = partial(typos, seed=request.seed, options=options)
    return _without_victim(request, ["text", "squad"], _described(request, profiles, options, {}), transform)


def make_swap_synonyms(request: AttackConfig) -> Attack:
    """SwapSynWordNet, in the profiles ``strict`` and ``textflint``."""
    from trueneg.attacks.squad.swap_synonyms import SwapOptions, swap_synonyms
    from trueneg.lexicon.tagging import make_tagger
    from trueneg.lexicon.wordnet import WordNet

    profiles = {"strict": SwapOptions(), "textflint": SwapOptions.textflint()}
    options = _options(request, profiles)
    _refuse_others(request, "tagger", "wordnet")
    wordnet, tagger = WordNet.load(request.wordnet or None), make_tagger(request.tagger)

    described = _described(request, profiles, options, _of_wordnet(wordnet, tagger))
    transform = partial(swap_synonyms, seed=request.seed, wordnet=wordnet, tagger=tagger, options=options)
    return _without_victim(request, ["squad"], described, transform)


def make_add_sentence(request: AttackConfig) -> Attack:
    """AddSent and AddSentDiverse, in the profiles ``strict`` and ``textflint``."""
    from trueneg.attacks.squad.add_sentence.attack import PROFILES, add_sentence
    from trueneg.lexicon.tagging import make_tagger
    from trueneg.lexicon.wordnet import WordNet

    _refuse_given_up(request)
    options = _options(request, PROFILES)
    _refuse_others(request, "tagger", "wordnet")
    wordnet, tagger = WordNet.load(request.wordnet or None), make_tagger(request.tagger)

    described = _described(request, PROFILES, options, _of_wordnet(wordnet, tagger))
    transform = partial(add_sentence, seed=request.seed, wordnet=wordnet, tagger=tagger, options=options)
    return _without_victim(request, ["squad"], described, transform)


def _refuse_given_up(request: AttackConfig) -> None:
    """Refuse what add-sentence had in a former version: rules that no result was ever made with."""
    given = [setting.split("=")[0].strip() for setting in request.settings]
    names: list[str] = [
        name for name in ("fake", "alteration", "answers", "profile", "require_change") if name in given
    ]
    names += ["--profile jia2017"] if request.profile == "jia2017" else []
    names += ["--parses"] if request.parses else []
    if names:
        raise ConfigError(
            f"add-sentence has {', '.join(names)} no more: for Jia and Liang's own sentences evaluate on their "
            "adversarial SQuAD, `trueneg attack MODEL --load FILE.json`; else choose --profile strict or textflint"
        )


def _refuse_others(request: AttackConfig, *taken: str) -> None:
    """Refuse a resource that an attack does not read."""
    for name in ("neighbours", "encoder", "masked_lm", "parses", "tagger", "wordnet"):
        if name not in taken and getattr(request, name) != getattr(AttackConfig(request.name), name):
            what = f"{request.name} {request.profile}".strip()
            raise ConfigError(f"{what} takes no --{name.replace('_', '-')}: leave it out")


_NEEDS: Needs = (
    (("profile",), lambda options: False, "but change a name: choose a profile with --profile"),
    (
        ("min_share", "min_ratio", "agree"),
        lambda options: getattr(options, "profile", "strict") == "strict",
        "but for --profile strict: choose it, or leave it out",
    ),
    (
        ("unknown",),
        lambda options: options.importance == "jin2019",
        "where a word's importance is told by deleting it: choose importance=jin2019, or leave it out",
    ),
    (
        ("max_pieces",),
        lambda options: not options.is_masked,
        "where the word is masked, which one piece replaces: leave it out",
    ),
)
_OF_SIMILARITY: Needs = (
    (
        ("max_angle", "max_angle_short", "window"),
        lambda options: False,
        "where nothing says how alike texts are: name an --encoder, or leave it out",
    ),
)


def _options(request: AttackConfig, profiles: Mapping[str, Any]) -> Any:
    """A profile with its settings.

    Raises:
        ConfigError: for an unknown profile or option, or one that does nothing.
    """
    name = request.profile or next(iter(profiles))
    if name not in profiles:
        raise ConfigError(unknown_name(f"profile of {request.name}", name, profiles))
    options = override(profiles[name], request.settings)
    refuse_idle(options, request.settings, (*_NEEDS, *(_OF_SIMILARITY if request.encoder in ("", "none") else ())))
    return options


def _with_victim(
    request: AttackConfig, described: Mapping[str, Any], search: Callable[..., list[AdversarialExample[Any]]]
) -> Attack:
    """A search that asks a classifier."""

    def run(examples: Sequence[Any], victim: Victim | None, progress: Progress) -> list[AdversarialExample[Any]]:
        if victim is None:
            raise ConfigError(f"{request.name} asks a model: name a fine-tuned classifier's folder")
        return search(victim, examples, progress=progress)

    return Attack(request.name, ["text"], True, described, run)


def _without_victim(
    request: AttackConfig,
    kinds: Sequence[Literal["text", "squad"]],
    described: Mapping[str, Any],
    transform: Callable[[Sequence[Any]], list[AdversarialExample[Any]]],
) -> Attack:
    """An attack that asks no model, done in parts, so that people see how far it has come."""

    def run(examples: Sequence[Any], victim: Victim | None, progress: Progress) -> list[AdversarialExample[Any]]:
        found: list[AdversarialExample[Any]] = []
        for start in range(0, len(examples), _AT_ONCE):
            found += transform(examples[start : start + _AT_ONCE])
            progress(len(found), len(examples))
        return found

    return Attack(request.name, kinds, False, described, run)


def _of_wordnet(wordnet: WordNet, tagger: Tagger) -> dict[str, str]:
    return {"wordnet": wordnet_digest(wordnet.path), "tagger": tagger.name}


def _neighbours(request: AttackConfig) -> NeighbourTable | Vectors:
    from trueneg.attacks.word_substitution.neighbours import load_neighbours
    from trueneg.lexicon.vectors import load_vectors

    if not request.neighbours:
        raise ConfigError(
            f"{request.name} needs --neighbours: word vectors, counter-fitted ones best (of others antonyms are "
            f"neighbours too), or a JSON table of neighbours"
        )
    if Path(request.neighbours).suffix == ".json":
        return load_neighbours(request.neighbours)
    return load_vectors(request.neighbours)


def _similarity(request: AttackConfig) -> Any:
    from trueneg.attacks.word_substitution.similarity import MeanVectors

    if not request.encoder:
        raise ConfigError(
            f"{request.name} needs --encoder: a checkpoint whose vectors say how alike texts are, or none for no limit"
        )
    return None if request.encoder == "none" else MeanVectors(request.encoder)


def _provenance(similarity: Any) -> dict[str, str]:
    return {"similarity": "none"} if similarity is None else dict(similarity.provenance)


def _described(
    request: AttackConfig, profiles: Mapping[str, Any], options: Any, resources: Mapping[str, str]
) -> dict[str, Any]:
    """What tells this attack from another, as JSON."""
    from trueneg.attacks.word_substitution.greedy import GreedyOptions

    return {
        "name": request.name,
        "profile": request.profile or next(iter(profiles)),
        "seed": request.seed,
        "options": options.described() if isinstance(options, GreedyOptions) else asdict(options),
        "resources": dict(resources),
    }
