"""Names, numbers and words to put in the place of others: short lists that read well, and changed figures."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

NAMES: Mapping[str, Sequence[str]] = {
    "person": ("Jeff Dean", "Edward Harrison", "Martha Whitfield", "Oliver Bennett", "Clara Hughes", "Samuel Porter",
               "Helen Crawford", "Victor Langley"),
    "surname": ("Jackson", "Harrison", "Whitfield", "Bennett", "Hughes", "Porter", "Crawford", "Langley"),
    "place": ("Chicago", "Peru", "Bavaria", "Cuba", "Portugal", "Chile", "Norway", "Sicily", "Toronto", "Florida"),
    "river": ("Danube", "Volga", "Mekong", "Loire", "Tigris", "Ganges"),
    "group": ("Vikings", "Trojans", "Spartans", "Titans", "Saxons", "Phoenicians"),
    "organization": ("Stark Industries", "Acme", "Wayne Enterprises", "Globex", "Initech", "Northwind"),
    "other": ("Neptune", "Avalon", "Orion", "Meridian", "Halcyon", "Phoenix"),
    "doctrine": ("Taoism", "Stoicism", "Cubism", "Mysticism", "Pantheism", "Vegetarianism"),
    "modifier": ("Harrison", "Kensington", "Eastwood", "Wellington", "Sheffield", "Somerset"),
    "abbreviation": ("UNICEF", "OPEC", "FIFA", "ASEAN", "UNESCO"),
}  # fmt: skip
"""Names by what they are names of."""

NATIONALITIES: Sequence[str] = (
    "French", "German", "Italian", "Spanish", "British", "English", "Chinese", "Japanese", "Russian", "Polish",
    "Dutch", "Swedish", "Greek", "Turkish", "Mexican", "Canadian", "Australian", "American", "European", "African",
    "Asian", "Scottish", "Irish", "Roman", "Persian", "Mongol", "Mongolian", "Norwegian", "Danish", "Indian",
)  # fmt: skip
"""Adjectives of nations and continents: any can stand for another."""

RELIGIONS: Sequence[str] = (
    "Catholic", "Protestant", "Muslim", "Jewish", "Buddhist", "Hindu", "Orthodox", "Lutheran", "Methodist", "Christian",
    "Islamic",
)  # fmt: skip
"""Adjectives of faiths, likewise."""

MONTHS = ("January February March April May June July August September October November December").split()  # noqa: SIM905
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()  # noqa: SIM905
_CARDINALS = "two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_LARGE = "thousand million billion trillion".split()  # noqa: SIM905
_ORDINALS = "second third fourth fifth sixth seventh eighth ninth tenth".split()  # noqa: SIM905
_CENTURIES = "twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth".split()  # noqa: SIM905
_ROMAN = "II III IV V VI VII VIII IX X XI XII".split()  # noqa: SIM905
_CYCLES = (MONTHS, _WEEKDAYS, _CARDINALS, _TENS, _LARGE, _ORDINALS, _CENTURIES, _ROMAN)
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)
_YEAR = re.compile(r"1[0-9]{3}|20[0-2][0-9]")


def changed_figure(word: str, randomness: random.Random) -> str | None:
    """Another number, year, month or day of the week of the same kind; None for a word that is none of them.

    Example:
        >>> [changed_figure(word, random.Random(3)) for word in ("1998", "$5.5", "three", "50th", "June", "film")]
        ['1988', '$4.5', 'eight', '40th', 'November', None]
        >>> [changed_figure(word, random.Random(2)) for word in ("21st", "3rd-century", "32nd")]
        ['2nd', '2nd-century', '12th']
    """
    for cycle in _CYCLES:
        for place, other in enumerate(cycle):
            if word.lower() == other.lower() and (word[0].isupper() or other.islower()):
                found = cycle[(place + randomness.randrange(2, len(cycle) - 1)) % len(cycle)]
                return found.capitalize() if word.istitle() and other.islower() else found
    figures = re.search(r"\d+", word)
    if figures is None:
        return None
    ordinal = _ORDINAL.match(word, figures.end())
    new = _changed_digits(figures[0], word, randomness, is_ordinal=ordinal is not None)
    if ordinal is None:
        return word[: figures.start()] + new + word[figures.end() :]
    ending = _ordinal_ending(int(new))
    return word[: figures.start()] + new + (ending.upper() if ordinal[0].isupper() else ending) + word[ordinal.end() :]


def _ordinal_ending(number: int) -> str:
    return "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _changed_digits(digits: str, word: str, randomness: random.Random, *, is_ordinal: bool) -> str:
    """An earlier year, a full decade if it was one; another ordinal that a day has; else another first digit."""
    value = int(digits)
    if _YEAR.fullmatch(digits) and "," not in word:
        years = randomness.randrange(3, 30)
        return str(value - (10 + years // 10 * 10 if value % 10 == 0 else years))
    if is_ordinal and value <= 31:
        return str(randomness.choice([other for other in range(1, 21) if other != value]))
    first = randomness.choice([digit for digit in "123456789" if digit != digits[0]])
    return (first if value > 31 or len(digits) > 2 else "12"[digits[0] == "1"] if len(digits) == 2 else first) + digits[
        1:
    ]


def free(pool: Sequence[str], taken: str, randomness: random.Random) -> str:
    """Draw one of a pool that a text in small letters does not have; any, if it has all of them."""
    return randomness.choice([name for name in pool if name.lower() not in taken] or list(pool))
