"""``hf/`` is a folder of stock transformers, and the model in it is the one that was trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import MakeConfig, last_checkpoint
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoTokenizer,
    ElectraForPreTraining,
    pipeline,
)

from trueneg.config.options import PretrainConfig
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corruption.rows import Rows, read_rows
from trueneg.objectives.base import TrainingModule
from trueneg.runs.building import build
from trueneg.runs.pretraining import pretrain
from trueneg.tokenizer import load_tokenizer
from trueneg.training.checkpoint import load_checkpoint


def trained(config: PretrainConfig, run: Path) -> Any:
    """The model of a run's last checkpoint, as training has it."""
    model, objective = build(config, load_tokenizer(Path(config.corpus.path) / "tokenizer"))
    load_checkpoint(last_checkpoint(run), TrainingModule(model, objective))
    return model.eval()


def some_rows(config: PretrainConfig) -> Rows:
    """Full ones and padded ones."""
    numbers = np.arange(12)
    return read_rows(RowIndex(Corpus.open(config.corpus.path), config.corpus.length), numbers, 0, numbers)


def load(kind: Any, folder: Path, may_leave_out: tuple[str, ...] = (), **options: Any) -> Any:
    """Load a folder, with every weight in its place and none left over."""
    model, report = kind.from_pretrained(folder, output_loading_info=True, **options)
    left_out = {name for name in report["unexpected_keys"] if name.startswith(may_leave_out or ("none",))}
    assert {**report, "unexpected_keys": set(report["unexpected_keys"]) - left_out} == {
        name: type(value)() for name, value in report.items()
    }
    return model.eval()


def texts(rows: Rows) -> dict[str, torch.Tensor]:
    return {"input_ids": rows.input_ids, "attention_mask": (rows.segments > 0).long()}


def assert_same(ours: torch.Tensor, theirs: torch.Tensor, rows: Rows) -> None:
    is_text = rows.segments > 0
    assert float((ours - theirs)[is_text].detach().abs().max()) <= 1e-6


def test_a_masked_language_model(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of("mlm", "model.dropout=0.1")
    folder = pretrain(config, tmp_path / "run", quiet=True).hugging_face
    ours, rows = trained(config, tmp_path / "run"), some_rows(config)
    hidden = ours.encode(rows.input_ids, rows)
    theirs = load(AutoModelForMaskedLM, folder)
    assert_same(ours.logits(hidden), theirs(**texts(rows)).logits, rows)
    encoder = load(AutoModel, folder, may_leave_out=("cls.",), add_pooling_layer=False)
    assert_same(hidden, encoder(**texts(rows)).last_hidden_state, rows)


def test_fill_mask_gives_the_models_best_guess(config_of: MakeConfig, tmp_path: Path) -> None:
    folder = pretrain(config_of("mlm"), tmp_path / "run", quiet=True).hugging_face
    answer = pipeline("fill-mask", str(folder), device="cpu")("the [MASK] will stay .")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder)
    encoded = tokenizer("the [MASK] will stay .", return_tensors="pt")
    chances = model(**encoded).logits[0, 2].softmax(-1)
    assert answer[0]["token"] == int(chances.argmax())
    assert answer[0]["score"] == pytest.approx(float(chances.max()), rel=1e-5)


@pytest.mark.parametrize("kind", ["electra", "corrected"])
def test_a_discriminator_and_its_generator(kind: str, config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of(kind, "model.dropout=0.1")
    folder = pretrain(config, tmp_path / "run", quiet=True).hugging_face
    ours, rows = trained(config, tmp_path / "run"), some_rows(config)
    hidden = ours.discriminator.encode(rows.input_ids, rows)
    wanted = ours.discriminator.replaced_logits(hidden)
    for loader in (ElectraForPreTraining, AutoModelForPreTraining):
        assert_same(wanted, load(loader, folder)(**texts(rows)).logits, rows)
    encoder = load(AutoModel, folder, may_leave_out=("discriminator_predictions.",))
    assert_same(hidden, encoder(**texts(rows)).last_hidden_state, rows)
    hidden = ours.generator.encode(rows.input_ids, rows)
    generator = load(AutoModelForMaskedLM, folder / "generator")
    assert_same(ours.generator.logits(hidden), generator(**texts(rows)).logits, rows)
    tied = generator.get_output_embeddings().weight
    assert tied is generator.get_input_embeddings().weight
    assert torch.equal(tied, encoder.get_input_embeddings().weight), "generator and discriminator share embeddings"


def test_the_folder_holds_a_tokenizer_and_a_card(config_of: MakeConfig, corpus: Path, tmp_path: Path) -> None:
    folder = pretrain(config_of("corrected"), tmp_path / "run", quiet=True).hugging_face
    text = "the old animal will stay near the metropolis ."
    wanted = load_tokenizer(corpus / "tokenizer")(text)["input_ids"]
    for place in (folder, folder / "generator"):
        assert AutoTokenizer.from_pretrained(place)(text)["input_ids"] == wanted
    card = (folder / "README.md").read_text()
    assert "24 of 24" in card and "lexical" in card and "On held-out text, at step 24" in card


def test_a_stopped_runs_folder_holds_its_last_step(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of("electra", "train.max_minutes=1e-6")
    stopped = pretrain(config, tmp_path / "run", quiet=True)
    assert "1 of 24" in (stopped.hugging_face / "README.md").read_text()
    ours = trained(config, tmp_path / "run")
    theirs = load(ElectraForPreTraining, stopped.hugging_face)
    assert torch.equal(ours.embeddings, theirs.get_input_embeddings().weight)
    assert stopped.num_parameters == sum(parameter.numel() for parameter in ours.parameters())


def test_a_trained_folder_can_be_continued(config_of: MakeConfig, tmp_path: Path) -> None:
    pretrain(config_of("electra"), tmp_path / "first", quiet=True)
    config = config_of("electra", f"model.start_from={tmp_path / 'first'}", "optimizer.learning_rate=0")
    pretrain(config, tmp_path / "second", quiet=True)
    ours, theirs = trained(config, tmp_path / "second"), trained(config_of("electra"), tmp_path / "first")
    for name, value in theirs.state_dict().items():
        assert torch.equal(value, ours.state_dict()[name]), name
