"""``trueneg try``: does it help on my text? Arms trained alike for a stated time, measured before and after."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from trueneg.config.codec import full_name, override
from trueneg.config.options import FinetuneConfig, ModelConfig, PretrainConfig
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.sources import source_files
from trueneg.corpus.store import Corpus
from trueneg.errors import ConfigError, LexiconError, TaskError, TruenegWarning, unknown_name
from trueneg.evaluation.results.provenance import versions
from trueneg.evaluation.results.summary import read_runs
from trueneg.evaluation.results.trial import BASELINE, BEFORE, Measure, Shown, Trial, compare_arms, perplexity
from trueneg.evaluation.results.trial import save_trial as save
from trueneg.files.lock import locked
from trueneg.files.records import read_record
from trueneg.files.whole import write_json
from trueneg.lexicon.wordnet_location import find_wordnet
from trueneg.models.loading import config_of, load_masked_lm, resolve_checkpoint
from trueneg.models.sentence_modules import is_sentence_encoder
from trueneg.recipes.execution import run_jobs
from trueneg.recipes.folder import SETTINGS, claim_folder
from trueneg.recipes.plan import LOG, Argument, Command, Input, Job, Output, Plan, Workspace, digest, safe_name
from trueneg.recipes.tables import output_of
from trueneg.reporting.trial import write_trial
from trueneg.runs.pretraining import configure
from trueneg.tasks.metrics import METRICS
from trueneg.tokenizer import load_tokenizer
from trueneg.training.folder import METRICS as STEP_RECORDS
from trueneg.training.log import read_metrics

ARMS: Mapping[str, str] = {
    "lexical": "hard correction: what WordNet's table accepts is not punished",
    "in-context": "the target spread over gold and what prototypes of the checkpoint accept in the sentence",
    "in-context-drop": "hard correction: what prototypes of the checkpoint accept in the sentence is not punished",
    "regularization": "soft regularization: predictions are drawn towards the vectors of gold",
}
"""Ways of training that are compared with plain masked language modelling."""
RECOMMENDED = ("lexical", "in-context", "regularization")
_IN_CONTEXT = ("in-context", "in-context-drop")

CHOSEN, PAGE = "steps.json", "try.html"
HELD_OUT = "0.1"
MIN_TRAINING, MIN_HELD_OUT = 4_000, 500
"""Tokens that a trial needs: fewer are learned by heart, or leave too few masked tokens to measure."""
MIN_STEPS, MAX_EPOCHS = 50, 20
TIMED_STEPS, UNTIMED_STEPS = 12, 2
"""Steps of a run that measures their time, and those at its beginning that do not count."""
MOST_TIMING = 1.0
"""Minutes after which such a run stops, however few steps it took."""
RESERVE = 0.1
"""Share of the time that is kept back: a machine is not always equally fast."""
EVALUATED_ROWS = 2_000
PROTOTYPE_ROWS = "4000"
ANNOTATED_ROWS, ALL_ANNOTATED_AT = 256, 2_000
PASSAGES, PASSAGE_TOKENS, EXAMPLES = 3, 44, 12
_START = 3.0
"""Seconds that a command needs before it works, for those that are not measured."""
_TIMING_SEED = "1"


@dataclass(frozen=True)
class Asked:
    """What a folder's trial is about; its seeds may grow, and its time until the steps are chosen."""

    text: str
    text_digest: str
    checkpoint: str
    checkpoint_digest: str
    arms: str
    corpus: str
    """Arguments of ``corpus build``."""
    probe: str
    """Task and data of the probe, and of STS-B."""
    settings: str


@dataclass(frozen=True)
class Chosen:
    """``steps.json``: what was chosen once, so that the same command goes on with the same plan."""

    steps: int
    why: str
    """What the number rests on."""
    minutes: float
    """The time that it was chosen for; 0 where it was given."""
    passages: list[str]
    """Held-out text whose words are masked to show what models write."""


@dataclass(frozen=True)
class Cost:
    """Seconds that were measured on this machine."""

    a_step: Mapping[str, float]
    """By arm."""
    a_start: Mapping[str, float]
    """Of a run, besides its steps, by arm."""
    a_run: float
    """Of what is measured on each run."""
    once: float
    """Of what is left to do once."""
    spent: float

    def steps(self, minutes: float, num_seeds: int) -> int:
        """Compute the steps of a run that fit into the time, which may be none."""
        left = (1 - RESERVE) * 60 * minutes - self.spent - self.once
        left -= num_seeds * (sum(self.a_start.values()) + len(self.a_step) * self.a_run)
        return max(0, math.floor(left / (num_seeds * sum(self.a_step.values()))))

    def minutes(self, steps: int, num_seeds: int) -> float:
        """Compute the time that so many steps a run need, all in all."""
        a_seed = sum(self.a_start.values()) + len(self.a_step) * self.a_run + steps * sum(self.a_step.values())
        return (self.spent + self.once + num_seeds * a_seed) / (1 - RESERVE) / 60


def choose_steps(cost: Cost, minutes: float, num_seeds: int, steps_an_epoch: int) -> tuple[int, str]:
    """Choose how many steps every run takes, and say what that rests on.

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
            f"{needed}, or fewer --arms or --seeds"
        )
    steps = min(fits, most)
    why = f"{runs}, a step measured at {measured} on this machine"
    if steps < fits:
        why += f"; {fits:,} would fit, but {steps:,} read the text {MAX_EPOCHS} times already"
    return steps, f"{why}; about {cost.minutes(steps, num_seeds) * (1 - RESERVE):.0f} minutes in all"


@dataclass(frozen=True)
class OwnText:
    """A trial that was asked for, checked as far as that goes without training."""

    texts: tuple[Argument, ...]
    checkpoint: Argument
    arms: tuple[str, ...]
    """Without the baseline."""
    seeds: tuple[int, ...]
    minutes: float
    corpus: tuple[str, ...]
    """Further arguments of ``corpus build``."""
    settings: tuple[str, ...]
    """Options of all runs."""
    steps: int
    """Given instead of the time; 0 to measure."""
    glue: Input | None
    """Where STS-B is, if it is to be measured."""
    task: str
    probe: tuple[Argument, ...]
    """Arguments of ``finetune`` besides the checkpoint, seed and folder; none without labelled data."""
    wordnet: tuple[str, ...]
    config: PretrainConfig
    """Of the baseline's runs."""
    is_head_new: bool
    is_sentence_encoder: bool

    @property
    def all_arms(self) -> tuple[str, ...]:
        """Every way of training, the baseline first."""
        return (BASELINE, *self.arms)

    @property
    def is_in_context(self) -> bool:
        """Whether an arm needs the corpus annotated."""
        return any(arm in _IN_CONTEXT for arm in self.arms)

    @property
    def asked(self) -> Asked:
        """What the folder's trial is about."""
        inputs = [text for text in self.texts if isinstance(text, Input)]
        start = self.checkpoint
        return Asked(
            " ".join(str(text.path) if isinstance(text, Input) else str(text) for text in self.texts),
            " ".join(map(digest, inputs)),
            str(start.path) if isinstance(start, Input) else str(start),
            digest(start) if isinstance(start, Input) else "",
            ",".join(self.arms),
            " ".join(self.corpus),
            " ".join(str(one.path) if isinstance(one, Input) else str(one) for one in (*self.probe, self.glue or "")),
            " ".join([*self.settings, *self.wordnet]),
        )


_OURS = {
    "train.seed": "--seeds says which",
    "train.max_minutes": "all runs take the same steps: --minutes says how long",
    "model.start_from": "--from names it",
    "corpus.path": "it is built of the text",
    "objective.name": "every arm is masked language modelling",
    "objective.correction.detector": "--arms names what is compared",
    "objective.regularization.level": "--arms names what is compared",
}


def ask(
    texts: Sequence[str],
    checkpoint: str,
    *,
    seeds: Sequence[int] = (1, 2, 3),
    minutes: float = 60,
    arms: Sequence[str] = (),
    lines: bool = False,
    text_field: str = "text",
    data: str = "",
    task: str = "",
    columns: Sequence[str] = (),
    wordnet: str = "",
    settings: Sequence[str] = (),
) -> OwnText:
    """Check what a trial needs.

    Args:
        texts: Files, folders, globs or hub data sets, as ``corpus build`` takes them.
        checkpoint: What is continued.
        seeds: Of every arm.
        minutes: What everything may take; ``train.steps`` among the settings is taken instead.
        arms: Names from ``ARMS``; by default ``RECOMMENDED``.
        lines: Whether every line is a document.
        text_field: Field or column of the text.
        data: The probe's labelled data; without a task GLUE's folder, for STS-B.
        task: The probe, as ``finetune`` takes it.
        columns: Further arguments of ``finetune``.
        wordnet: WordNet's folder; empty to look in the usual places.
        settings: ``key=value`` for all runs; ``finetune.key=value`` for the probe.

    Raises:
        TruenegError: for a text, checkpoint, arm, lexicon or option that is not there or cannot be used.
    """
    if not texts:
        raise ConfigError("no text to try it on: name a file or a folder")
    if not 0 < minutes < math.inf:
        raise ConfigError(f"--minutes {minutes:g}: must be above 0")
    chosen = tuple(dict.fromkeys(arms or RECOMMENDED))
    for arm in chosen:
        if arm not in ARMS:
            raise ConfigError(unknown_name("arm", arm, ARMS))
    sources = tuple(found for text in texts for found in _source(text))
    _check_wordnet(wordnet, chosen)
    source = resolve_checkpoint(checkpoint)
    config_of(source)
    of_runs = tuple(one.removeprefix("pretrain.") for one in settings if not one.startswith("finetune."))
    of_probe = [one.removeprefix("finetune.") for one in settings if one.startswith("finetune.")]
    steps, of_runs = _without_steps(of_runs)
    override(FinetuneConfig(), of_probe)
    config = configure(start_from=source, objective="mlm", settings=of_runs)
    glue, probe = _measured_on(data, task, columns, of_probe)
    return OwnText(
        texts=sources,
        checkpoint=Input(Path(source), f"checkpoint {Path(source).name}") if Path(source).exists() else source,
        arms=chosen,
        seeds=tuple(seeds),
        minutes=minutes,
        corpus=(*(("--lines",) if lines else ()), *(("--text-field", text_field) if text_field != "text" else ())),
        settings=of_runs,
        steps=steps,
        glue=glue,
        task=task,
        probe=probe,
        wordnet=("--wordnet", wordnet) if wordnet else (),
        config=config,
        is_head_new=_is_head_new(source),
        is_sentence_encoder=is_sentence_encoder(source),
    )


def _source(text: str) -> list[Argument]:
    files = source_files(text)
    if files is None:
        return [text]
    if Path(text).exists():
        return [Input(Path(text), f"text {Path(text).name}")]
    return [Input(path, f"text {path.name}") for path in files]


def _check_wordnet(wordnet: str, arms: Sequence[str]) -> None:
    try:
        find_wordnet(wordnet or None)
    except LexiconError as error:
        raise LexiconError(f"{error} (every trial counts what WordNet accepts)") from error


def _without_steps(settings: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """Take ``train.steps`` out of the settings of runs, and refuse those that are not theirs."""
    steps, kept = 0, []
    for setting in settings:
        key, equals, _ = setting.partition("=")
        name = full_name(PretrainConfig(), key.strip()) if equals else ""
        if name in _OURS:
            raise ConfigError(f"--set {setting}: not in a trial: {_OURS[name]}")
        if name == "train.steps":
            steps = override(PretrainConfig(), [setting]).train.steps
        else:
            kept.append(setting)
    return steps, tuple(kept)


def _measured_on(
    data: str, task: str, columns: Sequence[str], settings: Sequence[str]
) -> tuple[Input | None, tuple[Argument, ...]]:
    """Give where STS-B is, and the arguments of the probe."""
    if not data:
        if task or columns or settings:
            raise ConfigError(f"--task {task}: a probe needs labelled data: give --data".replace("--task :", "probe:"))
        return None, ()
    path = Path(data)
    glue = None
    if (path / "STS-B").is_dir():
        glue = Input(path, "STS-B", ("STS-B",), source="gluebenchmark.com/tasks")
    if not task:
        if glue is None:
            raise ConfigError(
                f"--data {data}: without --task it is GLUE's folder, for sentence similarity, and has no STS-B/: name "
                f"that folder, or what to learn, as --task classification"
            )
        if columns or settings:
            raise ConfigError("columns and finetune.OPTION are of a probe: name it with --task, or leave them out")
        return glue, ()
    place: Argument = Input(path, f"probe {path.name}") if path.exists() else data
    if not path.exists() and not data.startswith("hub:"):
        raise ConfigError(f"--data {data}: is not there")
    sets = (word for setting in settings for word in ("--set", setting))
    return glue, ("--task", task, "--data", place, *columns, *sets)


def _is_head_new(source: str) -> bool:
    """Tell whether the checkpoint's masked-LM head would start from random weights."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TruenegWarning)
        load_masked_lm(ModelConfig(start_from=source), load_tokenizer(source))
    return any("start at random" in str(warning.message) for warning in caught)


# ---- the plan


@dataclass
class _Jobs:
    """The jobs of a trial, as far as they are known."""

    own: OwnText
    plan: Plan
    corpus: Output

    @classmethod
    def begin(cls, own: OwnText) -> _Jobs:
        """Plan the corpus."""
        plan = Plan()
        command: Command = ("corpus", "build", *own.texts, "--tokenizer", own.checkpoint, "--out", Output("corpus"))
        plan.add(Job("corpus", (*command, "--valid", HELD_OUT, *own.corpus)))
        return cls(own, plan, Output("corpus", "corpus"))

    def prototypes(self) -> Output:
        """Read how the checkpoint sees each word."""
        command: Command = ("detect", "prototypes", "--encoder", self.own.checkpoint, "--corpus", self.corpus)
        command = (*command, "--rows", PROTOTYPE_ROWS, "--out", Output("prototypes.safetensors"))
        return Output("prototypes.safetensors", self.plan.add(Job("prototypes", command)))

    def notes(self, max_rows: int = 0) -> Output:
        """Write down what prototypes accept; of the first rows only, to see how long that takes."""
        detector = replace(self.prototypes(), prefix='prototypes:"', suffix='"@0.62 & fits')
        part = ("--max-rows", str(max_rows)) if max_rows else ()
        command: Command = ("corpus", "annotate", self.corpus, "--detector", detector, *part, *self.own.wordnet)
        name = "annotate-part" if max_rows else "annotate"
        return Output("notes", self.plan.add(Job(name, (*command, "--out", Output("notes")))))

    def run(self, arm: str, seed: str, steps: str, notes: Output | None, *, is_timing: bool = False) -> Output:
        """Train an arm."""
        warmup = str(max(1, int(steps) // 10)) if steps.isdigit() else "STEPS/10"
        command: Command = (
            *("pretrain", "--from", self.own.checkpoint, "--objective", "mlm", "--corpus", self.corpus),
            *("--out", Output("run"), "--seed", seed, "--steps", steps, "--warmup", warmup),
            *_arm(arm, notes, self.own.wordnet),
            *("--set", "corpus.eval_rows=0", "--set", "train.save_every=0"),
            *(("--set", "train.log_every=1", "--set", f"train.max_minutes={MOST_TIMING}") if is_timing else ()),
            *(word for setting in self.own.settings for word in ("--set", setting)),
        )
        name = safe_name("time", arm) if is_timing else safe_name("pretrain", arm, f"s{seed}")
        return Output("run", self.plan.add(Job(name, command, resumes=True)))

    def held_out(self, label: str, model: Argument, notes: Output | None) -> str:
        """Measure a model on held-out text: the same masks for all."""
        masking = [one for one in self.own.settings if _full_name(one).startswith("objective.masking.")]
        corpus = self.own.config.corpus
        detectors: tuple[Argument, ...] = ("--detector", "lexical")
        if notes is not None:
            detectors = (*detectors, "--detector", replace(notes, prefix="annotated:"))
        command: Command = (
            *("evaluate", "masked-lm", model, "--corpus", self.corpus, *detectors, "--rows", str(EVALUATED_ROWS)),
            *("--length", str(corpus.length), *(("--pack",) if corpus.pack else ()), *self.own.wordnet),
            *(word for setting in masking for word in ("--set", setting)),
            "--json",
        )
        return self.plan.add(Job(safe_name("held-out", label), command))

    def similarity(self, label: str, model: Argument) -> str | None:
        """Measure sentence similarity, if its data were given."""
        if self.own.glue is None:
            return None
        command: Command = ("evaluate", "encoder", model, "--task", "sts", "--data", self.own.glue, "--json")
        return self.plan.add(Job(safe_name("sts", label), command))

    def probe(self, label: str, model: Argument, seed: int) -> str | None:
        """Fine-tune a model on the labelled data, if any were given."""
        if not self.own.probe:
            return None
        command: Command = ("finetune", model, *self.own.probe, "--seed", str(seed), "--out", Output(""))
        return self.plan.add(Job(safe_name("probe", label), command, resumes=True))

    def inspect(self, label: str, model: Argument, number: int, passage: str) -> str:
        """Mask the words of a passage."""
        command: Command = ("inspect", model, "--detector", "lexical", "--json", *self.own.wordnet, "--", passage)
        return self.plan.add(Job(safe_name("inspect", label, str(number)), command))


def _full_name(setting: str) -> str:
    return full_name(PretrainConfig(), setting.partition("=")[0].strip())


def _arm(arm: str, notes: Output | None, wordnet: Sequence[str]) -> tuple[Argument, ...]:
    if arm in _IN_CONTEXT and notes is not None:
        use = ("--set", "objective.correction.use=soft_targets") if arm == "in-context" else ()
        return ("--hard-correction", replace(notes, prefix="annotated:"), *use)
    return {
        "lexical": ("--hard-correction", "lexical", *wordnet),
        "regularization": ("--soft-regularization", "token"),
    }.get(arm, ())


@dataclass(frozen=True)
class _Trained:
    """Jobs of a trained arm, or of the checkpoint before."""

    held_out: str
    similarity: str | None
    probe: str | None
    inspected: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Whole:
    """The whole plan: what is measured of each arm and seed."""

    plan: Plan
    trained: dict[tuple[str, int], _Trained]


def _whole(own: OwnText, steps: str, passages: Sequence[str]) -> _Whole:
    jobs = _Jobs.begin(own)
    notes = jobs.notes() if own.is_in_context else None
    trained = {}
    held_out = jobs.held_out("before", own.checkpoint, notes)
    similarity = jobs.similarity("before", own.checkpoint)
    for place, seed in enumerate(own.seeds):
        probe = jobs.probe(f"before-s{seed}", own.checkpoint, seed)
        looked: tuple[str, ...] = ()
        if not place and not own.is_head_new:
            looked = tuple(jobs.inspect("before", own.checkpoint, *one) for one in enumerate(passages, 1))
        trained[BEFORE, seed] = _Trained(held_out, similarity, probe, looked)
        for arm in own.all_arms:
            run, label = jobs.run(arm, str(seed), steps, notes), f"{arm}-s{seed}"
            measured = jobs.held_out(label, run, notes), jobs.similarity(label, run), jobs.probe(label, run, seed)
            looked = tuple(jobs.inspect(label, run, *one) for one in enumerate(passages, 1) if not place)
            trained[arm, seed] = _Trained(*measured, looked)
    return _Whole(jobs.plan, trained)


def planned(own: OwnText, out: str | Path) -> tuple[Workspace, str]:
    """Give the whole plan without running anything, and what its steps rest on, for people to look at."""
    folder = Path(out)
    _check_folder(own, folder)
    chosen = _chosen(own, folder)
    if chosen is None and own.steps:
        chosen = Chosen(own.steps, "given", 0.0, [])
    whole = _whole(own, str(chosen.steps) if chosen else "STEPS", chosen.passages if chosen else [])
    why = chosen.why if chosen else f"STEPS is measured first, so that all fits into {own.minutes:g} minutes"
    return Workspace.open(folder, whole.plan), why


# ---- running it


def run_trial(own: OwnText, out: str | Path, say: Callable[[str], None] = lambda message: None) -> Trial:
    """Run what is missing of a trial, and write ``try.json`` and ``try.html``.

    Raises:
        ConfigError: for a folder of another trial, too little text, or too little time.
        JobError: naming jobs that failed.
        Interrupted: after Ctrl-C; the same call goes on.
    """
    folder = Path(out)
    _check_folder(own, folder)
    with locked(folder, "try"):
        claim_folder(folder, own.asked)
        if own.is_head_new:
            say(f"{_named(own.checkpoint)} has no masked-LM head: a new one is trained, in all arms alike")
        first = Workspace.open(folder, _Jobs.begin(own).plan)
        run_jobs(first, 1, say)
        corpus = first.path(Output("corpus", "corpus"))
        _check_size(corpus, own.config.corpus.length)
        chosen = _chosen(own, folder) or _choose(own, folder, corpus, say)
        say(f"{chosen.steps:,} steps a run: {chosen.why}")
        whole = _whole(own, str(chosen.steps), chosen.passages)
        workspace = Workspace.open(folder, whole.plan)
        run_jobs(workspace, 1, say)
        if whole.plan.digests() != workspace.digests:
            raise TaskError("the text or the checkpoint changed meanwhile: run it again with another --out")
        trial = _read(own, workspace, whole, chosen)
        save(trial, folder)
        write_trial(trial, folder / PAGE)
        return trial


def _check_folder(own: OwnText, folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out {folder} is a file: name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / SETTINGS).is_file():
        names = {path.name for path in folder.iterdir()} - {".lock"}
        if names:
            raise ConfigError(f"--out {folder} holds something else ('{min(names)}'): name another folder")


def read_chosen(folder: Path) -> Chosen | None:
    """Read ``steps.json`` of a trial's folder; None if there is none.

    Raises:
        ConfigError: if it is damaged.
    """
    path = folder / CHOSEN
    if not path.is_file():
        return None
    return read_record(Chosen, path, ConfigError, f"remove '{path}' to have the steps chosen again")


def _chosen(own: OwnText, folder: Path) -> Chosen | None:
    """Read what was chosen before.

    Raises:
        ConfigError: if it was for another time, or other steps.
    """
    chosen = read_chosen(folder)
    if chosen is None:
        return None
    is_same = chosen.steps == own.steps if own.steps else chosen.minutes in (0.0, own.minutes)
    if not is_same:
        of_time = f", chosen for --minutes {chosen.minutes:g}" if chosen.minutes else ""
        raise ConfigError(
            f"'{folder}' holds a trial of {chosen.steps:,} steps a run{of_time}: give these to go on, or another --out"
        )
    return chosen


def _check_size(corpus: Path, length: int) -> None:
    found = {split: Corpus.open(corpus, split, verify=False).num_tokens for split in ("train", "valid")}
    needed = {"train": max(MIN_TRAINING, length), "valid": max(MIN_HELD_OUT, length)}
    times = max(needed[split] / max(found[split], 1) for split in needed)
    if times > 1:
        raise ConfigError(
            f"too little text: {found['train']:,} tokens to train on and {found['valid']:,} held out, and at least "
            f"{needed['train']:,} and {needed['valid']:,} are needed: give about {math.ceil(10 * times) / 10:g} times "
            f"as much"
        )


def _choose(own: OwnText, folder: Path, corpus: Path, say: Callable[[str], None]) -> Chosen:
    """Choose steps and passages, once."""
    rows = len(RowIndex(Corpus.open(corpus), own.config.corpus.length, pack=own.config.corpus.pack))
    if own.steps:
        chosen = Chosen(own.steps, f"as given; {_epochs(own, own.steps, rows)}", 0.0, _passages(corpus))
    else:
        say(f"measuring how long a step of each arm takes here, to fit all into {own.minutes:g} minutes")
        cost = _measured_cost(own, folder, rows, say)
        an_epoch = math.ceil(rows / own.config.train.batch_size)
        steps, why = choose_steps(cost, own.minutes, len(own.seeds), an_epoch)
        chosen = Chosen(steps, f"{why}; {_epochs(own, steps, rows)}", own.minutes, _passages(corpus))
    write_json(folder / CHOSEN, asdict(chosen))
    return chosen


def _epochs(own: OwnText, steps: int, rows: int) -> str:
    return f"the text is read {steps * own.config.train.batch_size / rows:.1f} times"


def _measured_cost(own: OwnText, folder: Path, rows: int, say: Callable[[str], None]) -> Cost:
    """Train each arm for a few steps, and measure the checkpoint as it is."""
    jobs, is_part = _Jobs.begin(own), rows > ALL_ANNOTATED_AT
    notes = jobs.notes(ANNOTATED_ROWS if is_part else 0) if own.is_in_context else None
    for arm in own.all_arms:
        jobs.run(arm, _TIMING_SEED, str(TIMED_STEPS), notes, is_timing=True)
    measured = [
        jobs.held_out("before" if notes is None or not is_part else "before-part", own.checkpoint, notes),
        jobs.similarity("before", own.checkpoint),
        jobs.probe(f"before-s{own.seeds[0]}", own.checkpoint, own.seeds[0]),
    ]
    workspace = Workspace.open(folder, jobs.plan)
    run_jobs(workspace, 1, say)
    a_step, a_start = {}, {}
    for arm in own.all_arms:
        name = safe_name("time", arm)
        a_step[arm], training = _timed(workspace.path(Output(f"run/{STEP_RECORDS}", name)))
        a_start[arm] = max(1.0, workspace.seconds(name) - training)
    annotating = 0.0
    if is_part and notes is not None:
        annotating = _START + rows / ANNOTATED_ROWS * max(0.5, workspace.seconds("annotate-part") - _START) / 2
    probes = workspace.seconds(measured[2]) * (len(own.seeds) - 1) if measured[2] else 0.0
    inspecting = PASSAGES * _START * (len(own.all_arms) + 1)
    spent = sum(workspace.seconds(name) for name in workspace.plan.jobs)
    a_run = sum(workspace.seconds(name) for name in measured if name)
    if measured[1] and own.is_sentence_encoder:  # which is measured again beside every run that continues it
        a_run += workspace.seconds(measured[1])
    return Cost(a_step, a_start, a_run, annotating + probes + inspecting + 2 * _START, spent)


def _timed(path: Path) -> tuple[float, float]:
    """Give the seconds of a step, those at the beginning left out if there are others, and of all steps."""
    times = [float(record["seconds"]) for record in read_metrics(path) if record["kind"] == "train"]
    kept = times[UNTIMED_STEPS - 1 :] if len(times) > UNTIMED_STEPS else [0.0, *times]
    return max(1e-4, (kept[-1] - kept[0]) / (len(kept) - 1)), times[-1]


def _passages(corpus: Path) -> list[str]:
    """Choose the beginnings of a few held-out documents, spread over them all."""
    held_out = Corpus.open(corpus, "valid", verify=False)
    tokenizer = held_out.load_tokenizer()
    found: list[str] = []
    for number in range(held_out.num_documents):
        ids = held_out.document(number)[:PASSAGE_TOKENS].tolist()
        text = " ".join(str(tokenizer.decode(ids)).split())
        end = max(text.rfind(mark) for mark in (". ", "? ", "! "))
        text = text[: end + 1] if end > len(text) // 3 else text
        is_plain = tokenizer.unk_token_id not in ids and str(tokenizer.mask_token) not in text
        if is_plain and len(text.split()) >= 6 and text not in found:
            found.append(text)
    return found[:: max(1, len(found) // PASSAGES)][:PASSAGES]


# ---- reading it


def _read(own: OwnText, workspace: Workspace, whole: _Whole, chosen: Chosen) -> Trial:
    measures = [*_held_out(own, workspace, whole), *_similarity(own, workspace, whole), *_probe(own, workspace, whole)]
    took = sum(workspace.seconds(name) for name in workspace.plan.jobs) / 60
    before = output_of(workspace, whole.trained[BEFORE, own.seeds[0]].held_out)["records"][0]
    notes = [
        "All arms saw the same text in the same order, the same masks, and took as many steps; seeds are paired.",
        f"Held-out documents are a tenth of the text, chosen at random; no arm trained on them. Measured on "
        f"{before['num_rows']:,} rows of them, {before['counts']['masked']:,} masked tokens.",
        f"Training and measuring took {took:.1f} minutes.",
    ]
    if own.is_head_new:
        notes.append(
            "The checkpoint has no masked-LM head: a new one was trained in every arm, and what is said of the loss "
            "before is that of an untrained head. docs/sentence-encoders.md says how to keep a sentence encoder's "
            "vectors while a head is new."
        )
    if own.glue is None:
        notes.append("Sentence similarity was not measured: give GLUE's folder with --data.")
    elif not own.is_sentence_encoder:
        notes.append("The checkpoint is no sentence encoder: its similarity is that of the mean of its vectors.")
    if not own.probe:
        notes.append("No probe was given: --task classification --data FILE fine-tunes every arm on labelled text.")
    if len(own.seeds) < 3:
        notes.append(f"{len(own.seeds)} seeds make wide intervals: give --seeds 5 to the same command to go on.")
    return Trial(
        text=[_named(text) for text in own.texts],
        checkpoint=_named(own.checkpoint),
        arms={BASELINE: "plain masked language modelling"} | {arm: ARMS[arm] for arm in own.arms},
        seeds=list(own.seeds),
        steps=chosen.steps,
        why_steps=chosen.why,
        minutes=chosen.minutes,
        measures=measures,
        answers=compare_arms(measures, own.arms, own.seeds),
        examples=_examples(own, workspace, whole),
        notes=notes,
        warnings=_warnings(workspace),
        commands={name: workspace.command(name) for name in workspace.plan.jobs},
        data={one.name: found for one, found in workspace.digests.items()},
        versions=versions(),
    )


def _named(argument: Argument) -> str:
    return str(argument.path) if isinstance(argument, Input) else str(argument)


def _held_out(own: OwnText, workspace: Workspace, whole: _Whole) -> list[Measure]:
    records = {key: output_of(workspace, jobs.held_out)["records"] for key, jobs in whole.trained.items()}
    if len({(one[0]["corpus"], one[0]["counts"]["masked"]) for one in records.values()}) != 1:
        raise TaskError("the arms were measured on different masks: run it again with another --out")

    def by_arm(number: int, figure: Callable[[Mapping[str, float]], float]) -> dict[str, dict[int, float]]:
        found: dict[str, dict[int, float]] = {}
        for (arm, seed), of_model in records.items():
            found.setdefault(arm, {})[seed] = figure(of_model[number]["readings"])
        return found

    obstacle = "the checkpoint's head was new: its loss before is that of random weights" if own.is_head_new else ""
    losses = by_arm(0, lambda readings: readings["gold_loss"])
    perplexities = {arm: {seed: perplexity(loss) for seed, loss in of.items()} for arm, of in losses.items()}
    right = by_arm(0, lambda readings: 100 * readings["accuracy"])
    accepted = "mispredictions that {} accepts"
    found = [
        Measure("loss of the gold token, held out", "nats", losses, "less", obstacle),
        Measure("perplexity, held out", "words", perplexities, "neither", obstacle),
        Measure("masked words predicted right, held out", "points", right, "neither", obstacle),
        Measure(
            accepted.format("WordNet's table"),
            "points",
            by_arm(0, lambda readings: 100 * readings.get("corrected", 0.0)),
            "neither",
            obstacle,
        ),
    ]
    if own.is_in_context:
        in_context = by_arm(1, lambda readings: 100 * readings.get("corrected", 0.0))
        found.append(Measure(accepted.format("context"), "points", in_context, "neither", obstacle))
    return found


def _similarity(own: OwnText, workspace: Workspace, whole: _Whole) -> list[Measure]:
    if own.glue is None:
        return []
    found: dict[str, dict[int, float]] = {}
    for (arm, seed), jobs in whole.trained.items():
        assert jobs.similarity is not None
        command = workspace.arguments(jobs.similarity)
        records = output_of(workspace, jobs.similarity)["sts"]
        of_model = [one for one in records if one["checkpoint"] == command[2] and one["pooling"] == "mean"]
        found.setdefault(arm, {})[seed] = 100 * of_model[0]["spearman"]
    return [Measure("sentence similarity, STS-B dev (Spearman)", "points", found, "more")]


def _probe(own: OwnText, workspace: Workspace, whole: _Whole) -> list[Measure]:
    if not own.probe:
        return []
    measures: dict[tuple[str, str, str], dict[str, dict[int, float]]] = {}
    for (arm, seed), jobs in whole.trained.items():
        assert jobs.probe is not None
        for (task, split), by_seed in read_runs(workspace.path(Output("", jobs.probe))).items():
            result = by_seed[seed][1]
            if result.metrics:
                of_task = measures.setdefault((task, split, result.primary), {})
                of_task.setdefault(arm, {})[seed] = 100 * result.metrics[result.primary]
    return [
        Measure(
            f"probe, {task} {split} ({metric})", "points", by_arm, "less" if METRICS[metric].less_is_better else "more"
        )
        for (task, split, metric), by_arm in measures.items()
    ]


def _examples(own: OwnText, workspace: Workspace, whole: _Whole) -> list[Shown]:
    """Choose the words at which arms of the first seed write something else than the baseline."""
    looked = {arm: jobs.inspected for (arm, seed), jobs in whole.trained.items() if seed == own.seeds[0]}
    found: list[tuple[tuple[bool, float], Shown]] = []
    for number in range(len(looked[BASELINE])):
        read = {arm: output_of(workspace, names[number]) for arm, names in looked.items() if names}
        text = read[BASELINE]["text"]
        for words in zip(*(one["words"] for one in read.values()), strict=True):
            of_arm = dict(zip(read, words, strict=True))
            plain = of_arm[BASELINE]
            if len({word["predictions"][0]["text"] for arm, word in of_arm.items() if arm != BEFORE}) > 1:
                written = {arm: [_written(one) for one in word["predictions"][:3]] for arm, word in of_arm.items()}
                shown = Shown(text[: plain["start"]], plain["gold"], text[plain["end"] :], written)
                apart = max(abs(word["gold_probability"] - plain["gold_probability"]) for word in of_arm.values())
                found.append(((bool(plain["note"]), -apart), shown))
    return [shown for _, shown in sorted(found, key=lambda one: one[0])[:EXAMPLES]]


def _written(predicted: Mapping[str, Any]) -> tuple[str, float, bool]:
    is_accepted = predicted["is_correctable"] and any(one["is_accepted"] for one in predicted["verdicts"])
    return predicted["text"], predicted["probability"], bool(is_accepted)


def _warnings(workspace: Workspace) -> list[str]:
    """List what jobs warned of, each once, with how many said it."""
    said: dict[str, int] = {}
    for name in workspace.plan.jobs:
        log = workspace.folder(name) / LOG
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        for line in dict.fromkeys(line for line in lines if line.startswith("warning: ")):
            text = line.removeprefix("warning: ").replace(str(workspace.path(Output("run", name))), "RUN")
            said[text] = said.get(text, 0) + 1
    return [f"{text} ({num} jobs)" if num > 1 else text for text, num in said.items()]
