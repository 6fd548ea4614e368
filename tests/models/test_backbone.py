from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_checkpoints import ARCHITECTURES, DEBERTA, EAGER, MAIN, make_masked_lm, make_rows, make_tokenizer, tiny
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModelForMaskedLM

from trueneg.config.options import ModelConfig
from trueneg.errors import ModelError
from trueneg.models.backbone import (
    Encoder,
    MaskedLanguageModel,
    attend_by_documents,
    check_packing,
    max_length,
    segment_positions,
)
from trueneg.models.configurations import hf_config
from trueneg.models.loading import load_masked_lm

LENGTH = 24
ATTENTION = [(name, "sdpa") for name in ARCHITECTURES if name not in EAGER] + [
    (name, "eager") for name in ARCHITECTURES
]
HEADS = [(name, {}) for name in ARCHITECTURES] + [(name, {"legacy": False}) for name in DEBERTA]


def settings(architecture: str) -> dict[str, int]:
    """A window of 3 to each side, so that rows are longer than it."""
    return {"local_attention": 6} if architecture == "modernbert" else {}


def alone(model: Encoder, ids: Tensor) -> Tensor:
    """What transformers' own base model makes of one text without padding or neighbours."""
    output = model.model.base_model(input_ids=ids[None], attention_mask=torch.ones_like(ids)[None])
    return output.last_hidden_state[0]


def close(left: Tensor, right: Tensor) -> bool:
    return torch.allclose(left, right, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("architecture", "changes"), HEADS)
@torch.no_grad()
def test_logits_at_chosen_rows_are_the_models_own(architecture: str, changes: dict[str, bool]) -> None:
    model = MaskedLanguageModel(make_masked_lm(architecture, **changes))
    ids, rows = make_rows((LENGTH,), (LENGTH,), length=LENGTH)
    wanted = model.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    chosen = torch.tensor([[0, 7, 23], [3, 5, 8]])
    hidden = model.encode(ids, rows)
    at_chosen = hidden.gather(1, chosen[..., None].expand(-1, -1, hidden.shape[-1]))
    assert close(
        model.logits(at_chosen.flatten(0, 1)),
        wanted.gather(1, chosen[..., None].expand(-1, -1, wanted.shape[-1])).flatten(0, 1),
    )
    assert model.vocab_size == wanted.shape[-1] == len(make_tokenizer())


@pytest.mark.parametrize(("architecture", "attention"), ATTENTION)
@torch.no_grad()
def test_padding_changes_nothing(architecture: str, attention: str) -> None:
    model = Encoder(make_masked_lm(architecture, attention, **settings(architecture)))
    ids, rows = make_rows((LENGTH,), (13,), (5,), length=LENGTH)
    hidden = model.encode(ids, rows)
    for row, size in enumerate((LENGTH, 13, 5)):
        assert close(hidden[row, :size], alone(model, ids[row, :size]))
    assert not close(hidden[1, :5], hidden[2, :5])


@pytest.mark.parametrize(("architecture", "attention"), ATTENTION)
@torch.no_grad()
def test_a_packed_document_is_encoded_as_if_alone(architecture: str, attention: str) -> None:
    model = Encoder(make_masked_lm(architecture, attention, **settings(architecture)))
    pieces = ((4, 15, 5), (16,), (9, 8), (24,))
    ids, rows = make_rows(*pieces, length=LENGTH)
    hidden = model.encode(ids, rows)
    for row, sizes in enumerate(pieces):
        for text, vectors in zip(
            ids[row, : sum(sizes)].split(sizes), hidden[row, : sum(sizes)].split(sizes), strict=True
        ):
            assert close(vectors, alone(model, text))
    unpacked = model.encode(ids, replace(rows, segments=(rows.segments > 0).long(), is_packed=False))
    assert not close(hidden[0, 4:], unpacked[0, 4:])
    check_packing(model)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "electra", "distilbert", "albert", "modernbert"])
def test_padding_alone_makes_no_mask_of_pairs(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fused, masks = functional.scaled_dot_product_attention, []

    def plain(*heads: Tensor, attn_mask: Tensor, **others: Any) -> Tensor:
        masks.append(attn_mask)
        return fused(*heads, attn_mask=attn_mask, **others)

    def expanded(*heads: Tensor, attn_mask: Tensor, **others: Any) -> Tensor:
        return fused(*heads, attn_mask=attn_mask.expand(-1, -1, LENGTH, -1), **others)

    model = Encoder(make_masked_lm(architecture, **settings(architecture)))
    ids, rows = make_rows((LENGTH,), (13,), (5,), length=LENGTH)
    found = []
    for attention in (plain, expanded):
        monkeypatch.setattr(functional, "scaled_dot_product_attention", attention)
        model.zero_grad()
        hidden = model.encode(ids, rows)[rows.segments > 0]
        hidden.square().sum().backward()
        found.append([hidden.detach(), *[weight.grad for weight in model.parameters() if weight.grad is not None]])
    assert len(found[0]) > 10
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
    assert masks[0].shape == (3, 1, 1, LENGTH)
    # ModernBERT's local layers have a window, which is one of pairs.
    assert {mask.shape[2] for mask in masks} == ({1, LENGTH} if architecture == "modernbert" else {1})


@torch.no_grad()
def test_modernberts_window_matters_in_these_tests() -> None:
    narrow, wide = (Encoder(make_masked_lm("modernbert", local_attention=width)) for width in (6, 128))
    ids, rows = make_rows((16, 8), length=LENGTH)
    assert not close(narrow.encode(ids, rows)[0, :16], wide.encode(ids, rows)[0, :16])


@pytest.mark.parametrize("architecture", ["roberta", "xlm-roberta", "camembert", "mpnet"])
@torch.no_grad()
def test_a_drawn_padding_token_moves_no_positions(architecture: str) -> None:
    model = Encoder(make_masked_lm(architecture))
    ids, rows = make_rows((LENGTH,), length=LENGTH)
    ids[0, 6] = 1
    positions = torch.arange(2, LENGTH + 2)[None]
    wanted = model.model.base_model(input_ids=ids, position_ids=positions).last_hidden_state
    assert close(model.encode(ids, rows), wanted)
    assert not close(alone(model, ids[0]), wanted[0])


@torch.no_grad()
def test_windows_of_another_architecture_are_kept_or_packing_is_refused() -> None:
    sizes = ModelConfig(architecture="ultrabert", num_layers=2, hidden_size=32, num_heads=2, intermediate_size=32)
    hf = hf_config(replace(sizes, max_positions=64), make_tokenizer())
    hf.sliding_window, hf.layer_types = 3, ["sliding_attention", "full_attention"]
    torch.manual_seed(0)
    model = Encoder(AutoModelForMaskedLM.from_config(hf).eval())
    ids, rows = make_rows((LENGTH,), (13,), length=LENGTH)
    hidden = model.encode(ids, rows)
    for row, size in enumerate((LENGTH, 13)):
        assert close(hidden[row, :size], alone(model, ids[row, :size]))
    hf.sliding_window = 64
    wide = Encoder(AutoModelForMaskedLM.from_config(hf).eval())
    wide.load_state_dict(model.state_dict())
    assert not close(wide.encode(ids, rows)[0], hidden[0]), "the window matters in this test"
    with pytest.raises(ModelError, match=r"'ultrabert' attends within windows.*leave --pack"):
        check_packing(model)
    assert attend_by_documents(model, torch.device("cpu"))


def test_a_convolution_cannot_be_packed() -> None:
    model = Encoder(make_masked_lm("deberta-v2", conv_kernel_size=3, conv_act="gelu"))
    ids, rows = make_rows((9, 15), length=LENGTH)
    with pytest.raises(ModelError, match="leave --pack out"):
        model.encode(ids, rows)
    with pytest.raises(ModelError, match="leave --pack out"):
        check_packing(model)


def test_an_architecture_that_looks_past_its_mask_is_found_out() -> None:
    sizes = {
        "vocab_size": 50,
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "conv_kernel_size": 3,
    }
    model = AutoModelForMaskedLM.from_config(
        AutoConfig.for_model("convbert", **sizes, intermediate_size=32, embedding_size=16)
    )
    assert isinstance(MaskedLanguageModel(model), Encoder)
    with pytest.raises(ModelError, match="'convbert' cannot keep the documents of one row apart"):
        check_packing(Encoder(model))


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        ("bart", "'bart' has a decoder"),
        ("flaubert", "the masked-LM head of 'flaubert' is an unusual one"),
        ("gpt2", "'gpt2' has no masked-LM head"),
    ],
)
def test_architectures_that_cannot_be_trained_are_refused(architecture: str, message: str) -> None:
    config = ModelConfig(architecture=architecture, num_layers=1, hidden_size=32, num_heads=2, intermediate_size=32)
    with pytest.raises(ModelError, match=message):
        load_masked_lm(config, make_tokenizer())


@pytest.mark.parametrize("architecture", ["roberta-prelayernorm", "xlm-roberta-xl", "esm", "ibert"])
def test_positions_that_begin_behind_the_padding_are_counted(architecture: str) -> None:
    config = ModelConfig(architecture=architecture, num_layers=1, hidden_size=32, num_heads=2, intermediate_size=32)
    model = load_masked_lm(replace(config, max_positions=LENGTH), make_tokenizer())
    ids, rows = make_rows((LENGTH,), length=LENGTH)
    assert max_length(model.model) == LENGTH
    assert model.encode(ids, rows).isfinite().all()


def test_checks_leave_the_mode_alone() -> None:
    model = MaskedLanguageModel(make_masked_lm("bert").train())
    check_packing(model)
    assert model.model.training and all(module.training for module in model.model.modules())


def test_an_unusual_head_is_refused() -> None:
    model = make_masked_lm("bert")
    model.add_module("afterthought", nn.Linear(len(make_tokenizer()), len(make_tokenizer())))
    with pytest.raises(ModelError, match="'bert' is an unusual one"):
        MaskedLanguageModel(model)


@pytest.mark.parametrize(
    ("architecture", "wanted"), [("bert", 48), ("electra", 48), ("roberta", 48), ("mpnet", 48), ("modernbert", 48)]
)
def test_positions_are_as_many_as_were_asked_for(architecture: str, wanted: int) -> None:
    model = make_masked_lm(architecture)
    assert max_length(model) == wanted
    ids, rows = make_rows((wanted,), length=wanted)
    assert Encoder(model).encode(ids, rows).shape == (1, wanted, 32)
    assert max_length(make_masked_lm("deberta-v2")) > 10**6


def test_positions_start_again_at_each_document() -> None:
    segments = torch.tensor([[1, 1, 1, 2, 3, 3, 0, 0], [1, 2, 2, 2, 2, 2, 2, 2]])
    assert segment_positions(segments).tolist() == [[0, 1, 2, 0, 0, 1, 0, 1], [0, 0, 1, 2, 3, 4, 5, 6]]


@pytest.mark.parametrize("architecture", MAIN)
def test_gradient_checkpointing_gives_the_same_gradient(architecture: str) -> None:
    model = MaskedLanguageModel(make_masked_lm(architecture).train())
    ids, rows = make_rows((9, 15), (20,), length=LENGTH)
    gradients = []
    for is_checkpointed in (False, True):
        if is_checkpointed:
            model.model.gradient_checkpointing_enable({"use_reentrant": False})
        model.zero_grad()
        model.logits(model.encode(ids, rows)[rows.segments > 0]).logsumexp(-1).sum().backward()
        gradients.append(
            {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}
        )
    plain, checkpointed = gradients
    assert plain.keys() == checkpointed.keys() and len(plain) > 10
    assert all(torch.allclose(plain[name], checkpointed[name], atol=1e-4, rtol=1e-4) for name in plain)
    assert model.model.is_gradient_checkpointing


@pytest.mark.parametrize("architecture", ["nonsense", "gpt2", "t5"])
def test_an_architecture_without_such_a_head_is_refused(architecture: str) -> None:
    with pytest.raises(ModelError, match=f"'{architecture}'.*one of bert, roberta") as caught:
        hf_config(tiny(architecture), make_tokenizer())
    assert "\n" not in str(caught.value)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ModelError, match="hidden_size=32 is not a multiple of"):
        hf_config(tiny("electra", num_heads=5), make_tokenizer())
    backend = make_tokenizer()
    backend.pad_token = "<s>"
    with pytest.raises(ModelError, match="mpnet keeps id 1 for padding"):
        hf_config(tiny("mpnet"), backend)
