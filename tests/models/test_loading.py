from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_checkpoints import (
    ARCHITECTURES,
    MAIN,
    WORDS,
    make_masked_lm,
    make_rows,
    make_tokenizer,
    same_state,
    save_checkpoint,
    stirred,
    tiny,
)
from torch import nn
from transformers import AutoModel, AutoModelForPreTraining, PreTrainedModel
from transformers.utils.hub import cached_file

from trueneg.config.options import ModelConfig
from trueneg.corpus.tokenizer_training import extend_tokenizer, train_tokenizer
from trueneg.errors import ModelError, TruenegWarning
from trueneg.models import loading
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.configurations import hf_config
from trueneg.models.export import save_hugging_face
from trueneg.models.loading import (
    SEMANTIC_HEADS,
    check_checkpoint,
    count_parameters,
    load_electra,
    load_masked_lm,
    load_semantic,
    objective_of,
    resolve_checkpoint,
)
from trueneg.tokenizer import load_tokenizer

Load = Callable[..., nn.Module]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def continued(source: object, load: Load = load_masked_lm, **changes: object) -> nn.Module:
    return load(ModelConfig(start_from=str(source), **changes), make_tokenizer())


def refused(source: object, pattern: str, load: Load = load_masked_lm, tokenizer: object = None) -> None:
    with pytest.raises(ModelError, match=pattern) as caught:
        load(ModelConfig(start_from=str(source)), make_tokenizer() if tokenizer is None else tokenizer)
    assert "\n" not in str(caught.value)


@contextmanager
def no_noise(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    capfd.readouterr()
    yield
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_from_nothing_and_from_a_folder(architecture: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = load_masked_lm(tiny(architecture), make_tokenizer())
    assert made.model.config.model_type == architecture
    assert made.embeddings.shape == (len(make_tokenizer()), 16 if architecture in ("electra", "albert") else 32)
    original = make_masked_lm(architecture)
    save_checkpoint(original, folder)
    with no_noise(capfd):
        loaded = continued(folder)
    assert same_state(loaded.model, original)
    assert loaded.model.config._attn_implementation == original.config._attn_implementation


def test_sizes_are_those_asked_for() -> None:
    for architecture in ARCHITECTURES:
        model = load_masked_lm(tiny(architecture, num_layers=3, dropout=0.25), make_tokenizer()).model
        shapes = {tuple(parameter.shape) for parameter in model.base_model.parameters()}
        # ModernBERT's gated layer holds two matrices in one.
        assert {(48, 32), (96, 32)} & shapes, architecture
        assert model.config.num_hidden_layers == 3
        assert {module.p for module in model.base_model.modules() if isinstance(module, nn.Dropout)} >= {0.25}


def test_the_same_seed_gives_the_same_weights() -> None:
    models = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        models.append(load_electra(tiny(), make_tokenizer()))
    assert same_state(models[0], models[1]) and not same_state(models[0], models[2])


def test_a_run_folder_means_its_model(tmp_path: Path) -> None:
    save_checkpoint(make_masked_lm("bert"), tmp_path / "hf")
    (tmp_path / "config.json").write_text("{}")
    assert resolve_checkpoint(str(tmp_path)) == str(tmp_path / "hf")
    assert same_state(continued(tmp_path).model, make_masked_lm("bert"))


def test_an_electra_folder_means_its_generator_to_masked_lm(folder: Path) -> None:
    discriminator = AutoModelForPreTraining.from_config(hf_config(tiny("electra"), make_tokenizer()))
    save_checkpoint(discriminator, folder)
    with pytest.warns(TruenegWarning, match=r"lacks \d weights of ElectraForMaskedLM; .*: generator_"):
        continued(folder)
    generator = make_masked_lm("electra")
    save_checkpoint(generator, folder / "generator")
    assert same_state(continued(folder).model, generator)


def test_a_missing_head_is_named(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    save_checkpoint(make_masked_lm("bert").base_model, folder)
    with (
        no_noise(capfd),
        pytest.warns(
            TruenegWarning, match=r"lacks \d weights of BertForMaskedLM.*random: cls\.predictions\."
        ) as caught,
    ):
        continued(folder)
    assert len(caught) == 1


def test_debertas_original_head_is_found(folder: Path) -> None:
    original = make_masked_lm("deberta-v2", legacy=False)
    save_checkpoint(original, folder)
    path = folder / "config.json"
    path.write_text(
        json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "legacy"})
    )
    assert same_state(continued(folder).model, original)


def test_another_tokenizer_is_refused(folder: Path) -> None:
    save_checkpoint(make_masked_lm("bert"), folder)
    other = make_tokenizer(words=tuple(reversed(WORDS)))
    for load in (load_masked_lm, load_electra):
        refused(folder, "another tokenizer than that of '.*--tokenizer ", load, other)


def test_a_larger_vocabulary_is_refused_unless_allowed(folder: Path) -> None:
    save_checkpoint(make_masked_lm("bert"), folder)
    refused(folder, "2 entries that '.*' lacks.*--extend-vocabulary", tokenizer=make_tokenizer(("glacier", "moraine")))


def test_without_a_tokenizer_only_the_size_is_compared(folder: Path) -> None:
    make_masked_lm("bert").save_pretrained(folder)
    with pytest.warns(TruenegWarning, match="carries no tokenizer"):
        continued(folder)
    with pytest.warns(TruenegWarning):
        refused(folder, "has [0-9]+ entries and '.*' only", tokenizer=make_tokenizer(("glacier",)))


def test_a_tokenizer_larger_than_its_own_model_is_refused(folder: Path) -> None:
    larger = make_tokenizer(("glacier",))
    save_checkpoint(make_masked_lm("bert"), folder, larger)
    refused(folder, "has [0-9]+ entries and '.*' only", tokenizer=larger)


@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name != "deberta-v2"])
@torch.no_grad()
def test_an_extended_vocabulary_starts_from_the_mean_of_its_pieces(
    architecture: str, is_tied: bool, folder: Path
) -> None:
    original = make_masked_lm(architecture, tie_word_embeddings=is_tied)
    save_checkpoint(original, folder)
    old, new = make_tokenizer(), make_tokenizer(("glacier", "moraine"))
    model = load_masked_lm(ModelConfig(start_from=str(folder), extend_vocabulary=True), new)
    size = len(old)
    assert len(new) == size + 2 == model.vocab_size == model.model.config.vocab_size
    output, before = model.model.get_output_embeddings(), original.get_output_embeddings()
    assert (output.weight is model.embeddings) is is_tied
    pairs = [
        (model.embeddings, original.get_input_embeddings().weight),
        (output.weight, before.weight),
        (output.bias, before.bias),
    ]
    for index, word in enumerate(("glacier", "moraine"), start=size):
        pieces = old(word, add_special_tokens=False)["input_ids"]
        assert len(pieces) == 7
        for table, table_before in pairs:
            assert torch.allclose(table[index], table_before[pieces].mean(0))
    ids, rows = make_rows((12,), length=12)
    logits = model.logits(model.encode(ids, rows))
    assert torch.allclose(logits[..., :size], original(input_ids=ids).logits, atol=1e-5)
    assert torch.allclose(logits, model.model(input_ids=ids).logits, atol=1e-5)
    # A bias of its own, of the head or its output layer, must be in the files.
    output.bias += 1
    save_hugging_face(model.model, new, folder / "extended")
    again = load_masked_lm(ModelConfig(start_from=str(folder / "extended")), new)
    assert torch.allclose(again.logits(again.encode(ids, rows)), logits + 1, atol=1e-5)


def test_an_extended_pair_shares_the_new_rows(folder: Path) -> None:
    discriminator = stirred(AutoModelForPreTraining.from_config(hf_config(tiny(), make_tokenizer())))
    save_checkpoint(discriminator, folder)
    save_checkpoint(make_masked_lm("electra"), folder / "generator")
    new = make_tokenizer(("glacier",))
    pair = load_electra(ModelConfig(start_from=str(folder), extend_vocabulary=True), new)
    pieces = make_tokenizer()("glacier", add_special_tokens=False)["input_ids"]
    assert torch.allclose(pair.embeddings[-1], discriminator.get_input_embeddings().weight[pieces].mean(0))
    assert pair.generator.model.get_output_embeddings().weight is pair.embeddings
    assert len(pair.embeddings) == len(new)


def test_debertas_original_head_cannot_be_extended(folder: Path) -> None:
    save_checkpoint(make_masked_lm("deberta-v2", legacy=False), folder)
    with pytest.raises(ModelError, match="cannot be extended"):
        load_masked_lm(ModelConfig(start_from=str(folder), extend_vocabulary=True), make_tokenizer(("glacier",)))


class Bomb:
    """Runs when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('unpickled')",)


@pytest.fixture
def no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens one is found out, even where it would be refused later."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was opened")

    for place in ("torch.load", "pickle.load", "pickle.Unpickler"):
        monkeypatch.setattr(place, fail)


def put_bombs(folder: Path) -> None:
    """Every name under which some library looks for a pickle."""
    for name in ("pytorch_model.bin", "adapter_model.bin", "weights.bin", "training_args.bin", "optimizer.pt",
                 "scheduler.pt", "rng_state.pth", "model.pkl", "model.ckpt"):  # fmt: skip
        torch.save({"weights": Bomb()}, folder / name)


@pytest.mark.usefixtures("no_pickle")
@pytest.mark.parametrize("load", [load_masked_lm, load_electra])
def test_pickles_beside_a_checkpoint_are_never_opened(load: Load, folder: Path) -> None:
    save_checkpoint(make_masked_lm("bert"), folder)
    put_bombs(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruenegWarning)
        continued(folder, load)


@pytest.mark.usefixtures("no_pickle")
@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        ("weights.bin", "names 'weights.bin'"),
        ("../checkpoint.safetensors", "names '../checkpoint.safetensors'"),
        ("/tmp/model.safetensors", "names '/tmp/model.safetensors'"),
        ("below/model.safetensors", "names 'below/model.safetensors'"),
        (7, "is damaged: 'weight_map"),
        (None, "is damaged: it is no JSON"),
    ],
)
def test_an_index_names_safetensors_beside_it_only(weights: object, complaint: str, folder: Path) -> None:
    save_checkpoint(make_masked_lm("bert"), folder)
    put_bombs(folder)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = {"metadata": {}, "weight_map": dict.fromkeys(make_masked_lm("bert").state_dict(), weights)}
    (folder / "model.safetensors.index.json").write_text("{" if weights is None else json.dumps(index))
    refused(folder, complaint)


def test_weights_in_several_files_are_read(folder: Path) -> None:
    model = make_masked_lm("bert")
    save_checkpoint(model, folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="10KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    assert same_state(continued(folder).model, model)


@pytest.mark.usefixtures("no_pickle")
@pytest.mark.parametrize("weights", ["adapter_model.bin", "weights.bin", "other.safetensors.index.json"])
def test_a_configuration_names_no_weights(weights: str, folder: Path) -> None:
    save_checkpoint(make_masked_lm("bert"), folder)
    put_bombs(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "transformers_weights": weights}))
    refused(folder, "names another file of weights")


@pytest.mark.usefixtures("no_pickle")
def test_an_adapter_is_refused_with_a_remedy(folder: Path) -> None:
    save_checkpoint(make_masked_lm("bert"), folder)
    put_bombs(folder)
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "x", "peft_type": "LORA"}')
    refused(folder, "adapter of PEFT: merge it")


@pytest.mark.parametrize("load", [load_masked_lm, load_electra])
def test_pickled_weights_are_refused_with_a_remedy(folder: Path, load: Load) -> None:
    save_checkpoint(make_masked_lm("bert"), folder)
    (folder / "model.safetensors").unlink()
    torch.save({"weights": Bomb()}, folder / "pytorch_model.bin")
    refused(folder, "pickled weights only.*save_pretrained", load)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "torn weights": (lambda folder: truncated(folder / "model.safetensors"), "cannot load"),
    "torn header": (lambda folder: (folder / "model.safetensors").write_bytes(b"\x10"), "cannot load"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "holds no model.safetensors"),
    "torn config": (lambda folder: truncated(folder / "config.json"), "cannot load"),
    "empty config": (lambda folder: (folder / "config.json").write_text("{}"), "cannot load"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "holds no model"),
    "unknown kind": (lambda folder: changed(folder, model_type="nonsense"), "cannot load"),
    "ill-typed": (lambda folder: changed(folder, hidden_size="many"), "cannot load"),
    "other shapes": (lambda folder: changed(folder, intermediate_size=40), "have other shapes"),
    "foreign code": (
        lambda folder: changed(folder, model_type="x", auto_map={"AutoConfig": "a.B", "AutoModel": "a.C"}),
        "cannot load",
    ),
}


def changed(folder: Path, **settings: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


@pytest.mark.parametrize("load", [load_masked_lm, load_electra])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named_in_one_line(folder: Path, damage: str, load: Load, capfd: pytest.CaptureFixture[str]) -> None:
    save_checkpoint(make_masked_lm("bert"), folder)
    break_it, pattern = DAMAGE[damage]
    break_it(folder)
    with no_noise(capfd):
        refused(folder, pattern, load)


def test_what_is_no_checkpoint_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "config.json").write_text("{}")
    with no_noise(capfd):
        refused(tmp_path / "nowhere", "there is no checkpoint at")
        refused(tmp_path / "file", "holds no model")
        refused(tmp_path, "holds no model")
        refused(tmp_path / "run", "a run without a model: finish it")


@pytest.mark.parametrize("load", [load_masked_lm, load_electra])
def test_a_hub_name_without_a_hub_is_one_line(load: Load, capfd: pytest.CaptureFixture[str]) -> None:
    start = time.monotonic()
    with no_noise(capfd):
        refused("someone/a-model-that-is-not-here", "is no folder here, and the Hugging Face hub does not", load)
    assert time.monotonic() - start < 20  # and not the library's minute of asking again


def test_without_a_hub_a_cached_model_is_read_without_asking(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = folder / "models--someone--tiny" / "snapshots" / ("0" * 40)
    original = make_masked_lm("bert")
    save_checkpoint(original, snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(loading, "hub_answers", lambda name: False)
    asked = {}

    def spy(source: str, name: str, **options: Any) -> str | None:
        asked[name] = options.get("local_files_only")
        return cached_file(source, name, **options)

    monkeypatch.setattr(loading, "cached_file", spy)
    assert same_state(continued("someone/tiny").model, original)
    assert asked == {"adapter_config.json": True, "model.safetensors.index.json": True}
    asked.clear()
    check_checkpoint("someone/tiny")
    assert set(asked.values()) == {True}


def test_settings_of_transformers_are_put_back(folder: Path) -> None:
    from transformers.utils import logging

    save_checkpoint(make_masked_lm("bert"), folder)
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    continued(folder)
    truncated(folder / "model.safetensors")
    refused(folder, "cannot load")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_no_pooler_is_trained() -> None:
    for architecture in ("bert", "roberta", "albert", "mpnet"):
        pair = load_electra(tiny(architecture), make_tokenizer())
        assert not [name for name, _ in pair.named_parameters() if "pooler" in name]


@pytest.mark.parametrize("architecture", MAIN)
def test_parameters_are_counted_once(architecture: str) -> None:
    model: PreTrainedModel = make_masked_lm(architecture)
    distinct = {parameter.data_ptr(): parameter.numel() for parameter in model.parameters()}
    assert count_parameters(MaskedLanguageModel(model)) == sum(distinct.values())
    untied = make_masked_lm(architecture, tie_word_embeddings=False)
    width = model.get_output_embeddings().weight.numel()
    assert count_parameters(untied) - count_parameters(model) >= width


def test_a_base_model_without_a_replaced_token_head_says_so(folder: Path) -> None:
    save_checkpoint(make_masked_lm("bert"), folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TruenegWarning)
        pair = continued(folder, load_electra)
    said = [str(warning.message) for warning in caught]
    assert [("no head for replaced tokens" in line, "has no generator" in line) for line in said] == [
        (True, False),
        (False, True),
    ]
    assert same_state(pair.discriminator.model, AutoModel.from_pretrained(folder, add_pooling_layer=False))


def test_heads_of_cline_are_loaded_where_they_fit(folder: Path, tmp_path: Path) -> None:
    def load(source: object, num_classes: int, has_pooler: bool) -> nn.Module:
        return load_semantic(ModelConfig(start_from=str(source)), make_tokenizer(), num_classes, has_pooler)

    model = stirred(load_semantic(tiny("bert"), make_tokenizer(), 3, True))
    save_hugging_face(model, make_tokenizer(), folder)
    assert same_state(load(folder, 3, True), model)
    assert same_state(load(folder, 0, True).pooler, model.pooler)
    with pytest.warns(TruenegWarning, match=r"has no head over replaced tokens of this .*starts from random") as said:
        assert same_state(load(folder, 1, True).pooler, model.pooler)
    assert "pooler" not in str(said[0].message)
    save_checkpoint(make_masked_lm("bert"), tmp_path / "plain")
    with pytest.warns(TruenegWarning, match="has no head over replaced tokens and no pooler"):
        load(tmp_path / "plain", 3, True)
    load(tmp_path / "plain", 0, False)
    truncated(folder / SEMANTIC_HEADS)
    with pytest.raises(ModelError, match=r"cannot load '.*semantic_heads"):
        load(folder, 3, True)


def test_what_continuing_means_follows_from_the_checkpoint(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    for architecture in ("electra", "bert"):
        save_hugging_face(load_electra(tiny(architecture), tokenizer), tokenizer, tmp_path / architecture)
    save_hugging_face(load_masked_lm(tiny("bert"), tokenizer), tokenizer, tmp_path / "masked")
    assert [objective_of(str(tmp_path / name)) for name in ("electra", "bert", "masked")] == [
        "electra",
        "electra",
        "mlm",
    ]


def test_a_new_word_of_a_byte_level_vocabulary_is_the_mean_of_its_pieces_after_a_space(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("the glacial ice of a glacier\n" * 50)
    old = train_tokenizer([str(text)], tmp_path / "old", kind="bpe", vocab_size=276)
    extend_tokenizer(tmp_path / "old", ["glaciers"], tmp_path / "new")
    before = load_masked_lm(tiny("roberta"), old)
    save_hugging_face(before, old, tmp_path / "model")
    config = ModelConfig(start_from=str(tmp_path / "model"), extend_vocabulary=True)
    model = load_masked_lm(config, load_tokenizer(tmp_path / "new"))
    pieces = old(" glaciers", add_special_tokens=False)["input_ids"]
    assert pieces != old("glaciers", add_special_tokens=False)["input_ids"]
    assert torch.allclose(model.embeddings[-1], before.embeddings[pieces].mean(0))
