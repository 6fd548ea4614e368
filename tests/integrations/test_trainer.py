"""Objectives under ``transformers.Trainer``: the steps of our own loop, exact resume, folders that load.

Sums in another order differ by float32 rounding, which Adam turns into a share of a step for a gradient that is
almost 0: TOLERANCE is a hundredth of one step. A wrong denominator moves weights by whole steps.
"""

from __future__ import annotations

import os
import random
import runpy
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining, TrainerCallback, TrainingArguments

from tiny import FractionalDetector, assert_same, make_electra, make_hf_masked_lm, make_masked_lm, make_masking
from trueneg.config.options import OptimizerConfig, TrainConfig
from trueneg.corpus.build import build_corpus
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.errors import CheckpointError, ConfigError
from trueneg.integrations import trainer as trainer_module
from trueneg.integrations.trainer import TruenegTrainer
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.regularization import SoftRegularization
from trueneg.objectives.rtd import ReplacedTokenDetection
from trueneg.tokenizer import load_tokenizer
from trueneg.training.batches import CorpusBatches, held_out_batches
from trueneg.training.distributed import Processes
from trueneg.training.metrics import Meter
from trueneg.training.step import Run, train_step

KINDS = ["mlm", "electra"]
STEPS, BATCH, RATE, SEED = 5, 16, 1e-3, 3
TOLERANCE = RATE / 100


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def rows_of(folder: Path, split: str = "train") -> RowIndex:
    return RowIndex(Corpus.open(folder, split), 24)


def parts(kind: str, dropout: float = 0.0) -> tuple[torch.nn.Module, Any]:
    """A model and its objective, with hard correction and soft regularization."""
    objective = MaskedLM(
        make_masking(mask_share=0.8, random_share=0.1),
        HardCorrection(FractionalDetector(), use="down_weight"),
        [SoftRegularization()],
        prediction="sampled" if kind == "electra" else "argmax",
    )
    if kind == "electra":
        return make_electra(), ReplacedTokenDetection(objective)
    return make_masked_lm(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout), objective


def trainer_of(kind: str, corpus: Path, out: Path, *, dropout: float = 0.0, **options: Any) -> TruenegTrainer:
    chosen = {
        "max_steps": STEPS,
        "per_device_train_batch_size": BATCH,
        "learning_rate": RATE,
        "lr_scheduler_type": "constant",
        "weight_decay": 0.01,
        "adam_epsilon": 1e-6,
        "save_strategy": "no",
        "logging_steps": 1,
        "seed": SEED,
    } | {name: value for name, value in options.items() if name != "callbacks"}
    model, objective = parts(kind, dropout)
    return TruenegTrainer(
        model,
        objective,
        TrainingArguments(str(out), use_cpu=True, report_to="none", disable_tqdm=True, **chosen),
        train_dataset=rows_of(corpus),
        eval_dataset=rows_of(corpus, "valid"),
        processing_class=load_tokenizer(corpus / "tokenizer"),
        callbacks=options.get("callbacks"),
    )


def weights(trainer: TruenegTrainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trainer.model.named_parameters()}


def records(trainer: TruenegTrainer) -> list[dict[str, float]]:
    return [record for record in trainer.state.log_history if "loss" in record]


def own_loop(kind: str, corpus: Path) -> tuple[dict[str, torch.Tensor], list[dict[str, float]]]:
    """The same steps, taken by ``train_step``."""
    config = TrainConfig(steps=STEPS, batch_size=BATCH, seed=SEED)
    optimizer = OptimizerConfig(learning_rate=RATE, schedule="constant")
    run = Run.new(*parts(kind), optimizer, config, torch.device("cpu"))
    order = CorpusBatches(rows_of(corpus), config, Processes())
    readings = []
    for step in range(STEPS):
        norm = float(train_step(run, order.micro_batches(step)))
        readings.append(run.meter.read(Processes(), run.objective.weights) | {"grad_norm": norm})
    return {name: value.detach() for name, value in run.module.named_parameters()}, readings


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accumulation", [1, 4])
def test_steps_are_those_of_our_own_loop(kind: str, accumulation: int, corpus_folder: Path, tmp_path: Path) -> None:
    options = {"per_device_train_batch_size": BATCH // accumulation, "gradient_accumulation_steps": accumulation}
    trainer = trainer_of(kind, corpus_folder, tmp_path, **options)
    before = weights(trainer)
    trainer.train()
    expected, readings = own_loop(kind, corpus_folder)
    assert_same(expected, weights(trainer), TOLERANCE)
    assert max(float((expected[name] - before[name]).abs().max()) for name in expected) > RATE
    assert len(records(trainer)) == STEPS
    for record, reading in zip(records(trainer), readings, strict=True):
        assert reading.keys() >= {"loss", "loss/mlm", "corrected", "corrected_rows"}
        assert {name: record[name] for name in reading} == pytest.approx(reading, rel=1e-4, abs=1e-5)


def test_the_epoch_in_the_log_is_the_true_one(corpus_folder: Path, tmp_path: Path) -> None:
    trainer = trainer_of("mlm", corpus_folder, tmp_path, max_steps=-1, num_train_epochs=2)
    num_rows = len(rows_of(corpus_folder))
    trainer.train()
    assert trainer.state.global_step == -(-2 * num_rows // BATCH)
    assert records(trainer)[0]["epoch"] == pytest.approx(BATCH / num_rows)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_resumed_run_is_exact(workers: int, corpus_folder: Path, tmp_path: Path) -> None:
    """With dropout, accumulation and a foreign random state; without leaning on Trainer's own random states."""
    options = {
        "per_device_train_batch_size": BATCH // 2,
        "gradient_accumulation_steps": 2,
        "dataloader_num_workers": workers,
        "lr_scheduler_type": "linear",
        "save_strategy": "steps",
        "save_steps": 2,
    }
    whole = trainer_of("mlm", corpus_folder, tmp_path, dropout=0.1, **options)
    whole.train()
    checkpoint = tmp_path / "checkpoint-2"
    (checkpoint / "rng_state.pth").unlink()
    torch.manual_seed(123)
    random.seed(123)
    np.random.seed(123)
    resumed = trainer_of("mlm", corpus_folder, tmp_path / "resumed", dropout=0.1, **options)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert_same(weights(whole), weights(resumed))
    assert [record["loss"] for record in records(whole)] == [record["loss"] for record in records(resumed)]


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_adds_up_sums(kind: str, corpus_folder: Path, tmp_path: Path) -> None:
    trainer = trainer_of(kind, corpus_folder, tmp_path, per_device_eval_batch_size=7)
    metrics = trainer.evaluate()
    index = rows_of(corpus_folder, "valid")
    meter, module = Meter(), trainer.model.eval()
    with torch.no_grad():
        for rows in held_out_batches(index, len(index), len(index), Processes()):
            batch = module.objective.corrupt(rows)
            counts = module.objective.counts(batch)
            meter.add(module(batch, counts)[1], counts)
    expected = meter.read(Processes(), module.objective.weights)
    assert {name: metrics[f"eval_{name}"] for name in expected} == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert set(trainer.evaluate({"ours": index})) >= {"eval_ours_loss", "eval_ours_corrected"}


def test_evaluating_between_steps_changes_nothing(corpus_folder: Path, tmp_path: Path) -> None:
    plain = trainer_of("mlm", corpus_folder, tmp_path, dropout=0.1)
    watched = trainer_of("mlm", corpus_folder, tmp_path, dropout=0.1, eval_strategy="steps", eval_steps=2)
    plain.train()
    watched.train()
    assert_same(weights(plain), weights(watched))
    assert [record["step"] for record in watched.state.log_history if "eval_loss" in record] == [2, 4, 5]


def test_a_saved_folder_loads_in_transformers(corpus_folder: Path, tmp_path: Path) -> None:
    for kind, loader in {"mlm": AutoModelForMaskedLM, "electra": AutoModelForPreTraining}.items():
        trainer = trainer_of(kind, corpus_folder, tmp_path / kind)
        trainer.train()
        trainer.save_model()
        ours = trainer.model.model
        ours = ours.discriminator.model if kind == "electra" else ours.model
        theirs = loader.from_pretrained(tmp_path / kind)
        ids = torch.arange(5, 25).reshape(2, 10)
        with torch.no_grad():
            torch.testing.assert_close(theirs.eval()(ids).logits, ours.eval()(ids).logits)
        assert load_tokenizer(tmp_path / kind).get_vocab() == trainer.processing_class.get_vocab()


def test_the_best_model_is_loaded_at_the_end(corpus_folder: Path, tmp_path: Path) -> None:
    class WorseAfterTwo(TrainerCallback):
        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **_: Any) -> None:
            metrics["eval_made_up"] = abs(state.global_step - 2)

    often = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "made_up", "greater_is_better": False}
    trainer = trainer_of("electra", corpus_folder, tmp_path, callbacks=[WorseAfterTwo()], **often, **best)
    trainer.train()
    trainer.save_model()
    first, best_of_all, last = (
        (tmp_path / folder / "model.safetensors").read_bytes() for folder in ("checkpoint-1", "checkpoint-2", ".")
    )
    assert last == best_of_all != first


def test_what_cannot_be_is_refused(corpus_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="save_strategy"):
        trainer_of("mlm", corpus_folder, tmp_path, save_strategy="epoch")
    make_hf_masked_lm().save_pretrained(tmp_path / "foreign")
    with pytest.raises(CheckpointError, match="foreign"):
        trainer_of("mlm", corpus_folder, tmp_path).train(resume_from_checkpoint=str(tmp_path / "foreign"))


def test_fewer_held_out_rows_than_processes_are_refused(corpus_folder: Path, tmp_path: Path) -> None:
    """A process without rows would not take part in the sums that the others wait for."""
    trainer = trainer_of("mlm", corpus_folder, tmp_path)
    num_rows = len(rows_of(corpus_folder, "valid"))
    for count in (num_rows, num_rows + 1):
        trainer.processes = Processes(0, count)
        with (
            nullcontext() if count == num_rows else pytest.raises(ConfigError, match=r"held-out rows for \d+ processes")
        ):
            trainer.get_eval_dataloader()


@pytest.mark.slow
def test_the_example_on_two_processes_is_the_example(corpus_folder: Path, tmp_path: Path) -> None:
    script = [sys.executable, str(Path(__file__).parents[2] / "examples" / "trainer.py"), str(corpus_folder)]
    tiny = ["--preset", "electra-tiny", "--settings", "optimizer.warmup_steps=0", "--steps", "4", "--cpu"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        group = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    running = [subprocess.Popen([*script, str(tmp_path / "one"), *tiny, "--batch-size", "8"])]
    for rank in ("0", "1"):
        command = [*script, str(tmp_path / "two"), *tiny, "--batch-size", "4"]
        running.append(subprocess.Popen(command, env=group | {"RANK": rank, "LOCAL_RANK": rank}))
    assert [process.wait() for process in running] == [0, 0, 0]
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert_same(one, two, TOLERANCE)
    AutoModelForPreTraining.from_pretrained(tmp_path / "one")


def test_rows_are_corrupted_in_the_trainers_precision(
    corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may judge what is masked, in training and on held-out text."""
    seen: list[tuple[bool, bool]] = []
    corrupt = MaskedLM.corrupt

    def watched(objective: MaskedLM, rows: Any) -> Any:
        seen.append((objective.training, torch.is_autocast_enabled("cpu")))
        return corrupt(objective, rows)

    monkeypatch.setattr(MaskedLM, "corrupt", watched)
    for is_half in (False, True):
        trainer = trainer_of("mlm", corpus_folder, tmp_path / str(is_half), max_steps=1, bf16=is_half)
        trainer.train()
        trainer.evaluate()
        assert set(seen) == {(True, is_half), (False, is_half)}
        seen.clear()


def test_the_objective_sees_every_step(corpus_folder: Path, tmp_path: Path) -> None:
    """A detector that averages the model does so under Trainer too."""
    from trueneg.detectors.ema import EmaDetector

    detector = EmaDetector(momentum=0.5)
    trainer = TruenegTrainer(
        make_masked_lm(),
        MaskedLM(make_masking(mask_share=0.8), HardCorrection(detector)),
        TrainingArguments(str(tmp_path), max_steps=2, learning_rate=RATE, report_to=[], use_cpu=True),
        train_dataset=rows_of(corpus_folder),
        processing_class=load_tokenizer(corpus_folder / "tokenizer"),
    )
    first = [parameter.detach().clone() for parameter in trainer.model.model.parameters()]
    trainer.train()
    assert detector.teacher is not None
    last = list(trainer.model.model.parameters())
    moved = [not torch.equal(a, b) for a, b in zip(first, detector.teacher.parameters(), strict=True)]
    apart = [not torch.equal(a, b) for a, b in zip(last, detector.teacher.parameters(), strict=True)]
    assert any(moved) and any(apart)


def test_the_example_continues_a_checkpoint_and_reads_eval_rows(
    corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a corpus with a held-out split, whose chosen rows are read once at the end, and under one without."""
    load_tokenizer(corpus_folder / "tokenizer").save_pretrained(str(tmp_path / "start"))
    make_hf_masked_lm().save_pretrained(tmp_path / "start")
    build_corpus([str(corpus_folder.parent / "text.txt")], corpus_folder / "tokenizer", tmp_path / "unsplit")
    read: list[int] = []
    original = trainer_module.held_out_batches

    def counted(index: RowIndex, num_rows: int, *rest: Any) -> Any:
        read.append(num_rows)
        return original(index, num_rows, *rest)

    monkeypatch.setattr(trainer_module, "held_out_batches", counted)
    example = Path(__file__).parents[2] / "examples" / "trainer.py"
    settings = ["--settings", "corpus.length=24", "corpus.eval_rows=3", "model.dropout=0"]
    for corpus in (corpus_folder, tmp_path / "unsplit"):
        out = tmp_path / f"out-{corpus.name}"
        options = ["--from", str(tmp_path / "start"), "--steps", "2", "--batch-size", "4", "--cpu"]
        monkeypatch.setattr(sys, "argv", [str(example), str(corpus), str(out), *options, *settings])
        runpy.run_path(str(example), run_name="__main__")
        AutoModelForMaskedLM.from_pretrained(out)
    assert read == [3]
