"""Rules of options besides their types: bounds, when they have an effect, whether they may change on resume, old names.

All of it is metadata of the dataclass field, so an option that is renamed or moved keeps its rules.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast, get_type_hints

from trueneg.errors import TruenegDeprecationWarning

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Resume = Literal["same", "free", "unfinished"]
"""Whether a resumed run may change an option: no; yes; yes, until the run has finished."""


@dataclass(frozen=True)
class Rule:
    """Metadata of an option, or of a group of options."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    resume: Resume = "same"
    """Whether a resumed run may change it."""
    is_compared: bool = True
    """Whether ``compare`` notes a difference in it between two runs."""
    needs: tuple[str, ...] = ()
    """Conditions without which it has no effect; see ``holds``."""
    is_record: bool = False
    """Whether it only records what a command was given."""
    flag: str = ""
    """The command-line flag that sets it, if messages should name one."""
    formerly: tuple[str, ...] = ()
    """Old names of the field, read with a deprecation warning."""
    old_values: Mapping[str, str] = field(default_factory=dict)
    """Old names of values mapped to current ones, read with a deprecation warning."""
    brings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Values mapped to the settings ``key=value`` of the same group they imply, unless set explicitly."""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For an option that sets its whole group: what each of its values sets; other options return to their defaults.
    So a configuration always holds the values that are used."""
    members: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For a group: overrides of its members' own rules where the group is used here."""

    @property
    def bounds(self) -> str:
        """The bounds in words or as an interval; empty for none.

        Example:
            >>> Rule(at_least=1).bounds, Rule(above=0, at_most=1).bounds
            ('at least 1', 'in (0, 1]')
        """
        low = f"at least {self.at_least}" if self.at_least is not None else f"above {self.above}"
        high = f"at most {self.at_most}" if self.at_most is not None else f"below {self.below}"
        if self.at_least is self.above is None:
            return "" if self.at_most is self.below is None else high
        if self.at_most is self.below is None:
            return low
        opening, closing = "[" if self.at_least is not None else "(", "]" if self.at_most is not None else ")"
        return f"in {opening}{low.split()[-1]}, {high.split()[-1]}{closing}"

    def allows(self, value: float) -> bool:
        """Whether a number is within the bounds."""
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )


def option(
    default: T,
    *,
    resume: Resume = "same",
    compared: bool | None = None,
    needs: str | tuple[str, ...] = (),
    **others: Any,
) -> T:
    """Declare a field of a configuration, with its rule.

    Args:
        default: A value, or a whole group of options (a frozen dataclass).
        resume: Whether a resumed run may change it.
        compared: Whether ``compare`` notes a difference; by default unless a resumed run may change it.
        needs: Conditions without which it has no effect; a group's also apply to its members.
        others: Other fields of ``Rule``.
    """
    is_compared = resume == "same" if compared is None else compared
    needs = (needs,) if isinstance(needs, str) else needs
    rule = Rule(resume=resume, is_compared=is_compared, needs=needs, **others)
    return dataclasses.field(default=default, metadata={"rule": rule})


def own_rules(kind: type[Any]) -> dict[str, Rule]:
    """Rule of every field of a dataclass, including groups, by its name."""
    return {field.name: field.metadata.get("rule", Rule()) for field in dataclasses.fields(kind)}


def _cached(function: F) -> F:
    """Cache by type; mypy takes the type of a dataclass with ``eq`` for not hashable, as its instances are."""
    return cast(F, cache(function))


@_cached
def hints_of(kind: type[Any]) -> Mapping[str, Any]:
    """Types of a dataclass's fields, by name."""
    return MappingProxyType(get_type_hints(kind))


@_cached
def rules(kind: type[Any]) -> Mapping[str, Rule]:
    """Rule of every option of a configuration by its dotted name, including the needs of its groups.

    Example:
        >>> from trueneg.config.options import PretrainConfig
        >>> rules(PretrainConfig)["objective.cline.guard_floor"].bounds
        'in [0, 1]'
    """
    found: dict[str, Rule] = {}
    hints = hints_of(kind)
    for name, rule in own_rules(kind).items():
        if not dataclasses.is_dataclass(hints[name]):
            found[name] = rule
            continue
        for member, inner in rules(cast(type[Any], hints[name])).items():
            inner = dataclasses.replace(inner, **rule.members.get(member, {}))
            found[f"{name}.{member}"] = dataclasses.replace(inner, needs=(*rule.needs, *inner.needs))
    return MappingProxyType(found)


def names_where(kind: type[Any], holds: Callable[[Rule], bool]) -> Collection[str]:
    """Dotted names of the options whose rule fulfils a condition."""
    return frozenset(name for name, rule in rules(kind).items() if holds(rule))


def current_value(rule: Rule, value: Any, path: str) -> Any:
    """Return the current name of a value, with a warning if it is given under its old one."""
    if not isinstance(value, str) or value not in rule.old_values:
        return value
    warn_renamed(f"value {path}={value}", rule.old_values[value])
    return rule.old_values[value]


def warn_renamed(old: str, new: str) -> None:
    """Warn that something is read under its old name."""
    warnings.warn(
        f"the {old} is now called {new}: the old name will not be read by the next version",
        TruenegDeprecationWarning,
        stacklevel=3,
    )


def holds(condition: str, values: Mapping[str, Any]) -> bool:
    """Whether a condition on a configuration is fulfilled.

    Args:
        condition: Alternatives joined by `` or ``. ``a.b`` is fulfilled if that option is set, ``not a.b`` if it is
            not, ``a.b=x|y`` if it has one of these values, ``a.b!=x`` if it has another; ``*`` in a value matches
            anything.
        values: Values of options by dotted name.

    Example:
        >>> holds("model.start_from or name=squad*", {"model.start_from": "", "name": "squad/v2.0"})
        True
    """
    return any(_term_holds(term, values) for term in condition.split(" or "))


def explain(condition: str, known: Mapping[str, Rule]) -> str:
    """A condition in words, with the flags of the options that it names.

    Example:
        >>> explain("not steps or name=squad*|cola", {"steps": Rule(), "name": Rule(flag="--task")})
        'steps is not set or name (--task) is squad* or cola'
    """
    explained = []
    for term in condition.split(" or "):
        name, is_negated, values = parse_term(term)
        flag = f" ({known[name].flag})" if known[name].flag else ""
        wanted = " or ".join(values) if values else "set"
        explained.append(f"{name}{flag} is {'not ' if is_negated else ''}{wanted}")
    return " or ".join(explained)


def parse_term(term: str) -> tuple[str, bool, list[str]]:
    """Split a term of a condition into the option, whether it is negated, and the values; see ``holds``."""
    name, equals, values = term.partition("=")
    is_negated = name.startswith("not ") or name.endswith("!")
    return name.removeprefix("not ").removesuffix("!"), is_negated, values.split("|") if equals else []


def _term_holds(term: str, values: Mapping[str, Any]) -> bool:
    name, is_negated, wanted = parse_term(term)
    value = str(values[name]).lower() if isinstance(values[name], bool) else values[name]
    is_so = any(fnmatchcase(str(value), one) for one in wanted) if wanted else bool(values[name])
    return is_so != is_negated
