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
    with pytest.raises(OutOfMemoryError, match=r"on cpu at step 4 .*train\.accumulation.*train\.batch_size"):
        pretrain(config_of("mlm"), tmp_path / "run", quiet=True)


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
