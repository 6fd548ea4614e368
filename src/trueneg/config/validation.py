"""Refuse numbers out of bounds, and settings that have no effect together with the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trueneg.config.codec import encode, flatten, full_name
from trueneg.config.fields import explain, holds, rules
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.options import PretrainConfig, TrainConfig
from trueneg.errors import ConfigError
from trueneg.registry import load_plugins

Needs = tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...]
"""Prefixes of option names, the condition under which these options have an effect, and the message otherwise."""


def validate(config: PretrainConfig | FinetuneConfig) -> None:
    """Load the plugins that a configuration names, and refuse numbers outside their options' bounds.

    What depends on the corpus, the model or the number of processes is checked where these are known.

    Raises:
        ConfigError: naming the option, its bounds and its value.

    Example:
        >>> from trueneg.config.codec import override
        >>> validate(override(PretrainConfig(), ["steps=0"]))
        Traceback (most recent call last):
        trueneg.errors.ConfigError: train.steps must be at least 1, got 0
    """
    load_plugins(config.plugins)
    check_bounds(config)
    if isinstance(config, PretrainConfig):
        steps_to_keep(config.train)
        _ = config.corpus.sources, config.corpus.measured  # raises here if they are invalid


def check_bounds(config: Any) -> None:
    """Refuse numbers outside their options' bounds.

    Args:
        config: A dataclass of options.

    Raises:
        ConfigError: naming the option, its bounds and its value.
    """
    values = flatten(encode(config))
    for name, rule in rules(type(config)).items():
        value = values[name]
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{name} must be finite, got {value}")
        if rule.bounds and not rule.allows(value):
            raise ConfigError(f"{name} must be {rule.bounds}, got {value}")


def steps_to_keep(train: TrainConfig) -> dict[int, float]:
    """Steps at which ``keep_at`` and ``keep_every`` keep the model permanently, each with its share of the run.

    Raises:
        ConfigError: for shares that are not numbers, not in (0, 1], not increasing, or so close that they are the same
            step.

    Example:
        >>> steps_to_keep(TrainConfig(steps=200, keep_at="0.0625,0.5,1"))
        {12: 0.0625, 100: 0.5, 200: 1.0}
        >>> steps_to_keep(TrainConfig(steps=200, keep_every=80))
        {80: 0.4, 160: 0.8}
    """
    found: dict[int, float] = {}
    for text in train.keep_at.split(",") if train.keep_at.strip() else ():
        try:
            share = float(text)
        except ValueError:
            raise ConfigError(
                f"train.keep_at must be numbers with commas between them, as 0.25,0.5,1, got '{text.strip()}'"
            ) from None
        if not 0 < share <= 1:
            raise ConfigError(f"train.keep_at must be shares of the steps in (0, 1], got {text.strip()}")
        last = next(reversed(found.values()), 0.0)
        if share <= last:
            raise ConfigError(f"train.keep_at must rise: {text.strip()} comes after {last:g}")
        step = max(1, round(share * train.steps))
        if step in found:
            raise ConfigError(
                f"train.keep_at: {last:g} and {share:g} of {train.steps:,} steps are both step {step:,}: leave one out"
            )
        found[step] = share
    if train.keep_every:
        found |= {step: step / train.steps for step in range(train.keep_every, train.steps + 1, train.keep_every)}
    return dict(sorted(found.items()))


def check_options_apply(config: PretrainConfig | FinetuneConfig, settings: Sequence[str]) -> None:
    """Refuse settings that have no effect in the configuration they are part of.

    Defaults, presets and saved configurations are not checked: they set every option, whether it matters or not.

    Args:
        config: The configuration with its settings.
        settings: ``key=value``, as passed to ``codec.override``.

    Raises:
        ConfigError: naming the option, and what it needs.

    Example:
        >>> check_options_apply(PretrainConfig(), ["correction.use=marginal"])
        Traceback (most recent call last):
        trueneg.errors.ConfigError: objective.correction.use does nothing unless objective.correction.detector ...
    """
    values, known = flatten(encode(config)), rules(type(config))
    for setting in settings:
        name = full_name(config, setting.partition("=")[0].strip())
        if known[name].is_record:
            raise ConfigError(
                f"{name} does nothing by itself: name the {name} where the command takes one, or leave it out"
            )
        for condition in known[name].needs:
            if not holds(condition, values):
                raise ConfigError(
                    f"{name} does nothing unless {explain(condition, known)}: change that, or leave it out"
                )
        if name in ("model.generator_width", "model.generator_depth") and _has_generator(values["model.start_from"]):
            raise ConfigError(f"{name} does nothing, as the checkpoint comes with a generator: leave it out")


def refuse_idle(config: Any, settings: Sequence[str], needs: Needs) -> None:
    """Refuse settings that have no effect, where that depends on more than the configuration itself.

    Raises:
        ConfigError: naming the option, and what it goes with.
    """
    for setting in settings:
        name = full_name(config, setting.partition("=")[0].strip())
        for prefixes, is_so, remedy in needs:
            if name.startswith(prefixes) and not is_so(config):
                raise ConfigError(f"{name} does nothing {remedy}")


def _has_generator(checkpoint: str) -> bool:
    """Whether a checkpoint to continue has a generator next to it."""
    return bool(checkpoint) and any((Path(checkpoint) / place / "generator").is_dir() for place in ("", "hf"))
