"""One process at a time writes into a folder of results; another one is refused by name and touches nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_runs import ENTRIES, MakeConfig, be_killed, before_step, ending, start, together, wait_for

from trueneg.config.codec import override
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.corpus.annotate import write_annotations
from trueneg.corpus.build import build_corpus
from trueneg.errors import BusyError
from trueneg.files.lock import locked
from trueneg.recipes import planted
from trueneg.runs.demo import run_demo
from trueneg.runs.finetuning import finetune
from trueneg.runs.pretraining import pretrain
from trueneg.training.step import Run


@pytest.fixture
def finetuning(tokenizer_folder: Path, corpus: Path, tmp_path: Path) -> FinetuneConfig:
    """A table of texts and labels, and a folder that is never read."""
    rows = "".join(f"the {word},{number % 2}\n" for number, word in enumerate(ENTRIES[:20]))
    (tmp_path / "table.csv").write_text(f"text,label\n{rows}")
    settings = ["task.name=classification", f"task.data={tmp_path / 'table.csv'}", "task.text_column=text"]
    return override(FinetuneConfig(), [*settings, "task.label_column=label", "train.device=cpu"])


def annotate(corpus: Path, out: Path) -> None:
    write_annotations(corpus, SimpleNamespace(detector="nobody", provenance={}), out)  # type: ignore[arg-type]


def test_every_verb_that_goes_on_refuses_a_folder_in_use(
    config_of: MakeConfig, finetuning: FinetuneConfig, corpus: Path, tokenizer_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("the town .\n")
    seed = tmp_path / "out" / "table" / f"seed-{finetuning.train.seed}"
    verbs: dict[Path, Callable[[Path], object]] = {
        tmp_path / "pretrain": lambda out: pretrain(config_of("mlm"), out, quiet=True),
        tmp_path / "resume": lambda out: pretrain(config_of("mlm"), out, resume=True, quiet=True),
        seed: lambda out: finetune(finetuning, tmp_path / "out", quiet=True),
        tmp_path / "build": lambda out: build_corpus([str(tmp_path / "text.txt")], tokenizer_folder, out),
        tmp_path / "annotate": lambda out: annotate(corpus, out),
        tmp_path / "planted": lambda out: planted.reproduce(out, corpus=corpus),
        tmp_path / "demo": lambda out: run_demo(out),
    }
    for out, verb in verbs.items():
        with locked(out, "something else"):
            with pytest.raises(BusyError, match=rf"'{out}': process \d+ on .* \(something else, since "):
                verb(out)
            assert [path.name for path in out.iterdir()] == [".lock"]


def test_a_refusal_reaches_every_process_of_a_group(config_of: MakeConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with locked(out, "pretrain"):
        told = together(config_of("mlm", "train.steps=2"), out, 2)
    assert [answer["error"] for answer in told] == ["BusyError", "BusyError"]
    assert not list(out.glob("*"))
    assert [answer["reason"] for answer in together(config_of("mlm", "train.steps=2"), out, 2)] == ["finished"] * 2


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_lost_another_one_says_how_to_go_on(rank: int, config_of: MakeConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    dies = {rank: {"before_step": (3, be_killed), "is_killed": True}}
    (left,) = together(config_of("mlm", "train.save_every=2"), out, 2, dies)
    assert left["error"] == "LostProcessError"
    assert "--resume" in left["message"]
    assert [answer["step"] for answer in together(config_of("mlm"), out, 2)] == [24, 24]


def test_a_run_that_goes_on_elsewhere_is_not_resumed(config_of: MakeConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(config_of("mlm", "train.steps=100000", "train.save_every=3"), out)
    wait_for(lambda: any(out.glob("checkpoints/step-*")), process)
    with pytest.raises(BusyError, match=f"process {process.pid} on"):
        pretrain(config_of("mlm"), out, resume=True, quiet=True)
    process.terminate()
    assert ending(process, out)["reason"] == "interrupted"
    assert not (out / ".lock").exists()


def test_the_folder_is_held_while_training(config_of: MakeConfig, tmp_path: Path) -> None:
    seen = []

    def look(run: Run) -> None:
        seen.append(json.loads((tmp_path / "run" / ".lock").read_text())["doing"])

    with pytest.MonkeyPatch.context() as patch:
        before_step(patch, 1, look)
        pretrain(config_of("mlm", "train.steps=2"), tmp_path / "run", quiet=True)
    assert seen == ["pretrain"]
