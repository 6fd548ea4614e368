from __future__ import annotations

import functools
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.onnx
from sentence_transformers import SentenceTransformer
from tiny_checkpoints import (
    ARCHITECTURES,
    MAIN,
    TEXT,
    make_masked_lm,
    make_tokenizer,
    same_state,
    save_checkpoint,
    stirred,
    tiny,
)
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    ElectraForPreTraining,
    PreTrainedModel,
    pipeline,
)

from trueneg.config import ModelConfig
from trueneg.errors import ConfigError, MissingExtraError, ModelError
from trueneg.models.backbone import MaskedLanguageModel, max_length
from trueneg.models.export import EXPORTS, export, export_onnx, export_sentence_transformers, save_hugging_face
from trueneg.models.loading import load_electra, load_masked_lm
from trueneg.tokenizer import fingerprint

MODEL_FILES = {"README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


@torch.no_grad()
def outputs(model: PreTrainedModel) -> Tensor:
    batch = make_tokenizer()(TEXT, padding=True, return_tensors="pt")
    result = model.eval()(**batch)
    return result.logits if hasattr(result, "logits") else result.last_hidden_state


def load_without_complaint(kind: Any, folder: Path, but: tuple[str, ...] = ()) -> PreTrainedModel:
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    missing = {name for name in report["missing_keys"] if not name.startswith("pooler.")}
    unexpected = {name for name in report["unexpected_keys"] if not name.startswith(but)}
    assert not missing and not unexpected and not report["mismatched_keys"]
    return model


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_transformers_reads_what_is_written(
    architecture: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    original = make_masked_lm(architecture)
    model = MaskedLanguageModel(original)
    capfd.readouterr()
    save_hugging_face(model, make_tokenizer(), tmp_path / "new" / "hf", card="# A model\n")
    assert capfd.readouterr() == ("", "")
    folder = tmp_path / "new" / "hf"
    assert {path.name for path in folder.iterdir()} == MODEL_FILES
    assert (folder / "README.md").read_text() == "# A model\n"
    assert fingerprint(AutoTokenizer.from_pretrained(folder)) == fingerprint(make_tokenizer())
    loaded = load_without_complaint(AutoModelForMaskedLM, folder)
    assert torch.equal(outputs(loaded), outputs(original))
    head = tuple({f"{name}." for name, _ in original.named_children()} - {f"{original.base_model_prefix}."})
    encoder = load_without_complaint(AutoModel, folder, but=head)
    assert torch.equal(outputs(encoder), outputs(original.base_model))
    assert torch.equal(
        outputs(load_masked_lm(ModelConfig(start_from=str(folder)), make_tokenizer()).model), outputs(original)
    )


@pytest.mark.parametrize("architecture", MAIN)
def test_the_fill_mask_pipeline_runs(architecture: str, tmp_path: Path) -> None:
    original = make_masked_lm(architecture)
    save_hugging_face(MaskedLanguageModel(original), make_tokenizer(), tmp_path)
    (best, *_) = pipeline("fill-mask", model=str(tmp_path), device="cpu")("the river <mask> in the morning")
    batch = make_tokenizer()("the river <mask> in the morning", return_tensors="pt")
    with torch.no_grad():
        logits = original(**batch).logits[0, batch["input_ids"][0] == make_tokenizer().mask_token_id]
    assert best["token"] == logits.argmax().item()


def test_electra_is_written_as_both_its_models(tmp_path: Path) -> None:
    pair = stirred(load_electra(tiny(), make_tokenizer()))
    save_hugging_face(pair, make_tokenizer(), tmp_path)
    discriminator = load_without_complaint(ElectraForPreTraining, tmp_path)
    assert torch.allclose(outputs(discriminator), outputs(pair.discriminator.model), atol=1e-5)
    generator = load_without_complaint(AutoModelForMaskedLM, tmp_path / "generator")
    assert torch.allclose(outputs(generator), outputs(pair.generator.model), atol=1e-5)
    load_without_complaint(AutoModel, tmp_path, but=("discriminator_predictions.",))
    assert fingerprint(AutoTokenizer.from_pretrained(tmp_path / "generator")) == fingerprint(make_tokenizer())


@pytest.mark.parametrize("architecture", ["bert", "roberta", "deberta-v2", "modernbert"])
def test_other_discriminators_are_plain_encoders(architecture: str, tmp_path: Path) -> None:
    pair = load_electra(tiny(architecture), make_tokenizer())
    save_hugging_face(pair, make_tokenizer(), tmp_path)
    assert torch.equal(outputs(load_without_complaint(AutoModel, tmp_path)), outputs(pair.discriminator.model))


def test_only_models_are_exported(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no export for Linear"):
        save_hugging_face(torch.nn.Linear(2, 2), make_tokenizer(), tmp_path)


@pytest.mark.parametrize("architecture", MAIN)
def test_sentence_transformers_reads_mean_pooled_vectors(
    architecture: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    original = make_masked_lm(architecture)
    source = save_checkpoint(original, tmp_path / "hf")
    capfd.readouterr()
    out = export_sentence_transformers(source, tmp_path / "out")
    assert capfd.readouterr() == ("", "")
    embedder = SentenceTransformer(str(out), device="cpu")
    batch = make_tokenizer()(TEXT, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = original.base_model(**batch).last_hidden_state
    weights = batch["attention_mask"][..., None].float()
    wanted = (hidden * weights).sum(1) / weights.sum(1)
    assert np.allclose(embedder.encode(TEXT), wanted.numpy(), atol=1e-5)
    assert embedder.max_seq_length == min(max_length(original), 48)
    assert embedder.encode(["river " * 100]).shape == (1, 32)
    again = export_sentence_transformers(source, tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[PreTrainedModel, Path]]:
    """A model and its ONNX file, by architecture: masked-LM models, and for electra the discriminator's encoder."""

    @functools.cache
    def export_once(architecture: str) -> tuple[PreTrainedModel, Path]:
        folder = tmp_path_factory.mktemp(architecture)
        if architecture == "electra":
            pair = stirred(load_electra(tiny(), make_tokenizer()))
            save_hugging_face(pair, make_tokenizer(), folder / "hf")
            model = pair.discriminator.model.base_model
        else:
            model = make_masked_lm(architecture)
            save_checkpoint(model, folder / "hf")
        return model.eval(), export_onnx(str(folder), folder / "onnx")

    return export_once


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["bert", "roberta", "electra", "modernbert"])
def test_onnx_gives_the_models_numbers_at_any_size(
    architecture: str, exported: Callable[[str], tuple[PreTrainedModel, Path]]
) -> None:
    original, path = exported(architecture)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    tokenizer = AutoTokenizer.from_pretrained(path.parent)
    for texts in (TEXT, TEXT[:1], [" ".join(TEXT)] * 5):
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        got = session.run(None, {name: value.numpy() for name, value in batch.items()})[0]
        with torch.no_grad():
            output = original(**batch)
        wanted = output.last_hidden_state if architecture == "electra" else output.logits
        is_text = batch["attention_mask"].bool()
        assert got.shape == wanted.shape
        assert np.allclose(got[is_text], wanted[is_text].numpy(), atol=1e-3)


@pytest.mark.slow
def test_a_wrong_onnx_model_is_refused(
    exported: Callable[[str], tuple[PreTrainedModel, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, right = exported("bert")

    class Stale:
        """What the exporter might have made of another model."""

        def save(self, target: str) -> None:
            shutil.copy(right, target)

    monkeypatch.setattr(torch.onnx, "export", lambda *given, **settings: Stale())
    export_onnx(str(right.parent.parent), tmp_path / "same")
    source = save_checkpoint(stirred(make_masked_lm("bert"), seed=1), tmp_path / "hf")
    with pytest.raises(ModelError, match="does not give the model's own numbers"):
        export_onnx(source, tmp_path / "other")


def test_onnx_without_its_packages_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"trueneg\[onnx\]"):
        export_onnx(str(tmp_path), tmp_path / "onnx")


@pytest.mark.parametrize("name", ["sentence-transformers", "onnx"])
def test_exports_refuse_what_is_no_model(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    save_checkpoint(make_masked_lm("bert"), tmp_path / "hf")
    (tmp_path / "hf" / "model.safetensors").write_bytes(b"torn")
    capfd.readouterr()
    for source in (tmp_path / "hf", tmp_path / "nowhere"):
        with pytest.raises(ModelError) as caught:
            EXPORTS[name](str(source), tmp_path / "out")
        assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "out" / "config.json").exists()


@pytest.mark.parametrize("format", ["sentence-transformers", "onnx"])
def test_an_export_never_takes_the_name_of_a_hub(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(EXPORTS, format, lambda source, out: out.mkdir(parents=True))
    with pytest.raises(ConfigError, match=r"'bert-base-uncased' is no folder .*give --out"):
        export("bert-base-uncased", format)
    assert not list(tmp_path.iterdir())


def test_a_saved_model_is_safetensors_in_float32(tmp_path: Path) -> None:
    model = MaskedLanguageModel(make_masked_lm("electra"))
    save_hugging_face(model, make_tokenizer(), tmp_path)
    assert not [*tmp_path.rglob("*.bin"), *tmp_path.rglob("*.pt")]
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["ElectraForMaskedLM"]
    assert same_state(AutoModelForMaskedLM.from_pretrained(tmp_path), model.model)
