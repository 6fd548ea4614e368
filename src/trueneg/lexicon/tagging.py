"""Words of a text and their parts of speech: word and sentence segmentation, and taggers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from trueneg.errors import ConfigError, unknown_name
from trueneg.lexicon.english import TITLES, not_after
from trueneg.lexicon.tags import number
from trueneg.registry import load

TAGGERS: Mapping[str, str] = {
    "pattern": "trueneg.lexicon.pattern_tagger:with_safe_rules",
    "pattern-all": "trueneg.lexicon.pattern_tagger:with_all_rules",
    "pattern-fast": "trueneg.lexicon.pattern_tagger:without_rules",
    "spacy": "trueneg.lexicon.spacy_tagger:SpacyTagger",
}
"""Factory of each tagger, by name. ``spacy`` takes the name of a model: ``spacy:en_core_web_sm``."""

_LONGEST_SENTENCE = 256  # words: text without full stops must not fill the memory of a model

# A run of letters and digits, their combining accents among them, is a word; a contraction is two, as in the Penn
# Treebank ("do n't", "we 'll"); every other character but white space is a word of its own.
_RUN = r"[^\W_]+(?:(?<!n)|(?!['’]t\b))(?:[\u0300-\u036f]+[^\W_]*)*"
_WORD = re.compile(rf"{_RUN}|n['’]t\b|['’](?:s|m|d|ll|re|ve)\b|[^\w\s]|_", re.IGNORECASE)

# A sentence ends with its punctuation and closing quotes or brackets, before white space, but not after a title or an
# initial; nor where a lower-case letter follows, which also joins lines broken within sentences. That letter is no part
# of the pattern: a run of blank lines before one would be tried again from each of its lines.
_NOT_ENDED = not_after((*TITLES, "Prof", "Rev", "Gen", "Col", "Capt", "Lt"))
_BOUNDARY = re.compile(rf"[.!?…]{_NOT_ENDED}['\"”’)\]]*\s+|\n\s*")


class Tagger(Protocol):
    """Gives each word of a sentence its Penn Treebank tag, from the words alone."""

    @property
    def name(self) -> str:
        """Its name in the options."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """What its tags depend on: names and versions."""

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Tag sentences of words and punctuation marks; the tags of one do not depend on the others."""


def make_tagger(name: str) -> Tagger:
    """Load a tagger by its name in :data:`TAGGERS`, followed by a colon and a model if it needs one.

    Raises:
        ConfigError: for a name that is not in the table, or a model's name that is missing or superfluous.
        MissingExtraError: if its package is not installed.
        LexiconError: if its model is not installed.

    Example:
        >>> make_tagger("patern")
        Traceback (most recent call last):
        trueneg.errors.ConfigError: unknown tagger 'patern': did you mean 'pattern'? Known: pattern, pattern-all, ...
    """
    kind, _, model = name.partition(":")
    if kind not in TAGGERS:
        raise ConfigError(unknown_name("tagger", kind, TAGGERS))
    if (kind == "spacy") != bool(model):
        wanted = "spacy:MODEL, such as spacy:en_core_web_sm" if kind == "spacy" else kind
        raise ConfigError(f"the tagger '{name}' must be written {wanted}")
    make = load("tagger", kind, TAGGERS)
    return cast(Tagger, make(model) if model else make())


@dataclass(frozen=True)
class Tagged:
    """The words and punctuation marks of a text, in order, with only white space between them.

    Attributes:
        starts: the character offset where each begins, int64 [num_words], ascending.
        ends: the offset where each ends, int64 [num_words]; words do not overlap.
        tags: the number of each tag, uint8 [num_words]; 0 for punctuation.
    """

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    tags: npt.NDArray[np.uint8]


def tag_text(text: str, tagger: Tagger) -> Tagged:
    """Find the words of a text and tag them, sentence by sentence.

    Example:
        >>> class Nouns:
        ...     name, provenance = "nouns", {}
        ...     def __call__(self, sentences):
        ...         return [["NN"] * len(words) for words in sentences]
        >>> found = tag_text("It didn't rain. ☂", Nouns())
        >>> found.starts.tolist(), found.ends.tolist(), found.tags.tolist()
        ([0, 3, 6, 10, 14, 16], [2, 6, 9, 14, 15, 17], [12, 12, 12, 12, 0, 0])
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    starts, ends = np.fromiter(chain.from_iterable(spans), np.int64, 2 * len(spans)).reshape(-1, 2).T
    # Taggers know contractions with a typewriter's apostrophe.
    words = [text[start:end].replace("\u2019", "'") for start, end in spans]
    sentences = [words[first:last] for first, last in _sentences(text, starts)]
    tags = np.fromiter(map(number, chain.from_iterable(tagger(sentences))), np.uint8, len(words))
    alone = np.flatnonzero(ends - starts == 1)
    tags[alone[[not words[place].isalnum() for place in alone.tolist()]]] = 0  # whatever a tagger calls punctuation
    return Tagged(starts, ends, tags)


def _sentences(text: str, starts: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Indices of the first word of each sentence and of the one after its last."""
    ends = (match.end() for match in _BOUNDARY.finditer(text))
    begins = np.array([0, *(end for end in ends if not "a" <= text[end : end + 1] <= "z"), len(text)], dtype=np.int64)
    bounds = np.unique(np.searchsorted(starts, begins)).tolist()
    return [
        (first, min(first + _LONGEST_SENTENCE, stop))
        for begin, stop in pairwise(bounds)
        for first in range(begin, stop, _LONGEST_SENTENCE)
    ]
