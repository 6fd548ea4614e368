"""The jobs of a trial on the user's own text, each an ordinary command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trueneg.config.codec import full_name
from trueneg.config.options import PretrainConfig
from trueneg.detectors.scorers.prototypes import THRESHOLD
from trueneg.evaluation.results.trial import BEFORE
from trueneg.recipes.own_text import OwnText
from trueneg.recipes.plan import Argument, Command, Job, Output, Plan, safe_name

HELD_OUT = "0.1"
MOST_TIMING = 1.0
"""Minutes after which a run that measures the time of its steps stops, however few steps it took."""
EVALUATED_ROWS = 2_000
"""Maximum number of held-out rows that a model is evaluated on."""
PROTOTYPE_ROWS = "4000"
_LISTED_FROM = "0.5"
"""Acceptance threshold of soft targets, the best in ``corrections``; dropping uses THRESHOLD, which is stricter."""


@dataclass
class TrialJobs:
    """The jobs of a trial, as far as they are known."""

    own: OwnText
    plan: Plan
    corpus: Output

    @classmethod
    def begin(cls, own: OwnText) -> TrialJobs:
        """Start the plan with the corpus."""
        plan = Plan()
        command: Command = ("corpus", "build", *own.texts, "--tokenizer", own.checkpoint, "--out", Output("corpus"))
        plan.add(Job("corpus", (*command, "--valid", HELD_OUT, *own.corpus)))
        return cls(own, plan, Output("corpus", "corpus"))

    def prototypes(self) -> Output:
        """Plan the prototypes: the checkpoint's average vector of each word."""
        command: Command = ("detect", "prototypes", "--encoder", self.own.checkpoint, "--corpus", self.corpus)
        command = (*command, "--rows", PROTOTYPE_ROWS, "--out", Output("prototypes.safetensors"))
        return Output("prototypes.safetensors", self.plan.add(Job("prototypes", command)))

    def notes(self, max_rows: int = 0) -> Output:
        """Plan the annotation of the corpus with what prototypes accept; only of the first ``max_rows``, for timing."""
        detector = replace(self.prototypes(), prefix='prototypes:"', suffix=f'"@{_LISTED_FROM} & fits')
        part = ("--max-rows", str(max_rows)) if max_rows else ()
        command: Command = ("corpus", "annotate", self.corpus, "--detector", detector, *part, *self.own.wordnet)
        name = "annotate-part" if max_rows else "annotate"
        return Output("notes", self.plan.add(Job(name, (*command, "--out", Output("notes")))))

    def run(self, arm: str, seed: str, steps: str, notes: Output | None, *, is_timing: bool = False) -> Output:
        """Plan the training of an arm."""
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

    def held_out(self, label: str, model: Argument, notes: Output | None, rows: str) -> str:
        """Plan a model's evaluation on held-out text, with the same masks for all models."""
        masking = [one for one in self.own.settings if _full_name(one).startswith("objective.masking.")]
        corpus = self.own.config.corpus
        detectors: tuple[Argument, ...] = ("--detector", "lexical")
        if notes is not None:
            detectors = (*detectors, "--detector", _false_negatives(notes))
        command: Command = (
            *("evaluate", "masked-lm", model, "--corpus", self.corpus, *detectors, "--rows", rows),
            *("--length", str(corpus.length), *(("--pack",) if corpus.is_packed else ()), *self.own.wordnet),
            *(word for setting in masking for word in ("--set", setting)),
            "--json",
        )
        return self.plan.add(Job(safe_name("held-out", label), command))

    def similarity(self, label: str, model: Argument) -> str | None:
        """Plan a model's evaluation of sentence similarity, if its data were given."""
        if self.own.glue is None:
            return None
        command: Command = ("evaluate", "encoder", model, "--task", "sts", "--data", self.own.glue, "--json")
        return self.plan.add(Job(safe_name("sts", label), command))

    def probe(self, label: str, model: Argument, seed: int) -> str | None:
        """Plan a fine-tuning on the labelled data, if any were given."""
        if not self.own.probe:
            return None
        command: Command = ("finetune", model, *self.own.probe, "--seed", str(seed), "--out", Output(""))
        return self.plan.add(Job(safe_name("probe", label), command, resumes=True))

    def inspect(self, label: str, model: Argument, number: int, passage: str) -> str:
        """Plan predictions for the masked words of a passage."""
        command: Command = ("inspect", model, "--detector", "lexical", "--json", *self.own.wordnet, "--", passage)
        return self.plan.add(Job(safe_name("inspect", label, str(number)), command))


def _full_name(setting: str) -> str:
    return full_name(PretrainConfig(), setting.partition("=")[0].strip())


def _false_negatives(notes: Output) -> Output:
    """Restrict annotations to what prototypes accept at their default threshold."""
    return replace(notes, prefix='annotated:"', suffix=f'"@{THRESHOLD}')


def _arm(arm: str, notes: Output | None, wordnet: Sequence[str]) -> tuple[Argument, ...]:
    if notes is not None and arm == "in-context":
        listed = replace(notes, prefix='annotated:"', suffix='"')
        return ("--hard-correction", listed, "--set", "objective.correction.use=soft_targets")
    if notes is not None and arm == "in-context-drop":
        return ("--hard-correction", _false_negatives(notes))
    return {
        "lexical": ("--hard-correction", "lexical", *wordnet),
        "regularization": ("--soft-regularization", "token"),
    }.get(arm, ())


@dataclass(frozen=True)
class Trained:
    """Evaluation jobs of a trained arm, or of the checkpoint before training."""

    held_out: str
    similarity: str | None
    probe: str | None
    inspected: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrialPlan:
    """The whole plan, with the evaluation jobs of each arm and seed."""

    plan: Plan
    trained: dict[tuple[str, int], Trained]


def plan_trial(own: OwnText, steps: str, passages: Sequence[str], rows: str) -> TrialPlan:
    """Plan the whole trial: every arm and seed, and the evaluation of each on ``rows`` held-out rows."""
    jobs = TrialJobs.begin(own)
    notes = jobs.notes() if own.is_in_context else None
    trained = {}
    held_out = jobs.held_out(BEFORE, own.checkpoint, notes, rows)
    similarity = jobs.similarity(BEFORE, own.checkpoint)
    for place, seed in enumerate(own.seeds):
        probe = jobs.probe(f"{BEFORE}-s{seed}", own.checkpoint, seed)
        looked: tuple[str, ...] = ()
        if not place and not own.is_head_new:
            looked = tuple(jobs.inspect(BEFORE, own.checkpoint, *one) for one in enumerate(passages, 1))
        trained[BEFORE, seed] = Trained(held_out, similarity, probe, looked)
        for arm in own.all_arms:
            run, label = jobs.run(arm, str(seed), steps, notes), f"{arm}-s{seed}"
            measured = jobs.held_out(label, run, notes, rows), jobs.similarity(label, run), jobs.probe(label, run, seed)
            looked = tuple(jobs.inspect(label, run, *one) for one in enumerate(passages, 1) if not place)
            trained[arm, seed] = Trained(*measured, looked)
    return TrialPlan(jobs.plan, trained)
