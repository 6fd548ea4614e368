"""How many steps fit into the time of a trial: measured on this machine, chosen once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.errors import ConfigError
from trueneg.evaluation.results.trial import BEFORE
from trueneg.files.records import read_record
from trueneg.files.whole import write_json
from trueneg.recipes.execution import run_jobs
from trueneg.recipes.own_text import OwnText
from trueneg.recipes.plan import Output, Workspace, safe_name
from trueneg.recipes.trial_jobs import EVALUATED_ROWS, TrialJobs
from trueneg.training.folder import METRICS as STEP_RECORDS
from trueneg.training.log import read_metrics

CHOSEN = "steps.json"
MIN_STEPS, MAX_EPOCHS = 50, 20
TIMED_STEPS, UNTIMED_STEPS = 12, 2
"""Steps of a run that measures step times, and how many of its first steps do not count."""
RESERVE = 0.1
"""Share of the time that is kept in reserve: a machine's speed varies."""
ANNOTATED_ROWS, ALL_ANNOTATED_AT = 256, 2_000
MIN_EVALUATED_ROWS = 256
EVALUATION = 0.25
"""Maximum share of the time for held-out evaluation, unless even ``MIN_EVALUATED_ROWS`` need more."""
PASSAGES, PASSAGE_TOKENS = 3, 44
READ_FOR_PASSAGES = 1_000
"""Maximum number of held-out documents among which passages are chosen."""
_START = 3.0
"""Seconds that a command takes to start, where this is not measured."""
_TIMING_SEED = "1"


@dataclass(frozen=True)
class Chosen:
    """``steps.json``: choices that are made once, so that the same command resumes with the same plan."""

    steps: int
    why: str
    """How the number of steps was chosen."""
    minutes: float
    """The time that the steps were chosen for; 0 if they were given."""
    passages: list[str]
    """Held-out text whose words are masked to show what models predict."""
    rows: int = EVALUATED_ROWS
    """Held-out rows that every model is measured on."""


@dataclass(frozen=True)
class Cost:
    """Seconds that were measured on this machine."""

    a_step: Mapping[str, float]
    """Per step, by arm."""
    a_start: Mapping[str, float]
    """Per run, besides its steps, by arm."""
    a_run: float
    """Per run, for its evaluation."""
    once: float
    """For what remains to be done once."""
    spent: float
    rows: int = EVALUATED_ROWS
    """Held-out rows that ``a_run`` is for."""

    def steps(self, minutes: float, num_seeds: int) -> int:
        """Compute the number of steps per run that fit into the time, possibly 0."""
        left = (1 - RESERVE) * 60 * minutes - self.spent - self.once
        left -= num_seeds * (sum(self.a_start.values()) + len(self.a_step) * self.a_run)
        return max(0, math.floor(left / (num_seeds * sum(self.a_step.values()))))

    def minutes(self, steps: int, num_seeds: int) -> float:
        """Compute the total time for a number of steps per run."""
        a_seed = sum(self.a_start.values()) + len(self.a_step) * self.a_run + steps * sum(self.a_step.values())
        return (self.spent + self.once + num_seeds * a_seed) / (1 - RESERVE) / 60


def choose_rows(seconds_a_row: float, minutes: float, num_measured: int) -> int:
    """Choose how many held-out rows each model is measured on, so that enough of the time is left for training.

    Example:
        >>> choose_rows(0.08, minutes=60, num_measured=13)
        865
    """
    fit = math.floor(EVALUATION * 60 * minutes / (num_measured * seconds_a_row))
    return max(MIN_EVALUATED_ROWS, min(fit, EVALUATED_ROWS))


def choose_steps(cost: Cost, minutes: float, num_seeds: int, steps_an_epoch: int) -> tuple[int, str]:
    """Choose the number of steps per run, and explain the choice.

    Raises:
        ConfigError: if fewer than ``MIN_STEPS`` fit, with the time that would be needed.
    """
    fits, most = cost.steps(minutes, num_seeds), MAX_EPOCHS * steps_an_epoch
    measured = ", ".join(f"{arm} {seconds:.2f} s" for arm, seconds in cost.a_step.items())
    runs = f"{num_seeds * len(cost.a_step)} runs ({len(cost.a_step)} arms, {num_seeds} seeds)"
    if fits < MIN_STEPS:
        needed = math.ceil(cost.minutes(MIN_STEPS, num_seeds))
        raise ConfigError(
            f"--minutes {minutes:g}: {fits} steps a run would fit, and fewer than {MIN_STEPS} show nothing: {runs}, a "
            f"step of each measured at {measured}, {cost.spent / 60:.1f} minutes spent already: give --minutes "
            f"{needed}, fewer --arms or --seeds, or a smaller --set train.batch_size=N"
        )
    steps = min(fits, most)
    why = f"{runs}, a step measured at {measured} on this machine"
    if steps < fits:
        why += f"; {fits:,} would fit, but {steps:,} read the text {MAX_EPOCHS} times already"
    return steps, f"{why}; about {cost.minutes(steps, num_seeds) * (1 - RESERVE):.0f} minutes in all"


def read_chosen(folder: Path) -> Chosen | None:
    """Read ``steps.json`` of a trial's folder; None if there is none.

    Raises:
        ConfigError: if it is damaged.
    """
    path = folder / CHOSEN
    if not path.is_file():
        return None
    return read_record(Chosen, path, ConfigError, f"remove '{path}' to have the steps chosen again")


def chosen_before(own: OwnText, folder: Path) -> Chosen | None:
    """Read an earlier choice.

    Raises:
        ConfigError: if it was for another time, or other steps.
    """
    chosen = read_chosen(folder)
    if chosen is None:
        return None
    is_same = chosen.steps == own.steps if own.steps else chosen.minutes == own.minutes
    if not is_same:
        of_time = f", chosen for --minutes {chosen.minutes:g}" if chosen.minutes else ""
        raise ConfigError(
            f"'{folder}' holds a trial of {chosen.steps:,} steps a run{of_time}: give these to go on, or another --out"
        )
    return chosen


def choose(own: OwnText, folder: Path, corpus: Path, say: Callable[[str], None]) -> Chosen:
    """Choose steps and passages, and save the choice."""
    options = own.config.corpus
    rows = len(RowIndex(Corpus.open(corpus), options.length, pack=options.is_packed))
    if own.steps:
        chosen = Chosen(own.steps, f"as given; {_epochs(own, own.steps, rows)}", 0.0, _passages(corpus))
    else:
        say(f"measuring how long a step of each arm takes here, to fit all into {own.minutes:g} minutes")
        held_out = len(RowIndex(Corpus.open(corpus, "valid"), options.length, pack=options.is_packed))
        cost = _measured_cost(own, folder, rows, held_out, say)
        an_epoch = math.ceil(rows / own.config.train.batch_size)
        steps, why = choose_steps(cost, own.minutes, len(own.seeds), an_epoch)
        why += f"; {_epochs(own, steps, rows)}; held-out loss is of {min(cost.rows, held_out):,} of {held_out:,} rows"
        chosen = Chosen(steps, why, own.minutes, _passages(corpus), cost.rows)
    write_json(folder / CHOSEN, asdict(chosen))
    return chosen


def _epochs(own: OwnText, steps: int, rows: int) -> str:
    return f"the text is read {steps * own.config.train.batch_size / rows:.1f} times"


def _measured_cost(own: OwnText, folder: Path, rows: int, held_out: int, say: Callable[[str], None]) -> Cost:
    """Train each arm for a few steps, and evaluate the checkpoint before training.

    Args:
        own: The trial.
        folder: Its folder.
        rows: Rows of the training text.
        held_out: Rows of the held-out text.
        say: Called with a line of progress.
    """
    jobs, is_part = TrialJobs.begin(own), rows > ALL_ANNOTATED_AT
    notes = jobs.notes(ANNOTATED_ROWS if is_part else 0) if own.is_in_context else None
    for arm in own.all_arms:
        jobs.run(arm, _TIMING_SEED, str(TIMED_STEPS), notes, is_timing=True)
    timed_on = jobs.held_out(BEFORE, own.checkpoint, notes, str(MIN_EVALUATED_ROWS))
    similarity = jobs.similarity(BEFORE, own.checkpoint)
    probe = jobs.probe(f"{BEFORE}-s{own.seeds[0]}", own.checkpoint, own.seeds[0])
    workspace = Workspace.open(folder, jobs.plan)
    run_jobs(workspace, 1, say, before_each=partial(_check_time, workspace, own.minutes))
    a_step, a_start = {}, {}
    for arm in own.all_arms:
        name = safe_name("time", arm)
        a_step[arm], training = _timed(workspace.path(Output(f"run/{STEP_RECORDS}", name)))
        a_start[arm] = max(1.0, workspace.seconds(name) - training)
    annotating = 0.0
    if is_part and notes is not None:
        annotating = _START + rows / ANNOTATED_ROWS * max(0.5, workspace.seconds("annotate-part") - _START) / 2
    probing = workspace.seconds(probe) if probe else 0.0
    comparing = workspace.seconds(similarity) if similarity else 0.0
    inspecting = PASSAGES * _START * (len(own.all_arms) + 1)
    spent = sum(workspace.seconds(name) for name in workspace.plan.jobs)
    a_row = max(1e-4, workspace.seconds(timed_on) - _START) / min(held_out, MIN_EVALUATED_ROWS)
    evaluated = MIN_EVALUATED_ROWS
    if held_out > MIN_EVALUATED_ROWS:
        evaluated = choose_rows(a_row, own.minutes, len(own.seeds) * len(own.all_arms) + 1)
    before = _START + a_row * min(evaluated, held_out)
    # A sentence encoder's own vectors are measured again with those of every run that continues it.
    a_run = before + probing + comparing * (2 if own.is_sentence_encoder else 1)
    once = annotating + probing * (len(own.seeds) - 1) + inspecting + before + 2 * _START
    return Cost(a_step, a_start, a_run, once, spent, evaluated)


def _check_time(workspace: Workspace, minutes: float, name: str) -> None:
    """Raise if measuring alone has used up the time of the trial."""
    done = [job for job in workspace.plan.jobs if workspace.state(job) == "done"]
    spent = sum(map(workspace.seconds, done)) / 60
    if spent > (1 - RESERVE) * minutes:
        raise ConfigError(
            f"--minutes {minutes:g}: {spent:.1f} minutes went into the corpus and into measuring steps, and {name} is "
            f"still to come before an arm is trained: give more --minutes, less text or fewer --arms, and run the "
            f"same command again to continue from here"
        )


def _timed(path: Path) -> tuple[float, float]:
    """Return the seconds per step, without the first steps if there are others, and the seconds of all steps."""
    times = [float(record["seconds"]) for record in read_metrics(path) if record["kind"] == "train"]
    kept = times[UNTIMED_STEPS - 1 :] if len(times) > UNTIMED_STEPS else [0.0, *times]
    return max(1e-4, (kept[-1] - kept[0]) / (len(kept) - 1)), times[-1]


def _passages(corpus: Path) -> list[str]:
    """Choose the beginnings of a few held-out documents, spread over all of them."""
    held_out = Corpus.open(corpus, "valid", verify=False)
    tokenizer = held_out.load_tokenizer()
    found: dict[str, None] = {}
    step = max(1, math.ceil(held_out.num_documents / READ_FOR_PASSAGES))
    for number in range(0, held_out.num_documents, step):
        ids = held_out.document(number)[:PASSAGE_TOKENS].tolist()
        text = " ".join(str(tokenizer.decode(ids)).split())
        end = max(text.rfind(mark) for mark in (". ", "? ", "! "))
        text = text[: end + 1] if end > len(text) // 3 else text
        is_plain = tokenizer.unk_token_id not in ids and str(tokenizer.mask_token) not in text
        if is_plain and len(text.split()) >= 6:
            found[text] = None
    return list(found)[:: max(1, len(found) // PASSAGES)][:PASSAGES]
