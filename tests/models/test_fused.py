"""Parts for a GPU compute what the stock parts do, from the same weights, and leave no trace in what is saved."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, PreTrainedModel

import tiny
from trueneg.config.codec import override
from trueneg.config.options import ModelConfig, PretrainConfig
from trueneg.config.presets import preset
from trueneg.config.validation import check_options_apply
from trueneg.errors import ConfigError, ModelError, TruenegWarning
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.fused import FAMILY, AutocastNorm, TypeZero, cast_norms, fuse, fuse_products
from trueneg.runs.building import build

ROWS = {"full": [[14], [14]], "padded": [[14], [5]], "packed": [[6, 6], [3, 9]]}


def make(architecture: str, **options: Any) -> PreTrainedModel:
    return tiny.make_hf_masked_lm(architecture, **options)


def trained(model: PreTrainedModel, kind: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Hidden states, and the gradients of a made-up loss."""
    rows = tiny.make_rows(ROWS[kind], 16)
    hidden = MaskedLanguageModel(model).encode(rows.input_ids, rows)
    torch.manual_seed(0)
    (hidden * torch.randn_like(hidden)).sum().backward()
    return hidden.detach(), tiny.gradients(model)


@pytest.mark.parametrize(("kind", "attention"), [*((kind, "sdpa") for kind in ROWS), ("padded", "eager")])
@pytest.mark.parametrize("architecture", FAMILY)
def test_one_product_and_no_lookup(architecture: str, kind: str, attention: str) -> None:
    model = make(architecture, attn_implementation=attention).double()
    hidden, gradients = trained(model, kind)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    assert fuse_products(model) == 3, "two layers and the embeddings"
    assert fuse_products(model) == 0, "changed already"
    ours, our_gradients = trained(model, kind)
    torch.testing.assert_close(ours, hidden, atol=1e-12, rtol=0)
    largest = max(value.abs().max().item() for value in gradients.values())
    tiny.assert_same(gradients, our_gradients, tolerance=1e-12 * largest)
    tiny.assert_same(state, dict(model.state_dict()))
    types = next(part for part in model.modules() if isinstance(part, TypeZero))
    assert our_gradients[next(name for name, part in model.named_parameters() if part is types.weight)][0].any()


@pytest.mark.parametrize("architecture", FAMILY)
def test_attention_dropout_draws_the_same(architecture: str) -> None:
    model = make(architecture, attention_probs_dropout_prob=0.3, attn_implementation="eager")
    rows = tiny.make_rows(ROWS["padded"], 16)
    encoder, seen = MaskedLanguageModel(model).train(), []
    for change in (lambda _: 0, fuse_products):
        change(model)
        torch.manual_seed(3)
        seen.append(encoder.encode(rows.input_ids, rows))
    torch.testing.assert_close(seen[1], seen[0], atol=2e-6, rtol=1e-5)


def test_what_would_compute_otherwise_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later transformers may scale, rotate or normalise: that is seen on made-up input."""
    model = make("bert")
    attention: Any = model.base_model.encoder.layer[1].attention.self
    stock, kind = type(attention).forward, type(attention)
    monkeypatch.setattr(kind, "forward", lambda self, states, *rest, **more: stock(self, 2 * states, *rest, **more))
    with pytest.warns(TruenegWarning, match="in another way than model.fused"):
        assert fuse_products(model) == 0
    assert type(attention) is kind
    assert not any(isinstance(part, TypeZero) for part in model.modules())


@pytest.mark.parametrize("architecture", FAMILY)
def test_norms_in_autocasts_type(architecture: str) -> None:
    """Against the equation in numpy on what bf16 keeps of the input; without autocast, against torch bit for bit."""
    model = make(architecture)
    before = copy.deepcopy(model)
    assert cast_norms(model) == sum(type(part) is nn.LayerNorm for part in before.modules()) > 4
    norm = next(part for part in model.modules() if isinstance(part, AutocastNorm))
    states = torch.randn(3, norm.normalized_shape[0]) * 4 + 1
    with torch.autocast("cpu", torch.bfloat16):
        found = norm(states)
    assert found.dtype == torch.bfloat16
    given, weight, bias = (part.detach().bfloat16().double().numpy() for part in (states, norm.weight, norm.bias))
    centred = given - given.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + norm.eps) * weight + bias
    np.testing.assert_allclose(found.detach().double().numpy(), expected, rtol=2**-8, atol=2**-8)
    for kind in ROWS:
        hidden, gradients = trained(before, kind)
        ours, our_gradients = trained(model, kind)
        assert torch.equal(ours, hidden)
        tiny.assert_same(our_gradients, gradients)


@pytest.mark.parametrize("architecture", FAMILY)
def test_the_stream_between_layers_is_bf16(architecture: str) -> None:
    model, seen = make(architecture), list[torch.dtype]()
    cast_norms(model)
    for layer in model.base_model.encoder.layer:
        layer.register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    rows = tiny.make_rows(ROWS["full"], 16)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = MaskedLanguageModel(model).encode(rows.input_ids, rows)
    assert {*seen, hidden.dtype} == {torch.bfloat16}


def test_gradients_of_bf16_norms_are_near() -> None:
    """The direction of the gradient is that of float32 as nearly as autocast's own is."""

    def direction(change: Any, is_autocast: bool) -> Tensor:
        model = make("bert")
        change(model)
        with torch.autocast("cpu", torch.bfloat16, enabled=is_autocast):
            gradients = trained(model, "padded")[1]
        return nn.functional.normalize(torch.cat([value.flatten() for value in gradients.values()]), dim=0)

    exact = direction(lambda _: 0, False)
    usual, ours = (1 - exact @ direction(change, True) for change in (lambda _: 0, cast_norms))
    assert 0 < ours < 2 * usual + 1e-4


def test_what_is_saved_is_the_stock_model(tmp_path: Path) -> None:
    model = make("roberta")
    fuse(model, ModelConfig(), is_gpu=True)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert {type(part) for part in loaded.modules()} == {type(part) for part in make("roberta").modules()}
    rows = tiny.make_rows(ROWS["full"], 16)
    ours, theirs = (MaskedLanguageModel(part).eval().encode(rows.input_ids, rows) for part in (model, loaded))
    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-5)


def test_a_copy_computes_for_itself() -> None:
    """A moving average of the model is one."""
    model = make("electra")
    fuse_products(model)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert not trained(twin, "full")[0].any() and trained(model, "full")[0].any()


@pytest.mark.parametrize("objective", ["mlm", "electra", "cline"])
def test_auto_is_for_a_gpu(objective: str) -> None:
    config = replace(preset("electra-tiny"), objective=replace(preset("electra-tiny").objective, name=objective))
    on_cpu, wanted = (build(override(config, settings), tiny.make_tokenizer())[0] for settings in ([], ALL))
    for kind in (AutocastNorm, TypeZero):
        assert not any(isinstance(part, kind) for part in on_cpu.modules())
        assert any(isinstance(part, kind) for part in wanted.modules())
    tiny.assert_same(dict(on_cpu.state_dict()), dict(wanted.state_dict()))
    model, encoder = make("bert"), ModelConfig()
    fuse(model, encoder, is_gpu=True)
    assert sum(isinstance(part, AutocastNorm | TypeZero) for part in model.modules()) > 4
    plain = make("bert")
    fuse(plain, replace(encoder, fused=False, norms="autocast"), is_gpu=True)
    assert not any(isinstance(part, AutocastNorm | TypeZero) for part in plain.modules())


ALL = ["model.fused=true", "model.norms=bf16", "train.precision=bf16"]


@pytest.mark.parametrize("setting", ["fused=true", "norms=bf16"])
def test_an_architecture_without_such_parts_is_refused_by_name(setting: str) -> None:
    config = override(ModelConfig(), [setting])
    with pytest.raises(ModelError, match=rf"model\.{setting} is for bert, .*'modernbert' has no such parts"):
        fuse(make("modernbert"), config, is_gpu=False)
    fuse(make("modernbert"), ModelConfig(), is_gpu=True)


def test_norms_without_autocast_do_nothing_and_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.norms does nothing unless train\.precision"):
        check_options_apply(override(PretrainConfig(), ["model.norms=bf16"]), ["model.norms=bf16"])
