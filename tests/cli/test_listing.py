"""``trueneg list`` explains every option, and messages about unknown options name the right list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import fails, works

from trueneg.attacks.registry import ATTACKS, make_attack, profiles_of
from trueneg.attacks.setup import AttackConfig
from trueneg.cli.listing import LISTS
from trueneg.config.codec import override
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.objective_options import TripletConfig
from trueneg.config.options import PretrainConfig
from trueneg.errors import ConfigError
from trueneg.recipes.planted import SCALES, plan

OPTIONS = [kind for kind in LISTS if kind.endswith("options")]


def listed(kind: str) -> dict[str, Any]:
    """Every option in a list, by the name that is printed."""
    data = works("list", kind, "--json").data[kind]
    if kind != "attack-options":
        return dict(data)
    return {f"{attack} {name}": option for attack, options in data.items() for name, option in options.items()}


@pytest.mark.parametrize("kind", OPTIONS)
def test_every_option_is_explained(kind: str) -> None:
    printed = works("list", kind).out
    for name, option in listed(kind).items():
        assert f"{name}\n" in printed
        assert option["about"] and ":`" not in option["about"] and "``" not in option["about"], name


@pytest.mark.parametrize("name", ATTACKS)
def test_options_of_an_attack_have_the_values_of_its_profiles(name: str) -> None:
    options = works("list", "attack-options", "--json").data["attack-options"][name]
    first = next(iter(profiles_of(name)))
    for profile, values in profiles_of(name).items():
        for option, described in options.items():
            assert not (profile == first and profile in described["variants"])
            expected = described["variants"].get(profile, described["default"])
            assert getattr(values, option) == expected, (profile, option)


def test_variants_are_printed_as_set_takes_them() -> None:
    printed = " ".join(works("list", "attack-options").out.split())
    assert "(bool; default true; jin2019: false)" in printed
    assert "(bool; default true; strict: false; formerly opposites)" in printed
    assert f"(int, at least 1; default {SCALES['mini'].steps}; tiny: {SCALES['tiny'].steps})" in " ".join(
        works("list", "planted-options").out.split()
    )


def test_an_unknown_list_is_refused_with_a_suggestion() -> None:
    assert "did you mean 'attack-options'?" in fails("list", "attack-option")


@pytest.mark.parametrize(
    ("config", "kind"),
    [(PretrainConfig(), "options"), (FinetuneConfig(), "finetune-options"), (TripletConfig(), "triplet-options")],
)
def test_an_unknown_option_of_a_run_names_its_list(config: Any, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown option 'nothing'.* 'trueneg list {kind}' shows all of them"):
        override(config, ["nothing=1"])


@pytest.mark.parametrize("name", ATTACKS)
def test_an_unknown_option_of_an_attack_names_their_list(name: str) -> None:
    with pytest.raises(ConfigError, match="'trueneg list attack-options' shows all of them"):
        make_attack(AttackConfig(name=name, settings=("nothing=1",)))


def test_an_unknown_or_impossible_option_of_the_planted_experiment(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'words'.*'trueneg list planted-options'"):
        plan(tmp_path, settings=["wrds=any"])
    for setting in ("window=1", "num_layers=0", "masking_rate=0", "learning_rate=0", "warmup_steps=-1"):
        with pytest.raises(ConfigError, match=f"{setting.partition('=')[0]} must be"):
            plan(tmp_path, settings=[setting])
    with pytest.raises(ConfigError, match="learning_rate must be finite"):
        plan(tmp_path, settings=["learning_rate=inf"])
