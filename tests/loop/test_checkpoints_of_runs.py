"""What happens to a run's folder when the disk, the user or the tracker fails."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_runs import (
    SETTLED,
    WORDNET,
    MakeConfig,
    PowerCut,
    assert_identical,
    before_step,
    changed_wordnet,
    cut_run,
    documents,
    ending,
    last_checkpoint,
    make_config,
    readings,
    start,
    terminate,
)

from trueneg.corpus.build import build_corpus
from trueneg.errors import CheckpointError, MissingExtraError, TruenegWarning
from trueneg.runs import stage_training
from trueneg.runs.configuring import load_run_config
from trueneg.runs.pretraining import pretrain
from trueneg.training.log import read_metrics


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def cut(config_of: MakeConfig, out: Path, *settings: str, at: int = 14) -> None:
    cut_run(config_of("mlm", "train.save_every=5", *settings), out, at)


def test_a_torn_last_checkpoint_costs_only_time(config_of: MakeConfig, tmp_path: Path) -> None:
    pretrain(config_of("mlm"), tmp_path / "whole", quiet=True)
    out = tmp_path / "torn"
    cut(config_of, out)
    torn = last_checkpoint(out) / "optimizer.safetensors"
    os.truncate(torn, torn.stat().st_size - 1)
    with pytest.warns(TruenegWarning, match=r"step-000000010' is torn \(optimizer.safetensors is damaged\)"):
        pretrain(config_of("mlm"), out, resume=True, quiet=True)
    assert_identical(tmp_path / "whole", out)


def test_a_run_is_not_begun_over_another(config_of: MakeConfig, tmp_path: Path) -> None:
    config, out = config_of("mlm", "train.steps=2"), tmp_path / "run"
    pretrain(config, out, quiet=True)
    before = content(out)
    with pytest.raises(CheckpointError, match=f"'{out}' already holds a run: continue it with --resume, or .* --out"):
        pretrain(config, out, quiet=True)
    assert content(out) == before


def test_a_run_killed_before_its_first_checkpoint_starts_again(config_of: MakeConfig, tmp_path: Path) -> None:
    pretrain(config_of("mlm"), tmp_path / "whole", quiet=True)
    cut(config_of, tmp_path / "run", at=4)
    assert not list((tmp_path / "run").rglob("step-*"))
    pretrain(config_of("mlm"), tmp_path / "run", resume=True, quiet=True)
    assert_identical(tmp_path / "whole", tmp_path / "run")


def test_other_options_are_refused_by_name_and_nothing_is_touched(config_of: MakeConfig, tmp_path: Path) -> None:
    out = tmp_path / "run"
    cut(config_of, out)
    before = content(out)
    with pytest.raises(CheckpointError, match=r"optimizer.learning_rate: 0.002 -> 0.1; train.seed: 1 -> 2"):
        pretrain(config_of("mlm", "optimizer.learning_rate=0.1", "train.seed=2"), out, resume=True, quiet=True)
    assert content(out) == before


def test_wordnet_may_move_but_not_change(config_of: MakeConfig, tmp_path: Path) -> None:
    out, detector = tmp_path / "run", "objective.correction.detector=lexical"
    folders = shutil.copytree(WORDNET, tmp_path / "moved"), changed_wordnet(tmp_path / "changed")
    moved, changed = (f"objective.correction.wordnet={folder}" for folder in folders)
    cut(config_of, out, detector, f"objective.correction.wordnet={WORDNET}")
    before = content(out)
    with pytest.raises(CheckpointError, match=rf"'{out}' was trained with other tables .* with --from {out}"):
        pretrain(config_of("mlm", detector, changed), out, resume=True, quiet=True)
    assert content(out) == before
    pretrain(config_of("mlm", detector, moved), out, resume=True, quiet=True)
    pretrain(config_of("mlm", detector, moved), tmp_path / "whole", quiet=True)
    assert_identical(tmp_path / "whole", out)


def test_what_the_curve_does_not_depend_on_may_change(config_of: MakeConfig, tmp_path: Path) -> None:
    pretrain(config_of("mlm", "train.eval_every=0", "train.log_every=24"), tmp_path / "whole", quiet=True)
    cut(config_of, tmp_path / "run", "train.eval_every=3", "train.log_every=7")
    changed = ("train.eval_every=0", "train.log_every=24", "train.keep=3")
    pretrain(config_of("mlm", *changed), tmp_path / "run", resume=True, quiet=True)
    assert load_run_config(tmp_path / "run") == config_of("mlm", *changed, *SETTLED)
    shutil.copy(tmp_path / "whole" / "metrics.jsonl", tmp_path / "run" / "metrics.jsonl")
    assert_identical(tmp_path / "whole", tmp_path / "run")


def test_a_corpus_may_move_but_not_change(
    config_of: MakeConfig, corpus: Path, tokenizer_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    cut(config_of, out)
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(documents(60, seed=9)))
    build_corpus([str(text)], tokenizer_folder, tmp_path / "other", valid=0.15)
    with pytest.raises(CheckpointError, match="other data"):
        pretrain(make_config(tmp_path / "other", "mlm"), out, resume=True, quiet=True)
    shutil.copytree(corpus, tmp_path / "moved")
    assert pretrain(make_config(tmp_path / "moved", "mlm"), out, resume=True, quiet=True).step == 24


@pytest.mark.parametrize(("limit", "told"), [(120_000, "cannot save step 16"), (60_000, "cannot write '")])
def test_a_disk_that_fills_up_costs_nothing_but_the_step(
    limit: int, told: str, config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model fits under the first limit and its optimizer's state does not; under the second, nothing does."""
    config, out = config_of("mlm", "train.save_every=8"), tmp_path / "run"
    pretrain(config, tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        before_step(patch, 9, terminate)
        pretrain(config, out, quiet=True)
    assert 60_000 < (out / "hf" / "model.safetensors").stat().st_size < 120_000
    kept = {name: data for name, data in content(out).items() if not name.startswith(("metrics", "hf/README"))}
    answer = ending(start(config, out, file_limit=limit), out)
    assert answer["error"] == "CheckpointError"
    assert told in answer["message"] and "make room and continue with --resume" in answer["message"]
    now = content(out)
    assert {name: data for name, data in now.items() if not name.startswith(("metrics", "hf/README"))} == kept
    assert not list(out.rglob("*unfinished*"))
    pretrain(config, out, resume=True, quiet=True)
    assert_identical(tmp_path / "whole", out)


def test_a_run_cut_between_its_last_checkpoint_and_the_export_is_completed_by_resuming(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of("electra")
    pretrain(config, tmp_path / "whole", quiet=True)

    def fail(*arguments: object) -> None:
        raise PowerCut

    with monkeypatch.context() as patch, pytest.raises(PowerCut):
        patch.setattr(stage_training, "save_run_model", fail)
        pretrain(config, tmp_path / "cut", quiet=True)
    assert last_checkpoint(tmp_path / "cut").name == "step-000000024"
    assert not (tmp_path / "cut" / "hf").exists()
    pretrain(config, tmp_path / "cut", resume=True, quiet=True)
    assert_identical(tmp_path / "whole", tmp_path / "cut")


def test_records_stand_once_and_in_order_after_many_cuts(config_of: MakeConfig, tmp_path: Path) -> None:
    config, out = config_of("mlm", "train.save_every=3", "train.log_every=1", "train.eval_every=2"), tmp_path / "run"
    for at in (4, 8, 8, 17, 23):
        cut_run(config, out, at)
        with (out / "metrics.jsonl").open("a") as file:
            file.write('{"step": 99, "kind": "tr')
    pretrain(config, out, resume=True, quiet=True)
    records = read_metrics(out / "metrics.jsonl")
    assert [record["step"] for record in records if record["kind"] == "train"] == list(range(1, 25))
    assert [record["step"] for record in records if record["kind"] == "eval"] == list(range(2, 25, 2))
    seconds = [record["seconds"] for record in records if record["kind"] == "train"]
    assert seconds == sorted(seconds)


def test_damaged_records_cost_no_checkpoint(config_of: MakeConfig, tmp_path: Path) -> None:
    """As after a power failure."""
    out = tmp_path / "run"
    cut(config_of, out, "train.log_every=1", "train.eval_every=0")
    path = out / "metrics.jsonl"
    first, second, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, b"\0" * len(second), b"\n", *rest]))
    with pytest.warns(TruenegWarning, match="the first of them line 2"):
        pretrain(config_of("mlm", "train.log_every=1", "train.eval_every=0"), out, resume=True, quiet=True)
    records = read_metrics(path)
    assert [record["step"] for record in records if record["kind"] == "train"] == [1, *range(3, 25)]


def test_a_run_is_silent_when_asked_and_else_speaks_on_standard_error(
    config_of: MakeConfig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = config_of("electra", "train.steps=10", "train.save_every=5")
    pretrain(config, tmp_path / "quiet", quiet=True)
    assert capfd.readouterr() == ("", "")
    pretrain(config, tmp_path / "loud")
    said = capfd.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines[0].startswith("training: electra, ")
    steps = [line.split()[1] for line in lines if line.startswith("step ") and "held out" not in line]
    assert steps == ["5/10", "10/10"]


def test_a_tracker_that_is_missing_is_named_before_anything_is_written(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'trueneg\[wandb\]'"):
        pretrain(config_of("mlm", "train.tracker=wandb"), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_tracker_gets_every_reading(config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[tuple[int, str, float]] = []

    class Fake(SimpleNamespace):
        def init(self, **arguments: object) -> Fake:
            return self

        def log(self, values: dict[str, float], step: int) -> None:
            logged.extend((step, name, value) for name, value in values.items())

        def finish(self) -> None:
            logged.append((0, "finished", 0.0))

    monkeypatch.setitem(sys.modules, "trackio", Fake())
    config = config_of("mlm", "train.steps=10")
    config = replace(config, train=replace(config.train, tracker="trackio"))
    pretrain(config, tmp_path / "run", quiet=True)
    assert logged[-1] == (0, "finished", 0.0)
    for record in readings(tmp_path / "run"):
        assert (record["step"], f"{record['kind']}/loss", record["loss"]) in logged


def test_a_kill_in_the_first_write_blocks_no_folder(config_of: MakeConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json.part").write_text("{")
    assert pretrain(config_of("mlm", "train.steps=2"), run, quiet=True).reason == "finished"
    assert not list(run.glob("*.part"))
