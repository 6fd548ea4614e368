"""English words in order: months, days, numbers; and the titles whose full stop does not end a sentence."""

from __future__ import annotations

from collections.abc import Iterable

_CARDINALS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
"""
_ORDINALS = """
    first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth
    sixteenth seventeenth eighteenth nineteenth twentieth
"""
_MONTHS = "January February March April May June July August September October November December"
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"

MONTHS, WEEKDAYS, CARDINALS, ORDINALS = (tuple(w.split()) for w in (_MONTHS, _WEEKDAYS, _CARDINALS, _ORDINALS))
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
LARGE = ("thousand", "million", "billion", "trillion")
TITLES = ("Mr", "Mrs", "Ms", "Dr", "St", "Jr", "Sr", "vs")


def not_after(abbreviations: Iterable[str]) -> str:
    r"""Return a lookbehind pattern that rejects positions right after one of these, or an initial, with a full stop.

    Example:
        >>> import re
        >>> [bool(re.search(r"\." + not_after(TITLES), text)) for text in ("Dr. A", "J. A", "It rains. A")]
        [False, False, True]
    """
    return "".join(rf"(?<!\b{word}\.)" for word in (*abbreviations, "[A-Z]"))
