"""Configurations: what goes out comes back, and nothing else gets in."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueneg.config.codec import (
    OTHER_NAMES,
    decode,
    describe,
    differences,
    encode,
    flatten,
    load_config,
    override,
    save_config,
)
from trueneg.config.fields import rules
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.objective_options import MaskingConfig, ObjectiveConfig
from trueneg.config.options import CorpusConfig, OptimizerConfig, PretrainConfig, TrainConfig
from trueneg.errors import ConfigError


def configurations(kind: type) -> st.SearchStrategy[Any]:
    """Any configuration of a kind, from its type hints."""
    return st.builds(kind, **{name: values(hint) for name, hint in get_type_hints(kind).items()})


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type."""
    plain = {bool: st.booleans(), int: st.integers(), float: st.floats(allow_nan=False), str: st.text()}
    if dataclasses.is_dataclass(hint):
        return configurations(hint)
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is tuple:
        return st.lists(values(get_args(hint)[0]), max_size=3).map(tuple)
    return plain[hint]


@given(configurations(PretrainConfig))
def test_round_trip(config: PretrainConfig) -> None:
    data = json.loads(json.dumps(encode(config)))
    assert decode(PretrainConfig, data) == config


def test_round_trip_through_a_file(tmp_path: Path) -> None:
    config = override(PretrainConfig(), ["train.steps=7", "correction.detector=lexical"])
    save_config(config, tmp_path / "config.json")
    assert load_config(PretrainConfig, tmp_path / "config.json") == config


def test_missing_options_keep_their_defaults() -> None:
    config = decode(PretrainConfig, {"train": {"steps": 3}})
    assert config == PretrainConfig(train=TrainConfig(steps=3))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"trian": {}}, "unknown option 'trian': did you mean 'train'"),
        ({"train": {"step": 1}}, "unknown option 'train.step': did you mean 'train.steps'"),
        ({"objective": {"masking": {"rat": 1}}}, "did you mean 'objective.masking.rate'"),
        ({"train": 5}, "train must be a group of options, got 5"),
        ({"train": {"steps": "5"}}, "train.steps must be a whole number, got '5'"),
        ({"train": {"steps": 5.0}}, "train.steps"),
        ({"train": {"steps": True}}, "train.steps"),
        ({"train": {"cuda_graphs": 1}}, "train.cuda_graphs must be true or false, got 1"),
        ({"train": {"compile": 1}}, "value of train.compile '1': Known: auto, false, true"),
        ({"optimizer": {"beta1": True}}, "optimizer.beta1 must be a number, got True"),
        ({"optimizer": {"beta1": None}}, "optimizer.beta1"),
        ({"corpus": {"path": 3}}, "corpus.path must be text, got 3"),
        ({"train": {"precision": "bf61"}}, "value of train.precision 'bf61': did you mean 'bf16'"),
        ({"train": {"precision": ["bf16"]}}, "train.precision"),
        ({"train": {"tracker": "x"}}, r"train.tracker .*\(empty\)"),
    ],
)
def test_refusals(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        decode(PretrainConfig, data)
    assert "\n" not in str(raised.value)


def test_whole_numbers_serve_as_floats() -> None:
    rate = decode(OptimizerConfig, {"learning_rate": 1}).learning_rate
    assert rate == 1 and isinstance(rate, float)


def test_every_option_has_one_way_to_be_set_in_full() -> None:
    """Setting each to its own value, as text, changes nothing: but stages, which no text can say."""
    config = PretrainConfig()
    for name, value in flatten(encode(config)).items():
        if name == "stages":
            with pytest.raises(ConfigError, match="--stages FILE"):
                override(config, [f"{name}={value}"])
        else:
            assert override(config, [f"{name}={value}"]) == config, name


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("train.steps=10", PretrainConfig(train=TrainConfig(steps=10))),
        ("steps=10", PretrainConfig(train=TrainConfig(steps=10))),
        (" steps = 10 ", PretrainConfig(train=TrainConfig(steps=10))),
        ("steps=1e3", PretrainConfig(train=TrainConfig(steps=1000))),
        ("masking.rate=0.3", PretrainConfig(objective=ObjectiveConfig(masking=MaskingConfig(rate=0.3)))),
        ("rate=.3", PretrainConfig(objective=ObjectiveConfig(masking=MaskingConfig(rate=0.3)))),
        ("learning_rate=3e-4", PretrainConfig(optimizer=OptimizerConfig(learning_rate=3e-4))),
        ("learning_rate=1", PretrainConfig(optimizer=OptimizerConfig(learning_rate=1.0))),
        ("optimizer.name=electra-code", PretrainConfig(optimizer=OptimizerConfig(name="electra-code"))),
        ("compile=TRUE", PretrainConfig(train=TrainConfig(compile=True))),
        ("compile=0", PretrainConfig(train=TrainConfig(compile=False))),
        ("compile=auto", PretrainConfig()),
        ("cuda_graphs=yes", PretrainConfig(train=TrainConfig(cuda_graphs=True))),
        ("corpus.path=a=b", PretrainConfig(corpus=CorpusConfig(path="a=b"))),
        ("corpus.path=", PretrainConfig()),
    ],
)
def test_override(assignment: str, expected: PretrainConfig) -> None:
    found = override(PretrainConfig(), [assignment])
    assert found == expected
    assert decode(PretrainConfig, encode(found)) == found


def test_later_settings_win() -> None:
    assert override(PretrainConfig(), ["steps=1", "seed=4", "train.steps=2"]).train == TrainConfig(steps=2, seed=4)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("steps", "write it as key=value"),
        ("stesp=1", "unknown option 'stesp': did you mean"),
        ("train=1", "unknown option 'train'"),
        ("name=mlm", "could be any of objective.name, optimizer.name: name its section"),
        ("path.corpus=x", "unknown option"),
        ("steps=ten", "train.steps must be a whole number, got 'ten'"),
        ("steps=1.5", "train.steps"),
        ("steps=15e-1", "train.steps"),
        ("steps=1e999", "train.steps"),
        ("steps=", "train.steps"),
        ("beta1=x", "optimizer.beta1"),
        ("cuda_graphs=maybe", "train.cuda_graphs must be true or false, got 'maybe'"),
        ("compile=maybe", "value of train.compile 'maybe'.*auto, false, true"),
        ("unit=words", "unknown value of objective.masking.unit 'words': did you mean 'word'"),
    ],
)
def test_refused_overrides(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override(PretrainConfig(), [assignment])


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is damaged: it is no JSON"), ("[]", "is damaged"), ("\0", "is damaged"), (None, "no configuration at")],
)
def test_files_that_are_none(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(PretrainConfig, path)


@pytest.mark.parametrize("kind", [PretrainConfig, FinetuneConfig])
def test_every_option_is_explained(kind: type) -> None:
    options = describe(kind())
    assert options.keys() == flatten(encode(kind())).keys()
    assert [name for name, option in options.items() if len(option.about.split()) < 3 or "``" in option.about] == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("optimizer.lr", "optimizer.learning_rate"),
        ("lr", "optimizer.learning_rate"),
        ("train.learning_rate", "optimizer.learning_rate"),
        ("warmup", "optimizer.warmup_steps"),
        ("train.gradient_accumulation_steps", "train.accumulation"),
        ("mlm_probability", "objective.masking.rate"),
    ],
)
def test_names_from_elsewhere_suggest_ours(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{re.escape(meant)}'"):
        override(PretrainConfig(), [f"{name}=1"])


def test_no_option_has_a_name_from_elsewhere() -> None:
    names = {name.rpartition(".")[2] for kind in (PretrainConfig, FinetuneConfig) for name in rules(kind)}
    assert not names & OTHER_NAMES.keys()
    assert set(OTHER_NAMES.values()) <= names


def test_differences() -> None:
    changed = override(PretrainConfig(), ["steps=5", "masking.rate=0.3"])
    assert differences(PretrainConfig(), changed) == ["objective.masking.rate: 0.15 -> 0.3", "train.steps: 1000 -> 5"]
    assert differences(changed, changed) == []
