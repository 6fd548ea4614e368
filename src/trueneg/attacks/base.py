"""Base types of attacks and of the adversarial examples that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

from trueneg.config.fields import hints_of
from trueneg.config.validation import check_bounds
from trueneg.errors import ConfigError, unknown_name

E = TypeVar("E")
"""A task's example: ``TextExample`` or ``SquadExample``."""

Progress = Callable[[int, int], None]
"""Called with the number of examples done, and the total."""

Outcome = Literal["succeeded", "failed", "skipped", "changed", "unchanged"]
"""A search against a victim ``succeeded`` or ``failed``, or was ``skipped`` because the victim misclassifies even the
original. A query-free attack ``changed`` an example, or left it ``unchanged`` because it found nothing to change."""


@dataclass(frozen=True)
class AdversarialExample(Generic[E]):
    """One example under attack."""

    original: E
    adversarial: E
    """The attacked example: the original itself if it was skipped or left unchanged; the closest attempt if the attack
    failed."""
    outcome: Outcome
    num_queries: int = 0
    """Number of texts that the victim was queried with, as the attack's authors count them."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Details as JSON: the rules that were used, the words that changed, possible faults of the result."""


@dataclass(frozen=True)
class Attack:
    """An attack that is ready to run, as returned by the functions in :data:`trueneg.attacks.registry.ATTACKS`."""

    run: Callable[..., list[AdversarialExample[Any]]]
    """``run(examples)`` for a query-free attack, else ``run(victim, examples, progress=…)``. It returns one
    adversarial example for each example, in order."""
    options: Any
    """A dataclass."""
    kinds: tuple[str, ...] = ("text",)
    """Kinds of tasks that it supports: see :attr:`trueneg.tasks.base.Task.kind`."""
    queries_victim: bool = False
    """Whether it depends on the model; else one set serves all models."""
    name: str = ""
    """Set by :func:`~trueneg.attacks.registry.make_attack`, like ``description``."""
    description: Mapping[str, Any] = field(default_factory=dict)
    """Name, profile, seed, options and resources, as JSON, which are saved with its sets."""


def check_options(options: Any) -> None:
    """Check an attack's options: values of each ``Literal``, and bounds of numbers.

    Raises:
        ConfigError: naming the option.
    """
    for name, hint in hints_of(type(options)).items():
        if get_origin(hint) is Literal and getattr(options, name) not in get_args(hint):
            raise ConfigError(unknown_name(name, getattr(options, name), get_args(hint)))
    check_bounds(options)
