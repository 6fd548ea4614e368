"""Part-of-speech tags: the word tags of the Penn Treebank, numbered, and the four classes of content words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from trueneg.lexicon.wordnet_location import PartOfSpeech

PENN: tuple[str, ...] = (
    "",
    *("CC", "CD", "DT", "EX", "FW", "IN", "JJ", "JJR", "JJS", "LS", "MD"),
    *("NN", "NNP", "NNPS", "NNS", "PDT", "POS", "PRP", "PRP$", "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH"),
    *("VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "WDT", "WP", "WP$", "WRB"),
)
"""The tags by number. 0 stands for no word: punctuation, special tokens, tags that are not listed here. Files store
these numbers, so the order must not change."""

NUMBERS: Mapping[str, int] = MappingProxyType({tag: number for number, tag in enumerate(PENN)})
"""The number of each tag."""

_CLASSES: tuple[tuple[PartOfSpeech, str], ...] = (
    ("n", "NN NNP NNPS NNS"),
    ("v", "VB VBD VBG VBN VBP VBZ"),
    ("a", "JJ JJR JJS"),
    ("r", "RB RBR RBS"),
)
_COARSE: Mapping[str, PartOfSpeech] = MappingProxyType({tag: pos for pos, tags in _CLASSES for tag in tags.split()})


def coarse(tag: str) -> PartOfSpeech | Literal[""]:
    """The class of content words that a Penn tag belongs to, ``""`` for every other tag.

    Proper nouns are nouns; modals, particles and question adverbs are not content words.

    Example:
        >>> [coarse(tag) for tag in ("NNS", "VBD", "JJR", "RB", "MD", "WRB", "")]
        ['n', 'v', 'a', 'r', '', '', '']
    """
    return _COARSE.get(tag, "")


def number(tag: str) -> int:
    """The number of a tag; 0 for one that is not in :data:`PENN`.

    Example:
        >>> number("NNS"), PENN[number("NNS")], number(",")
        (15, 'NNS', 0)
    """
    return NUMBERS.get(tag, 0)
