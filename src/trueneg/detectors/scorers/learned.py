"""Scores and WordNet's relations combined: a logistic regression fitted to human judgements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.corpus.bigrams import Bigrams
from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer, sum_of_counts
from trueneg.detectors.scorers.collocations import FEATURES as COLLOCATION_FEATURES
from trueneg.detectors.scorers.collocations import Collocations
from trueneg.detectors.scorers.contextual import READINGS, ContextualScorer
from trueneg.detectors.scorers.glosses import FEATURES as GLOSS_FEATURES
from trueneg.detectors.scorers.glosses import Glosses
from trueneg.detectors.scorers.neighbours import NeighboursScorer, read_vectors
from trueneg.detectors.scorers.prototypes import PrototypesScorer
from trueneg.detectors.scorers.prototypes import make_scorer as make_prototypes
from trueneg.detectors.scorers.teacher import TeacherScorer
from trueneg.detectors.scorers.teacher import make_scorer as make_teacher
from trueneg.detectors.scorers.tuning import tune
from trueneg.detectors.specification import Leaf, Resources
from trueneg.errors import ConfigError
from trueneg.files.digests import fingerprint_of
from trueneg.lexicon.relations import RELATIONS, Relations
from trueneg.models.reading import TextEncoder, default_layer

OPTIONS = ("vectors", "prototypes", "directions", "bigrams", "teacher", "relations", "glosses", "reading", "tune")
MIN_LOG_RATIO = -20.0
PENALTY = 1.0
"""L2 penalty of the weights, for features of variance one: a prior of variance one."""

DIRECTIONS = (
    "substitute here with the word's prototype",
    "substitute here with its prototype",
    "word here with its prototype",
)
"""Cosines of vectors in the sentence with prototypes, besides that of the word with the substitute's prototype."""

Matrix = NDArray[np.float64]
Known = dict[Substitution, Matrix]


@dataclass(frozen=True, eq=False)
class FeatureCache:
    """Features computed so far, which a scorer shares with its fits, so that folds of a cross-validation reuse them."""

    cosines: Known = field(default_factory=dict)
    """Of one encoder: a fit that fine-tunes it starts a new one."""
    others: Known = field(default_factory=dict)


class LearnedScorer(SubstitutionScorer):
    """Probability, by logistic regression, that people accept a substitute.

    Features: the cosine of the contextual vectors at every layer of an encoder; WordNet's relations of the words, in
    both directions; how many words the substitute has, and how rare its pieces are; with ``vectors`` the cosine of
    word vectors; with ``prototypes`` the cosine with the substitute's prototype, and whether it has none; with
    ``is_mutual`` also the cosines of the substitute in the sentence with the word's prototype and with its own, and of
    the word with its own; with ``glosses`` features from WordNet's definitions; with ``collocations`` a corpus's
    bigram counts of the substitute and the words on either side; with ``teacher`` a masked language model's log
    likelihood ratio. It must be fitted first: ``trueneg detect benchmark`` fits it without the part it is evaluated
    on, ``trueneg detect calibrate`` on everything, and writes its coefficients.

    With ``epochs`` the encoder is fine-tuned too, starting from the logistic regression: see :func:`~tuning.tune`. The
    other features are those of the original encoder.

    Args:
        contextual: Contextual scorer over all layers of an encoder.
        relations: WordNet's relations; None to leave them out.
        vectors: Word vectors, if any.
        prototypes: Prototypes of an encoder, if any.
        teacher: A masked language model, if any.
        glosses: Features from WordNet's definitions, if any.
        collocations: Bigram counts of a corpus, if any.
        is_mutual: Whether prototypes are compared in every direction.
        weights: Weight of each feature and the ``constant``, by name; None before it is fitted.
        cache: Features computed so far; None to keep none, as in training, where texts are unlimited.
        epochs: Epochs of fine-tuning the encoder on the judgements; 0 for none.
    """

    def __init__(
        self,
        contextual: ContextualScorer,
        relations: Relations | None,
        vectors: NeighboursScorer | None = None,
        prototypes: PrototypesScorer | None = None,
        teacher: TeacherScorer | None = None,
        glosses: Glosses | None = None,
        collocations: Collocations | None = None,
        is_mutual: bool = False,
        weights: Mapping[str, float] | None = None,
        cache: FeatureCache | None = None,
        epochs: int = 0,
    ) -> None:
        self.contextual = contextual
        self.relations = relations
        self.vectors = vectors
        self.prototypes = prototypes
        self.teacher = teacher
        self.glosses = glosses
        self.collocations = collocations
        self.is_mutual = is_mutual
        self.weights = weights
        self.cache = cache
        self.epochs = epochs
        self.tuned_from: str | None = None
        """``made_from`` before the encoder was fine-tuned; None if it was not."""
        parts = {
            **{"contextual": contextual, "vectors": vectors, "prototypes": prototypes, "teacher": teacher},
            "bigrams": collocations,
        }
        self.provenance = {
            f"{name}.{key}": value for name, part in parts.items() if part for key, value in part.provenance.items()
        }
        if relations is not None:
            self.provenance["wordnet"] = relations.wordnet.version

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        layers = [f"cosine at layer {layer}" for layer in self.contextual.encoder.layers]
        related = [f"{way}{name}" for way in ("", "reverse ") for name in RELATIONS] if self.relations else []
        further = [
            *(["cosine of word vectors"] if self.vectors else []),
            *(["cosine with the prototype", "no prototype"] if self.prototypes else []),
            *(DIRECTIONS if self.prototypes and self.is_mutual else []),
            *(GLOSS_FEATURES if self.glosses else []),
            *(COLLOCATION_FEATURES if self.collocations else []),
            *(["log ratio"] if self.teacher else []),
        ]
        return (*layers, "one word", "three words or more", "rarity of pieces", *related, *further)

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """Probability of acceptance.

        Raises:
            ConfigError: before it is fitted.
        """
        if self.weights is None:
            raise ConfigError(
                "a learned detector must be fitted first: 'trueneg detect calibrate' writes a file that is a detector"
            )
        weights = np.array([self.weights["constant"], *(self.weights[name] for name in self.names)])
        logits = weights[0] + self.features(substitutions) @ weights[1:]
        return np.asarray(np.exp(-np.logaddexp(0, -logits)))

    def fit(self, substitutions: Sequence[Substitution], acceptability: NDArray[np.float64]) -> Self:
        """Fit to what most annotators accept.

        Args:
            substitutions: ``n`` of them.
            acceptability: The share of annotators that accept each, float64 ``[n]``.

        Raises:
            ConfigError: if all or none of them are acceptable.
        """
        is_accepted = acceptability >= 0.5
        if is_accepted.all() or not is_accepted.any():
            raise ConfigError("a learned detector needs examples of both: substitutes that people accept, and others")
        features = self.features(substitutions)
        weights = fit_logistic(features, is_accepted)
        fitted = self
        if self.epochs:
            encoder, others = self.contextual.encoder, features[:, len(self.contextual.encoder.layers) :]
            encoder, weights = tune(encoder, substitutions, is_accepted, others, weights, self.epochs)
            fitted = self.with_tuned(encoder)
        fitted = fitted._with(dict(zip(("constant", *self.names), weights.tolist(), strict=True)), fitted.cache)
        fitted.provenance = {**fitted.provenance, "features": self.made_from}
        return fitted

    def with_tuned(self, encoder: TextEncoder) -> Self:
        """Return the same scorer with a fine-tuned encoder in place of its own, for the cosines only."""
        tuned = copy(self)
        tuned.contextual = ContextualScorer(encoder, together=True)
        tuned.tuned_from = self.made_from
        tuned.provenance = {**self.provenance, "tuned": f"{self.epochs} epochs"}
        tuned.cache = self.cache and FeatureCache(others=self.cache.others)
        return tuned

    @property
    def tuned_encoder(self) -> TextEncoder | None:
        """The encoder that was fine-tuned; None if none was."""
        return None if self.tuned_from is None else self.contextual.encoder

    def features(self, substitutions: Sequence[Substitution]) -> Matrix:
        """Compute the features of each substitution, float64 ``[n, features]``; those in the cache are looked up."""
        if not substitutions:
            return np.zeros((0, len(self.names)))
        cache = self.cache or FeatureCache()
        cosines = _look_up(substitutions, cache.cosines, self.contextual.cosines)
        return np.concatenate([cosines, _look_up(substitutions, cache.others, self._others)], 1)

    def _others(self, new: Sequence[Substitution]) -> Matrix:
        tokenizer = self.contextual.encoder.tokenizer
        num_words = np.array([len(s.substitute.split()) for s in new])
        pieces = tokenizer([s.substitute for s in new], add_special_tokens=False)["input_ids"]
        # Vocabularies are nearly sorted by frequency, and only the order matters here.
        rarity = np.array([np.log1p(max(ids, default=0)) for ids in pieces])
        columns = [np.stack([num_words == 1, num_words > 2, rarity], 1)]
        if self.relations is not None:
            columns.append(np.array([self._related(s) for s in new], np.float64))
        if self.vectors is not None:
            columns.append(self.vectors.scores(new)[:, None])
        if self.prototypes is not None:
            cosines = self.prototypes.scores(new)
            columns.append(np.stack([cosines, cosines == 0], 1))
            if self.is_mutual:
                columns.append(self._directions(new))
        if self.glosses is not None:
            columns.append(self.glosses.features(new))
        if self.collocations is not None:
            columns.append(self.collocations.features(new))
        if self.teacher is not None:
            columns.append(self.teacher.log_ratios(new).clip(MIN_LOG_RATIO, -MIN_LOG_RATIO)[:, None])
        return np.concatenate(columns, 1).astype(np.float64)

    def _directions(self, new: Sequence[Substitution]) -> Matrix:
        """Cosines of the substitute in the sentence, and of the word, with prototypes: see ``DIRECTIONS``."""
        assert self.prototypes is not None
        prototypes = self.prototypes.prototypes
        reader = ContextualScorer(self.prototypes.encoder, together=self.contextual.together)
        word, substitute = (vectors[:, 0] for vectors in reader.vectors(new))
        table = np.concatenate([prototypes.matrix, np.zeros((1, prototypes.matrix.shape[1]), np.float32)])

        def of(words: Iterable[str]) -> NDArray[np.float32]:
            rows = (prototypes.find(word) for word in words)
            return table[[len(table) - 1 if row is None else row for row in rows]]

        of_word, of_substitute = of(s.target for s in new), of(s.substitute for s in new)
        pairs = ((substitute, of_word), (substitute, of_substitute), (word, of_word))
        return np.stack([(vectors * there).sum(-1) for vectors, there in pairs], 1).astype(np.float64)

    def _related(self, s: Substitution) -> list[bool]:
        assert self.relations is not None
        there = self.relations.between(s.target, s.substitute, s.pos)
        back = self.relations.between(s.substitute, s.target, s.pos)
        return [name in found for found in (there, back) for name in RELATIONS]

    def parameters(self) -> dict[str, float]:
        """The fitted weights by feature name."""
        return dict(self.weights or {})

    def with_parameters(self, parameters: Mapping[str, float], where: str, made_from: str | None = None) -> Self:
        """Return the same scorer with the fitted weights of another one.

        Args:
            parameters: ``parameters`` of the other scorer.
            where: The file that they are from.
            made_from: ``made_from`` of the other scorer; None if unknown.

        Raises:
            ConfigError: if the other scorer has other features, or the same from another encoder or lexicon.
        """
        noted, own = set(parameters) - {"constant"}, set(self.names)
        if noted != own:
            differences = [
                f"{what} {', '.join(sorted(names))}"
                for what, names in (("without", noted - own), ("with", own - noted))
                if names
            ]
            raise ConfigError(
                f"'{where}' was learned from other features, now {' and '.join(differences)}: calibrate it again"
            )
        if made_from is not None and made_from != self.made_from:
            raise ConfigError(
                f"'{where}' was learned with another encoder, lexicon or file of vectors than its name stands for now: "
                "calibrate it again"
            )
        return self._with(parameters, None)

    def _with(self, weights: Mapping[str, float], cache: FeatureCache | None) -> Self:
        other = copy(self)
        other.weights, other.cache = weights, cache
        return other

    @cached_property
    def made_from(self) -> str:
        """Digest of what the features are made from: weights, lexicons, vectors; file locations do not count."""
        if self.tuned_from is not None:
            return self.tuned_from
        return fingerprint_of([*self.names, *self._with({}, None).reads()])

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts of its parts, added up."""
        return sum_of_counts(self._readers())

    def reads(self) -> tuple[object, ...]:
        """The digests of its parts, and the fitted weights."""
        parts = (self.contextual, self.vectors, self.prototypes, self.teacher)
        wordnet = "" if self.relations is None else self.relations.wordnet.digest
        glosses = (self.glosses.wordnet.digest, *self.glosses.encoder.layers) if self.glosses else ()
        counts = (self.collocations.digest(),) if self.collocations else ()
        # Entries that former versions had are unchanged, so that their runs resume.
        return (
            *(part and part.digest() for part in parts),
            wordnet,
            sorted(self.parameters().items()),
            *glosses,
            *counts,
            *(() if self.tuned_from is None else (self.tuned_from,)),
        )

    def to(self, device: torch.device) -> None:
        """Move its parts."""
        for part in self._readers():
            part.to(device)
        if self.glosses is not None:
            self.glosses.encoder.to(device)

    def _readers(self) -> list[SubstitutionScorer]:
        """The parts that run a model."""
        return [part for part in (self.contextual, self.prototypes, self.teacher) if part is not None]


def _look_up(
    substitutions: Sequence[Substitution], known: Known, compute: Callable[[Sequence[Substitution]], Matrix]
) -> Matrix:
    """Features of each substitution; those that are not known are computed and stored."""
    if new := [s for s in dict.fromkeys(substitutions) if s not in known]:
        known |= dict(zip(new, compute(new), strict=True))
    return np.stack([known[s] for s in substitutions])


def fit_logistic(features: Matrix, is_accepted: NDArray[np.bool_], penalty: float = PENALTY) -> Matrix:
    """Fit a logistic regression by Newton's method: the constant, then a weight per feature, float64.

    Features are scaled to variance one, and the squares of the scaled weights, times ``penalty / 2``, are added to the
    negative log-likelihood; a feature that never varies gets weight 0.

    Example:
        >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
        >>> weights = fit_logistic(x, np.array([False, False, True, True]))
        >>> bool(weights[1] > 0 and abs(weights[0] + 1.5 * weights[1]) < 1e-6)
        True
    """
    mean, spread = features.mean(0), features.std(0)
    scale = np.where(spread > 1e-12, spread, 1.0)
    inputs = np.c_[np.ones(len(features)), (features - mean) / scale * (spread > 1e-12)]
    ridge = np.diag([0.0, *[penalty] * features.shape[1]])
    weights = np.zeros(inputs.shape[1])
    for _ in range(100):
        probability = 1 / (1 + np.exp(-(inputs @ weights).clip(-30, 30)))
        gradient = inputs.T @ (probability - is_accepted) + ridge @ weights
        curvature = (inputs * (probability * (1 - probability))[:, None]).T @ inputs + ridge
        step = np.linalg.solve(curvature + 1e-9 * np.eye(len(weights)), gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-9:
            break
    slopes = weights[1:] / scale * (spread > 1e-12)
    return np.concatenate([[weights[0] - slopes @ mean], slopes])


def make_scorer(leaf: Leaf, resources: Resources) -> LearnedScorer:
    """Combine scores and WordNet's relations, once fitted by `trueneg detect calibrate`: learned:ENCODER.

    Options: ``[vectors=FILE,prototypes=FILE,directions=both,bigrams=FILE,teacher=MASKED_LM,relations=yes,glosses=yes,
    reading=together,tune=3]``; ``tune`` is the number of epochs of fine-tuning the encoder.
    """
    leaf.check(argument=True, options=OPTIONS, what="ENCODER, a checkpoint or a hub name")
    is_together, epochs = leaf.choice("reading", READINGS) == "together", leaf.count("tune", 0, min=0)
    if epochs and not is_together:
        raise ConfigError(f"detector '{leaf.text}': tune={epochs} reads substitutes together: add reading=together")
    encoder = TextEncoder(leaf.argument, "all", device=resources.device)
    vectors = leaf.options.get("vectors")
    prototypes, teacher = leaf.options.get("prototypes"), leaf.options.get("teacher")
    is_mutual = leaf.choice("directions", ("one", "both")) == "both"
    if is_mutual and not prototypes:
        raise ConfigError(f"detector '{leaf.text}': directions=both is of prototypes: add prototypes=FILE")
    bigrams = leaf.options.get("bigrams")
    has_glosses = leaf.choice("glosses", ("no", "yes")) == "yes"
    return LearnedScorer(
        ContextualScorer(encoder, together=is_together),
        resources.relations if leaf.choice("relations", ("yes", "no")) == "yes" else None,
        NeighboursScorer(read_vectors(vectors), top=0) if vectors else None,
        make_prototypes(Leaf("prototypes", prototypes, text=leaf.text), resources) if prototypes else None,
        make_teacher(Leaf("teacher", teacher, text=leaf.text), resources) if teacher else None,
        Glosses(encoder, resources.relations.wordnet, default_layer(encoder.model)) if has_glosses else None,
        Collocations(Bigrams.load(bigrams)) if bigrams else None,
        is_mutual,
        cache=FeatureCache(),
        epochs=epochs,
    )
