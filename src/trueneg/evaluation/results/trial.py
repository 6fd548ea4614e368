"""A trial on your own text: the measures of each arm, and whether it helps, hurts, or shows no difference."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from trueneg.errors import TaskError
from trueneg.evaluation.statistics.intervals import Interval, t_interval, t_test
from trueneg.evaluation.statistics.significance import holm
from trueneg.files.records import read_versioned
from trueneg.files.whole import write_json
from trueneg.version import __version__

BEFORE, BASELINE = "before", "baseline"
"""The given checkpoint, and the same one continued with plain masked language modelling."""

Verdict = Literal["helps", "hurts", "no difference shown", "no difference at all", "not judged"]
TRIAL = "try.json"
SCHEMA = 1
ALPHA = 0.05


@dataclass(frozen=True)
class Measure:
    """One metric of every arm and seed."""

    name: str
    unit: str
    by_arm: dict[str, dict[int, float]]
    """Arm, including ``BEFORE``, to seed to value; for ``BEFORE`` the same for each seed, unless measured per seed."""
    better: Literal["less", "more", "neither"]
    """Which is better; with ``neither`` there is no verdict."""
    obstacle: str = ""
    """Why the value before cannot be compared with those after; empty if it can."""

    def mean(self, arm: str) -> float | None:
        """Average an arm over its seeds; None if nothing was measured."""
        values = self.by_arm.get(arm, {})
        return statistics.fmean(values.values()) if values else None


@dataclass(frozen=True)
class Answer:
    """Whether an arm is better than another by one measure."""

    measure: str
    unit: str
    arm: str
    against: str
    interval: Interval | None
    """Arm minus the other, over seeds, at 95 %; None for a single seed."""
    p: float | None
    """Two-sided, by Holm's method over all answers with a verdict; None where there is none."""
    verdict: Verdict
    reason: str
    better: Literal["less", "more", "neither"]


@dataclass(frozen=True)
class Shown:
    """A masked word of held-out text, and what models predict for it."""

    before: str
    gold: str
    after: str
    written: dict[str, list[tuple[str, float, bool]]]
    """Arm to predictions: word, probability, and whether WordNet's table accepts it for gold."""


@dataclass(frozen=True)
class Trial:
    """Contents of ``try.json``."""

    text: list[str]
    checkpoint: str
    arms: dict[str, str]
    """Name to description, the baseline first."""
    seeds: list[int]
    steps: int
    why_steps: str
    """How the number of steps was determined."""
    minutes: float
    """Time budget."""
    measures: list[Measure]
    answers: list[Answer]
    examples: list[Shown]
    notes: list[str]
    warnings: list[str]
    """Warnings from the jobs."""
    commands: dict[str, str]
    data: dict[str, str]
    """SHA-256 of the data that was read, by name."""
    versions: dict[str, str]
    schema: int = SCHEMA
    version: str = field(default=__version__)


def compare_arms(measures: Sequence[Measure], arms: Sequence[str], seeds: Sequence[int]) -> list[Answer]:
    """Compare every arm with the baseline, and the baseline with the checkpoint before, seed by seed.

    Intervals use Student's t over the differences of seeds; p-values are from the paired t-test, adjusted by Holm's
    method over all answers with a verdict.

    Args:
        measures: What was measured.
        arms: All arms but the baseline.
        seeds: Seeds of every arm.

    Example:
        >>> by_arm = {"baseline": {1: 2.0, 2: 2.1, 3: 2.2}, "soft": {1: 1.8, 2: 1.9, 3: 2.01}}
        >>> [answer] = compare_arms([Measure("loss", "nats", by_arm, "less")], ["soft"], [1, 2, 3])
        >>> answer.verdict, answer.reason
        ('helps', '-0.197 [-0.211, -0.182] nats; less is better')
    """
    pairs = [
        (measure, *pair)
        for measure in measures
        for pair in [(BASELINE, BEFORE), *((arm, BASELINE) for arm in arms)]
        if measure.by_arm.get(pair[0]) and measure.by_arm.get(pair[1])
    ]
    found = []
    for measure, arm, against in pairs:
        values = [measure.by_arm[arm][seed] - measure.by_arm[against][seed] for seed in seeds]
        found.append((t_interval(values), t_test(values)) if len(values) > 1 else (None, 1.0))
    tested = [
        number
        for number, ((measure, arm, against), (interval, _)) in enumerate(zip(pairs, found, strict=True))
        if interval and measure.better != "neither" and not _obstacle(measure, against)
    ]
    adjusted = dict(zip(tested, holm([found[number][1] for number in tested]), strict=True))
    answers = []
    for number, ((measure, arm, against), (interval, _)) in enumerate(zip(pairs, found, strict=True)):
        p = adjusted.get(number)
        verdict, reason = judge(interval, p, measure.better, measure.unit, _obstacle(measure, against))
        answers.append(Answer(measure.name, measure.unit, arm, against, interval, p, verdict, reason, measure.better))
    return answers


def judge(
    interval: Interval | None, p: float | None, better: str, unit: str, obstacle: str = ""
) -> tuple[Verdict, str]:
    """Return the verdict on a difference over seeds, and the reason in words.

    Args:
        interval: 95 % interval of the difference; None for a single seed.
        p: p-value of no difference, adjusted for the number of answers.
        better: ``less``, ``more`` or ``neither``.
        unit: Unit of the difference.
        obstacle: Why the two cannot be compared; empty if they can.

    Example:
        >>> judge(Interval(0.1, -0.2, 0.4, 3), 0.4, "more", "points")
        ('no difference shown', '+0.100 [-0.200, +0.400] points: it could be better by up to 0.400 or worse by up to \
0.200')
        >>> judge(None, None, "more", "points")
        ('no difference shown', 'one seed says nothing about another: give --seeds 3 or more')
    """
    if obstacle:
        return "not judged", obstacle
    if interval is None:
        verdict: Verdict = "not judged" if better == "neither" else "no difference shown"
        return verdict, "one seed says nothing about another: give --seeds 3 or more"
    if interval.low == interval.high == 0 and better != "neither":
        return "no difference at all", "exactly the same figure with every seed"
    found = f"{interval} {unit}"
    if better == "neither":
        return "not judged", f"{found}; neither more nor less is better by itself"
    if interval.excludes_zero and p is not None and p < ALPHA:
        return ("helps" if (interval.estimate > 0) == (better == "more") else "hurts"), f"{found}; {better} is better"
    if interval.excludes_zero and interval.is_point:
        return "no difference shown", f"{found}: the same with every seed, no spread to judge by: more seeds may tell"
    if interval.excludes_zero:
        return "no difference shown", f"{found}, but not once all answers are allowed for (Holm): more seeds may tell"
    gain, loss = (interval.high, -interval.low) if better == "more" else (-interval.low, interval.high)
    return "no difference shown", f"{found}: it could be better by up to {gain:.3f} or worse by up to {loss:.3f}"


def _obstacle(measure: Measure, against: str) -> str:
    return measure.obstacle if against == BEFORE else ""


def perplexity(loss: float) -> float:
    """Convert a mean loss to the number of equally likely words that would have it."""
    return math.exp(min(loss, 700.0))


def save_trial(trial: Trial, folder: Path) -> Path:
    """Write ``try.json`` atomically."""
    path = folder / TRIAL
    write_json(path, asdict(trial))
    return path


def load_trial(folder: Path) -> Trial:
    """Read ``try.json`` from a trial's folder.

    Raises:
        TaskError: if there is none, it is damaged, or another version of trueneg wrote it.
    """
    return read_versioned(Trial, folder / TRIAL, SCHEMA, TaskError, "run the same trueneg try again")
