"""What training is for: eight sentences are learnt by heart, and evaluation does not disturb it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from tiny_runs import SETTLED, MakeConfig, assert_identical, final_tensors, make_config, readings
from transformers import AutoModelForMaskedLM, AutoTokenizer

from trueneg.corpus.build import build_corpus
from trueneg.runs.pretraining import pretrain

EIGHT = """\
the large animal will stay near the old city .
we quickly see a big film about the harbour .
a happy mouse can rapidly notice the main road .
the primary movie made they glad .
little beast in the grey metropolis will rest .
chief picture about quiet road and cheerful mouse .
they slowly cut a small picture in harbour .
we remain near old beast and notice animal ."""


@pytest.fixture(scope="module")
def eight(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("eight")
    (folder / "text.txt").write_text(EIGHT.replace("\n", "\n\n"))
    build_corpus([str(folder / "text.txt")], tokenizer_folder, folder / "corpus")
    return folder / "corpus"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mlm", "electra"])
def test_eight_sentences_are_learnt_by_heart(kind: str, eight: Path, tmp_path: Path) -> None:
    settings = (
        "model.dropout=0",
        "model.generator_width=1",
        "objective.discriminator_weight=1",
        "optimizer.learning_rate=1e-2",
        "objective.masking.rate=0.25",
        "objective.masking.mask_share=1",
        "objective.masking.random_share=0",
        "train.steps=300",
        "train.log_every=25",
    )
    run = pretrain(make_config(eight, kind, *settings), tmp_path / "run", quiet=True)
    last = readings(run.folder)[-1]
    assert last["gold_loss"] < 0.2
    assert last["accuracy"] > 0.9
    if kind == "electra":
        assert last["detection_accuracy"] > 0.98
    folder = run.hugging_face / "generator" if kind == "electra" else run.hugging_face
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder)
    num_right = num_masked = 0
    for sentence in EIGHT.splitlines():
        gold = tokenizer(sentence, return_tensors="pt")["input_ids"]
        places = range(1, gold.shape[1] - 1)
        masked = gold.repeat(len(places), 1)
        for row, place in enumerate(places):
            masked[row, place] = tokenizer.mask_token_id
        with torch.no_grad():
            guessed = model(input_ids=masked).logits.argmax(-1)
        num_right += sum(int(guessed[row, place] == gold[0, place]) for row, place in enumerate(places))
        num_masked += len(places)
    assert num_right / num_masked > 0.95


def test_evaluations_are_alike_and_leave_no_trace(config_of: MakeConfig, tmp_path: Path) -> None:
    """With a learning rate of 0 all held-out readings are equal, dropout or not; training goes on with dropout."""
    still = ("optimizer.learning_rate=0", "model.dropout=0.1", "train.log_every=24")
    pretrain(config_of("corrected", *still, "train.eval_every=3"), tmp_path / "often", quiet=True)
    evaluations = [record for record in readings(tmp_path / "often") if record["kind"] == "eval"]
    assert [record.pop("step") for record in evaluations] == list(range(3, 25, 3))
    assert all(record == evaluations[0] for record in evaluations)
    pretrain(config_of("corrected", "model.dropout=0.1", "train.eval_every=1"), tmp_path / "each", quiet=True)
    pretrain(config_of("corrected", "model.dropout=0.1", "train.eval_every=24"), tmp_path / "last", quiet=True)
    each, last = final_tensors(tmp_path / "each"), final_tensors(tmp_path / "last")
    assert all(torch.equal(each[name], last[name]) for name in each)


def test_another_seed_is_another_run_and_the_same_seed_the_same(config_of: MakeConfig, tmp_path: Path) -> None:
    for out, seed in (("one", 1), ("again", 1), ("two", 2)):
        pretrain(config_of("corrected", f"train.seed={seed}", "train.steps=5"), tmp_path / out, quiet=True)
    assert_identical(tmp_path / "one", tmp_path / "again")
    one, two = final_tensors(tmp_path / "one"), final_tensors(tmp_path / "two")
    assert not any(torch.equal(one[name], two[name]) for name in one if name.endswith("query.weight"))


def test_a_saved_configuration_runs_again(config_of: MakeConfig, tmp_path: Path) -> None:
    from trueneg.runs.configuring import load_run_config

    pretrain(config_of("corrected", "train.steps=5"), tmp_path / "one", quiet=True)
    again = load_run_config(tmp_path / "one")
    assert dataclasses.asdict(again) == dataclasses.asdict(config_of("corrected", "train.steps=5", *SETTLED))
    pretrain(again, tmp_path / "again", quiet=True)
    assert_identical(tmp_path / "one", tmp_path / "again")
