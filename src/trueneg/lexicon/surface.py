"""Vocabulary entries as text, without the marks of their tokenizer.

WordPiece writes ``##`` before a piece inside a word, byte-level BPE ``Ġ`` for the space before a word,
SentencePiece ``▁``. Synonym lookups need the word, and whether two entries can occur in the same position.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trueneg.lexicon.stopwords import STOP_WORDS

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

Prefix = Literal["start", "bare", "inside"]
"""Position of an entry: at the "start" of a word, "inside" one, or "bare": inside a word, or at the start of a word
without a space before it (the first of a text, one in quotation marks), which the entry alone does not show."""

Casing = Literal["lower", "title", "upper", "mixed"]


@dataclass(frozen=True, slots=True)
class Surface:
    """A vocabulary entry as text.

    Attributes:
        word: its text without the marks, cased as in the vocabulary; empty for special tokens, ids
            without a token, and bytes that are not valid text.
        prefix: its position in a word. Two entries can replace each other only if their prefixes agree.
        casing: its casing; text without letters counts as "lower".
    """

    word: str
    prefix: Prefix
    casing: Casing

    @property
    def starts_word(self) -> bool:
        """Whether it can begin a word: never for a ``##`` piece, or without ``▁`` in SentencePiece."""
        return self.prefix != "inside"

    @property
    def is_word(self) -> bool:
        """Whether it is text that can begin a word, and not of mixed casing."""
        return self.starts_word and self.casing != "mixed" and bool(self.word)

    @property
    def is_substitutable(self) -> bool:
        """Whether it may have substitutes or be one, by our rules: see ``is_candidate``."""
        return self.is_word and is_candidate(self.word)


MIN_LETTERS = 3
"""Minimum number of letters of a word that may be or have a substitute: our rule, not the paper's."""

NO_SURFACE = Surface("", "inside", "lower")
"""The surface of a special token, of an id without a token, and of bytes that are not valid text."""


def surfaces(tokenizer: PreTrainedTokenizerFast) -> list[Surface]:
    """The surface of every token id of a fast tokenizer, indexed by id.

    Example:
        For BERT's tokenizer, ``surfaces(tokenizer)[3078] == Surface("primary", "start", "lower")``.
    """
    tokens = tokenizer.get_vocab()
    added = tokenizer.added_tokens_decoder
    read = _reader(tokenizer)
    found = [NO_SURFACE] * (max(tokens.values(), default=-1) + 1)
    special = set(tokenizer.all_special_ids) | {i for i, token in added.items() if token.special}
    for token, token_id in tokens.items():
        if token_id in special:
            continue
        # An added token is matched as plain text before the tokenizer's own rules, so it has no mark.
        text, prefix = (token.strip(), read("")[1]) if token_id in added else read(token)
        if text and "\N{REPLACEMENT CHARACTER}" not in text:
            found[token_id] = Surface(text, prefix, casing(text))
    return found


def substitution_groups(
    tokenizer: PreTrainedTokenizerFast, *, every_word: bool = False
) -> dict[tuple[Prefix, Casing], dict[str, int]]:
    """Group the words of a vocabulary by the prefix and casing that must agree in a pair: lower-case word to id.

    Args:
        tokenizer: any fast tokenizer.
        every_word: include numbers, stop words and words of one or two letters, not only those of ``is_candidate``.
    """
    groups: dict[tuple[Prefix, Casing], dict[str, int]] = defaultdict(dict)
    for token_id, surface in enumerate(surfaces(tokenizer)):
        if surface.is_word if every_word else surface.is_substitutable:
            groups[surface.prefix, surface.casing][surface.word.lower()] = token_id
    return groups


def casing(word: str) -> Casing:
    """The pattern of capitals in a word.

    Example:
        >>> [casing(word) for word in ("main", "Main", "MAIN", "iPod", "1990")]
        ['lower', 'title', 'upper', 'mixed', 'lower']
    """
    if word == word.lower():
        return "lower"
    if word == word[:1].upper() + word[1:].lower():
        return "title"
    return "upper" if word == word.upper() else "mixed"


def is_candidate(word: str) -> bool:
    """Whether a word may be one of a pair of substitutes, by our rules: letters only, at least three, no stop word.

    The paper counts without stop words (footnote 5) and says no more; the rest is ours. Shorter "synonyms" are
    abbreviations: he - helium, as - arsenic, us - uranium.

    Example:
        >>> [is_candidate(word) for word in ("main", "the", "us", "1990s")]
        [True, False, False, False]
    """
    return len(word) >= MIN_LETTERS and word.isalpha() and word.lower() not in STOP_WORDS


@dataclass(frozen=True)
class WordMarks:
    """How a tokenizer marks words in its tokens, and text that it has no token for."""

    is_byte_level: bool
    is_sentencepiece: bool
    """Beginnings of words have ``▁``."""
    suffix: str
    """What marks a word's last token, such as ``</w>``; empty if nothing does."""
    unknown: str | None = None
    """Its unknown token, if it has one."""


def word_marks(tokenizer: Tokenizer) -> WordMarks:
    """Find how a tokenizer of the ``tokenizers`` library marks words."""
    return _word_marks(json.loads(tokenizer.to_str()))


def _word_marks(rules: Mapping[str, Any]) -> WordMarks:
    marks = json.dumps([rules[part] for part in ("normalizer", "pre_tokenizer", "decoder")], ensure_ascii=False)
    model = rules["model"]
    unigram = model.get("unk_id")  # of Unigram models, whose vocabulary is a list of pieces and scores
    unknown = model.get("unk_token") if unigram is None else model["vocab"][unigram][0]
    if '"ByteLevel"' in marks:
        return WordMarks(True, False, "", unknown)
    is_sentencepiece = "▁" in marks or '"Metaspace"' in marks
    suffix = "" if is_sentencepiece else model.get("end_of_word_suffix") or ""
    return WordMarks(False, is_sentencepiece, suffix, unknown)


def begins_without_space(text: str) -> bool:
    r"""Whether a SentencePiece token without ``▁`` begins a word: punctuation does, as for other tokenizers.

    To the tokenizer it belongs to the word before it, which would then not be a whole word where a comma follows it.

    Example:
        >>> [begins_without_space(text) for text in (",", "'s", "ing", "<0xC3>", "\u0301")]
        [True, True, False, False, False]
    """
    is_part = text[:1].isalnum() or unicodedata.category(text[0]).startswith("M") or _BYTE.fullmatch(text)
    return not is_part


_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def _reader(tokenizer: PreTrainedTokenizerFast) -> Callable[[str], tuple[str, Prefix]]:
    """A function from this tokenizer's tokens to text and prefix, derived from the tokenizer's own rules."""
    from tokenizers import decoders

    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    model, marks = rules["model"], _word_marks(rules)

    if marks.is_byte_level:
        byte_level = decoders.ByteLevel()

        def read_bytes(token: str) -> tuple[str, Prefix]:
            text = byte_level.decode([token])
            return text.removeprefix(" "), "start" if text.startswith(" ") else "bare"

        return read_bytes

    if marks.is_sentencepiece:
        return lambda token: (token.removeprefix("▁"), "start" if token.startswith("▁") else "inside")

    if suffix := marks.suffix:
        return lambda token: (token.removesuffix(suffix), "bare" if token.endswith(suffix) else "inside")

    if inside := model.get("continuing_subword_prefix"):
        return lambda token: (token.removeprefix(inside), "inside" if token.startswith(inside) else "start")

    whole: Prefix = "start" if model["type"] == "WordLevel" else "bare"
    return lambda token: (token, whole)
