from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_checkpoints import (
    ARCHITECTURES,
    MAIN,
    TEXT,
    make_masked_lm,
    make_tokenizer,
    same_state,
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

from trueneg.config.options import ModelConfig
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.export import save_hugging_face
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


def test_a_saved_model_is_safetensors_in_float32(tmp_path: Path) -> None:
    model = MaskedLanguageModel(make_masked_lm("electra"))
    save_hugging_face(model, make_tokenizer(), tmp_path)
    assert not [*tmp_path.rglob("*.bin"), *tmp_path.rglob("*.pt")]
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["ElectraForMaskedLM"]
    assert same_state(AutoModelForMaskedLM.from_pretrained(tmp_path), model.model)


def test_files_have_the_modes_of_the_umask(tmp_path: Path) -> None:
    for umask in (0o022, 0o077):
        before = os.umask(umask)
        try:
            save_hugging_face(load_electra(tiny("bert"), make_tokenizer()), make_tokenizer(), tmp_path / str(umask))
        finally:
            os.umask(before)
        modes = {path.stat().st_mode & 0o777 for path in (tmp_path / str(umask)).rglob("*") if path.is_file()}
        assert modes == {0o666 & ~umask}
