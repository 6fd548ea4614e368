"""What matters when a run takes days: memory at an evaluation, saves by the clock, resuming where things have moved."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import MakeConfig, assert_identical, before_step, final_tensors, readings

from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corruption.rows import Rows
from trueneg.errors import ConfigError, OutOfMemoryError
from trueneg.objectives.rtd import ReplacedTokenDetection
from trueneg.runs.pretraining import pretrain
from trueneg.training.batches import held_out_batches
from trueneg.training.distributed import Processes, choose_device
from trueneg.training.log import read_metrics
from trueneg.training.step import Run


def test_an_evaluation_never_takes_more_rows_at_once_than_training(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    corrupt = ReplacedTokenDetection.corrupt

    def spy(self: ReplacedTokenDetection, rows: Rows) -> Any:
        sizes.append(len(rows.keys))
        return corrupt(self, rows)

    monkeypatch.setattr(ReplacedTokenDetection, "corrupt", spy)
    pretrain(config_of("electra", "train.accumulation=4", "train.steps=2"), tmp_path / "run", quiet=True)
    assert [record["kind"] for record in readings(tmp_path / "run")].count("eval") == 1
    assert max(sizes) == 2
    assert len(sizes) > 2 * 4


def test_a_checkpoint_is_saved_when_the_last_one_is_old(config_of: MakeConfig, tmp_path: Path) -> None:
    for out, minutes in (("often", 1e-9), ("never", 0)):
        settings = (f"train.save_minutes={minutes}", "train.save_every=0", "train.keep=9", "train.steps=3")
        pretrain(config_of("mlm", *settings), tmp_path / out, quiet=True)
    assert [path.name[-1] for path in sorted((tmp_path / "often" / "checkpoints").iterdir())] == ["1", "2", "3"]
    assert [path.name[-1] for path in (tmp_path / "never" / "checkpoints").iterdir()] == ["3"]
    assert_identical(tmp_path / "often", tmp_path / "never")


def test_a_run_resumes_although_what_it_continued_is_gone(config_of: MakeConfig, tmp_path: Path) -> None:
    pretrain(config_of("electra", "train.steps=2"), tmp_path / "base", quiet=True)
    source = tmp_path / "source"
    shutil.copytree(tmp_path / "base" / "hf", source)
    config = config_of("electra", f"model.start_from={source}", "train.steps=6", "train.save_every=2")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    pretrain(config, whole, quiet=True)
    short = config_of("electra", f"model.start_from={source}", "train.steps=6", "train.max_minutes=1e-9")
    assert pretrain(short, cut, quiet=True).step == 1
    shutil.rmtree(source)
    pretrain(config, cut, resume=True, quiet=True)
    ours, theirs = final_tensors(cut), final_tensors(whole)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("allocate", [torch.empty, np.empty], ids=["torch", "numpy"])
def test_a_lack_of_memory_in_training_names_what_to_change(
    allocate: Callable[[int], object], config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_step(monkeypatch, 3, lambda run: allocate(1 << 54))  # type: ignore[func-returns-value]
    advice = (
        r"train\.batch_size=8 in micro-batches of 8: set train\.accumulation=2 for micro-batches of 4, or train\.grad"
    )
    with pytest.raises(OutOfMemoryError, match=rf"on cpu at step 4 .*: {advice}"):
        pretrain(config_of("mlm", "train.batch_size=8"), tmp_path / "run", quiet=True)


def test_a_gpu_without_memory_names_what_to_change_with_numbers(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack(run: Run) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has 1 GiB")

    before_step(monkeypatch, 1, lack)
    settings = ["train.batch_size=12", "train.accumulation=4", "train.gradient_checkpointing=true"]
    settings.append("objective.max_logits_mb=512")
    with pytest.raises(OutOfMemoryError) as raised:
        pretrain(config_of("mlm", *settings), tmp_path / "run", quiet=True)
    assert str(raised.value) == (
        "out of memory on cpu at step 2 (CUDA out of memory. Tried to allocate 2.00 GiB.): train.batch_size=12 in "
        "micro-batches of 3: set train.accumulation=12 for micro-batches of 1, or objective.max_logits_mb=64, which "
        "makes logits in chunks, then continue with --resume"
    )
    assert isinstance(raised.value.__cause__, torch.OutOfMemoryError)


def test_a_row_that_is_too_much_is_told_as_such(
    config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_step(monkeypatch, 0, lambda run: torch.empty(1 << 54))  # type: ignore[func-returns-value]
    settings = ["train.batch_size=2", "train.accumulation=2", "train.gradient_checkpointing=true"]
    settings.append("objective.max_logits_mb=64")
    with pytest.raises(OutOfMemoryError, match="a row alone is too much: fewer tokens a row"):
        pretrain(config_of("mlm", *settings), tmp_path / "run", quiet=True)


def empty(hf: Path) -> None:
    shutil.rmtree(hf)


def lose_weights(hf: Path) -> None:
    (hf / "model.safetensors").unlink()


def tear_weights(hf: Path) -> None:
    os.truncate(hf / "model.safetensors", 1000)


def lose_configuration(hf: Path) -> None:
    (hf / "config.json").unlink()


def cut_configuration(hf: Path) -> None:
    os.truncate(hf / "config.json", 40)


def move_between_renames(hf: Path) -> None:
    hf.rename(hf.with_name(".hf.old"))


DAMAGES = (empty, lose_weights, tear_weights, lose_configuration, cut_configuration, move_between_renames)


@pytest.mark.filterwarnings("ignore::trueneg.errors.TruenegWarning")
def test_a_run_resumes_from_its_checkpoint_whatever_happened_to_its_export(
    config_of: MakeConfig, tmp_path: Path
) -> None:
    pretrain(config_of("mlm", "train.steps=2"), tmp_path / "base", quiet=True)
    source = f"model.start_from={tmp_path / 'base' / 'hf'}"
    config, short = (config_of("mlm", source, "train.steps=4", *more) for more in ((), ("train.max_minutes=1e-9",)))
    pretrain(config, tmp_path / "whole", quiet=True)
    pretrain(short, tmp_path / "cut", quiet=True)
    for damage in DAMAGES:
        out = shutil.copytree(tmp_path / "cut", tmp_path / damage.__name__)
        damage(out / "hf")
        pretrain(config, out, resume=True, quiet=True)
        assert_identical(tmp_path / "whole", out)
        files = {"config.json", "metrics.jsonl", "provenance.json"}
        assert {path.name for path in out.iterdir()} == {"checkpoints", "hf", "origin"} | files


def test_held_out_rows_are_a_sample_and_always_the_same(corpus: Path) -> None:
    index = RowIndex(Corpus.open(corpus, "valid"), 16)
    whole = index.read(torch.arange(len(index)).numpy())

    def sample(num_rows: int, processes: Processes | None = None) -> list[list[int]]:
        batches = held_out_batches(index, num_rows, 4, processes or Processes())
        return [row for batch in batches for row in batch.input_ids.tolist()]

    assert sorted(sample(len(index))) == sorted(whole.input_ids.tolist())
    few = sample(len(index) // 2)
    assert few == sample(len(index))[: len(few)]
    assert few != whole.input_ids.tolist()[: len(few)]
    shared = [row for rank in range(3) for row in sample(len(index), Processes(rank, 3))]
    assert shared == sample(len(index))


def test_a_device_that_training_cannot_use_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train\.device=mps"):
        choose_device("mps")


def test_records_say_how_fast_and_where_the_time_goes(config_of: MakeConfig, tmp_path: Path) -> None:
    settings = ("train.steps=6", "train.log_every=3", "train.batch_size=4", "corpus.length=24")
    pretrain(config_of("mlm", *settings), tmp_path / "run", quiet=True)
    first, last = (one for one in read_metrics(tmp_path / "run" / "metrics.jsonl") if one["kind"] == "train")
    for record in (first, last):
        useful = record["tokens_per_second"] / record["positions_per_second"]
        assert record["padding"] == pytest.approx(1 - useful) and 0 < record["padding"] < 1
        assert 0 < record["mfu"] < 1 and 0 <= record["data_wait"] <= 1
    assert first["seconds_left"] == pytest.approx(3 * 4 * 24 / first["positions_per_second"], abs=0.06)
    assert last["seconds_left"] == 0


def test_a_run_says_what_its_speed_is_a_share_of(
    config_of: MakeConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretrain(config_of("mlm", "train.steps=1"), tmp_path / "run")
    said = capsys.readouterr().err
    assert "speed: mfu is the model's share of" in said and "measured on this CPU, matrix products in fp32" in said
    assert all(f"  {name} " in said for name in ("positions_per_second", "mfu", "padding", "data_wait"))
