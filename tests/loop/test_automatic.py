"""What ``auto`` comes to on a GPU and on a CPU, and that a run goes on as it was begun, wherever."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import MakeConfig, assert_identical, make_config
from transformers import AutoConfig, AutoModelForMaskedLM

from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.errors import CheckpointError
from trueneg.models import documents
from trueneg.models.backbone import Encoder
from trueneg.models.fused import fuse
from trueneg.objectives import objective_kind, with_objective
from trueneg.runs import configuring, stage_training
from trueneg.runs.automatic import resolve_attention, resolve_norms, resolve_packing
from trueneg.runs.building import build
from trueneg.runs.configuring import configure
from trueneg.runs.pretraining import pretrain
from trueneg.training.batches import row_index

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def _no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no GPU to move a model to, so that its kernel is not tried."""
    monkeypatch.setattr(documents, "can_run", lambda device, dtype: False)


def encoders_of(config: PretrainConfig) -> list[Encoder]:
    model, _ = build(config, Corpus.open(config.corpus.path).load_tokenizer())
    return list(objective_kind(config.objective.name).encoders(model))


def rows_of(config: PretrainConfig) -> RowIndex:
    return row_index(config, Corpus.open(config.corpus.path))


def test_rows_are_packed_on_a_gpu_where_they_would_not_be_full(corpus: Path) -> None:
    config = make_config(corpus, "mlm")
    assert config.corpus.pack == "auto" and not config.corpus.is_packed
    encoders, rows = encoders_of(config), rows_of(config)
    assert rows.mean_fill < 0.9
    settled, said = resolve_packing(config, rows, GPU, encoders)
    assert settled == override(config, ["corpus.pack=true"]) and settled.corpus.is_packed
    assert said.startswith(
        f"packing: several documents to a row, as rows of one document each are {rows.mean_fill:.1%}"
    )
    assert resolve_packing(config, rows, CPU, encoders) == (override(config, ["corpus.pack=false"]), "")


@pytest.mark.parametrize("pack", ["true", "false"])
def test_what_was_asked_for_is_not_chosen(corpus: Path, pack: str) -> None:
    config = make_config(corpus, "mlm", f"corpus.pack={pack}")
    assert resolve_packing(config, rows_of(config), GPU) == (config, "")


def test_rows_stay_where_nothing_is_won_or_something_lost(corpus: Path, tagged: Path) -> None:
    full = make_config(corpus, "mlm", "corpus.length=3")
    settled, said = resolve_packing(full, rows_of(full), GPU)
    assert settled.corpus.pack is False and said.startswith("packing: no, as rows of one document each are 100.0% full")
    cline = with_objective(make_config(tagged, "mlm"), "cline")
    settled, said = resolve_packing(cline, rows_of(cline), GPU)
    assert settled.corpus.pack is False and "'cline' may look at a row as a whole" in said
    sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"conv_kernel_size": 3, "intermediate_size": 32, "embedding_size": 16}
    convolving = Encoder(AutoModelForMaskedLM.from_config(AutoConfig.for_model("convbert", **sizes)))
    config = make_config(corpus, "mlm")
    settled, said = resolve_packing(config, rows_of(config), GPU, [convolving])
    assert settled.corpus.pack is False
    assert said == "packing: no, as 'convbert' cannot keep the documents of one row apart"


@pytest.mark.parametrize("kind", ["mlm", "electra"])
def test_a_gpu_attends_by_documents(corpus: Path, kind: str) -> None:
    config = make_config(corpus, kind, "train.precision=bf16", "model.dropout=0.1")
    rows = rows_of(config)
    for device, changes, wanted in (
        (GPU, [], "documents"),
        (GPU, ["corpus.pack=true"], "documents"),
        (CPU, [], "sdpa"),
        (GPU, ["train.precision=fp32"], "sdpa"),
        (GPU, ["corpus.length=3"], "sdpa"),
        (GPU, ["model.attention=sdpa"], "sdpa"),
        (GPU, ["model.attention=eager"], "eager"),
        (CPU, ["model.attention=documents"], "documents"),
    ):
        changed = override(config, changes)
        encoders = encoders_of(changed)
        settled, said = resolve_attention(changed, rows_of(changed), device, encoders)
        assert settled == override(changed, [f"model.attention={wanted}"])
        assert {encoder.attends_by_documents for encoder in encoders} == {wanted == "documents"}
        is_said = "attention: by document boundaries; its dropout (0.1) is off, as torch's kernel has none"
        assert said.startswith(is_said) if wanted == "documents" else said == ""
    without = override(config, ["model.dropout=0"])
    assert resolve_attention(without, rows, GPU, encoders_of(without))[1] == "attention: by document boundaries"


@pytest.mark.parametrize("asked", ["auto", "documents"])
def test_attention_that_cannot_be_exchanged_stays_with_a_word(corpus: Path, asked: str) -> None:
    config = make_config(
        corpus, "mlm", "train.precision=bf16", "model.architecture=deberta-v2", f"model.attention={asked}"
    )
    settled, said = resolve_attention(config, rows_of(config), GPU, encoders := encoders_of(config))
    assert settled.model.attention == "sdpa" and not encoders[0].attends_by_documents
    assert said == "attention: under a mask, as 'deberta-v2' has no attention that can be exchanged"


def test_one_encoder_that_cannot_keeps_the_other_from_it(corpus: Path) -> None:
    able = make_config(corpus, "mlm", "train.precision=bf16")
    (first,), (second,) = encoders_of(able), encoders_of(override(able, ["model.architecture=deberta-v2"]))
    settled, said = resolve_attention(able, rows_of(able), GPU, [first, second])
    assert settled.model.attention == "sdpa" and "'deberta-v2'" in said
    assert first.model.config._attn_implementation == "sdpa"


def test_a_run_begun_on_a_gpu_goes_on_alike_elsewhere(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = make_config(corpus, "mlm", "train.precision=bf16", "model.dropout=0.1", "train.steps=6")
    asked = override(config, ["corpus.pack=true", "model.attention=documents"])
    pretrain(asked, tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        for name, function in (("resolve_packing", resolve_packing), ("resolve_attention", resolve_attention)):
            patch.setattr(
                stage_training,
                name,
                lambda config, rows, device, encoders=(), f=function: f(config, rows, GPU, encoders),
            )
        stopped = override(config, ["train.max_minutes=1e-9"])
        assert pretrain(stopped, tmp_path / "run").step == 1
    said = capsys.readouterr().err
    assert (
        said.count("packing: several documents to a row") == said.count("attention: by document boundaries; its") == 1
    )

    def recorded() -> tuple[Any, ...]:
        found = json.loads((tmp_path / "run" / "config.json").read_text())
        return found["corpus"]["pack"], found["model"]["attention"]

    assert recorded() == (True, "documents")
    with pytest.raises(CheckpointError, match=r"corpus.pack: True -> False"):
        pretrain(override(config, ["corpus.pack=false"]), tmp_path / "run", resume=True, quiet=True)
    with pytest.raises(CheckpointError, match=r"model.attention: documents -> sdpa"):
        pretrain(override(config, ["model.attention=sdpa"]), tmp_path / "run", resume=True, quiet=True)
    pretrain(config, tmp_path / "run", resume=True, quiet=True)
    assert recorded() == (True, "documents")
    assert_identical(tmp_path / "run", tmp_path / "whole")


def test_a_run_begun_on_a_gpu_keeps_its_norms_elsewhere(corpus: Path, tmp_path: Path) -> None:
    """As the option asks for by name there, ``auto`` does on a GPU: the record says which, and resuming follows it."""
    config = make_config(corpus, "mlm", "train.precision=bf16", "train.steps=4")
    asked = override(config, ["model.norms=bf16"])
    pretrain(asked, tmp_path / "whole", quiet=True)
    assert pretrain(override(asked, ["train.max_minutes=1e-9"]), tmp_path / "run", quiet=True).step == 1
    with pytest.raises(CheckpointError, match=r"model.norms: bf16 -> autocast"):
        pretrain(override(config, ["model.norms=autocast"]), tmp_path / "run", resume=True, quiet=True)
    pretrain(config, tmp_path / "run", resume=True, quiet=True)
    assert_identical(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize(
    ("settings", "is_gpu", "recorded"),
    [
        (["train.precision=bf16"], False, "autocast"),
        (["train.precision=bf16"], True, "bf16"),
        (["train.precision=bf16", "model.norms=autocast"], True, "autocast"),
        (["train.precision=bf16", "model.architecture=modernbert"], True, "autocast"),
        (["train.precision=fp32"], True, "auto"),
    ],
)
def test_how_norms_are_computed_is_recorded(corpus: Path, settings: list[str], is_gpu: bool, recorded: str) -> None:
    config = make_config(corpus, "mlm", *settings)
    encoders = encoders_of(config)
    for encoder in encoders:
        fuse(encoder.model, config.model, is_gpu=is_gpu)
    assert resolve_norms(config, encoders) == override(config, [f"model.norms={recorded}"])


def test_a_run_whose_record_leaves_norms_open_goes_on(corpus: Path, tmp_path: Path) -> None:
    """As runs of former versions did."""
    config = make_config(corpus, "mlm", "train.precision=bf16", "train.steps=2", "train.max_minutes=1e-9")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_training, "resolve_norms", lambda config, encoders: config)
        assert pretrain(config, tmp_path / "run", quiet=True).step == 1
    assert json.loads((tmp_path / "run" / "config.json").read_text())["model"]["norms"] == "auto"
    assert pretrain(override(config, ["train.max_minutes=0"]), tmp_path / "run", resume=True, quiet=True).step == 2


def test_a_run_of_before_goes_on(config_of: MakeConfig, tmp_path: Path) -> None:
    """Its record says false and sdpa, which is what a CPU does."""
    config = config_of("mlm", "train.steps=2")
    pretrain(config, tmp_path / "run", quiet=True)
    found = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (found["corpus"]["pack"], found["model"]["attention"]) == (False, "sdpa")
    pretrain(replace(config, train=replace(config.train, log_every=1)), tmp_path / "run", resume=True, quiet=True)


def test_epochs_are_of_the_rows_that_are_read(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"epochs": 2.0}
    settings = [f"corpus.path={corpus}", "corpus.length=64", "train.batch_size=1"]
    single, packed = (2 * len(RowIndex(Corpus.open(corpus), 64, pack=pack)) for pack in (False, True))
    assert packed < single
    assert configure("electra-tiny", settings=settings, **given).train.steps == single
    monkeypatch.setattr(configuring, "choose_device", lambda device: GPU)
    assert configure("electra-tiny", settings=settings, **given).train.steps == packed
    assert configure("electra-tiny", settings=[*settings, "corpus.pack=false"], **given).train.steps == single
    convolutional = [*settings, "model.architecture=convbert", "model.num_layers=1"]
    assert configure("electra-tiny", objective="mlm", settings=convolutional, **given).train.steps == single
