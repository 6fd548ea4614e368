"""What an attack gives for an example, whatever the attack and the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

E = TypeVar("E")
"""A task's example: ``TextExample`` or ``SquadExample``."""

Outcome = Literal["succeeded", "failed", "skipped", "changed", "unchanged"]
"""A search against a victim ``succeeded`` or ``failed``, or was ``skipped`` because the victim was wrong already. An
attack that asks no victim has ``changed`` an example, or left it ``unchanged`` because it found nothing to change."""


@dataclass(frozen=True)
class AdversarialExample(Generic[E]):
    """One example under attack."""

    original: E
    adversarial: E
    """What the attack made of it. The original itself if it was skipped or left unchanged; what came closest if the
    attack failed."""
    outcome: Outcome
    num_queries: int = 0
    """How many texts the victim was asked about, as the attack's authors count them."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What was done, as JSON: the rules that were used, the words that changed, what may be wrong with the result."""
