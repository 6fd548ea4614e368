"""Gradient-disentangled embedding sharing against stock models of transformers, on every main architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_checkpoints import MAIN, make_rows, make_tokenizer, same_state, tiny
from torch import nn
from torch.nn import functional
from transformers import AutoModel, AutoModelForMaskedLM

from trueneg.config.options import ModelConfig
from trueneg.errors import ModelError, TruenegWarning
from trueneg.models.disentangled import DisentangledEmbedding, whole_tables
from trueneg.models.electra import ElectraPair
from trueneg.models.export import save_hugging_face
from trueneg.models.fused import FAMILY, fuse_products
from trueneg.models.loading import load_electra, load_masked_lm


def make_pair(architecture: str, sharing: Any = "gdes") -> ElectraPair:
    torch.manual_seed(1)
    return load_electra(tiny(architecture, generator_depth=0.5, embedding_sharing=sharing), make_tokenizer())


def tables_of(pair: ElectraPair) -> list[DisentangledEmbedding]:
    return [part for part in pair.discriminator.modules() if isinstance(part, DisentangledEmbedding)]


def move_apart(pair: ElectraPair) -> None:
    """What training does to the tables."""
    torch.manual_seed(2)
    with torch.no_grad():
        for part in tables_of(pair):
            part.weight.normal_(std=0.05)
            part.base[0].weight.add_(torch.randn_like(part.weight), alpha=0.05)


def discriminator_loss(hidden: torch.Tensor) -> torch.Tensor:
    return (hidden * torch.linspace(-1, 1, hidden.numel()).view_as(hidden)).sum()


@pytest.mark.parametrize("architecture", MAIN)
def test_a_new_pair_has_differences_of_zero(architecture: str) -> None:
    pair, shared = make_pair(architecture), make_pair(architecture, "shared")
    assert tables_of(pair)
    assert all(not part.weight.any() for part in tables_of(pair))
    ids, rows = make_rows((16,), (11,), length=16)
    assert torch.equal(pair.eval().encode(ids, rows), shared.eval().encode(ids, rows))
    assert not set(pair.generator.parameters()) & set(pair.discriminator.parameters())


@pytest.mark.parametrize("architecture", MAIN)
def test_the_table_is_the_generators_and_a_difference(architecture: str, tmp_path: Path) -> None:
    """Eq. 2: vectors and the gradient of E_delta are those of a stock model with the table E_G + E_delta."""
    pair = make_pair(architecture)
    move_apart(pair)
    save_hugging_face(pair, make_tokenizer(), tmp_path)
    stock = AutoModel.from_pretrained(tmp_path).eval()
    ids, rows = make_rows((16,), (11,), length=16)
    pair.eval()
    hidden = pair.encode(ids, rows)
    expected = stock(input_ids=ids, attention_mask=(rows.segments > 0).long()).last_hidden_state
    is_text = rows.segments > 0
    torch.testing.assert_close(hidden[is_text], expected[is_text], rtol=1e-4, atol=1e-5)

    discriminator_loss(hidden * is_text[..., None]).backward()
    discriminator_loss(expected * is_text[..., None]).backward()
    assert all(one.grad is None for one in pair.generator.parameters()), "the discriminator moved the generator"
    found = dict(pair.discriminator.model.base_model.named_modules())
    for name, part in stock.named_modules():
        if isinstance(part, nn.Embedding) and name.startswith("embeddings."):
            own = found[name]
            assert isinstance(own, DisentangledEmbedding)
            generators = own.base[0].weight.detach()
            assert torch.equal(part.weight, generators + own.weight)
            assert not torch.equal(part.weight, generators)
            torch.testing.assert_close(own.weight.grad, part.weight.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("architecture", MAIN)
def test_the_generator_learns_by_itself_and_the_discriminators_table_follows(architecture: str) -> None:
    pair = make_pair(architecture)
    ids, rows = make_rows((16,), (11,), length=16)
    before = pair.embeddings.detach().clone()
    logits = pair.generator.logits(pair.generator.encode(ids, rows))
    functional.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
    assert all(one.grad is None for one in pair.discriminator.parameters())
    torch.optim.SGD(pair.generator.parameters(), lr=1.0).step()
    assert torch.equal(pair.embeddings, pair.generator.embeddings)
    assert not torch.equal(pair.embeddings, before)


@pytest.mark.parametrize("architecture", MAIN)
def test_what_is_written_goes_on_as_it_was(architecture: str, tmp_path: Path) -> None:
    pair = make_pair(architecture)
    move_apart(pair)
    kept = [part.weight for part in tables_of(pair)]
    save_hugging_face(pair, make_tokenizer(), tmp_path)
    assert [part.weight for part in tables_of(pair)] == kept
    again = load_electra(ModelConfig(start_from=str(tmp_path), embedding_sharing="gdes"), make_tokenizer())
    ids, rows = make_rows((12, 9), (15,), length=24)
    for part, other in ((pair, again), (pair.generator, again.generator)):
        torch.testing.assert_close(part.eval().encode(ids, rows), other.eval().encode(ids, rows), rtol=1e-5, atol=1e-6)
    for part, other in zip(tables_of(pair), tables_of(again), strict=True):
        torch.testing.assert_close(part.weight, other.weight, rtol=1e-5, atol=1e-6)
    # Stock transformers, and a pair that shares nothing, take it up as well.
    generator = AutoModelForMaskedLM.from_pretrained(tmp_path / "generator")
    assert torch.equal(generator.get_input_embeddings().weight, pair.generator.embeddings)
    apart = load_electra(ModelConfig(start_from=str(tmp_path), embedding_sharing="none"), make_tokenizer())
    assert torch.equal(apart.embeddings, pair.embeddings)
    assert torch.equal(apart.generator.embeddings, pair.generator.embeddings)
    assert not set(apart.generator.parameters()) & set(apart.discriminator.parameters())


def test_tables_are_whole_for_a_moment_only() -> None:
    pair = make_pair("bert")
    move_apart(pair)
    table = pair.discriminator.model.get_input_embeddings()
    expected, weight = table.table.detach(), table.weight
    with pytest.raises(RuntimeError, match="within"), whole_tables(pair):
        assert type(table) is nn.Embedding
        assert torch.equal(table.weight, expected)
        raise RuntimeError("within")
    assert type(table) is DisentangledEmbedding
    assert table.weight is weight


def test_a_new_generator_takes_over_what_the_discriminator_knows(tmp_path: Path) -> None:
    save_hugging_face(make_pair("bert", "none").discriminator.model, make_tokenizer(), tmp_path)
    stock = AutoModel.from_pretrained(tmp_path)
    with pytest.warns(TruenegWarning, match="a new one starts from random weights"):
        pair = load_electra(ModelConfig(start_from=str(tmp_path), embedding_sharing="gdes"), make_tokenizer())
    assert torch.equal(pair.embeddings, stock.get_input_embeddings().weight)
    assert torch.equal(pair.generator.embeddings, pair.embeddings)


def test_other_widths_are_refused(tmp_path: Path) -> None:
    for name, width in (("wide", 16), ("narrow", 8)):
        torch.manual_seed(1)
        made = load_electra(tiny("electra", embedding_size=width), make_tokenizer())
        save_hugging_face(made, make_tokenizer(), tmp_path / name)
    other = str(tmp_path / "narrow" / "generator")
    config = ModelConfig(start_from=str(tmp_path / "wide"), generator_from=other, embedding_sharing="gdes")
    with pytest.raises(ModelError, match=r"cannot share the embeddings .* or set model.embedding_sharing=none"):
        load_electra(config, make_tokenizer())
    apart = ModelConfig(start_from=str(tmp_path / "wide"), generator_from=other, embedding_sharing="none")
    pair = load_electra(apart, make_tokenizer())
    assert (pair.embeddings.shape[1], pair.generator.embeddings.shape[1]) == (16, 8)


@pytest.mark.parametrize("architecture", [name for name in MAIN if name in FAMILY])
def test_a_fused_pair_computes_the_same(architecture: str) -> None:
    pair, plain = make_pair(architecture), make_pair(architecture)
    move_apart(pair)
    move_apart(plain)
    for part in (pair.discriminator, pair.generator):
        assert fuse_products(part.model)
    ids, rows = make_rows((16,), (11,), length=16)
    for ours, theirs in ((pair, plain), (pair.generator, plain.generator)):
        torch.testing.assert_close(ours.eval().encode(ids, rows), theirs.eval().encode(ids, rows))


def test_a_discriminator_is_continued_with_a_new_head(tmp_path: Path) -> None:
    pair = make_pair("deberta-v2")
    move_apart(pair)
    save_hugging_face(pair, make_tokenizer(), tmp_path)
    with pytest.warns(TruenegWarning, match="lacks .* weights of DebertaV2ForMaskedLM"):
        found = load_masked_lm(ModelConfig(start_from=str(tmp_path), part="discriminator"), make_tokenizer())
    assert torch.equal(found.embeddings, pair.embeddings)
    ours, theirs = found.model.base_model, pair.discriminator.model.base_model
    assert same_state(ours.encoder, theirs.encoder)
    by_default = load_masked_lm(ModelConfig(start_from=str(tmp_path)), make_tokenizer())
    assert torch.equal(by_default.embeddings, pair.generator.embeddings)
    alone = ModelConfig(start_from=str(tmp_path / "generator"), part="discriminator")
    with pytest.raises(ModelError, match=r"model.part=discriminator: '.*' has no generator beside it"):
        load_masked_lm(alone, make_tokenizer())
