"""The indefinite article: "a" before the sound of a consonant, "an" before that of a vowel."""

from __future__ import annotations

import re

_VOWEL_SOUND = re.compile(
    r"""
    (?: hour | honest | honou?r | heir )                     # a silent h
    | (?! eu | ew | oui | once\b | one(?:s|self|ness)?\b     # "European", "ewe", "ouija", "once", "one" begin as "you"
        | ub[io] | ufo | uganda | uk(?:[eru]|\b) | ulysses   # or "won", and so does a long u
        | unanim | uni(?!de|gn|m|n|r|ss) | ur[aeiou] | us[aeiu] | ut[aeio] )
      [aeiou]
    | y[^aeiouy]                                             # "yttrium"
    | [fhlmnrsx][^aeiouy]*\b                                 # spelt out: "an FM", "an X"
    | 8 | 1[18](?!\d)                                        # "an 8th", "an 11-year-old"
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Capitals are read one by one ("an FBI agent", "a UN envoy"), unless there are vowels enough for a word ("UNICEF").
_CAPITALS = re.compile(r"[A-Z][A-Z0-9]*\b")
_AS_A_WORD = re.compile(r"[A-Z]*[AEIOU][A-Z]*[B-DF-HJ-NP-TV-Z][A-Z]*[AEIOU]")
_SPELT_WITH_A_VOWEL = "AEFHILMNORSX"


def begins_with_vowel_sound(word: str) -> bool:
    """Whether a word takes "an": by its first letters, with the usual exceptions; a rule of thumb for rare words.

    Example:
        >>> [word for word in "almanac book hour house one only unit uncle umbrella user FBI UN 8th".split()
        ...  if begins_with_vowel_sound(word)]
        ['almanac', 'hour', 'only', 'uncle', 'umbrella', 'FBI', '8th']
    """
    if _CAPITALS.match(word) and not _AS_A_WORD.match(word):
        return word[0] in _SPELT_WITH_A_VOWEL
    return _VOWEL_SOUND.match(word) is not None


def article(word: str) -> str:
    """The indefinite article before a word.

    Example:
        >>> article("hour"), article("house")
        ('an', 'a')
    """
    return "an" if begins_with_vowel_sound(word) else "a"


def agreeing_article(written: str, old: str, new: str) -> str:
    """The indefinite article for a new word, cased as the one before the old word.

    An article that did not agree with the old word by these rules is kept: the text knows better.

    Example:
        >>> agreeing_article("A", "car", "automobile"), agreeing_article("a", "car", "bus")
        ('An', 'a')
    """
    if written.lower() != article(old):
        return written
    found = article(new)
    return found.capitalize() if written[:1].isupper() else found
