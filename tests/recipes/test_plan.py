"""Plans: what makes a job's key, what is done again, and how jobs are run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import trueneg
from trueneg.errors import ConfigError, JobError
from trueneg.recipes import execution
from trueneg.recipes.execution import run_jobs
from trueneg.recipes.plan import FINISHED, LOG, Input, Job, Output, Plan, Workspace, changes
from trueneg.recipes.scripts import check_seen, read_seen, scripted, seen, shell_script, slurm_script
from trueneg.recipes.tables import version_notes

WORDS = "the big cat sat on the mat and the small dog ran over the hill to the old mill"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "text.txt"
    path.parent.mkdir()
    path.write_text("\n\n".join(f"{number} {WORDS}" for number in range(30)) + "\n")
    return path


def small_plan(text: Path, size: int = 60, valid: str = "0.1") -> Plan:
    """A tokenizer, a corpus of it, and one that needs neither."""
    plan = Plan()
    command = ("tokenizer", "train", Input(text, "text"), "--vocab-size", str(size), "--out", Output("tok"))
    tokenizer = Output("tok", plan.add(Job("tokenizer", command)))
    command = ("corpus", "build", Input(text, "text"), "--tokenizer", tokenizer, "--valid", valid)
    plan.add(Job("corpus", (*command, "--out", Output("corpus"))))
    plan.add(Job("doctor", ("list", "presets", "--json")))
    return plan


def keys(text: Path, **options: Any) -> Mapping[str, str]:
    return keys_of(small_plan(text, **options))


def keys_of(plan: Plan) -> Mapping[str, str]:
    return plan.keys(plan.digests())


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def test_a_change_reaches_what_needs_it_and_nothing_else(text: Path) -> None:
    before = keys(text)
    assert changed(before, keys(text)) == set()
    assert changed(before, keys(text, valid="0.2")) == {"corpus"}
    assert changed(before, keys(text, size=70)) == {"tokenizer", "corpus"}


def test_keys_are_of_the_content_of_data_wherever_it_lies(text: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / text.name
    moved.parent.mkdir()
    moved.write_bytes(text.read_bytes())
    assert changed(keys(text), keys(moved)) == set()
    moved.write_text("another text\n")
    assert changed(keys(text), keys(moved)) == {"tokenizer", "corpus"}


def test_a_folder_of_data_counts_by_the_parts_that_are_read(tmp_path: Path) -> None:
    for name in ("CoLA", "RTE"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.tsv").write_text(name)

    def key() -> str:
        return keys_of(Plan({"job": Job("job", ("finetune", Input(tmp_path, "glue", ("CoLA",))))}))["job"]

    before = key()
    (tmp_path / "RTE" / "train.tsv").write_text("changed")
    assert key() == before
    (tmp_path / "CoLA" / "dev.tsv").write_text("new")
    assert key() != before


def test_missing_data_are_named_with_their_source(tmp_path: Path) -> None:
    data = Input(tmp_path / "glue", "glue", ("CoLA",), source="gluebenchmark.com")
    with pytest.raises(ConfigError, match=r"glue: '.*CoLA' is not there: it comes from gluebenchmark.com"):
        Plan({"job": Job("job", ("finetune", data))}).digests()


def test_a_job_is_refused_under_the_name_of_another_and_before_what_it_needs(text: Path) -> None:
    plan = small_plan(text)
    assert plan.add(plan.jobs["corpus"]) == "corpus"
    with pytest.raises(ConfigError, match="'corpus'"):
        plan.add(Job("corpus", ("list", "tasks")))
    with pytest.raises(ConfigError, match="'nowhere'"):
        plan.add(Job("late", ("pretrain", Output("run", "nowhere"))))


def test_jobs_run_once_and_what_changed_runs_again(text: Path, tmp_path: Path) -> None:
    said: list[str] = []
    first = Workspace.open(tmp_path / "repro", small_plan(text))
    run_jobs(first, 2, said.append)
    assert first.missing() == []
    assert (first.path(Output("corpus", "corpus")) / "corpus.json").is_file()
    assert "presets" in json.loads((first.folder("doctor") / "output.txt").read_text())
    stamps = {name: (first.folder(name) / FINISHED).stat().st_mtime_ns for name in first.plan.jobs}

    said.clear()
    again = Workspace.open(tmp_path / "repro", small_plan(text, valid="0.2"))
    assert again.missing() == ["corpus"]
    before = {name: first.finished(name) for name in first.plan.jobs}
    assert list(changes(before, again)) == ["corpus: its command changed"]
    run_jobs(again, 1, said.append)
    assert [line for line in said if "of 1" in line] == ["1 of 1: corpus"]
    kept = {name: (first.folder(name) / FINISHED).stat().st_mtime_ns for name in first.plan.jobs}
    assert kept == stamps


def test_jobs_of_several_versions_are_told(text: Path, tmp_path: Path) -> None:
    """A key knows nothing of versions: what an earlier one did counts as done, and the table must say so."""
    workspace = Workspace.open(tmp_path, small_plan(text))
    assert version_notes(workspace) == [], "nothing is done yet"
    run_jobs(workspace)
    assert workspace.versions("doctor")["trueneg"] == trueneg.__version__ and version_notes(workspace) == []
    for job, versions in (("doctor", {"trueneg": "0.0.9", "torch": "2.0"}), ("corpus", {})):
        record = workspace.folder(job) / FINISHED
        record.write_text(json.dumps({**json.loads(record.read_text()), "versions": versions}))
    (note,) = version_notes(workspace)
    assert note.startswith(f"Jobs were done by several versions: trueneg {trueneg.__version__}, ")
    assert note.endswith(": 1; unknown: 1; trueneg 0.0.9, torch 2.0: 1."), "in the plan's order"


def test_changed_data_are_named(text: Path, tmp_path: Path) -> None:
    first = Workspace.open(tmp_path, small_plan(text))
    before = {name: first.finished(name) for name in first.plan.jobs}
    text.write_text("another text\n")
    said = list(changes(before, Workspace.open(tmp_path, small_plan(text))))
    assert said == ["tokenizer: the data of text changed", "corpus: the data of text changed"]


def test_a_failure_is_named_and_what_does_not_need_it_goes_on(text: Path, tmp_path: Path) -> None:
    plan = small_plan(text, size=1)
    workspace = Workspace.open(tmp_path, plan)
    with pytest.raises(JobError, match=r"1 of 3 jobs failed, 1 need them; the first, tokenizer: .*log.txt"):
        run_jobs(workspace)
    assert workspace.missing() == ["tokenizer", "corpus"]
    assert "error" in (workspace.folder("tokenizer") / LOG).read_text()


@pytest.mark.parametrize(
    ("record", "named"),
    [("{", "no JSON"), ('{"schema": 2}', "'schema' is 2"), ('{"schema": 1, "name": "a"}', "is missing")],
)
def test_a_damaged_or_newer_record_is_refused_by_name(text: Path, tmp_path: Path, record: str, named: str) -> None:
    workspace = Workspace.open(tmp_path, small_plan(text))
    workspace.folder("corpus").mkdir(parents=True)
    (workspace.folder("corpus") / FINISHED).write_text(record)
    with pytest.raises(ConfigError, match=rf"job.json.*{named}.*remove that file"):
        workspace.missing()
    (workspace.folder("corpus") / FINISHED).unlink()
    assert workspace.state("corpus") == "begun", "as the message says"


def rewritten(path: Path) -> None:
    content = path.read_bytes()
    path.write_text("another text\n")
    path.write_bytes(content)


def moved_away_and_back(path: Path) -> None:
    path.rename(path.with_suffix(".kept"))
    path.write_text("another text\n")
    path.with_suffix(".kept").replace(path)


@pytest.mark.parametrize("meddle", [rewritten, moved_away_and_back])
def test_a_job_counts_for_nothing_if_its_data_changed_while_it_ran_and_back(
    meddle: Callable[[Path], None], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, start = Workspace.open(tmp_path / "repro", small_plan(text)), execution._start

    def and_meddle(workspace: Workspace, name: str, context: Any) -> Any:
        process = start(workspace, name, context)
        if name == "tokenizer":
            meddle(text)
        return process

    monkeypatch.setattr(execution, "_start", and_meddle)
    with pytest.raises(JobError, match=rf"1 of 3 .*, tokenizer: text: '{text}' was written to while the job ran"):
        run_jobs(workspace)
    monkeypatch.undo()
    assert workspace.digests == workspace.plan.digests()
    assert workspace.missing() == ["tokenizer", "corpus"], "what reads no data is done"
    assert workspace.state("tokenizer") == "to do", "which is begun anew and not resumed"
    assert (Path(f"{workspace.folder('tokenizer')}.set-aside") / "out" / "tok").is_dir()
    run_jobs(workspace)
    assert workspace.missing() == []


def test_a_job_does_not_start_on_data_that_changed_since_they_were_planned(text: Path, tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "repro", small_plan(text))

    def say(message: str) -> None:
        if message.startswith("tokenizer: done"):
            text.write_text("another text\n")

    with pytest.raises(JobError, match=rf"1 of 3 jobs failed; the first, corpus: text: '{text}' changed after"):
        run_jobs(workspace, 1, say)
    assert (workspace.state("tokenizer"), workspace.state("corpus")) == ("done", "to do")


def test_data_that_were_written_anew_but_not_changed_are_read(text: Path, tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "repro", small_plan(text))
    rewritten(text)
    run_jobs(workspace)
    assert workspace.missing() == []


def test_a_usage_error_is_told_without_its_box(tmp_path: Path) -> None:
    plan = Plan()
    plan.add(Job("corpus", ("corpus", "info", "x", "--nothing")))
    with pytest.raises(JobError, match=r"the first, corpus: No such option: --nothing \(see '"):
        run_jobs(Workspace.open(tmp_path, plan))


@pytest.mark.timeout(120)
def test_a_failure_that_all_others_need_ends_the_plan(tmp_path: Path) -> None:
    plan = Plan()
    first = plan.add(Job("first", ("corpus", "info", "nowhere")))
    second = plan.add(Job("second", ("list", "presets"), after=(first,)))
    plan.add(Job("third", ("list", "presets"), after=(second,)))
    with pytest.raises(JobError, match=r"1 of 3 jobs failed, 2 need them; the first, first: .*nowhere"):
        run_jobs(Workspace.open(tmp_path, plan))


def run_script(workspace: Workspace, tmp_path: Path, meddle: Callable[[], object] = lambda: None) -> tuple[int, str]:
    """Run a script of a plan, with something done after it is written; give its exit code and what it says."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    program = bin_folder / "trueneg"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m trueneg "$@"\n')
    program.chmod(0o755)
    script, environment = shell_script(scripted(workspace)), os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}"}
    meddle()
    ended = subprocess.run(["sh", "-c", script], env=environment, stderr=subprocess.PIPE, text=True)
    return ended.returncode, ended.stderr


def test_the_shell_script_does_the_same_jobs(text: Path, tmp_path: Path) -> None:
    """On data that are written anew after the script, with what they held."""
    workspace = Workspace.open(tmp_path / "it's here", small_plan(text))
    assert run_script(workspace, tmp_path, lambda: rewritten(text))[0] == 0
    assert workspace.missing() == []
    assert "job.json" not in shell_script(scripted(workspace))


@pytest.mark.parametrize(
    ("meddle", "named"),
    [
        (lambda text: text.write_text("another text\n"), "text: '.*' changed after this script was written"),
        (lambda text: text.unlink(), "text: '.*' is not there"),
    ],
)
def test_a_job_of_a_script_does_not_start_on_data_that_changed_since(
    meddle: Callable[[Path], object], named: str, text: Path, tmp_path: Path
) -> None:
    workspace = Workspace.open(tmp_path / "repro", small_plan(text))
    code, said = run_script(workspace, tmp_path, lambda: meddle(text))
    assert code == 1 and re.search(named, said)
    assert workspace.missing() == [*workspace.plan.jobs] and not workspace.folder("tokenizer").exists()


def test_a_script_does_not_read_data_whose_files_nobody_touched(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = seen(Workspace.open(tmp_path, small_plan(text)), "corpus")
    assert described and read_seen(json.dumps([asdict(one) for one in described])) == described
    monkeypatch.setattr("trueneg.recipes.scripts.digest", lambda data: pytest.fail(f"{data.name} is read"))
    check_seen(described)


def test_the_shell_script_stops_at_a_failure_and_goes_on(text: Path, tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "repro", small_plan(text))
    script, program = tmp_path / "jobs.sh", tmp_path / "trueneg"
    script.write_text(shell_script(scripted(workspace)))
    program.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/given\n[ "$1" != corpus ] || [ -f {tmp_path}/works ]\n')
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.run(["sh", str(script)], env=environment).returncode == 1
    given = ["check-data", "tokenizer", "check-data", "corpus"]
    assert (tmp_path / "given").read_text().split() == given
    (tmp_path / "works").touch()
    assert subprocess.run(["sh", str(script)], env=environment).returncode == 0
    assert (tmp_path / "given").read_text().split() == [*given, "check-data", "corpus", "list"]


def test_the_slurm_script_hands_dependencies_on(text: Path, tmp_path: Path) -> None:
    """A stand-in for sbatch runs what it is given, and says which job it waits for."""
    workspace = Workspace.open(tmp_path / "repro", small_plan(text))
    log, program = tmp_path / "sbatch.log", tmp_path / "sbatch"
    program.write_text(
        f'#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word" >> {log}; done\necho 4$(grep -c -e --job-name {log})\n'
    )
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["sh", "-c", slurm_script(scripted(workspace))], check=True, env=os.environ | {"PATH": path})
    words = log.read_text().splitlines()
    assert [word for word in words if word.startswith("--job-name")] == [f"--job-name={n}" for n in workspace.plan.jobs]
    assert [word for word in words if word.startswith("--dependency")] == ["--dependency=afterok:41"]


def test_an_interrupted_plan_goes_on(text: Path, tmp_path: Path) -> None:
    """Ctrl-C while a run is under way: it saves, and is resumed."""
    script = tmp_path / "run.py"
    script.write_text(
        f"""
import signal
import sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_plan import training_plan
from trueneg.recipes import execution
from trueneg.recipes.execution import run_jobs
from trueneg.recipes.plan import Workspace
if __name__ == "__main__":
    run_jobs(Workspace.open(Path({str(tmp_path / "repro")!r}), training_plan(Path({str(text)!r}))), 1, print)
"""
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    workspace = Workspace.open(tmp_path / "repro", training_plan(text))
    process = subprocess.Popen([sys.executable, str(script)], env=environment, stderr=subprocess.PIPE, text=True)
    metrics = workspace.path(Output("run/metrics.jsonl", "run"))
    deadline = time.monotonic() + 120
    while not (metrics.is_file() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert "Interrupted" in process.communicate(timeout=120)[1]
    assert workspace.state("run") == "begun"
    assert any(workspace.path(Output("run/checkpoints", "run")).iterdir())
    steps = len(metrics.read_text().splitlines())
    text_of = metrics.read_text()
    run_jobs(workspace)
    assert workspace.state("run") == "done"
    assert metrics.read_text().startswith(text_of)
    assert len(metrics.read_text().splitlines()) > steps


def training_plan(text: Path) -> Plan:
    plan = small_plan(text)
    command = ("pretrain", "electra-tiny", "--corpus", Output("corpus", "corpus"), "--length", "24", "--steps", "400")
    quiet = ("--set", "train.log_every=1", "--set", "corpus.eval_rows=0", "--batch-size", "2")
    plan.add(Job("run", (*command, *quiet, "--out", Output("run")), resumes=True))
    return plan
