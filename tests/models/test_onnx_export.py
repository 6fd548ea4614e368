"""ONNX: the graph has the head that was trained, its inputs and its numbers, and its configuration says so."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.onnx
import transformers
from sentence_transformers import SentenceTransformer
from test_exporting import make_sentence_encoder
from tiny_checkpoints import TEXT, make_masked_lm, make_tokenizer, save_checkpoint, stirred, tiny
from tokenizers import processors
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from trueneg.errors import ConfigError, MissingExtraError, ModelError
from trueneg.models.configurations import hf_config
from trueneg.models.export import save_hugging_face
from trueneg.models.loading import load_electra
from trueneg.models.onnx_export import Graph, export_onnx

PAIR = (["the river sang", "green light over the mountain wind", "a painter"], ["in the morning", "stone", "old house"])


def with_types() -> PreTrainedTokenizerFast:
    """The second text of a pair has another type, and the tokenizer says so."""
    tokenizer = make_tokenizer()
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def make_task_model(architecture: str, kind: str) -> PreTrainedModel:
    config = hf_config(tiny(architecture), make_tokenizer())
    config.num_labels = 2 if kind == "QuestionAnswering" else 3
    model: PreTrainedModel = stirred(getattr(transformers, f"AutoModelFor{kind}").from_config(config).eval())
    return model


def fed(graph: Graph, *texts: list[str]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """A graph's outputs by name, fed with what its own tokenizer gives, and that."""
    session = onnxruntime.InferenceSession(str(graph.path), providers=["CPUExecutionProvider"])
    batch = AutoTokenizer.from_pretrained(graph.path.parent)(*texts, padding=True, return_tensors="pt")
    names = [output.name for output in session.get_outputs()]
    assert names == list(graph.outputs)
    assert {given.name for given in session.get_inputs()} == set(batch) == set(graph.inputs)
    found = session.run(None, {name: value.numpy() for name, value in batch.items()})
    return dict(zip(names, found, strict=True)), dict(batch)


def assert_same(found: np.ndarray, wanted: torch.Tensor, mask: torch.Tensor) -> None:
    assert found.shape == tuple(wanted.shape)
    is_text = mask.bool().numpy() if found.shape[:2] == tuple(mask.shape) else ...
    assert np.allclose(found[is_text], wanted.numpy()[is_text], atol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "kind", "outputs"),
    [
        ("bert", "SequenceClassification", ["logits"]),
        ("electra", "TokenClassification", ["logits"]),
        ("roberta", "QuestionAnswering", ["start_logits", "end_logits"]),
        ("bert", "MaskedLM", ["logits"]),
        ("modernbert", "MaskedLM", ["logits"]),
    ],
)
def test_a_graph_has_the_head_that_was_trained(
    architecture: str, kind: str, outputs: list[str], tmp_path: Path
) -> None:
    model = make_masked_lm(architecture) if kind == "MaskedLM" else make_task_model(architecture, kind)
    source = save_checkpoint(model, tmp_path / "hf", with_types())
    graph = export_onnx(source, tmp_path / "onnx")
    assert graph.outputs == tuple(outputs)
    has_types = getattr(model.config, "type_vocab_size", 0) > 1
    assert ("token_type_ids" in graph.inputs) == has_types
    config = json.loads((tmp_path / "onnx" / "config.json").read_text())
    assert config["architectures"] == [type(model).__name__]
    for texts in (PAIR, [part[:1] for part in PAIR], [part * 2 for part in PAIR]):
        found, batch = fed(graph, *texts)
        with torch.no_grad():
            wanted = model(**batch)
            if has_types:
                assert not torch.allclose(model(**{**batch, "token_type_ids": 0 * batch["input_ids"]})[0], wanted[0])
        for name in outputs:
            assert_same(found[name], getattr(wanted, name), batch["attention_mask"])


@pytest.mark.slow
def test_heads_of_an_electra_run(tmp_path: Path) -> None:
    pair = stirred(load_electra(tiny(), make_tokenizer())).eval()
    save_hugging_face(pair, make_tokenizer(), tmp_path / "hf")
    for head, model, name in (
        ("auto", pair.discriminator.model, "logits"),
        ("mlm", pair.generator.model, "logits"),
        ("encoder", pair.discriminator.model.base_model, "last_hidden_state"),
    ):
        graph = export_onnx(str(tmp_path), tmp_path / head, head)
        assert graph.head == {"auto": "discriminator"}.get(head, head)
        assert graph.inputs == ("input_ids", "attention_mask")  # the tokenizer gives no types
        found, batch = fed(graph, TEXT)
        with torch.no_grad():
            assert_same(found[name], getattr(model(**batch), name), batch["attention_mask"])
        architectures = json.loads((tmp_path / head / "config.json").read_text())["architectures"]
        assert architectures == [type(model).__name__]


@pytest.mark.slow
def test_a_discriminator_of_an_architecture_without_one_keeps_its_head(tmp_path: Path) -> None:
    pair = stirred(load_electra(tiny("bert"), make_tokenizer())).eval()
    save_hugging_face(pair, make_tokenizer(), tmp_path / "hf")
    graph = export_onnx(str(tmp_path), tmp_path / "onnx")
    found, batch = fed(graph, TEXT)
    with torch.no_grad():
        wanted = pair.discriminator.head(pair.discriminator.model(**batch).last_hidden_state)
    assert_same(found["logits"], wanted, batch["attention_mask"])
    assert not json.loads((tmp_path / "onnx" / "config.json").read_text()).get("architectures")


@pytest.mark.parametrize("mode", ["weightedmean", "lasttoken"])
@pytest.mark.parametrize("is_new", [False, True])
def test_a_pooling_without_a_graph_is_refused(mode: str, is_new: bool, tmp_path: Path) -> None:
    old = {"weightedmean": "pooling_mode_weightedmean_tokens", "lasttoken": "pooling_mode_lasttoken"}[mode]
    source = make_sentence_encoder(tmp_path / "source", {"pooling_mode": mode} if is_new else {old: True})
    with pytest.raises(ModelError, match=f"pools by '{mode}.*which has no graph here: use --head encoder"):
        export_onnx(str(source), tmp_path / "onnx", "sentence")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["all", "mean"])
def test_a_sentence_graph_pools_as_the_modules_say(mode: str, tmp_path: Path) -> None:
    keys = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens") if mode == "all" else ("mean_tokens",)
    source = make_sentence_encoder(tmp_path / "source", {f"pooling_mode_{key}": True for key in keys})
    modules = json.loads((source / "modules.json").read_text())
    (source / "modules.json").write_text(json.dumps([module for module in modules if module["path"] != "2_Dense"]))
    if mode == "mean":
        modules[1:] = [{**modules[1], "path": ""}]
        shutil.rmtree(source / "1_Pooling")
        (source / "modules.json").unlink()
    graph = export_onnx(str(source), tmp_path / "onnx", "sentence")
    assert graph.outputs == ("token_embeddings", "sentence_embedding")
    found, _ = fed(graph, TEXT)
    if mode == "all":
        encoder = SentenceTransformer(str(source), device="cpu")
        assert np.allclose(found["sentence_embedding"], encoder.encode(TEXT), atol=1e-4)
        assert (tmp_path / "onnx" / "1_Pooling/config.json").is_file()
    else:
        counts = [len(make_tokenizer()(text)["input_ids"]) for text in TEXT]
        means = [row[:count].mean(0) for row, count in zip(found["token_embeddings"], counts, strict=True)]
        assert np.allclose(found["sentence_embedding"], np.stack(means), atol=1e-4)


@pytest.mark.slow
def test_a_sentence_encoders_own_head_is_its_vector(tmp_path: Path) -> None:
    source = make_sentence_encoder(tmp_path / "source")
    graph = export_onnx(str(source), tmp_path / "onnx")
    assert graph.head == "sentence"
    found, _ = fed(graph, TEXT)
    assert np.allclose(
        found["sentence_embedding"], SentenceTransformer(str(source), device="cpu").encode(TEXT), atol=1e-4
    )


@pytest.mark.slow
def test_a_wrong_onnx_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = save_checkpoint(make_masked_lm("bert"), tmp_path / "right")
    right = export_onnx(source, tmp_path / "onnx").path

    class Stale:
        """What the exporter might have made of another model."""

        def save(self, target: str) -> None:
            shutil.copy(right, target)

    monkeypatch.setattr(torch.onnx, "export", lambda *given, **settings: Stale())
    export_onnx(source, tmp_path / "same")
    other = save_checkpoint(stirred(make_masked_lm("bert"), seed=1), tmp_path / "hf")
    with pytest.raises(ModelError, match="does not give the model's own numbers"):
        export_onnx(other, tmp_path / "other")


@pytest.mark.parametrize("head", ["task", "mlm", "discriminator"])
def test_a_head_that_was_not_trained_is_refused(head: str, tmp_path: Path) -> None:
    source = save_checkpoint(make_masked_lm("bert").base_model, tmp_path / "hf")
    with pytest.raises(ModelError, match="--head"):
        export_onnx(source, tmp_path / "onnx", head)
    with pytest.raises(ConfigError, match="did you mean 'task'"):
        export_onnx(source, tmp_path / "onnx", "taks")


def test_a_head_that_is_not_known_is_never_dropped(tmp_path: Path) -> None:
    config = hf_config(tiny("bert"), make_tokenizer())
    model = transformers.AutoModelForMultipleChoice.from_config(config)
    source = save_checkpoint(model, tmp_path / "hf")
    with pytest.raises(ModelError, match="BertForMultipleChoice"):
        export_onnx(source, tmp_path / "onnx")


def test_onnx_without_its_packages_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match="onnx"):
        export_onnx(str(tmp_path), tmp_path / "onnx")
