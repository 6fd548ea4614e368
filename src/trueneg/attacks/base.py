"""What every attack is, and what it makes of an example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, get_args, get_type_hints

from trueneg.config.fields import own_rules
from trueneg.errors import ConfigError, unknown_name

E = TypeVar("E")
"""A task's example: ``TextExample`` or ``SquadExample``."""

Progress = Callable[[int, int], None]
"""Called with the number of examples done, and of all."""

Outcome = Literal["succeeded", "failed", "skipped", "changed", "unchanged"]
"""A search against a victim ``succeeded`` or ``failed``, or was ``skipped`` because the victim was wrong already. A
query-free attack has ``changed`` an example, or left it ``unchanged`` because it found nothing to change."""


@dataclass(frozen=True)
class AdversarialExample(Generic[E]):
    """One example under attack."""

    original: E
    adversarial: E
    """What the attack made of it. The original itself if it was skipped or left unchanged; what came closest if the
    attack failed."""
    outcome: Outcome
    num_queries: int = 0
    """How many texts the victim was queried about, as the attack's authors count them."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What was done, as JSON: the rules that were used, the words that changed, what may be wrong with the result."""


@dataclass(frozen=True)
class Attack:
    """An attack, ready to run: what each function in :data:`trueneg.attacks.registry.ATTACKS` returns."""

    run: Callable[..., list[AdversarialExample[Any]]]
    """Of a query-free attack ``run(examples)``, else ``run(victim, examples, progress=…)``. It returns one
    adversarial example for each, in order."""
    options: Any
    """A dataclass."""
    kinds: tuple[str, ...] = ("text",)
    """Kinds of tasks that it takes: see :attr:`trueneg.tasks.base.Task.kind`."""
    queries_victim: bool = False
    """Whether it depends on the model; else one set serves all models."""
    name: str = ""
    """Filled in, as what follows, by :func:`~trueneg.attacks.registry.make_attack`."""
    description: Mapping[str, Any] = field(default_factory=dict)
    """Name, profile, seed, options and resources, as JSON: what a set of it is labelled with."""


def check_options(options: Any) -> None:
    """Check an attack's options: one of its values for each ``Literal``, and within bounds what has a ``Rule``.

    Raises:
        ConfigError: naming the option.
    """
    hints = get_type_hints(type(options))
    for name, rule in own_rules(type(options)).items():
        value, choices = getattr(options, name), get_args(hints[name])
        if choices and isinstance(choices[0], str) and value not in choices:
            raise ConfigError(unknown_name(name, value, choices))
        if rule.bounds and not rule.allows(value):
            raise ConfigError(f"{name} must be {rule.bounds}, got {value}")
