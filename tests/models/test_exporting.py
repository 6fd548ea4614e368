"""``export``: the formats, where they are written, and what a sentence encoder keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from tiny_checkpoints import MAIN, TEXT, make_masked_lm, make_tokenizer, save_checkpoint

from trueneg.errors import ConfigError, ModelError
from trueneg.models.backbone import max_length
from trueneg.runs.exporting import export


def write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


def make_sentence_encoder(folder: Path, pooling: dict[str, Any] | None = None) -> Path:
    """An encoder with pooling, a dense layer and a norm, prompts, and a card."""
    save_checkpoint(make_masked_lm("bert").base_model, folder)
    names = ("Transformer", "Pooling", "Dense", "Normalize")
    modules = [
        {"idx": n, "name": str(n), "path": f"{n}_{name}" if n else "", "type": f"sentence_transformers.models.{name}"}
        for n, name in enumerate(names)
    ]
    write(folder / "modules.json", modules)
    chosen = pooling or {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    write(folder / "1_Pooling/config.json", {"word_embedding_dimension": 32, **chosen})
    activation = "torch.nn.modules.activation.Tanh"
    sizes = {"in_features": 64, "out_features": 8, "bias": True, "activation_function": activation}
    write(folder / "2_Dense/config.json", sizes)
    weights = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    save_file({"linear.weight": weights, "linear.bias": torch.ones(8)}, folder / "2_Dense/model.safetensors")
    write(folder / "sentence_bert_config.json", {"max_seq_length": 20, "do_lower_case": False})
    prompts = {"query": "river ", "document": ""}
    write(
        folder / "config_sentence_transformers.json",
        {"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "dot"},
    )
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# an encoder\n")
    return folder


@pytest.mark.parametrize("architecture", MAIN)
def test_sentence_transformers_reads_mean_pooled_vectors(
    architecture: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    original = make_masked_lm(architecture)
    source = save_checkpoint(original, tmp_path / "hf")
    capfd.readouterr()
    out = export(source, "sentence-transformers", tmp_path / "out").path
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
    again = export(source, "sentence-transformers", tmp_path / "again").path
    assert (again / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


@pytest.mark.parametrize("pooling", [None, {"pooling_mode": ["cls", "mean"]}])
def test_a_sentence_encoder_keeps_its_modules_length_prompts_and_similarity(
    pooling: dict[str, Any] | None, tmp_path: Path
) -> None:
    source = make_sentence_encoder(tmp_path / "source", pooling)
    out = export(str(source), "sentence-transformers", tmp_path / "out").path
    theirs, ours = (SentenceTransformer(str(folder), device="cpu") for folder in (source, out))
    texts = [*TEXT, "river " * 40]
    assert np.allclose(ours.encode(texts), theirs.encode(texts), atol=1e-6)
    assert np.allclose(np.linalg.norm(ours.encode(TEXT), axis=1), 1, atol=1e-5)
    assert np.allclose(ours.encode(TEXT, prompt_name="query"), theirs.encode(TEXT, prompt_name="query"), atol=1e-6)
    assert ours.max_seq_length == 20
    assert ours.similarity_fn_name == "dot"
    assert "license: apache-2.0" in (out / "README.md").read_text()


def test_a_sentence_encoder_of_the_hub_keeps_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "models--someone--sentences"
    folder = make_sentence_encoder(place / "snapshots" / ("0" * 40))
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    out = export("someone/sentences", "sentence-transformers", tmp_path / "out").path
    theirs, ours = (SentenceTransformer(str(one), device="cpu") for one in (folder, out))
    assert np.allclose(ours.encode(TEXT), theirs.encode(TEXT), atol=1e-6)


def test_a_length_that_only_the_tokenizer_says_is_kept(tmp_path: Path) -> None:
    source = make_sentence_encoder(tmp_path / "source")
    write(source / "sentence_bert_config.json", {})
    settings = json.loads((source / "tokenizer_config.json").read_text())
    write(source / "tokenizer_config.json", {**settings, "model_max_length": 24})
    out = export(str(source), "sentence-transformers", tmp_path / "out").path
    assert SentenceTransformer(str(out), device="cpu").max_seq_length == 24


@pytest.mark.parametrize(
    "damage",
    [
        lambda modules: modules[1].update(path="../elsewhere"),
        lambda modules: modules[1].update(path="/etc"),
        lambda modules: modules[2].update(type="their_code.Module"),
        lambda modules: modules[0].update(path="0_Transformer"),
        lambda modules: modules.clear(),
    ],
)
def test_modules_that_are_more_than_data_are_refused(damage: Any, tmp_path: Path) -> None:
    source = make_sentence_encoder(tmp_path / "source")
    modules = json.loads((source / "modules.json").read_text())
    damage(modules)
    write(source / "modules.json", modules)
    with pytest.raises(ModelError, match=r"modules\.json"):
        export(str(source), "sentence-transformers", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pickled_modules_are_refused(tmp_path: Path) -> None:
    source = make_sentence_encoder(tmp_path / "source")
    (source / "2_Dense/model.safetensors").rename(source / "2_Dense/pytorch_model.bin")
    with pytest.raises(ModelError, match="2_Dense' has pickled weights"):
        export(str(source), "sentence-transformers", tmp_path / "out")


@pytest.mark.parametrize("name", ["sentence-transformers", "onnx", "hf"])
def test_exports_refuse_what_is_no_model(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    save_checkpoint(make_masked_lm("bert"), tmp_path / "hf")
    (tmp_path / "hf" / "model.safetensors").write_bytes(b"torn")
    capfd.readouterr()
    for source in [tmp_path / "nowhere", *([tmp_path / "hf"] if name != "hf" else [])]:
        with pytest.raises(ModelError) as caught:
            export(str(source), name, tmp_path / "out")
        assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format", ["sentence-transformers", "onnx"])
def test_an_export_never_takes_the_name_of_a_hub(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"'bert-base-uncased' is no folder .*give --out"):
        export("bert-base-uncased", format)
    assert not list(tmp_path.iterdir())


def test_only_an_export_is_overwritten(tmp_path: Path) -> None:
    source = save_checkpoint(make_masked_lm("bert"), tmp_path / "hf")
    out = export(source, out=tmp_path / "out").path
    (out / "stray").write_text("of the first export")
    with pytest.raises(ConfigError, match="--overwrite"):
        export(source, out=out)
    assert export(source, out=out, overwrite=True).path == out
    assert not (out / "stray").exists()
    mine = tmp_path / "mine"
    (mine / "diary").mkdir(parents=True)
    with pytest.raises(ConfigError, match="holds something else"):
        export(source, out=mine, overwrite=True)
    assert (mine / "diary").is_dir()


def test_heads_are_of_onnx_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--head mlm"):
        export(save_checkpoint(make_masked_lm("bert"), tmp_path / "hf"), "hf", tmp_path / "out", head="mlm")
