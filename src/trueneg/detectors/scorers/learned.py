"""Scores and WordNet's relations weighed together: a logistic regression fitted to human judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.detectors.scorers.contextual import ContextualScorer
from trueneg.detectors.scorers.neighbours import NeighboursScorer, read_vectors
from trueneg.detectors.scorers.prototypes import PrototypesScorer
from trueneg.detectors.scorers.prototypes import make_scorer as make_prototypes
from trueneg.detectors.scorers.teacher import TeacherScorer
from trueneg.detectors.scorers.teacher import make_scorer as make_teacher
from trueneg.detectors.specification import Leaf, Resources
from trueneg.errors import ConfigError
from trueneg.lexicon.relations import RELATIONS, Relations
from trueneg.models.reading import TextEncoder

OPTIONS = ("vectors", "prototypes", "teacher", "relations")
MIN_LOG_RATIO = -20.0
PENALTY = 1.0
"""Of a weight's square, for features of variance one: a prior of variance one."""

Matrix = NDArray[np.float64]


class LearnedScorer(SubstitutionScorer):
    """Probability, by logistic regression, that people accept a substitute.

    Features: the cosine of the contextual vectors at every layer of an encoder; WordNet's relations of the words,
    either way round; how many words the substitute has, and how rare its pieces are; with ``vectors`` the cosine of
    word vectors; with ``prototypes`` that with the substitute's prototype, and whether it has none; with ``teacher`` a
    masked model's log likelihood ratio. Nothing of it is known before it is fitted: ``trueneg detect benchmark`` fits
    it without the part it is evaluated on, ``trueneg detect calibrate`` on everything, and writes its coefficients.

    Args:
        contextual: Over all layers of an encoder.
        relations: WordNet's; None to leave them out.
        vectors: Word vectors, if any.
        prototypes: Of an encoder, if any.
        teacher: A masked model, if any.
        weights: One a feature, after the constant; None before it is fitted.
        cache: Features computed so far, which a scorer shares with its fits: each fold of a cross-validation reads
            the same. None keeps nothing, as in training, where texts never end.
    """

    def __init__(
        self,
        contextual: ContextualScorer,
        relations: Relations | None,
        vectors: NeighboursScorer | None = None,
        prototypes: PrototypesScorer | None = None,
        teacher: TeacherScorer | None = None,
        weights: Mapping[str, float] | None = None,
        cache: dict[Substitution, NDArray[np.float64]] | None = None,
    ) -> None:
        self.contextual = contextual
        self.relations = relations
        self.vectors = vectors
        self.prototypes = prototypes
        self.teacher = teacher
        self.weights = weights
        self.cache = cache
        parts = {"contextual": contextual, "vectors": vectors, "prototypes": prototypes, "teacher": teacher}
        self.provenance = {
            f"{name}.{key}": value for name, part in parts.items() if part for key, value in part.provenance.items()
        }
        if relations is not None:
            self.provenance["wordnet"] = relations.wordnet.version

    @property
    def names(self) -> tuple[str, ...]:
        """The features, in order."""
        layers = [f"cosine at layer {layer}" for layer in self.contextual.encoder.layers]
        related = [f"{way}{name}" for way in ("", "reverse ") for name in RELATIONS] if self.relations else []
        further = [
            *(["cosine of word vectors"] if self.vectors else []),
            *(["cosine with the prototype", "no prototype"] if self.prototypes else []),
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
        """Learn what most people accept.

        Args:
            substitutions: ``n`` of them.
            acceptability: The share of annotators that accept each, float64 ``[n]``.

        Raises:
            ConfigError: if all or none of them are acceptable.
        """
        is_accepted = acceptability >= 0.5
        if is_accepted.all() or not is_accepted.any():
            raise ConfigError("a learned detector needs examples of both: substitutes that people accept, and others")
        weights = fit_logistic(self.features(substitutions), is_accepted)
        return self._with(dict(zip(("constant", *self.names), weights.tolist(), strict=True)), self.cache)

    def features(self, substitutions: Sequence[Substitution]) -> Matrix:
        """Compute the features of each substitution, float64 ``[n, features]``; those in the cache are looked up."""
        known = {} if self.cache is None else self.cache
        if new := [s for s in dict.fromkeys(substitutions) if s not in known]:
            known |= dict(zip(new, self._features(new), strict=True))
        return np.stack([known[s] for s in substitutions]) if substitutions else np.zeros((0, len(self.names)))

    def _features(self, new: Sequence[Substitution]) -> Matrix:
        tokenizer = self.contextual.encoder.tokenizer
        num_words = np.array([len(s.substitute.split()) for s in new])
        pieces = tokenizer([s.substitute for s in new], add_special_tokens=False)["input_ids"]
        # Vocabularies are sorted by frequency, nearly, and only the order matters here.
        rarity = np.array([np.log1p(max(ids, default=0)) for ids in pieces])
        columns = [self.contextual.cosines(new), np.stack([num_words == 1, num_words > 2, rarity], 1)]
        if self.relations is not None:
            columns.append(np.array([self._related(s) for s in new], np.float64))
        if self.vectors is not None:
            columns.append(self.vectors.scores(new)[:, None])
        if self.prototypes is not None:
            cosines = self.prototypes.scores(new)
            columns.append(np.stack([cosines, cosines == 0], 1))
        if self.teacher is not None:
            columns.append(self.teacher.log_ratios(new).clip(MIN_LOG_RATIO, -MIN_LOG_RATIO)[:, None])
        return np.concatenate(columns, 1).astype(np.float64)

    def _related(self, s: Substitution) -> list[bool]:
        assert self.relations is not None
        there = self.relations.between(s.target, s.substitute, s.pos)
        back = self.relations.between(s.substitute, s.target, s.pos)
        return [name in found for found in (there, back) for name in RELATIONS]

    def parameters(self) -> dict[str, float]:
        """What was learned, by name of the feature."""
        return dict(self.weights or {})

    def with_parameters(self, parameters: Mapping[str, float], where: str) -> Self:
        """Return the same scorer with what another one learned.

        Raises:
            ConfigError: if that one has other features.
        """
        if set(parameters) != {"constant", *self.names}:
            raise ConfigError(f"'{where}' was learned from other features: calibrate it again")
        return self._with(parameters, None)

    def _with(self, weights: Mapping[str, float], cache: dict[Substitution, NDArray[np.float64]] | None) -> Self:
        parts = (self.contextual, self.relations, self.vectors, self.prototypes, self.teacher)
        return type(self)(*parts, weights, cache)

    def reads(self) -> tuple[object, ...]:
        """What its features are made of, and what was learned."""
        parts = (self.contextual, self.vectors, self.prototypes, self.teacher)
        wordnet = "" if self.relations is None else self.relations.wordnet.digest
        return *(part and part.digest() for part in parts), wordnet, sorted(self.parameters().items())

    def to(self, device: torch.device) -> None:
        """Move what it has."""
        for part in (self.contextual, self.prototypes, self.teacher):
            if part is not None:
                part.to(device)


def fit_logistic(features: Matrix, is_accepted: NDArray[np.bool_], penalty: float = PENALTY) -> Matrix:
    """Fit a logistic regression by Newton's method: the constant, then a weight a feature, float64.

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
    """Weigh all of it, once `trueneg detect calibrate` has fitted it: learned:ENCODER.

    Options: ``[vectors=FILE,prototypes=FILE,teacher=MASKED_LM,relations=yes]``.
    """
    leaf.check(argument=True, options=OPTIONS, what="ENCODER, a checkpoint or a hub name")
    every_layer = TextEncoder(leaf.argument, "all", device=resources.device)
    vectors = leaf.options.get("vectors")
    prototypes, teacher = leaf.options.get("prototypes"), leaf.options.get("teacher")
    return LearnedScorer(
        ContextualScorer(every_layer),
        resources.relations if leaf.choice("relations", ("yes", "no")) == "yes" else None,
        NeighboursScorer(read_vectors(vectors), top=0) if vectors else None,
        make_prototypes(Leaf("prototypes", prototypes, text=leaf.text), resources) if prototypes else None,
        make_teacher(Leaf("teacher", teacher, text=leaf.text), resources) if teacher else None,
        cache={},
    )
