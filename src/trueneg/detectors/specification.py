"""Detectors written as text: ``(contextual:ENCODER[layer=4]@0.62 | lexical) & !antonym``.

A detector is a name, optionally followed by ``:`` and its source, options in brackets, and ``@`` with its acceptance
threshold. ``!`` negates, ``&`` takes the minimum, ``|`` the maximum; ``!`` binds tightest, ``|`` least, and parentheses
group. A file ``….json`` written by ``trueneg detect calibrate`` stands for the detector that it contains.

A path that contains one of ``&|!@[]()"``, or an option's value that contains one of ``,[]``, needs quotes:
``prototypes:"/data/R & D/p.safetensors"@0.6``. Without quotes, ``&`` and ``|`` belong to a path unless white space or a
detector's name is next to them, and ``@`` does unless a number that ends the detector follows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from trueneg.config.options import PretrainConfig
from trueneg.config.validation import refuse_idle
from trueneg.detectors.scorers.base import SubstitutionScorer
from trueneg.errors import ConfigError, unknown_name
from trueneg.lexicon.relations import Relations
from trueneg.lexicon.table import Forms
from trueneg.lexicon.wordnet import WordNet

_NAME = r"[a-z][a-z-]*"
_QUOTED = r'"[^"]*"'
_NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf)"
# A sign that belongs to an unquoted path, since no other detector begins after it.
_SIGN_OF_PATH = rf"(?<=\S)[&|](?=\S)(?![!\s]*(?:[(\"]|{_NAME}\s*(?:[:\[@&|)]|$)))"
_AT_OF_PATH = rf"@(?!\s*(?:{_NUMBER}\s*)?(?:[\[&|)]|$))"
_PATH = rf'(?:[^&|@\[\]()"]|{_SIGN_OF_PATH}|{_AT_OF_PATH})+'
_LEAF = re.compile(
    rf"(?P<name>{_NAME})(?=\s*(?:[:\[@&|)]|$))(?::\s*(?P<argument>{_QUOTED}|{_PATH}))?\s*"
    rf"(?:\[(?P<options>(?:{_QUOTED}|[^\[\]\"])*)\])?\s*(?P<at>@(?P<threshold>[^&|()\[\]]*))?"
)
_OPTION = re.compile(rf"(?:{_QUOTED}|[^,\"])+")
_FILE = re.compile(rf'"(?P<quoted>[^"]*\.json)"|(?P<plain>{_PATH}?\.json)(?=\s*(?:[&|)]|$))')


@dataclass(frozen=True)
class Leaf:
    """One detector.

    Attributes:
        name: the detector's name.
        argument: its source: vectors, an encoder, a folder.
        options: its options, as text.
        threshold: the minimum score to accept; None for its default.
        text: the specification as written, for messages.
    """

    name: str
    argument: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    threshold: float | None = None
    text: str = ""

    def check(self, *, argument: bool, options: tuple[str, ...] = (), what: str = "") -> None:
        """Refuse a missing or superfluous argument, and unknown options.

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
        """Value of an option that is a number.

        Raises:
            ConfigError: if it is not a number, not finite, or below ``min``.
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
        """Value of an option that is a whole number.

        Raises:
            ConfigError: if it is not a whole number, or below ``min``.
        """
        value = self.number(name, default, min=min)
        if value != int(value):
            raise ConfigError(f"detector '{self.text}': {name}={self.options[name]}: expected a whole number")
        return int(value)

    def threshold_or(self, default: float) -> float:
        """The acceptance threshold: its own, or a default."""
        return default if self.threshold is None else self.threshold

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        """Value of an option that is one of the known values, the first by default.

        Raises:
            ConfigError: for any other value.
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
    """Resources that detectors are made with, besides their specification.

    Attributes:
        wordnet: WordNet's folder; empty to search the usual places.
        device: where encoders run.
        forms: table of a ``lexical`` without ``forms`` of its own: see ``lexicon.table.build_table``.
        annotates: whether a detector is made to annotate a corpus: then it reads whole texts and lists all that it
            accepts.
        make: makes the scorers that files describe; ``make_scorer`` passes itself.
    """

    wordnet: str = ""
    device: str = "cpu"
    forms: Forms = "agree"
    annotates: bool = False
    make: Callable[[Specification], SubstitutionScorer] | None = field(default=None, repr=False, compare=False)
    _relations: list[Relations] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def relations(self) -> Relations:
        """WordNet's relations, loaded on first use and shared by all copies.

        Raises:
            LexiconError: if WordNet is not found.
        """
        if not self._relations:
            self._relations.append(Relations(WordNet.load(self.wordnet or None)))
        return self._relations[0]

    def with_maker(self, make: Callable[[Specification], SubstitutionScorer]) -> Resources:
        """Return a copy with another ``make``."""
        copied = replace(self, make=make)
        object.__setattr__(copied, "_relations", self._relations)
        return copied


def parse(text: str) -> Specification:
    """Parse a specification.

    Raises:
        ConfigError: naming the part that cannot be parsed.

    Example:
        >>> parse("lexical").name
        'lexical'
        >>> parse("(contextual:enc[layer=4]@0.6 | lexical) & !antonym").operator
        '&'
    """
    parser = _Parser(text)
    specification = parser.alternatives()
    if parser.next():
        raise parser.error()
    return specification


class _Parser:
    """Recursive-descent parser: ``a | b``, of ``a & b``, of ``!a``, ``(a)`` and single detectors."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def alternatives(self) -> Specification:
        return self._combined("|", lambda: self._combined("&", self._factor))

    def next(self) -> str:
        """The next character that is not white space; empty at the end."""
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def error(self) -> ConfigError:
        return ConfigError(
            f"'{self._text}': '{self._text[self._at :].strip()}' is no detector: write NAME, NAME:SOURCE, "
            f"NAME:SOURCE[option=value,…] or one of these with @THRESHOLD, combine them with |, & and !, group them "
            f'with ( ), and put a path that holds one of &|!@[]()" in quotes: NAME:"SOURCE"'
        )

    def _combined(self, operator: Literal["&", "|"], part: Callable[[], Specification]) -> Specification:
        parts = [part()]
        while self.next() == operator:
            self._at += 1
            parts.append(part())
        return parts[0] if len(parts) == 1 else Combination(operator, tuple(parts))

    def _factor(self) -> Specification:
        if self.next() == "!":
            self._at += 1
            return Combination("!", (self._factor(),))
        if self.next() != "(":
            return self._leaf()
        self._at += 1
        inner = self.alternatives()
        if self.next() != ")":
            raise self.error()
        self._at += 1
        return inner

    def _leaf(self) -> Leaf:
        found = _LEAF.match(self._text, self._at)
        file = _FILE.match(self._text, self._at) if found is None else None
        if file is not None:
            self._at = file.end()
            return Leaf("calibrated", (file["quoted"] or file["plain"]).strip(), text=file[0].strip())
        if found is None:
            raise self.error()
        self._at = found.end()
        text, source = found[0].strip(), (found["argument"] or "").strip()
        if re.search(r"[&|].*\.json$", source) and not source.startswith('"'):
            raise ConfigError(
                f"'{self._text}': '{source}' is one path or two detectors: put a path in quotes (NAME:\"PATH\"), and "
                f"white space around what combines detectors"
            )
        threshold = _threshold(text, found["threshold"]) if found["at"] else None
        return Leaf(found["name"], source.strip('"'), _options(text, found["options"] or ""), threshold, text)


def leaves(specification: Specification) -> Iterator[Leaf]:
    """Yield the detectors of a specification, from left to right."""
    if isinstance(specification, Leaf):
        yield specification
    else:
        for part in specification.parts:
            yield from leaves(part)


def takes_forms(specification: str) -> bool:
    """Whether any part is a ``lexical`` without ``forms`` of its own.

    Example:
        >>> [takes_forms(text) for text in ("lexical & fits", "lexical[forms=retrieved]", "ema", "")]
        [True, False, False, False]
    """
    parts = leaves(parse(specification)) if specification else ()
    return any(leaf.name == "lexical" and "forms" not in leaf.options for leaf in parts)


def check_forms_apply(config: PretrainConfig, settings: Sequence[str]) -> None:
    """Refuse ``correction.forms`` among settings if no part of a detector uses it.

    Raises:
        ConfigError: if so, or for a malformed detector.
    """
    remedy = (
        "unless a 'lexical' in objective.correction.detector or objective.cline.guard names no forms of its own: "
        "change that, or leave it out"
    )

    def is_taken(config: PretrainConfig) -> bool:
        return takes_forms(config.objective.correction.detector) or takes_forms(config.objective.cline.guard)

    refuse_idle(config, settings, ((("objective.correction.forms",), is_taken, remedy),))


def _options(text: str, written: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in _OPTION.findall(written))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ConfigError(f"detector '{text}': write the option '{part}' as {part}=value")
        if name in options:
            raise ConfigError(f"detector '{text}': the option '{name}' is given twice")
        options[name] = value[1:-1] if re.fullmatch(_QUOTED, value) else value
    return options


def _threshold(text: str, written: str) -> float:
    try:
        threshold = float(written)
    except ValueError as error:
        raise ConfigError(f"detector '{text}': expected a threshold after @, as @0.62") from error
    if not 0 < threshold <= 1:
        raise ConfigError(
            f"detector '{text}': the threshold must be above 0 and at most 1, got {written.strip()} (put a path that "
            f'has an @ in quotes: NAME:"PATH")'
        )
    return threshold
