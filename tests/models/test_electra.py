from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_checkpoints import ARCHITECTURES, make_masked_lm, make_rows, make_tokenizer, same_state, save_checkpoint, tiny
from torch.nn import functional
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining, ElectraModel

from trueneg.config.options import ModelConfig
from trueneg.config.presets import preset
from trueneg.errors import ModelError, TruenegWarning
from trueneg.models.configurations import generator_config, hf_config
from trueneg.models.electra import ElectraPair
from trueneg.models.export import save_hugging_face
from trueneg.models.loading import count_parameters, load_electra

PROJECTED = ("electra", "albert")


def train_step(pair: ElectraPair) -> float:
    """One step on generator and discriminator, as ELECTRA takes them."""
    torch.manual_seed(0)
    ids, rows = make_rows((16,), (11,), length=16)
    optimizer = torch.optim.SGD(pair.parameters(), lr=0.1)
    pair.train()
    logits = pair.generator.logits(pair.generator.encode(ids, rows))
    replaced = pair.discriminator.replaced_logits(pair.encode(ids.roll(1, 1), rows))
    assert replaced.shape == ids.shape
    loss = functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
    loss = loss + functional.binary_cross_entropy_with_logits(replaced, torch.rand(ids.shape))
    loss.backward()
    assert all(parameter.grad is not None for name, parameter in pair.named_parameters()), "a part is not trained"
    optimizer.step()
    return loss.item()


def assert_shared(pair: ElectraPair) -> None:
    mine, shared = (part.model.base_model.embeddings for part in (pair.generator, pair.discriminator))
    assert mine is shared
    assert pair.generator.model.get_output_embeddings().weight is pair.embeddings
    assert pair.generator.embeddings is pair.embeddings


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_pair_shares_trains_saves_and_loads(architecture: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    pair = load_electra(tiny(architecture, generator_depth=0.5), make_tokenizer())
    assert_shared(pair)
    assert pair.generator.model.config.num_hidden_layers == 1
    assert pair.discriminator.model.config.num_hidden_layers == 2
    width = 16 if architecture in PROJECTED else 32
    assert pair.generator.model.config.hidden_size == width
    before = pair.embeddings.clone()
    first = train_step(pair)
    assert_shared(pair)
    assert not torch.equal(before, pair.embeddings)
    assert train_step(pair) < first

    save_hugging_face(pair, make_tokenizer(), tmp_path)
    assert (tmp_path / "replaced_token_head.safetensors").is_file() is (architecture != "electra")
    loaded = load_electra(ModelConfig(start_from=str(tmp_path)), make_tokenizer())
    assert_shared(loaded)
    assert same_state(loaded, pair)
    ids, rows = make_rows((12, 9), (15,), length=24)
    for part, other in ((pair, loaded), (pair.generator, loaded.generator)):
        assert torch.equal(part.eval().encode(ids, rows), other.eval().encode(ids, rows))


def test_a_pair_counts_each_parameter_once() -> None:
    pair = load_electra(tiny(), make_tokenizer())
    made = hf_config(tiny(), make_tokenizer())
    discriminator = ElectraForPreTraining(made)
    generator = ElectraForMaskedLM(generator_config(made, tiny()))
    shared = sum(parameter.numel() for parameter in discriminator.electra.embeddings.parameters())
    assert len({parameter.data_ptr() for parameter in pair.parameters()}) == len(list(pair.parameters()))
    assert count_parameters(pair) == discriminator.num_parameters() + generator.num_parameters() - shared


def test_electra_small_is_the_published_one() -> None:
    made = hf_config(preset("electra-small").model, make_tokenizer())
    made.vocab_size = 30522
    with torch.device("meta"):
        ours, discriminator = ElectraModel(made), ElectraForPreTraining(made)
        published = ElectraModel(
            ElectraConfig(  # config.json of google/electra-small-discriminator
                vocab_size=30522,
                embedding_size=128,
                hidden_size=256,
                num_hidden_layers=12,
                num_attention_heads=4,
                intermediate_size=1024,
                max_position_embeddings=512,
                type_vocab_size=2,
            )
        )
    shapes = [{name: value.shape for name, value in model.named_parameters()} for model in (ours, published)]
    assert shapes[0] == shapes[1]
    assert (count_parameters(ours), count_parameters(discriminator)) == (13_483_008, 13_549_057)
    small = generator_config(made, preset("electra-small").model)
    assert (small.hidden_size, small.num_attention_heads, small.intermediate_size) == (64, 1, 256)


def test_heads_that_do_not_divide_a_narrow_generator_are_refused() -> None:
    with pytest.raises(ModelError, match="choose another share"):
        load_electra(tiny(hidden_size=36, num_heads=6, generator_width=0.7), make_tokenizer())


def test_a_generator_by_name(tmp_path: Path) -> None:
    pair = load_electra(tiny("bert"), make_tokenizer())
    save_hugging_face(pair, make_tokenizer(), tmp_path / "pair")
    save_checkpoint(make_masked_lm("bert"), tmp_path / "masked")
    config = ModelConfig(start_from=str(tmp_path / "pair"), generator_from=str(tmp_path / "masked"))
    named = load_electra(config, make_tokenizer())
    assert_shared(named)
    assert torch.equal(named.embeddings, pair.embeddings)
    assert same_state(named.generator.model.bert.encoder, make_masked_lm("bert").bert.encoder)


def test_a_new_generator_is_announced(tmp_path: Path) -> None:
    pair = load_electra(tiny(), make_tokenizer())
    save_checkpoint(pair.discriminator.model, tmp_path)
    with pytest.warns(TruenegWarning, match=r"has no generator: a new one starts from random.*generator_from"):
        loaded = load_electra(tiny(start_from=str(tmp_path)), make_tokenizer())
    assert_shared(loaded)
    assert loaded.generator.model.config.hidden_size == 16
    assert same_state(loaded.discriminator.model, pair.discriminator.model)


@pytest.mark.parametrize("changes", [{"architecture": "roberta"}, {"embedding_size": 8}, {"max_positions": 24}])
def test_embeddings_of_another_kind_or_shape_are_not_shared(changes: dict[str, object]) -> None:
    pair = load_electra(tiny(), make_tokenizer())
    other = load_electra(tiny(**changes), make_tokenizer())
    with pytest.raises(ModelError, match="cannot share the embeddings"):
        ElectraPair(other.generator, pair.discriminator)


def test_embeddings_that_are_no_module_are_not_shared() -> None:
    pair = load_electra(tiny(), make_tokenizer())
    pair.generator.model.base_model.embeddings = None
    with pytest.raises(ModelError, match="cannot be shared"):
        ElectraPair(pair.generator, pair.discriminator)


def test_a_torn_head_is_refused(tmp_path: Path) -> None:
    save_hugging_face(load_electra(tiny("bert"), make_tokenizer()), make_tokenizer(), tmp_path)
    path = tmp_path / "replaced_token_head.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ModelError, match=r"cannot load '.*replaced_token_head"):
        load_electra(ModelConfig(start_from=str(tmp_path)), make_tokenizer())


def test_the_discriminator_is_what_is_encoded() -> None:
    pair = load_electra(tiny("bert"), make_tokenizer()).eval()
    ids, rows = make_rows((9,), length=12)
    assert torch.equal(pair.encode(ids, rows), pair.discriminator.encode(ids, rows))
