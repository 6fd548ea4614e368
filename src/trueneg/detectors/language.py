"""Check that text is in the language of its detectors."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from trueneg.corpus.store import Corpus
from trueneg.detectors.specification import Leaf, leaves, parse
from trueneg.errors import TruenegWarning
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.wordnet import WordNet

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ENGLISH = frozenset(
    "lexical first-sense antonym sister hypernym calendar number name derived proper fits learned".split()  # noqa: SIM905
)
"""Detectors that read WordNet, or know how English inflects."""

MIN_KNOWN = 0.6
"""Minimum share of words in WordNet, of three letters or more and without stop words. English: 0.87 to 0.95 (Wikipedia,
books, reviews, news); German 0.25, Spanish 0.32 and French 0.37 (manuals, which contain some English)."""

_BLOCKS, _BLOCK_TOKENS = 20, 2000
_MIN_WORDS = 500  # distinct words: less text is not conclusive
_WORD = re.compile(r"[^\W\d_]{3,}")


def share_known(corpus: Corpus, tokenizer: PreTrainedTokenizerFast, wordnet: WordNet) -> float | None:
    """The share of a corpus's words that are in WordNet, from a sample; None if there is too little text."""
    starts = np.linspace(0, max(0, corpus.num_tokens - _BLOCK_TOKENS), _BLOCKS).astype(int).tolist()
    blocks = (corpus.tokens(at, min(at + _BLOCK_TOKENS, corpus.num_tokens)).tolist() for at in dict.fromkeys(starts))
    found = (word.lower() for block in blocks for word in _WORD.findall(str(tokenizer.decode(block))))
    words = [word for word in found if word not in STOP_WORDS]
    if len(set(words)) < _MIN_WORDS:
        return None
    is_known = cache(wordnet.__contains__)
    return sum(map(is_known, words)) / len(words)


def _with_calibrated(specification: str) -> list[Leaf]:
    """Parts of a specification, and of those that its calibration files hold."""
    from trueneg.detectors.scorers.calibrated import calibrated_parts

    found = leaves(parse(specification))
    return [part for leaf in found for part in (leaf, *calibrated_parts(leaf))]


def warn_of_another_language(
    specification: str, corpus: Corpus, tokenizer: PreTrainedTokenizerFast, wordnet: str = ""
) -> None:
    """Warn if a detector is for English and the text is not English.

    Args:
        specification: The detector's specification; a detector without WordNet is not checked.
        corpus: The text.
        tokenizer: The corpus's tokenizer.
        wordnet: WordNet's folder; empty to search the usual places.

    Raises:
        ConfigError: for an invalid specification.
        LexiconError: if WordNet is not found.
    """
    names = [leaf.name for leaf in _with_calibrated(specification) if leaf.name in ENGLISH]
    if not names:
        return
    share = share_known(corpus, tokenizer, WordNet.load(wordnet or None))
    if share is not None and share < MIN_KNOWN:
        warnings.warn(
            f"the detector '{names[0]}' is of English, and WordNet knows {share:.0%} of the words of '{corpus.path}' "
            f"(of English text about 90%): it will find next to nothing, or false friends. For another language take a "
            f"detector without WordNet, such as contextual:ENCODER or neighbours:VECTORS",
            TruenegWarning,
            stacklevel=3,
        )
