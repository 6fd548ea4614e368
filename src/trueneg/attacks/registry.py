"""Attacks by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NoReturn

from trueneg.attacks.base import Attack
from trueneg.attacks.setup import AttackConfig, AttackSetup
from trueneg.registry import Registry

ATTACKS = Registry(
    "attack",
    "attacks",
    {
        "textfooler": "trueneg.attacks.word_substitution.textfooler:make_textfooler",
        "masked-lm": "trueneg.attacks.word_substitution.masked_lm:make_masked_lm",
        "typos": "trueneg.attacks.typos:make_typos",
        "swap-synonyms": "trueneg.attacks.squad.swap_synonyms:make_swap_synonyms",
        "add-sentence": "trueneg.attacks.squad.add_sentence.attack:make_add_sentence",
    },
)
"""Functions by name that make an ``Attack`` from an ``AttackSetup``; the first line of the
docstring describes the attack to users."""


class _Profiles(Exception):
    """Ends the making of an attack where its options are chosen."""

    def __init__(self, profiles: Mapping[str, Any]) -> None:
        self.profiles = profiles


class _ProfilesOnly(AttackSetup):
    def options(self, profiles: Mapping[str, Any], needs: object = ()) -> NoReturn:
        raise _Profiles(profiles)


def profiles_of(name: str) -> Mapping[str, Any]:
    """Return the options of each profile of an attack, the default first, without loading its resources.

    Raises:
        ConfigError: for an unknown attack.

    Example:
        >>> profiles_of("typos")["default"].min_letters
        4
    """
    try:
        ATTACKS.load(name)(_ProfilesOnly(AttackConfig(name=name)))
    except _Profiles as found:
        return found.profiles
    return {}


def make_attack(config: AttackConfig) -> Attack:
    """Make an attack, and load its resources.

    Raises:
        ConfigError: for an unknown attack, profile or option, a resource that is missing, or one that is not used.
        TruenegError: for resources that cannot be read.
    """
    setup = AttackSetup(config)
    made: Attack = ATTACKS.load(config.name)(setup)
    setup.refuse_unused()
    options = made.options
    description = {
        "name": config.name,
        "profile": setup.profile,
        "seed": config.seed,
        "options": options.described() if hasattr(options, "described") else asdict(options),
        "resources": setup.provenance,
    }
    return replace(made, name=config.name, description=description)
