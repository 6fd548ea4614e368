"""Choose a scorer's acceptance threshold on human judgements."""

from __future__ import annotations

import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.detectors.scorers.calibrated import KIND, encoder_folder, read_calibration
from trueneg.detectors.scorers.learned import LearnedScorer
from trueneg.errors import ConfigError, TruenegWarning
from trueneg.evaluation.detectors.swords import Item, level_named
from trueneg.evaluation.results.provenance import versions
from trueneg.evaluation.statistics.ranking import Booleans, Curve, Floats, Integers, Verdicts
from trueneg.files.whole import write_whole
from trueneg.models.reading import TextEncoder

Say = Callable[[str], None]

LONG_SECONDS = 10.0
"""Fits that take at least this long are reported."""


@runtime_checkable
class Fittable(Protocol):
    """A scorer that is learned from human judgements.

    It is fitted once per fold, so one with expensive parts should cache their scores between calls.
    """

    def fit(self, substitutions: Sequence[Substitution], acceptability: Floats) -> SubstitutionScorer:
        """Fit to the share of annotators that accept each substitution, float64 ``[n]``; return the fitted scorer."""
        ...

    def parameters(self) -> Mapping[str, float]:
        """Return the learned parameters; empty before fitting."""
        ...


def needs_fitting(scorer: SubstitutionScorer) -> TypeGuard[Fittable]:
    """Tell whether a scorer has yet to be fitted."""
    return isinstance(scorer, Fittable) and not scorer.parameters()


@dataclass(frozen=True)
class Calibration:
    """An acceptance threshold and its provenance.

    The threshold is chosen on all the data. Precision, recall and F1 are cross-validated: the threshold (and the fit)
    that decides on an item has not seen its target.
    """

    detector: str
    threshold: float
    precision: float | None
    """None where the cross-validation accepts nothing."""
    recall: float
    f1: float
    level: str
    wanted_precision: float | None
    """None for the threshold with the best F1."""
    folds: int
    seed: int
    num_items: int
    num_targets: int
    num_accepted: int
    """Items accepted in the cross-validation."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Files to the SHA-256 of their bytes."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    """What a fitted scorer learned from all the data."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Provenance of the scorer."""
    versions: Mapping[str, str] = field(default_factory=dict)
    encoder: str | None = None
    """Digest of the fine-tuned encoder, whose folder is next to the file."""
    tuned_encoder: TextEncoder | None = field(default=None, repr=False, compare=False)
    """Not in the file; None if no encoder was fine-tuned, and after reading from a file."""

    def summary(self) -> dict[str, Any]:
        """Return the calibration as plain data."""
        return dataclasses.asdict(dataclasses.replace(self, tuned_encoder=None))

    def save(self, path: str | Path) -> None:
        """Write the calibration as JSON, and a fine-tuned encoder into a folder next to it."""
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        if self.tuned_encoder is not None:
            self.tuned_encoder.save(encoder_folder(file))
        text = json.dumps({"kind": KIND, **self.summary()}, indent=1, ensure_ascii=False, allow_nan=False)
        write_whole(file, text + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read a file written by :meth:`save`.

        Raises:
            ConfigError: if there is no such file, or it is not a calibration.
        """
        content = read_calibration(str(path))
        del content["kind"]
        try:
            return cls(**content)
        except TypeError as error:
            raise ConfigError(
                f"'{path}' is of another version ({error}): make one with 'trueneg detect calibrate'"
            ) from error


def grouped_folds(groups: Sequence[str], num_folds: int, seed: int = 0) -> Integers:
    """Assign groups to folds at random: the fold of each item, int64 ``[items]``.

    Items of one group share a fold, and folds differ by at most one group.

    Raises:
        ConfigError: for fewer than two folds, or fewer groups than folds.
    """
    names = list(dict.fromkeys(groups))
    if not 2 <= num_folds <= len(names):
        raise ConfigError(f"--folds {num_folds} of {len(names)} targets: give at least 2 folds, and a target for each")
    fold_of = np.arange(len(names)) % num_folds
    np.random.default_rng(seed).shuffle(fold_of)
    by_name = dict(zip(names, fold_of.tolist(), strict=True))
    return np.array([by_name[group] for group in groups], np.int64)


def held_out_scores(
    scorer: SubstitutionScorer,
    substitutions: Sequence[Substitution],
    acceptability: Floats,
    folds: Integers,
    say: Say = lambda message: None,
) -> Scores:
    """Score substitutions; a scorer that needs fitting is fitted to the other folds.

    Args:
        scorer: Any scorer.
        substitutions: ``n`` substitutions.
        acceptability: float64 ``[n]``; nan where there is no human judgement to learn from.
        folds: int64 ``[n]``.
        say: Called with a line for each fit that takes long.

    Returns:
        float64 ``[n]``, in [0, 1].

    Raises:
        ValueError: if the scorer breaks its contract.
    """
    if not needs_fitting(scorer):
        return _checked_scores(scorer.scores(substitutions), len(substitutions))
    scores = np.empty(len(substitutions))
    for fold in np.unique(folds):
        learned_from = np.flatnonzero((folds != fold) & ~np.isnan(acceptability)).tolist()
        held_out = np.flatnonzero(folds == fold).tolist()
        started = time.perf_counter()
        fitted = scorer.fit([substitutions[at] for at in learned_from], acceptability[learned_from])
        if (seconds := time.perf_counter() - started) >= LONG_SECONDS:
            say(f"fold {fold + 1} of {folds.max() + 1}: fitted in {seconds:.0f} s")
        scores[held_out] = _checked_scores(fitted.scores([substitutions[at] for at in held_out]), len(held_out))
    return scores


def _checked_scores(scores: Scores, num: int) -> Scores:
    if scores.shape != (num,) or not ((scores >= 0) & (scores <= 1)).all():
        raise ValueError(
            f"a scorer gives {num} scores in [0, 1], got {scores.shape} from {scores.min()} to {scores.max()}"
        )
    return scores.astype(np.float64)


def choose_threshold(is_right: Booleans, scores: Floats, precision: float | None) -> float:
    """Choose the lowest threshold with at least this precision; for None, the one with the best F1.

    Returns:
        One of the scores; infinity where no threshold reaches the precision.
    """
    curve = Curve.of(is_right, scores)
    if precision is None:
        return float(curve.thresholds[np.argmax(curve.f1)])
    reaching = np.flatnonzero(curve.precision >= precision)
    return float(curve.thresholds[reaching[-1]]) if len(reaching) else math.inf


def cross_validated_thresholds(is_right: Booleans, scores: Floats, folds: Integers, precision: float | None) -> Floats:
    """Choose each fold's threshold on the other folds.

    Returns:
        float64 ``[folds]``; infinity where the others do not reach the precision, or have no acceptable item.
    """
    others = (folds != fold for fold in range(int(folds.max()) + 1))
    return np.array(
        [choose_threshold(is_right[o], scores[o], precision) if is_right[o].any() else math.inf for o in others]
    )


def calibrate(
    items: Sequence[Item],
    scorer: SubstitutionScorer,
    *,
    precision: float | None = 0.6,
    level: str = "most",
    folds: int = 10,
    seed: int = 0,
    detector: str = "",
    data: Mapping[str, str] | None = None,
    say: Say = lambda message: None,
) -> Calibration:
    """Choose a scorer's threshold: the lowest one whose precision is at least ``precision``.

    Args:
        items: Substitutions with human judgements.
        scorer: Any scorer; one that needs fitting is fitted to the other folds, for each fold.
        precision: In (0, 1]; None for the threshold with the best F1.
        level: Which annotators must accept a substitute: "most" or "any", see ``LEVELS``.
        folds: Folds of the cross-validation, by target.
        seed: Seed of the folds.
        detector: Name of the detector.
        data: Files that the items come from, with their checksums.
        say: Called with a line for each fit that takes long.

    Warns:
        TruenegWarning: if the cross-validation accepts nothing: the threshold's precision is then unknown.

    Raises:
        ConfigError: if no threshold has the precision (naming the best), for an unknown level, or an impossible number
            of folds.
    """
    if precision is not None and not 0 < precision <= 1:
        raise ConfigError(f"--precision must be in (0, 1], got {precision}")
    acceptability = np.array([item.acceptability for item in items])
    is_right = acceptability >= level_named(level)
    if not is_right.any():
        raise ConfigError(f"no substitute is acceptable to {level} annotators: choose other data or another --level")
    groups = [item.target_id for item in items]
    fold_of = grouped_folds(groups, folds, seed)
    substitutions = [item.substitution for item in items]
    scores = held_out_scores(scorer, substitutions, acceptability, fold_of, say)
    threshold = choose_threshold(is_right, scores, precision)
    if math.isinf(threshold):
        curve = Curve.of(is_right, scores)
        best = int(np.argmax(curve.precision))
        raise ConfigError(
            f"--precision {precision}: the best that '{detector or type(scorer).__name__}' reaches is "
            f"{curve.precision[best]:.3f} (threshold {curve.thresholds[best]:.4g}, recall {curve.recall[best]:.3f}): "
            "lower --precision"
        )
    final = scorer.fit(substitutions, acceptability) if needs_fitting(scorer) else scorer
    tuned = final.tuned_encoder if isinstance(final, LearnedScorer) else None
    thresholds = cross_validated_thresholds(is_right, scores, fold_of, precision)
    verdicts = Verdicts.of(is_right, scores >= thresholds[fold_of])
    if not verdicts.num_accepted:
        warnings.warn(
            f"'{detector or type(scorer).__name__}' accepts nothing in the cross-validation: the threshold "
            f"{threshold:.4g} is right on all the data together, and its precision on other text is not known: lower "
            "--precision, or give more data",
            TruenegWarning,
            stacklevel=2,
        )
    return Calibration(
        detector=detector,
        threshold=threshold,
        precision=verdicts.precision if verdicts.num_accepted else None,
        recall=verdicts.recall,
        f1=verdicts.f1,
        level=level,
        wanted_precision=precision,
        folds=folds,
        seed=seed,
        num_items=len(items),
        num_targets=len(set(groups)),
        num_accepted=verdicts.num_accepted,
        data=dict(data or {}),
        parameters=dict(final.parameters()) if isinstance(final, Fittable) else {},
        encoder=None if tuned is None else tuned.digest(),
        tuned_encoder=tuned,
        provenance=dict(final.provenance),
        versions=versions(),
    )
