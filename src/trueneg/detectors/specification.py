"""Detectors written as text: ``contextual:ENCODER[layer=4]@0.62 & !antonym | lexical``.

A detector is a name, then maybe ``:`` and what it is made from, options in brackets, and ``@`` with the score from
which on it accepts. ``!`` turns a judgement round, ``&`` takes the worse of two, ``|`` the better; ``!`` binds
tightest, ``|`` least. A file ``….json`` written by ``trueneg detect calibrate`` stands for what it holds.

Paths may have these characters too. In what a detector is made from, ``&`` and ``|`` without white space around them
are operators only before a name, ``@`` is one only before a number at the end; within quotes none is:
``prototypes:"/data/R & D/p.safetensors"@0.6``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from trueneg.errors import ConfigError, unknown_name
from trueneg.lexicon.relations import Relations
from trueneg.lexicon.table import Forms
from trueneg.lexicon.wordnet import WordNet

_NAME = r"[a-z][a-z-]*"
_NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf)"
_QUOTED = r'"[^"]*"'
_SOURCE = rf'(?:[^\[\]"@]|@(?!\s*(?:{_NUMBER}\s*)?(?:\[|$)))+'
_LEAF = re.compile(
    rf"(?P<name>{_NAME})(?::\s*(?P<argument>{_QUOTED}|{_SOURCE}))?\s*"
    r"(?:\[(?P<options>[^\[\]]*)\])?\s*(?:@(?P<threshold>.+))?"
)
_FILE = re.compile(rf'(?:{_QUOTED}|[^"]+)')
_SIGN = re.compile(rf"{_QUOTED}|\[[^\[\]]*\]|[&|]")
_OVER = re.compile(rf'[!\s]*{_NAME}|.*(?:[\]"]|\.json|@\s*{_NUMBER})')
"""A detector that goes no further, whatever follows it."""
_OPEN = re.compile(rf"[!\s]*{_NAME}:.*")
"""One whose source may go on."""
_BEGINS = re.compile(rf"[!\s]*{_NAME}\s*(?:[:\[@&|]|$)")
"""Another detector, by its name."""
_BEGINS_FILE = re.compile(r'[!\s]*(?:"|[^&|\[\]"]*\.json\s*(?:[&|]|$))')
"""Another detector, by its file."""


@dataclass(frozen=True)
class Leaf:
    """One detector.

    Attributes:
        name: which.
        argument: what it is made from: vectors, an encoder, a folder.
        options: its settings, as text.
        threshold: the score from which on it accepts; None for its own.
        text: the specification as it was written, which messages name.
    """

    name: str
    argument: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    threshold: float | None = None
    text: str = ""

    def check(self, *, argument: bool, options: tuple[str, ...] = (), what: str = "") -> None:
        """Refuse a missing or needless argument, and unknown options.

        Raises:
            ConfigError: naming them.
        """
        if argument and not self.argument:
            raise ConfigError(f"detector '{self.text}': say what it is made from, as {self.name}:{what}")
        if not argument and self.argument:
            raise ConfigError(f"detector '{self.text}': '{self.name}' takes nothing after ':'")
        for name in self.options:
            if name not in options:
                raise ConfigError(f"detector '{self.text}': {unknown_name('option', name, options)}")

    def number(self, name: str, default: float, *, min: float = 0) -> float:
        """An option that is a number.

        Raises:
            ConfigError: if it is none, not finite, or below ``min``.
        """
        text = self.options.get(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError as error:
            raise ConfigError(f"detector '{self.text}': {name}={text}: expected a number") from error
        if not (math.isfinite(value) and value >= min):
            raise ConfigError(f"detector '{self.text}': {name}={text}: must be at least {min}, got {value:g}")
        return value

    def count(self, name: str, default: int, *, min: int = 0) -> int:
        """An option that is a whole number.

        Raises:
            ConfigError: if it is none, or below ``min``.
        """
        value = self.number(name, default, min=min)
        if value != int(value):
            raise ConfigError(f"detector '{self.text}': {name}={self.options[name]}: expected a whole number")
        return int(value)

    def threshold_or(self, default: float) -> float:
        """The score from which on it accepts: its own, or a default."""
        return default if self.threshold is None else self.threshold

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        """An option that is one of some words, the first by default.

        Raises:
            ConfigError: for another.
        """
        value = self.options.get(name, known[0])
        if value not in known:
            raise ConfigError(f"detector '{self.text}': {unknown_name(name, value, known)}")
        return value


@dataclass(frozen=True)
class Combination:
    """``!`` of one specification, ``&`` or ``|`` of several."""

    operator: Literal["!", "&", "|"]
    parts: tuple[Specification, ...]


Specification = Leaf | Combination


@dataclass(frozen=True)
class Resources:
    """What detectors are made with besides their specification.

    Attributes:
        wordnet: its folder; empty to look in the usual places.
        device: where encoders run.
        forms: of the substitutes in WordNet's table: see ``lexicon.table.build_table``.
        annotates: whether a detector is made to annotate a corpus: then it reads whole texts and lists all that it
            accepts.
    """

    wordnet: str = ""
    device: str = "cpu"
    forms: Forms = "agree"
    annotates: bool = False

    @cached_property
    def relations(self) -> Relations:
        """WordNet's relations, read when first asked for.

        Raises:
            LexiconError: if WordNet is not found.
        """
        return Relations(WordNet.load(self.wordnet or None))


def parse(text: str) -> Specification:
    """Read a specification.

    Raises:
        ConfigError: saying which part is none.

    Example:
        >>> parse("lexical").name
        'lexical'
        >>> parse("contextual:enc[layer=4]@0.6 & !antonym").operator
        '&'
    """
    parts, operators = _cut(text)
    alternatives = [[_literal(parts[0])]]
    for operator, part in zip(operators, parts[1:], strict=True):
        if operator == "|":
            alternatives.append([_literal(part)])
        else:
            alternatives[-1].append(_literal(part))
    return _combined("|", [_combined("&", group) for group in alternatives])


def leaves(specification: Specification) -> Iterator[Leaf]:
    """The detectors a specification is made of, from left to right."""
    if isinstance(specification, Leaf):
        yield specification
    else:
        for part in specification.parts:
            yield from leaves(part)


def _combined(operator: Literal["&", "|"], parts: list[Specification]) -> Specification:
    return parts[0] if len(parts) == 1 else Combination(operator, tuple(parts))


def _literal(text: str) -> Specification:
    """A detector, with or without ``!``."""
    text = text.strip()
    if text.startswith("!"):
        return Combination("!", (_literal(text[1:]),))
    found = _LEAF.fullmatch(text)
    if found is None and _FILE.fullmatch(text) and text.strip('"').endswith(".json"):
        return Leaf("calibrated", text.strip('"'), text=text)
    if found is None:
        raise ConfigError(
            f"'{text}' is no detector: write NAME, NAME:SOURCE, NAME:SOURCE[option=value,…] or one of these with "
            f"@THRESHOLD, and combine them with |, & and !; a path that has such characters stands in quotes: "
            f'NAME:"SOURCE"'
        )
    name, argument, options, threshold = found.group("name", "argument", "options", "threshold")
    source = (argument or "").strip().strip('"')
    return Leaf(name, source, _options(text, options or ""), _threshold(text, threshold), text)


def _cut(text: str) -> tuple[list[str], list[str]]:
    """What stands between the operators ``&`` and ``|``, and these: always one fewer."""
    parts, operators, start = [], [], 0
    for found in _SIGN.finditer(text):
        if found.group() in ("&", "|") and _is_operator(text, start, found.start()):
            parts.append(text[start : found.start()])
            operators.append(found.group())
            start = found.end()
    return [*parts, text[start:]], operators


def _is_operator(text: str, start: int, at: int) -> bool:
    """Whether a sign combines what begins at ``start`` with what follows, and is no letter of a path."""
    before, after = text[start:at], text[at + 1 :]
    is_spaced = not (before.strip() and after.strip()) or before[-1].isspace() or after[0].isspace()
    if is_spaced or _OVER.fullmatch(before) or _BEGINS.match(after):
        return True
    if _OPEN.fullmatch(before) and _BEGINS_FILE.match(after):
        raise ConfigError(
            f"'{text}': is '{text[at]}' part of a path? Then put the path in quotes: NAME:\"PATH\"; if not, put white "
            f"space around it"
        )
    return False


def _options(text: str, written: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in written.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ConfigError(f"detector '{text}': write the option '{part}' as {part}=value")
        if name in options:
            raise ConfigError(f"detector '{text}': the option '{name}' is given twice")
        options[name] = value
    return options


def _threshold(text: str, written: str | None) -> float | None:
    if written is None:
        return None
    try:
        threshold = float(written)
    except ValueError as error:
        raise ConfigError(f"detector '{text}': after @ the least score to accept is wanted, as @0.62") from error
    if not 0 < threshold <= 1:
        raise ConfigError(
            f"detector '{text}': @{written}: scores lie between 0 and 1; more than 0 is wanted, at most 1 (a path that "
            f'has an @ stands in quotes: NAME:"PATH")'
        )
    return threshold
