"""Every attack in the table is described, is made by its name, and says what it is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trueneg.attacks.registry import ATTACKS, make_attack
from trueneg.attacks.setup import AttackConfig
from trueneg.attacks.squad.add_sentence.attack import AddOptions
from trueneg.attacks.squad.swap_synonyms import SwapOptions
from trueneg.attacks.typos import TypoOptions
from trueneg.attacks.word_substitution import masked_lm, similarity
from trueneg.attacks.word_substitution.greedy import GreedyOptions
from trueneg.attacks.word_substitution.masked_lm import MaskedLMOptions
from trueneg.attacks.word_substitution.textfooler import TextFoolerOptions
from trueneg.config.codec import override
from trueneg.errors import ConfigError, TruenegDeprecationWarning


def test_each_is_described_by_its_function() -> None:
    described = ATTACKS.described()
    assert described.keys() == ATTACKS.keys() and all(described.values())


@pytest.mark.parametrize("name", ATTACKS)
def test_an_unknown_profile_or_option_is_refused_before_anything_is_read(name: str) -> None:
    with pytest.raises(ConfigError, match=f"profile of {name}"):
        make_attack(AttackConfig(name=name, profile="nobody's"))
    with pytest.raises(ConfigError, match="unknown option 'nothing'"):
        make_attack(AttackConfig(name=name, settings=("nothing=1",)))


def test_its_description_is_json_and_holds_every_option() -> None:
    attack = make_attack(AttackConfig(name="typos", seed=3, settings=("share=0.2",)))
    assert json.loads(json.dumps(attack.description)) == attack.description
    assert attack.description["seed"] == 3 and attack.description["options"]["share"] == 0.2
    assert not attack.queries_victim and set(attack.kinds) == {"text", "squad"}


@pytest.mark.parametrize(("named", "device"), [("", "cuda:0"), ("cpu", "cpu")])
def test_encoders_run_on_a_gpu_if_there_is_one(named: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []

    def mean_vectors(source: str, device: str = "cpu") -> SimpleNamespace:
        used.append(device)
        return SimpleNamespace(provenance={})

    def candidates(source: str, options: object, relations: object = None, device: str = "cpu") -> None:
        used.append(device)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(similarity, "MeanVectors", mean_vectors)
    monkeypatch.setattr(masked_lm, "MaskedLMCandidates", candidates)
    make_attack(AttackConfig(name="masked-lm", masked_lm="some", encoder="other", device=named))
    assert used == [device, device]


def test_a_device_without_an_encoder_is_refused() -> None:
    with pytest.raises(ConfigError, match="typos takes no --device"):
        make_attack(AttackConfig(name="typos", device="cpu"))


@pytest.mark.parametrize("name", ["textfooler", "masked-lm"])
def test_a_seed_is_refused_where_nothing_is_drawn(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(masked_lm, "MaskedLMCandidates", lambda *_, **__: None)
    (tmp_path / "near.json").write_text('{"film": ["movie"]}')
    given = {"neighbours": str(tmp_path / "near.json")} if name == "textfooler" else {"masked_lm": "some"}
    make_attack(AttackConfig(name=name, encoder="none", **given))
    with pytest.raises(ConfigError, match=f"{name} takes no --seed: leave it out"):
        make_attack(AttackConfig(name=name, encoder="none", seed=1, **given))


def test_options_are_read_under_their_former_names() -> None:
    with pytest.warns(TruenegDeprecationWarning, match="max_swaps"):
        assert override(SwapOptions(), ["most=3"]).max_swaps == 3
    with pytest.warns(TruenegDeprecationWarning, match="antonyms"):
        assert not override(MaskedLMOptions(), ["opposites=false"]).antonyms


@pytest.mark.parametrize(
    ("attack", "setting", "remedy"),
    [
        ({"name": "swap-synonyms"}, "profile=textflint", "--profile"),
        ({"name": "swap-synonyms", "profile": "textflint"}, "min_ratio=0.1", "--profile strict"),
        ({"name": "textfooler", "encoder": "none"}, "window=3", "--encoder"),
        ({"name": "textfooler", "encoder": "none"}, "unknown=[MASK]", "importance=jin2019"),
        ({"name": "masked-lm", "profile": "bae"}, "max_pieces=2", "leave it out"),
    ],
)
def test_settings_that_do_nothing_are_refused(attack: dict[str, Any], setting: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=f"^{setting.partition('=')[0]} does nothing .*{remedy}"):
        make_attack(AttackConfig(**attack, settings=(setting,)))


@pytest.mark.parametrize(
    ("options", "bad"),
    [
        (SwapOptions, {"profile": "flint", "share": 0.0, "max_swaps": 0, "num_candidates": -1, "min_share": 2.0}),
        (AddOptions, {"position": "behind"}),
        (TypoOptions, {"share": 1.1, "min_letters": 0, "attacked": "frist"}),
        (MaskedLMOptions, {"max_changed": 1.5, "num_candidates": 0, "max_pieces": 0, "steps": "jin", "context": 2}),
        (TextFoolerOptions, {"num_neighbours": 0, "min_cosine": 1.1, "max_angle": -0.1, "window": 0, "words": "nltk"}),
        (GreedyOptions, {"max_angle": float("nan"), "max_angle_short": -1.0, "importance": "jin", "attacked": "third"}),
    ],
)
def test_values_that_options_do_not_have_are_refused(options: type[Any], bad: dict[str, Any]) -> None:
    for name, value in bad.items():
        with pytest.raises(ConfigError, match=name):
            options(**{name: value})


@pytest.mark.parametrize("options", [TextFoolerOptions(), MaskedLMOptions()])
def test_stop_words_are_refused_on_the_command_line(options: GreedyOptions) -> None:
    with pytest.raises(ConfigError, match="stop_words can only be set in Python"):
        override(options, ["stop_words=the"])


@pytest.mark.parametrize(
    "given", [{"profile": "jia2017"}, {"settings": ("answers=jia2017",)}, {"settings": ("fake=fixed",)}]
)
def test_what_add_sentence_has_no_more_names_the_remedy(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"no more.*adversarial SQuAD.*--load"):
        make_attack(AttackConfig(name="add-sentence", **given))
