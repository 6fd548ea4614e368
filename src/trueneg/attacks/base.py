"""What every attack is, and what it makes of an example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

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
    kinds: tuple[Literal["text", "squad"], ...] = ("text",)
    """Kinds of examples that it takes."""
    queries_victim: bool = False
    """Whether it depends on the model; else one set serves all models."""
    name: str = ""
    """Filled in, as what follows, by :func:`~trueneg.attacks.registry.make_attack`."""
    description: Mapping[str, Any] = field(default_factory=dict)
    """Name, profile, seed, options and resources, as JSON: what a set of it is labelled with."""
