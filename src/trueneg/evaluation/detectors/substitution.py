"""Measure detectors against human judgements of substitutes in context: SWORDS, CoInCo, SemEval-07."""

from __future__ import annotations

import dataclasses
import json
import math
import time
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np

from trueneg.detectors.scorers.base import SubstitutionScorer
from trueneg.errors import ConfigError, TruenegWarning
from trueneg.evaluation.detectors.calibration import (
    Say,
    choose_threshold,
    cross_validated_thresholds,
    grouped_folds,
    held_out_scores,
    needs_fitting,
)
from trueneg.evaluation.detectors.candidates import Candidates
from trueneg.evaluation.detectors.distractors import KINDS, Distractor
from trueneg.evaluation.detectors.swords import LEVELS, Item
from trueneg.evaluation.results.provenance import versions
from trueneg.evaluation.statistics.bootstrap import Bootstrap, ratio
from trueneg.evaluation.statistics.intervals import Interval, percentiles
from trueneg.evaluation.statistics.ranking import Booleans, Curve, Floats, Integers, Verdicts, average_precision
from trueneg.files.whole import write_whole

TASK = "substitution"

Threshold = Literal["calibrated", "own"]

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Reading:
    """One detector's figures on a subset of the items, at one level of agreement.

    A ratio with denominator zero is None. ``intervals`` holds 95 % bootstrap intervals over targets.
    """

    level: str
    items: str
    """The subset: "all", "single tokens", or a part of speech."""
    num_items: int
    num_targets: int
    num_accepted: int
    chance: float
    """Share of acceptable items: the average precision of a random ranking."""
    average_precision: float
    precision: float | None
    recall: float
    f1: float
    intervals: Mapping[str, Bounds | None]


@dataclass(frozen=True)
class ErrorRate:
    """Share of the words with the wrong meaning that a detector accepts."""

    num: int
    num_accepted: int
    share: Interval
    """``num_accepted / num``, with an interval over the targets that have such words."""


@dataclass(frozen=True)
class Measured:
    """One detector's figures."""

    detector: str
    threshold: float | None
    """Chosen on all the data; None where no threshold has the requested precision."""
    threshold_from: Threshold
    """"own": the detector's; "calibrated": chosen here, and then precision, recall and F1 are cross-validated."""
    is_fitted: bool
    """Whether it was fitted to this data; then all its figures are cross-validated."""
    readings: tuple[Reading, ...]
    precision_at_reference_recall: float | None
    """Precision at the recall of the detector "lexical", level "most"; None where that was not measured."""
    errors: Mapping[str, ErrorRate]
    """Kind of wrong word (antonyms, sisters) to the rate at which it is accepted."""
    differences: Mapping[str, Interval]
    """Level to average precision minus the first detector's, on the same bootstrap samples."""
    curve: Mapping[str, tuple[float, ...]]
    """Precision and recall at a sample of thresholds, level "most", all items."""
    seconds: float
    provenance: Mapping[str, str]
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Number of texts and words cut to the detector's window, and of words without tokens, where not 0."""
    gap: Interval | None = None
    """Generalized average precision, the mean over targets; None where candidates were not merged."""
    gap_difference: Interval | None = None
    """GAP minus the first detector's, on the same bootstrap samples."""
    ms_per_substitution: float | None = None
    """CPU time of all threads per scored item or wrong word, including everything read and fitted for it."""

    def reading(self, level: str = "most", items: str = "all") -> Reading:
        """Find the reading of a level and subset."""
        return next(r for r in self.readings if (r.level, r.items) == (level, items))

    def row(self) -> dict[str, Any]:
        """Return the figures that tables show: level "most", all items, and the average precision at "any"."""
        reading = self.reading()
        accepted = {kind: rate.share.estimate for kind, rate in self.errors.items()}
        return {
            "detector": self.detector,
            "gap": self.gap and self.gap.estimate,
            "gap_interval": self.gap and (self.gap.low, self.gap.high),
            "average_precision": reading.average_precision,
            "average_precision_interval": reading.intervals["average_precision"],
            "precision": reading.precision,
            "recall": reading.recall,
            "f1": reading.f1,
            "threshold": self.threshold,
            "threshold_from": self.threshold_from,
            "is_fitted": self.is_fitted,
            "average_precision_any": self.reading("any").average_precision,
            "precision_at_reference_recall": self.precision_at_reference_recall,
            "antonyms_accepted": accepted.get("antonyms"),
            "sisters_accepted": accepted.get("sisters"),
            "ms_per_substitution": self.ms_per_substitution,
            "chance": reading.chance,
            "num_items": reading.num_items,
            "num_targets": reading.num_targets,
        }


@dataclass(frozen=True)
class SubstitutionResult:
    """Detectors against human judgements."""

    measured: tuple[Measured, ...]
    data: Mapping[str, str]
    """Files to the SHA-256 of their bytes."""
    options: Mapping[str, Any]
    versions: Mapping[str, str]
    gap_chance: float | None = None
    """GAP of a random order; None where candidates were not merged."""
    candidates: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Counts from merging substitutes by lemma."""

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per detector."""
        return [measured.row() for measured in self.measured]

    def summary(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {"task": TASK, "rows": self.rows(), **dataclasses.asdict(self)}

    def save(self, path: Path) -> None:
        """Write the result as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(self.summary(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


REFERENCE = "lexical"
"""The detector at whose recall the precision of the others is reported."""

_NUM_POINTS = 200  # of a curve in a result file
_PARTS = {"n": "nouns", "v": "verbs", "a": "adjectives", "r": "adverbs"}


def evaluate_scorers(
    items: Sequence[Item],
    scorers: Mapping[str, SubstitutionScorer],
    *,
    single: Booleans | None = None,
    wrong: Sequence[Distractor] = (),
    candidates: Candidates | None = None,
    threshold: Threshold = "calibrated",
    keep_threshold: Collection[str] = (),
    precision: float | None = None,
    folds: int = 10,
    resamples: int = 1000,
    seed: int = 0,
    data: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    say: Say = lambda message: None,
) -> SubstitutionResult:
    """Measure scorers on the same items and the same bootstrap samples.

    Args:
        items: Substitutions with human judgements, some of them accepted by most annotators.
        scorers: Name to scorer; the others are compared with the first. One that needs fitting
            (:class:`~calibration.Fittable`) is fitted to the other folds, for each fold.
        single: bool ``[items]``, those that are single tokens of a vocabulary; they are also reported separately.
        wrong: Words with the wrong meaning, see :func:`~trueneg.evaluation.detectors.distractors.distractors`.
        candidates: The items merged by lemma, for GAP.
        threshold: "calibrated": thresholds are chosen on the other folds, at the level "most"; "own": the scorers'
            own thresholds. A scorer that only gives 0 and 1 keeps its own.
        keep_threshold: Names of scorers that always keep their own threshold.
        precision: Calibrate to the lowest threshold with at least this precision; None for the best F1.
        folds: Folds of the cross-validation, by target.
        resamples: Bootstrap samples, by target.
        seed: Seed of the folds and the bootstrap.
        data: Files that the items come from, with their checksums.
        options: Further options to record in the result.
        say: Called with a line for each finished scorer, and for each fit that takes long.

    Raises:
        ConfigError: for an impossible number of folds, or if no item is acceptable to most annotators.
    """
    table = _Table.of(items, single, wrong, folds, resamples, seed)
    if not (table.acceptability >= LEVELS["most"]).any():
        raise ConfigError(
            "no substitute of this data is acceptable to most annotators: choose other data, or more targets"
        )
    if single is not None and not (table.acceptability[single] >= LEVELS["most"]).any():
        warnings.warn("none of the single tokens is acceptable to most annotators", TruenegWarning, stacklevel=2)
    scored: dict[str, _Scored] = {}
    for name, scorer in scorers.items():
        scored[name] = table.score(scorer, "own" if name in keep_threshold else threshold, precision, say)
        cut = "".join(f"; {what.replace('_', ' ')}: {num:,}" for what, num in scored[name].counts.items())
        say(f"{name}: {len(items) + len(wrong):,} substitutions in {scored[name].seconds:.1f} s{cut}")
        if math.isinf(scored[name].threshold):
            warnings.warn(f"{name}: no threshold has a precision of {precision:g}", TruenegWarning, stacklevel=2)
        if not needs_fitting(scorer) and _has_seen(scorer, data or {}):
            message = f"{name} was made from this data: its figures are not held out"
            warnings.warn(message, TruenegWarning, stacklevel=2)
    reference = _reference_recall(table, scored)
    draws: dict[str, dict[str, Floats]] = {}
    gaps = {name: candidates.gap_by_target(scored[name].scores) for name in scorers} if candidates else {}
    first = next(iter(scorers), "")
    measured = []
    for name, scorer in scorers.items():
        readings, draws[name] = table.readings(scored[name])
        measured.append(
            Measured(
                detector=name,
                threshold=scored[name].threshold if math.isfinite(scored[name].threshold) else None,
                threshold_from=scored[name].threshold_from,
                is_fitted=needs_fitting(scorer),
                readings=readings,
                precision_at_reference_recall=(
                    None if reference is None else table.curve(scored[name]).precision_at_recall(reference)
                ),
                errors=table.errors(scored[name]),
                differences=_differences(table, scored, draws, name),
                curve=_points(table.curve(scored[name])),
                seconds=scored[name].seconds,
                provenance=dict(scorer.provenance),
                counts=scored[name].counts,
                gap=table.mean_gap(gaps[name]) if gaps else None,
                gap_difference=table.mean_gap(gaps[name], gaps[first]) if gaps and name != first else None,
                ms_per_substitution=1000 * scored[name].processor_seconds / len(table.targets),
            )
        )
    about = {"threshold": threshold, "precision": precision, "folds": folds, "resamples": resamples, "seed": seed}
    return SubstitutionResult(
        tuple(measured),
        dict(data or {}),
        about | dict(options or {}),
        versions(),
        gap_chance=fmean(candidates.gap_by_target(np.zeros(len(items))).values()) if candidates else None,
        candidates=dict(candidates.counts) if candidates else {},
    )


@dataclass(frozen=True, eq=False)
class _Scored:
    """A scorer's scores and acceptances, of the items and of the wrong words."""

    scores: Floats
    is_accepted: Booleans
    is_wrong_accepted: Booleans
    threshold: float
    threshold_from: Threshold
    seconds: float
    processor_seconds: float
    counts: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class _Table:
    """The items as columns, and the bootstrap over targets that all scorers share."""

    items: Sequence[Item]
    wrong: Sequence[Distractor]
    acceptability: Floats
    targets: Integers
    """Target of each item, then of each wrong word."""
    folds: Integers
    """Fold of each item, then of each wrong word."""
    subsets: Mapping[str, Booleans]
    bootstrap: Bootstrap
    """Over targets, of items and then of wrong words."""

    @classmethod
    def of(
        cls,
        items: Sequence[Item],
        single: Booleans | None,
        wrong: Sequence[Distractor],
        folds: int,
        resamples: int,
        seed: int,
    ) -> _Table:
        names = [*(item.target_id for item in items), *(word.target_id for word in wrong)]
        number = {name: at for at, name in enumerate(dict.fromkeys(names))}
        targets = np.array([number[name] for name in names], np.int64)
        subsets = {"all": np.ones(len(items), np.bool_)}
        if single is not None:
            subsets["single tokens"] = single
        pos = np.array([item.substitution.pos or "" for item in items])
        subsets |= {name: pos == part for part, name in _PARTS.items()}
        return cls(
            items=items,
            wrong=wrong,
            acceptability=np.array([item.acceptability for item in items]),
            targets=targets,
            folds=grouped_folds(names, folds, seed),
            subsets=subsets,
            bootstrap=Bootstrap(targets, resamples, seed),
        )

    def score(self, scorer: SubstitutionScorer, rule: Threshold, precision: float | None, say: Say) -> _Scored:
        """Score everything in one call."""
        num = len(self.items)
        substitutions = [*(i.substitution for i in self.items), *(w.substitution for w in self.wrong)]
        acceptability = np.append(self.acceptability, np.full(len(self.wrong), np.nan))
        before = Counter(scorer.counts)
        started = time.perf_counter(), time.process_time()
        both = held_out_scores(scorer, substitutions, acceptability, self.folds, say)
        seconds = time.perf_counter() - started[0], time.process_time() - started[1]
        counts = dict(Counter(scorer.counts) - before)
        scores, is_right = both[:num], self.acceptability >= LEVELS["most"]
        if rule == "own" or np.isin(both, (0.0, 1.0)).all():
            accepted = both >= scorer.threshold
            return _Scored(scores, accepted[:num], accepted[num:], scorer.threshold, "own", *seconds, counts)
        threshold = choose_threshold(is_right, scores, precision)
        by_fold = cross_validated_thresholds(is_right, scores, self.folds[:num], precision)
        # A precision out of reach on all the data may be reached on some folds by luck.
        accepted = both >= (by_fold[self.folds] if math.isfinite(threshold) else threshold)
        return _Scored(scores, accepted[:num], accepted[num:], threshold, "calibrated", *seconds, counts)

    def mean_gap(self, by_target: Mapping[str, float], minus: Mapping[str, float] | None = None) -> Interval:
        """Average GAP over targets, or its paired difference from another."""
        first = {item.target_id: at for at, item in reversed(list(enumerate(self.items)))}
        values = np.array([gap - (minus[target] if minus else 0.0) for target, gap in by_target.items()])
        return self.bootstrap.part([first[target] for target in by_target]).of(ratio(values, np.ones(len(values))))

    def curve(self, scored: _Scored) -> Curve:
        """Compute the curve over all items, at "most"."""
        return Curve.of(self.acceptability >= LEVELS["most"], scored.scores)

    def readings(self, scored: _Scored) -> tuple[tuple[Reading, ...], dict[str, Floats]]:
        """Compute all readings, and for each level the average precision on all items in every sample."""
        readings, draws = [], {}
        for level, share in LEVELS.items():
            for name, chosen in self.subsets.items():
                is_right = (self.acceptability >= share)[chosen]
                if not is_right.any():
                    continue
                reading, drawn = self._reading(level, name, is_right, chosen, scored)
                readings.append(reading)
                if name == "all":
                    draws[level] = drawn
        return tuple(readings), draws

    def _reading(
        self, level: str, name: str, is_right: Booleans, chosen: Booleans, scored: _Scored
    ) -> tuple[Reading, Floats]:
        scores, accepted, numbers = scored.scores[chosen], scored.is_accepted[chosen], np.flatnonzero(chosen)
        verdicts, both = Verdicts.of(is_right, accepted), is_right & accepted
        statistics = {
            "average_precision": average_precision(is_right, scores),
            "precision": ratio(both, accepted),
            "recall": ratio(both, is_right),
            "f1": ratio(2.0 * both, 1.0 * is_right + accepted),
        }
        samples = self.bootstrap.part(numbers).samples(
            lambda weights: np.stack([measure(weights) for measure in statistics.values()], axis=1)
        )
        drawn = dict(zip(statistics, samples.T, strict=True))
        reading = Reading(
            level=level,
            items=name,
            num_items=len(scores),
            num_targets=len(np.unique(self.targets[numbers])),
            num_accepted=verdicts.num_accepted,
            chance=float(is_right.mean()),
            average_precision=Curve.of(is_right, scores).average_precision,
            precision=verdicts.precision if verdicts.num_accepted else None,
            recall=verdicts.recall,
            f1=verdicts.f1,
            intervals={key: None if np.isnan(value).all() else percentiles(value) for key, value in drawn.items()},
        )
        return reading, drawn["average_precision"]

    def errors(self, scored: _Scored) -> dict[str, ErrorRate]:
        """Count the wrong words of each kind that the scorer accepts."""
        rates: dict[str, ErrorRate] = {}
        for kind in KINDS:
            chosen = np.flatnonzero([word.kind == kind for word in self.wrong])
            if len(chosen):
                accepted, numbers = scored.is_wrong_accepted[chosen], len(self.items) + chosen
                samples = self.bootstrap.part(numbers).samples(ratio(accepted, np.ones(len(accepted))))
                num_targets = len(np.unique(self.targets[numbers]))
                share = Interval(float(accepted.mean()), *percentiles(samples), num_targets)
                rates[kind] = ErrorRate(len(accepted), int(accepted.sum()), share)
        return rates


def _has_seen(scorer: SubstitutionScorer, data: Mapping[str, str]) -> bool:
    """Tell whether a scorer's provenance names the checksum of a file."""
    return any(checksum in source for checksum in data.values() for source in scorer.provenance.values())


def _reference_recall(table: _Table, scored: Mapping[str, _Scored]) -> float | None:
    """Compute the recall at "most" of the reference detector."""
    if REFERENCE not in scored:
        return None
    return Verdicts.of(table.acceptability >= LEVELS["most"], scored[REFERENCE].is_accepted).recall


def _differences(
    table: _Table, scored: Mapping[str, _Scored], draws: Mapping[str, Mapping[str, Floats]], name: str
) -> dict[str, Interval]:
    first = next(iter(scored))
    if name == first:
        return {}
    found = {}
    for level in draws[name]:
        is_right = table.acceptability >= LEVELS[level]
        value, other = (Curve.of(is_right, scored[n].scores).average_precision for n in (name, first))
        drawn = draws[name][level] - draws[first][level]
        found[level] = Interval(value - other, *percentiles(drawn), table.bootstrap.num_groups)
    return found


def _points(curve: Curve) -> dict[str, tuple[float, ...]]:
    thin = curve.thinned(_NUM_POINTS)
    return {
        "threshold": tuple(thin.thresholds.tolist()),
        "precision": tuple(thin.precision.tolist()),
        "recall": tuple(thin.recall.tolist()),
    }
