"""A task's model is the checkpoint's encoder, to the bit, under a head of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, PreTrainedModel

from tiny import ARCHITECTURES, make_config, make_hf_masked_lm, make_tokenizer
from trueneg.errors import ModelError
from trueneg.models.export import save_hugging_face
from trueneg.models.task_model import load_finetuned, load_for_task

CLASSES = {
    "AutoModelForSequenceClassification": 3,
    "AutoModelForTokenClassification": 3,
    "AutoModelForQuestionAnswering": 2,
}
LABELS = ["no", "maybe", "yes"]


def load(kind: str, folder: Path, seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    size = CLASSES[kind]
    return load_for_task(kind, str(folder), size, LABELS if size == 3 else ())


def hidden(model: PreTrainedModel) -> torch.Tensor:
    ids = torch.tensor([[7, 9, 11, 250]])
    with torch.no_grad():
        states: torch.Tensor = model.eval().base_model(input_ids=ids).last_hidden_state
    return states


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_encoder_is_the_checkpoints_and_the_head_is_new(architecture: str, kind: str, tmp_path: Path) -> None:
    checkpoint = make_hf_masked_lm(architecture)
    checkpoint.save_pretrained(tmp_path)
    models = [load(kind, tmp_path, seed) for seed in (0, 0, 1)]
    for model in models:
        assert torch.equal(hidden(model), hidden(checkpoint))
    ids = torch.tensor([[7, 9, 11, 250]])

    def said(model: PreTrainedModel) -> torch.Tensor:
        with torch.no_grad():
            return torch.cat([x.flatten() for x in model.eval()(input_ids=ids).to_tuple()])

    assert torch.equal(said(models[0]), said(models[1]))
    assert not torch.equal(said(models[0]), said(models[2]))


def test_a_head_that_the_checkpoint_has_is_not_used(tmp_path: Path) -> None:
    """Fine-tuned on one task with as many labels, it starts the next like any other."""
    other = AutoModelForSequenceClassification.from_config(make_config("bert", num_labels=3))
    other.save_pretrained(tmp_path)
    model = load("AutoModelForSequenceClassification", tmp_path, seed=5)
    assert torch.equal(hidden(model), hidden(other))
    assert not torch.equal(model.classifier.weight, other.classifier.weight)
    assert torch.equal(model.bert.pooler.dense.weight, other.bert.pooler.dense.weight), "the pooler is the encoder's"


def test_labels_go_with_the_model(tmp_path: Path) -> None:
    make_hf_masked_lm("electra").save_pretrained(tmp_path / "pre")
    model = load("AutoModelForSequenceClassification", tmp_path / "pre")
    model.save_pretrained(tmp_path / "fine")
    read = load_finetuned("AutoModelForSequenceClassification", str(tmp_path / "fine"), LABELS)
    assert read.config.id2label == dict(enumerate(LABELS))
    for name, value in model.state_dict().items():
        assert torch.equal(read.state_dict()[name], value)
    with pytest.raises(ModelError, match="answers with no, maybe, yes, the task wants 0, 1"):
        load_finetuned("AutoModelForSequenceClassification", str(tmp_path / "fine"), ["0", "1"])


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_dropout_is_set_in_the_head_too(architecture: str, kind: str, tmp_path: Path) -> None:
    make_hf_masked_lm(architecture).save_pretrained(tmp_path)
    model = load_for_task(kind, str(tmp_path), 2, dropout=0.25)
    rates = {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
    assert rates == {0.25} | ({0.0} if hasattr(model, "pooler") else set())  # DeBERTa's pooler has a rate of its own


def test_what_was_not_fine_tuned_is_not_read_back(tmp_path: Path) -> None:
    AutoModel.from_config(make_config("bert")).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="was not fine-tuned for this: it lacks classifier"):
        load_finetuned("AutoModelForSequenceClassification", str(tmp_path), ["0", "1"])


def load_linear(folder: Path, num_outputs: int = 3) -> PreTrainedModel:
    torch.manual_seed(0)
    kind = "AutoModelForSequenceClassification"
    return load_for_task(kind, str(folder), num_outputs, LABELS if num_outputs == 3 else (), head="linear")


@pytest.mark.parametrize("num_outputs", [1, 3, 16])
def test_electras_linear_head_is_one_layer_and_transformers_reads_it_as_two(num_outputs: int, tmp_path: Path) -> None:
    """The reference is a product with the first token's vector; after the round trip, transformers' own class."""
    make_hf_masked_lm("electra").save_pretrained(tmp_path / "encoder")
    model = load_linear(tmp_path / "encoder", num_outputs).eval()
    names = [name for name, _ in model.named_parameters() if name.startswith("classifier")]
    assert names == ["classifier.out_proj.weight", "classifier.out_proj.bias"]
    with torch.no_grad():
        model.classifier.out_proj.weight.normal_(0, 3)
        model.classifier.out_proj.bias.normal_()
        ids = torch.tensor([[7, 9, 11, 250], [8, 20, 30, 40]])
        first = model.base_model(input_ids=ids).last_hidden_state[:, 0].double()
        expected = first @ model.classifier.out_proj.weight.double().T + model.classifier.out_proj.bias.double()
        torch.testing.assert_close(model(input_ids=ids).logits.double(), expected, rtol=1e-5, atol=1e-5)
        head = model.classifier
        save_hugging_face(model, make_tokenizer(), tmp_path / "saved")
        assert model.classifier is head, "training goes on with one layer"
        loaded, report = AutoModelForSequenceClassification.from_pretrained(
            tmp_path / "saved", output_loading_info=True
        )
        assert not any(report.values())
        torch.testing.assert_close(loaded.eval()(input_ids=ids).logits.double(), expected, rtol=1e-5, atol=1e-4)
    ours = load_finetuned(
        "AutoModelForSequenceClassification", str(tmp_path / "saved"), LABELS if num_outputs == 3 else ()
    )
    torch.testing.assert_close(ours.eval()(input_ids=ids).logits.double(), expected, rtol=1e-5, atol=1e-4)


def test_a_linear_head_where_it_is_no_other_one_is_refused(tmp_path: Path) -> None:
    make_hf_masked_lm("bert").save_pretrained(tmp_path / "bert")
    with pytest.raises(ModelError, match=r"head=linear: '.*bert' \(bert\) has no other head for this task"):
        load_linear(tmp_path / "bert")
    make_hf_masked_lm("electra").save_pretrained(tmp_path / "electra")
    with pytest.raises(ModelError, match=r"head=linear: 17 labels need hidden states of 34 to be saved, .* has 32"):
        load_linear(tmp_path / "electra", 17)
    with pytest.raises(ModelError, match="has no other head for this task"):
        load_for_task("AutoModelForTokenClassification", str(tmp_path / "electra"), 3, LABELS, head="linear")
