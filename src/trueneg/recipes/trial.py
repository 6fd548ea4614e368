"""A trial on the user's own text: arms trained alike within a given time, measured before and after."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from trueneg.corpus.store import Corpus
from trueneg.errors import ConfigError
from trueneg.evaluation.results.trial import Trial, save_trial
from trueneg.files.lock import locked
from trueneg.recipes.execution import run_jobs
from trueneg.recipes.folder import SETTINGS, claim_folder
from trueneg.recipes.own_text import OwnText
from trueneg.recipes.plan import Output, Workspace
from trueneg.recipes.trial_jobs import TrialJobs, TrialPlan, plan_trial
from trueneg.recipes.trial_results import named, read_trial
from trueneg.recipes.trial_steps import CHOSEN, Chosen, choose, chosen_before
from trueneg.reporting.trial import write_trial

PAGE = "try.html"
MIN_TRAINING, MIN_HELD_OUT = 4_000, 500
"""Tokens that a trial needs: fewer are memorized, or leave too few masked tokens to measure."""


def planned(own: OwnText, out: str | Path) -> tuple[Workspace, str]:
    """Return the whole plan without running anything, and how its steps are chosen, for display."""
    folder = Path(out)
    _check_folder(own, folder)
    chosen = chosen_before(own, folder)
    if chosen is None and own.steps:
        chosen = Chosen(own.steps, f"{own.steps:,} steps a run, as given", 0.0, [])
    whole = _whole(own, chosen) if chosen else plan_trial(own, "STEPS", [], "ROWS")
    measured_first = f"STEPS and held-out ROWS are measured first, so that all fits into {own.minutes:g} minutes"
    why = chosen.why if chosen else measured_first
    return Workspace.open(folder, whole.plan), why


def run_trial(own: OwnText, out: str | Path, say: Callable[[str], None] = lambda message: None) -> Trial:
    """Run the missing part of a trial, and write ``try.json`` and ``try.html``.

    Raises:
        ConfigError: for a folder of another trial, too little text, or too little time.
        JobError: if jobs failed, naming the first.
        Interrupted: after Ctrl-C; the same call resumes.
    """
    folder = Path(out)
    _check_folder(own, folder)
    with locked(folder, "try"):
        # Until then, every job has a key of its own, and a text that was too short may be replaced.
        claim_folder(folder, own.asked, is_fixed=(folder / CHOSEN).is_file())
        if own.is_head_new:
            say(f"{named(own.checkpoint)} has no masked-LM head: a new one is trained, in all arms alike")
        first = Workspace.open(folder, TrialJobs.begin(own).plan)
        run_jobs(first, 1, say)
        corpus = first.path(Output("corpus", "corpus"))
        _check_size(corpus, own.config.corpus.length)
        chosen = chosen_before(own, folder) or choose(own, folder, corpus, say)
        say(f"{chosen.steps:,} steps a run: {chosen.why}")
        whole = _whole(own, chosen)
        workspace = Workspace.open(folder, whole.plan)
        run_jobs(workspace, 1, say)
        trial = read_trial(own, workspace, whole, chosen)
        save_trial(trial, folder)
        write_trial(trial, folder / PAGE)
        return trial


def _whole(own: OwnText, chosen: Chosen) -> TrialPlan:
    return plan_trial(own, str(chosen.steps), chosen.passages, str(chosen.rows))


def _check_folder(own: OwnText, folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out {folder} is a file: name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / SETTINGS).is_file():
        names = {path.name for path in folder.iterdir()} - {".lock"}
        if names:
            raise ConfigError(f"--out {folder} holds something else ('{min(names)}'): name another folder")


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
