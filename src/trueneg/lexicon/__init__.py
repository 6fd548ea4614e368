"""Words: WordNet, what vocabulary entries look like as text, and the lookup table of synonym tokens.

Nothing in this package imports torch. Names are loaded on first use, so importing the package costs nothing.

Example:
    >>> from trueneg.lexicon import STOP_WORDS
    >>> "the" in STOP_WORDS
    True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trueneg.lexicon.fetch import fetch_wordnet
    from trueneg.lexicon.morphology import agreeing_forms
    from trueneg.lexicon.stopwords import STOP_WORDS
    from trueneg.lexicon.surface import Surface, surfaces
    from trueneg.lexicon.table import Coverage, LookupTable, build_table, cached_table, coverage
    from trueneg.lexicon.wordnet import Gloss, Synset, WordNet, find_wordnet

__all__ = [
    "STOP_WORDS",
    "Coverage",
    "Gloss",
    "LookupTable",
    "Surface",
    "Synset",
    "WordNet",
    "agreeing_forms",
    "build_table",
    "cached_table",
    "coverage",
    "fetch_wordnet",
    "find_wordnet",
    "surfaces",
]

_HOMES = {
    "STOP_WORDS": "stopwords",
    "Coverage": "table",
    "Gloss": "wordnet",
    "LookupTable": "table",
    "Surface": "surface",
    "Synset": "wordnet",
    "WordNet": "wordnet",
    "agreeing_forms": "morphology",
    "build_table": "table",
    "cached_table": "table",
    "coverage": "table",
    "fetch_wordnet": "fetch",
    "find_wordnet": "wordnet",
    "surfaces": "surface",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
