"""Syntax of a mixture of corpora: ``wiki:0.7, books:0.3``, or folders only, weighted by their sizes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath

from trueneg.errors import ConfigError

OPTION = "corpus.mixture"
_COMMA = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')  # outside of quotes
_MOST_DIGITS = 12


@dataclass(frozen=True)
class Source:
    """A corpus of a mixture."""

    path: str
    weight: Fraction | None = None
    """Its weight relative to the others; None if sizes decide."""

    def __str__(self) -> str:
        """Write it as ``parse_source`` reads it."""
        is_plain = not ({*self.path} & {",", '"'} or _weight_at_end(self.path)[1] or self.path != self.path.strip())
        path = self.path if is_plain else f'"{self.path}"'
        return path if self.weight is None else f"{path}:{_decimal(self.weight)}"


def parse_mixture(text: str, option: str = OPTION) -> tuple[Source, ...]:
    """Parse a mixture: corpora separated by commas, each optionally with a weight after its last colon.

    A folder whose name has a comma, or ends in a colon and a number, is written in double quotes.

    Args:
        text: The option's value.
        option: Its name, for messages.

    Raises:
        ConfigError: for fewer than two corpora, one named twice, weights for some of them only, or a weight that is
            not above 0 and finite.

    Example:
        >>> [(source.path, float(source.weight)) for source in parse_mixture("wiki:0.7, C:/books:0.3")]
        [('wiki', 0.7), ('C:/books', 0.3)]
    """
    if text.count('"') % 2:
        raise ConfigError(f"{option}={text}: a double quote is not closed")
    return check_sources([parse_source(part, option) for part in _COMMA.split(text)], option)


def parse_source(text: str, option: str = OPTION) -> Source:
    """Parse one corpus of a mixture.

    Raises:
        ConfigError: if no folder is named, or for a weight that is not above 0 and finite.

    Example:
        >>> parse_source("wiki:0.7"), parse_source('"odd:1"').path
        (Source(path='wiki', weight=Fraction(7, 10)), 'odd:1')
    """
    text = text.strip()
    if text.startswith('"'):
        path, _, after = text[1:].partition('"')
        rest, weight = _weight_at_end(after)
        if rest.strip():
            raise ConfigError(f"{option}: {text}: after a quoted folder comes a colon and its weight, or nothing")
    else:
        path, weight = _weight_at_end(text)
    if not path:
        raise ConfigError(f"{option}: no folder is named at '{text}': write them as wiki:0.7, books:0.3")
    return Source(path, _checked(weight, path, option) if weight else None)


def parse_folders(text: str, option: str) -> tuple[str, ...]:
    """Parse folders separated by commas; see ``parse_mixture``.

    Raises:
        ConfigError: if one has a weight.

    Example:
        >>> parse_folders('general, "a,b"', "corpus.held_out")
        ('general', 'a,b')
    """
    found = [parse_source(part, option) for part in _COMMA.split(text)] if text.strip() else []
    for source in found:
        if source.weight is not None:
            raise ConfigError(
                f"{option}: {source} has a weight, and none is used here: leave it out, or quote the name"
            )
    return tuple(source.path for source in found)


def check_sources(sources: Sequence[Source], option: str = OPTION) -> tuple[Source, ...]:
    """Refuse an invalid mixture; see ``parse_mixture``."""
    if len(sources) < 2:
        raise ConfigError(f"{option} names one corpus, {sources[0]}: name another, or give corpus.path instead")
    without = [source.path for source in sources if source.weight is None]
    if without and len(without) < len(sources):
        weighed = next(source.path for source in sources if source.weight is not None)
        raise ConfigError(
            f"{option}: '{weighed}' has a weight and '{without[0]}' has none: give every corpus one, as "
            f"{without[0]}:0.3, or none (then sizes say, and corpus.temperature)"
        )
    seen: set[str] = set()
    for source in sources:
        if (place := os.path.normpath(source.path)) in seen:
            raise ConfigError(f"{option}: '{source.path}' is named twice: name it once, with the sum of its weights")
        seen.add(place)
    return tuple(sources)


def write_mixture(sources: Sequence[Source]) -> str:
    """Write a mixture as ``parse_mixture`` reads it.

    Example:
        >>> write_mixture(parse_mixture('wiki:1, "a,b":2'))
        'wiki:1, "a,b":2'
    """
    for source in sources:
        if '"' in source.path:
            raise ConfigError(f"'{source.path}' has a double quote in its name, which a mixture cannot name: rename it")
    weights = [source.weight for source in sources if source.weight is not None]
    if any(_decimal_digits(weight) is None for weight in weights):
        # Thirds have no finite decimals: write the same shares as whole numbers.
        common = math.lcm(*(weight.denominator for weight in weights))
        sources = [Source(source.path, source.weight and source.weight * common) for source in sources]
    return ", ".join(map(str, sources))


def with_replay(sources: Sequence[Source], replay: Sequence[Source]) -> tuple[Source, ...]:
    """Give replay corpora fixed shares of all rows; the others share the rest by their weights.

    Args:
        sources: The run's main corpora; a single one needs no weight.
        replay: Corpora with their shares, as ``general:0.1``.

    Raises:
        ConfigError: for a replay without a share, shares of 1 or more, or several sources without weights.

    Example:
        >>> write_mixture(with_replay([Source("mine")], [parse_source("general:0.1")]))
        'mine:0.9, general:0.1'
    """
    for source in replay:
        if source.weight is None or source.weight >= 1:
            said = source.path if source.weight is None else source
            raise ConfigError(f"--replay {said}: say which share of all rows, between 0 and 1: {source.path}:0.1")
    left = 1 - sum((source.weight for source in replay if source.weight), Fraction())
    if left <= 0:
        raise ConfigError(f"--replay: the shares sum to {float(1 - left):g}, which leaves nothing for --corpus")
    if len(sources) > 1 and any(source.weight is None for source in sources):
        raise ConfigError("--replay with several --corpus needs their weights: --corpus wiki:0.7 --corpus books:0.3")
    weights = [source.weight or Fraction(1) for source in sources]
    own = [Source(source.path, left * weight / sum(weights)) for source, weight in zip(sources, weights, strict=True)]
    return check_sources([*own, *replay], "--replay")


def names_of(paths: Sequence[str]) -> list[str]:
    """Short names of folders: the last part of each, and as many before it as make the names distinct.

    Example:
        >>> names_of(["data/wiki/corpus", "data/books/corpus/"]), names_of(["a/wiki", "b/books"])
        (['wiki/corpus', 'books/corpus'], ['wiki', 'books'])
    """
    parts = [PurePath(os.path.normpath(path)).parts for path in paths]
    for count in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(one[-count:]) for one in parts]
        if len({*names}) == len(names):
            return names
    return list(paths)


def without_places(text: str) -> str:
    """Describe a mixture independently of where its corpora are stored.

    Example:
        >>> without_places("data/wiki:0.7, books:0.30")
        'source 1:0.7, source 2:0.3'
    """
    sources = parse_mixture(text)
    return write_mixture([Source(f"source {number}", one.weight) for number, one in enumerate(sources, start=1)])


def _weight_at_end(text: str) -> tuple[str, str]:
    """Split into a folder and the number after its last colon; empty if there is none."""
    path, colon, after = text.rpartition(":")
    try:
        float(after)
    except ValueError:
        return text, ""
    return (path.strip(), after.strip()) if colon else (text, "")


def _checked(weight: str, path: str, option: str) -> Fraction:
    if not 0 < float(weight) < math.inf:
        raise ConfigError(
            f"{option}: the weight of '{path}' must be above 0 and finite, got {weight}: leave out what is "
            f"not to be read"
        )
    return Fraction(Decimal(weight))


def _decimal_digits(weight: Fraction) -> int | None:
    """Number of decimal places that represent it exactly; None if more than ``_MOST_DIGITS``."""
    return next((digits for digits in range(_MOST_DIGITS + 1) if 10**digits % weight.denominator == 0), None)


def _decimal(weight: Fraction) -> str:
    digits = _decimal_digits(weight)
    if not digits:
        return repr(float(weight)) if digits is None else str(weight.numerator)
    whole, part = divmod(int(weight * 10**digits), 10**digits)
    return f"{whole}.{part:0{digits}}"
