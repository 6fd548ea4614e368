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
    """,
    re.VERBOSE | re.IGNORECASE,
)


def begins_with_vowel_sound(word: str) -> bool:
    """Whether a word takes "an": by its first letters, with the usual exceptions; a rule of thumb for rare words.

    Example:
        >>> [word for word in "almanac book hour house one only unit uncle umbrella user".split()
        ...  if begins_with_vowel_sound(word)]
        ['almanac', 'hour', 'only', 'uncle', 'umbrella']
    """
    return _VOWEL_SOUND.match(word) is not None
