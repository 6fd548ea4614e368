"""Findings at the top of a report: what is better than the baseline, what is worse, and what is not known."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from trueneg.config.codec import encode, flatten
from trueneg.config.fields import names_where
from trueneg.config.options import PretrainConfig
from trueneg.config.stages import stage_at, stages_of
from trueneg.evaluation.results.comparison import Comparison
from trueneg.evaluation.results.reproduction import ReproducedTable, less_is_better
from trueneg.evaluation.results.split_pairs import Compared
from trueneg.evaluation.results.trial import BASELINE, Trial
from trueneg.evaluation.statistics.intervals import Interval, t_interval
from trueneg.reporting.baselines import lineage_of_checkpoint
from trueneg.reporting.charts import Mark, Standing
from trueneg.reporting.planted import SHOWN
from trueneg.reporting.sources import Layers, MeasuredOn, Measurement, RunFiles, Similarity, Sources
from trueneg.reporting.tables import short_names
from trueneg.reporting.trial import PLAIN, VERDICTS
from trueneg.tasks.metrics import METRICS

POINTS = "points"
NATS = "nats"

_MEASURES = {
    "accuracy_under_attack": "accuracy under attack",
    "exact_match_under_attack": "exact match under attack",
    "squad_f1": "F1",
    "squad_f1_under_attack": "F1 under attack",
    "f1": "F1",
    "matthews": "Matthews correlation",
    "spearman": "Spearman",
    "pearson": "Pearson",
}


@dataclass(frozen=True)
class Finding:
    """One comparison with a baseline, or why there is none."""

    contender: str
    baseline: str
    where: str
    """Task and split, or text."""
    measure: str
    gain: Mark | None
    """Oriented so that more is better; None if nothing can be compared."""
    reason: str = ""
    """What the comparison is based on, or why it is not possible."""
    section: str = ""
    """Id of the page's section with the details."""

    @property
    def standing(self) -> Standing:
        """Whether the contender is shown to be better, worse, or neither."""
        return "open" if self.gain is None else self.gain.standing


def summary(findings: Sequence[Finding]) -> str:
    """Summarize the findings in a sentence or two.

    Example:
        >>> summary([])
        'Nothing is compared here: name a baseline first, and then at least one other folder of the same kind.'
    """
    if not findings:
        return "Nothing is compared here: name a baseline first, and then at least one other folder of the same kind."
    comparable = [finding for finding in findings if finding.gain is not None]
    num = {kind: sum(finding.standing == kind for finding in comparable) for kind in ("better", "worse", "open")}
    rest = len(findings) - len(comparable)
    more = f" {rest:,} more cannot be compared: see why." if rest else ""
    if not comparable:
        return f"Nothing of what is here can be compared ({rest:,} pairs): see why."
    compared = "1 comparison" if len(comparable) == 1 else f"{len(comparable):,} comparisons"
    if not num["better"] + num["worse"]:
        return f"{compared}, and none of them shows a difference: see what is not known, and why.{more}"
    shown = f"{num['better']:,} better than the baseline, {num['worse']:,} worse, {num['open']:,} not known"
    return f"{compared}: {shown}.{more}"


MOST_DRAWN = 24


def drawn(findings: Sequence[Finding]) -> tuple[list[Mark], str]:
    """Choose the comparisons for the first chart: at most ``MOST_DRAWN``, preferring those that show a difference.

    Returns:
        The rows in their order, and a note on those left out, empty if there are none.
    """
    marks = [one.gain for one in findings if one.gain is not None]
    kept = sorted(range(len(marks)), key=lambda number: marks[number].standing == "open")[:MOST_DRAWN]
    if len(marks) <= MOST_DRAWN:
        return marks, ""
    said = f"{MOST_DRAWN} of {len(marks):,} comparisons, those that show a difference first; the tables have all. "
    return [marks[number] for number in sorted(kept)], said


def of_comparison(comparison: Comparison) -> Iterator[Finding]:
    """Yield the findings of a comparison of fine-tuned models, averages over tasks first."""
    for one in comparison.averages:
        points = _oriented(one.difference.interval, 100, is_less=False)
        is_better: Standing = "better" if points.estimate > 0 else "worse"
        standing: Standing = is_better if one.p_adjusted < 1 - comparison.confidence else "open"
        mark = _mark(f"{one.contender}: {one.name}", points, standing, POINTS)
        said = f"{len(one.tasks)} tasks; p {'< 0.001' if one.p_adjusted < 0.001 else f'= {one.p_adjusted:.3f}'}"
        lacking = f"; without {', '.join(one.missing)}" if one.missing else ""
        yield Finding(one.contender, one.baseline, one.name, "mean of primary metrics", mark, said + lacking, "results")
    for row in comparison.rows:
        found, is_less = row.difference, METRICS[row.metric].less_is_better
        p = found.p if row.p_adjusted is None else row.p_adjusted
        gain = _oriented(found.interval, 100, is_less)
        is_shown = p < 1 - comparison.confidence
        standing = "open" if not is_shown else "better" if gain.estimate > 0 else "worse"
        what = _MEASURES.get(row.metric, row.metric.replace("_", " ")) + (" (less is better)" if is_less else "")
        where = f"{row.task}, {row.split.removeprefix('attack-')}"
        mark = _mark(f"{row.contender}: {where}, {what}", gain, standing, POINTS)
        yield Finding(row.contender, row.baseline, where, what, mark, _rests_on(row, p, is_shown), "results")


def of_runs(runs: Sequence[RunFiles]) -> list[Finding]:
    """Compare the held-out loss of runs, with runs that differ only in their seed grouped into an arm.

    The baseline of each arm is the first preceding arm whose losses can be compared with its own.
    """
    arms = list(arms_of(runs).items())
    found: list[Finding] = []
    led: dict[str, list[str]] = {}
    for number, (name, theirs) in enumerate(arms[1:], 1):
        able = (one for one in arms[:number] if not _why_apart([*one[1].values(), *theirs.values()]))
        baseline, ours = next(able, arms[0])
        found.append(_loss(baseline, ours, name, theirs))
        led.setdefault(baseline, []).append(name)
    return [
        replace(one, reason=f"{one.reason}; it is the baseline of {' and '.join(led[one.contender])}")
        if one.gain is None and one.contender in led
        else one
        for one in found
    ]


_NEITHER = ("tn-table2", "cline-table3")
"""Recipes whose claims are not about what is better: rates that rise, reviews that only one model gets right."""


def of_tables(tables: Iterable[ReproducedTable]) -> Iterator[Finding]:
    """Yield a finding for each claim of reproduced tables."""
    for table in tables:
        for claim in table.claims:
            mark, is_less = None, less_is_better(claim.column)
            measure = claim.column + (" (less is better)" if is_less else "")
            reason = f"{claim.verdict}: {claim.reason}"
            is_judged = claim.interval is not None and claim.verdict != "not comparable"
            if is_judged and table.recipe in _NEITHER:
                reason += "; neither more nor less is better"
            elif claim.interval is not None and is_judged:
                is_shown = claim.verdict in ("replicated", "confirmed", "contradicted")
                gain = _oriented(claim.interval, 1, is_less)
                standing = _standing(gain) if is_shown else "open"
                name = f"{claim.row} − {claim.baseline}: {measure} ({claim.verdict})"
                mark = _mark(name, gain, standing, POINTS, "points, claims of papers")
                reason += "; here its sign is turned, as less is better" if is_less else ""
            yield Finding(claim.row, claim.baseline, table.source, measure, mark, reason, "recipes")


def of_trials(trials: Mapping[str, Trial]) -> Iterator[Finding]:
    """Yield whether each arm of a trial helped or hurt, against as many steps of plain continued training."""
    for name, trial in trials.items():
        for one in trial.answers:
            if one.against != BASELINE or one.better == "neither":
                continue
            mark, is_less = None, one.better == "less"
            if one.interval is not None and one.verdict != "not judged":
                gain = _oriented(one.interval, 1, is_less)
                mark = _mark(
                    f"{one.arm}: {one.measure}", gain, VERDICTS[one.verdict], one.unit, f"{one.unit}, own text"
                )
            measure = one.measure + (" (less is better)" if is_less else "")
            yield Finding(one.arm, PLAIN, f"own text ({name})", measure, mark, one.reason, "trials")


_PLANTED = {"nll": ("negative log-likelihood of the right class (less is better)", 1, NATS, "nats, planted"),
            "auc": ("area under the ROC curve", 100, POINTS, "")}  # fmt: skip
"""Metric that arms are judged by, to its name, scale, unit and axis."""


def of_planted(measured: Sequence[Measurement]) -> Iterator[Finding]:
    """Yield whether each way of using known false negatives helped, judged by one metric per kind of model."""
    for file in measured:
        for arm in file.read.arms:
            metric = SHOWN[arm.is_electra][1][0]
            measure, scale, unit, axis = _PLANTED[metric]
            if arm.arm == arm.yardstick:
                continue
            mark, reason = None, "fewer than two seeds in common with the arm that nothing is corrected in: run more"
            if (difference := arm.difference.get(metric)) is not None:
                gain = _oriented(difference, scale, is_less=metric == "nll")
                mark = _mark(f"{arm.arm}: planted, {metric}", gain, _standing(gain), unit, axis)
                reason = (
                    f"{difference.num} seeds, Student's t, paired; the interval is not widened for other comparisons"
                )
            yield Finding(
                arm.arm, arm.yardstick, f"planted false negatives ({file.name})", measure, mark, reason, "planted"
            )


def of_detectors(measured: Sequence[Measurement]) -> Iterator[Finding]:
    """Compare how well detectors rank substitutes with the first detector of the same evaluation."""
    for file in measured:
        names = short_names(one.detector for one in file.read.measured)
        first, *others = file.read.measured
        for one in others:
            if (gain := one.differences.get("most")) is not None:
                yield _paired(names[one.detector], names[first.detector], "human judgement", "average precision", gain)


def of_hits(records: Sequence[Layers], names: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Compare the Hits of encoders with those of the first comparable one, by similarity, on the same triplets.

    Args:
        records: Hits of encoders.
        names: Names of checkpoints; by default, the ends of their paths.
    """
    names = names or short_checkpoints(records)
    for way, triplets in dict.fromkeys((record.way, record.triplets) for record in records):
        chosen = [(one, one.chosen) for one in records if (one.way, one.triplets) == (way, triplets)]
        yield from _of_encoders(chosen, names, f"triplets ({triplets}) by {way}", "Hits")


def of_similarity(records: Sequence[Similarity], names: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Compare the sentence similarity of encoders with that of the first comparable one, by pooling, on the same pairs.

    Args:
        records: Similarities of encoders.
        names: Names of checkpoints; by default, the ends of their paths.
    """
    names = names or short_checkpoints(records)
    for pooling in dict.fromkeys(record.pooling for record in records):
        chosen = [
            (one, Interval(one.spearman, *one.interval, one.num_examples)) for one in records if one.pooling == pooling
        ]
        yield from _of_encoders(chosen, names, f"sentence similarity, {pooling} vectors", "Spearman")


def _of_encoders(
    measured: Sequence[tuple[Layers | Similarity, Interval]], names: Mapping[str, str], where: str, measure: str
) -> Iterator[Finding]:
    """Compare each encoder with the first comparable one before it, or report why there is none."""
    lineages = [lineage_of_checkpoint(one.checkpoint) for one, _ in measured]
    for number, (one, figure) in enumerate(measured[1:], 1):
        name = names[one.checkpoint]
        apart = [
            _why_other_examples(measured[number], before) or lineages[number].why_other(lineage)
            for before, lineage in zip(measured[:number], lineages, strict=False)
        ]
        if "" in apart:
            first, yardstick = measured[apart.index("")]
            gain = independent_difference(figure, yardstick)
            yield _paired(name, names[first.checkpoint], where, measure, gain, _APART)
        else:
            yield Finding(name, names[measured[0][0].checkpoint], where, measure, None, apart[0], "encoders")


def _why_other_examples(one: tuple[Layers | Similarity, Interval], before: tuple[Layers | Similarity, Interval]) -> str:
    """Return why two figures are not of the same examples, or an empty string if they are."""
    if one[0].on.is_other(before[0].on) or one[1].num != before[1].num:
        told = " and ".join(f"{side.on} ({figure.num:,} examples)" for side, figure in (one, before))
        return f"measured on other examples, {told}: cannot be compared; measure both on the same"
    return ""


def independent_difference(left: Interval, right: Interval) -> Interval:
    """Compute the interval of left minus right from the two sides' intervals (Newcombe 1998).

    It is too wide if both were measured on the same examples, since they are then positively correlated.

    Example:
        >>> str(independent_difference(Interval(0.5, 0.4, 0.6, 9), Interval(0.3, 0.2, 0.4, 9)))
        '+0.200 [+0.059, +0.341]'
    """
    estimate = left.estimate - right.estimate
    low = estimate - math.hypot(left.estimate - left.low, right.high - right.estimate)
    high = estimate + math.hypot(left.high - left.estimate, right.estimate - right.low)
    return Interval(estimate, low, high, min(left.num, right.num))


def layers_of(sources: Sources) -> list[Layers]:
    """Return the Hits of all files."""
    return [replace(one, on=_on(file)) for file in sources.files["hits"] for one in file.read.triplets]


def similarities_of(sources: Sources) -> list[Similarity]:
    """Return the sentence similarities of all files."""
    return [replace(one, on=_on(file)) for file in sources.files["similarity"] for one in file.read.sts]


def _on(file: Measurement) -> MeasuredOn:
    return MeasuredOn(file.read.data, file.read.split, file.read.examples)


def short_checkpoints(records: Sequence[Layers | Similarity]) -> dict[str, str]:
    """Name checkpoints by the last parts of their paths: two, or as many as make them distinct."""
    paths = {record.checkpoint: record.checkpoint.rstrip("/").split("/") for record in records}
    for depth in range(2, max(map(len, paths.values()), default=2) + 1):
        names = {checkpoint: "/".join(parts[-depth:]) for checkpoint, parts in paths.items()}
        if len(set(names.values())) == len(names):
            return names
    return {checkpoint: checkpoint for checkpoint in paths}


_APART = "intervals taken as independent, so rather too wide; of these checkpoints, not of ways of training"


def arms_of(runs: Sequence[RunFiles]) -> dict[str, dict[int, RunFiles]]:
    """Group runs that differ only in their seed and in options that comparisons ignore, under a shared name.

    A run may be resumed with its corpus at another path, so the path is such an option; two runs of one arm, however,
    have to read the same corpus.
    """
    free = {*names_where(PretrainConfig, lambda rule: not rule.is_compared)} - {"corpus.path"}
    arms: dict[str, dict[int, RunFiles]] = {}
    for run in runs:
        options = {name: value for name, value in flatten(encode(run.config)).items() if name not in free}
        seeds = arms.setdefault(json.dumps(options, sort_keys=True), {})
        if run.config.train.seed in seeds:  # the same options and seed again: a separate arm
            arms[run.name] = {run.config.train.seed: run}
        else:
            seeds[run.config.train.seed] = run
    named: dict[str, dict[int, RunFiles]] = {}
    for seeds in arms.values():
        names = [run.name for run in seeds.values()]
        alike = [letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))]
        shared = "".join(alike).rstrip("-_./ ") if len(names) > 1 else names[0]
        taken = {*named, *(run.name for run in runs)} - set(names)
        named[names[0] if not shared or shared in taken else shared] = seeds
    return named


def _why_apart(sides: Sequence[RunFiles]) -> str:
    """Return why the last losses of runs cannot be compared, or an empty string if they can."""
    configs = [_evaluated_with(run) for run in sides]
    for what, values in (
        ("corpora", {(one.path, one.mixture, one.temperature) for one in (config.corpus for config in configs)}),
        ("lengths of rows", {config.corpus.length for config in configs}),
        ("packing of rows (corpus.pack)", {config.corpus.is_packed for config in configs}),
        ("numbers of held-out rows (corpus.eval_rows)", {config.corpus.eval_rows for config in configs}),
        ("masking", {config.objective.masking for config in configs}),
        ("objectives", {config.objective.name for config in configs}),
    ):
        if len(values) > 1:
            return f"their {what} differ: losses on different text or masks cannot be compared"
    encoders = list(dict.fromkeys(run.encoder for run in sides))
    return f"their encoders differ ({' and '.join(encoders)}): the loss would be theirs" if len(encoders) > 1 else ""


def _evaluated_with(run: RunFiles) -> PretrainConfig:
    """The options of the stage in which a run was evaluated last."""
    stages = stages_of(run.config)
    return stages[stage_at(stages, run.last("eval").get("step", 0) - 1)].config


def _loss(baseline: str, ours: Mapping[int, RunFiles], name: str, theirs: Mapping[int, RunFiles]) -> Finding:
    def nothing(reason: str) -> Finding:
        return Finding(name, baseline, "held-out text", "loss of the gold token", None, reason, "training")

    both = sorted(ours.keys() & theirs.keys())
    if not both:
        return nothing("they have no seed in common: run both with the same --seed")
    pairs = [(ours[seed], theirs[seed]) for seed in both]
    sides = [run for pair in pairs for run in pair]
    if why := _why_apart(sides):
        return nothing(why)
    last = [[run.last("eval") for run in pair] for pair in pairs]
    if not all(isinstance(one.get("gold_loss"), int | float) for pair in last for one in pair):
        return nothing("not all of them were evaluated on held-out text while they trained")
    steps = {one["step"] for pair in last for one in pair}
    if len(steps) > 1:
        return nothing(f"their last evaluations are of different steps ({', '.join(f'{s:,}' for s in sorted(steps))})")
    gains = [ours["gold_loss"] - theirs["gold_loss"] for ours, theirs in last]
    if len(gains) == 1:
        mark = Mark(f"{name}: held-out loss", gains[0], None, None, "open", NATS, "nats of held-out loss")
        reason = "one run of each: another seed may reverse it"
    else:
        interval = t_interval(gains)
        mark = _mark(f"{name}: held-out loss", interval, _standing(interval), NATS, "nats of held-out loss")
        reason = f"{len(gains)} seeds, Student's t; the interval is not widened for other comparisons"
    return Finding(name, baseline, "held-out text", "loss of the gold token (less is better)", mark, reason, "training")


def _paired(name: str, baseline: str, where: str, measure: str, gain: Interval, reason: str = "") -> Finding:
    points = _oriented(gain, 100, is_less=False)
    mark = _mark(f"{name}: {where}, {measure}", points, _standing(points), POINTS)
    reason = reason or f"{gain.num:,} words in context, paired; of these detectors on this data"
    section = "detectors" if measure == "average precision" else "encoders"
    return Finding(name, baseline, where, measure, mark, reason, section)


def _oriented(interval: Interval, scale: float, is_less: bool) -> Interval:
    """Scale an interval, and reverse its sign if less is better."""
    ends = [scale * value for value in (interval.estimate, interval.low, interval.high)]
    estimate, low, high = [0.0 - ends[0], 0.0 - ends[2], 0.0 - ends[1]] if is_less else ends  # avoids negative zero
    return Interval(estimate, low, high, interval.num)


def _standing(interval: Interval) -> Standing:
    return "open" if not interval.excludes_zero else "better" if interval.estimate > 0 else "worse"


def _mark(name: str, interval: Interval, standing: Standing, unit: str, axis: str = "") -> Mark:
    return Mark(name, interval.estimate, interval.low, interval.high, standing, unit, axis)


def _rests_on(row: Compared, p: float, is_shown: bool) -> str:
    seeds = str(len(row.left)) if row.is_paired else f"{len(row.left)} against {len(row.right)}"
    parts = [
        f"{seeds} {'seed' if seeds == '1' else 'seeds'}, {row.num_examples:,} examples",
        f"p{' (Holm)' if row.p_adjusted is not None else ''} {'< 0.001' if p < 0.001 else f'= {p:.3f}'}",
    ]
    if not is_shown and row.difference.seeds_needed is not None:
        parts.append(f"a difference of this size would show from {row.difference.seeds_needed:,} seeds on")
    elif not is_shown and row.difference.examples_needed is not None:
        parts.append(f"it takes {row.difference.examples_needed:,} examples at least to show it")
    if not row.has_seeds:
        parts.append("1 seed: of these two models, not of the two ways of training")
    return "; ".join((*parts, *row.notes))


def sentences(findings: Iterable[Finding], standing: Standing) -> list[Finding]:
    """Select the findings with one standing, those with figures first."""
    return sorted((one for one in findings if one.standing == standing), key=lambda one: one.gain is None)
