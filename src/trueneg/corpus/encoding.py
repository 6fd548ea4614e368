"""Encode texts as token ids, word starts and, if requested, tags, as fast as the tokenizer's own batch call."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trueneg.lexicon.surface import begins_without_space, word_marks
from trueneg.lexicon.tagging import Tagger, tag_text

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

# Tokenizers are slow and need much memory on long texts, so these are cut into pieces. A cut before a single space
# between two words changes no token for nearly all tokenizers (the others are detected), nor one before a line break
# after a letter: some join a break to punctuation before it. Text without such a place is cut late.
_PIECE_CHARACTERS = 1 << 12
_LONGEST_PIECE = 1 << 20
_SAFE_CUT = re.compile(r"(?<=\S) (?=\S)|(?<=\w)\n(?=\S)")
_METASPACE = "\u2581"


@dataclass(frozen=True)
class EncodedTags:
    """The tagged words of concatenated documents.

    Attributes:
        tags: tag of the word that each token belongs to, 0 for none, uint8 [num_tokens].
        forms: distinct words, each with the number of its tag.
        words: index of each word in ``forms``, int64 [num_words].
        last_tokens: index of each word's last token, int64 [num_words], ascending.
    """

    tags: npt.NDArray[np.uint8]
    forms: tuple[tuple[str, int], ...]
    words: npt.NDArray[np.int64]
    last_tokens: npt.NDArray[np.int64]

    def counts(self, start: int, stop: int) -> dict[tuple[str, int], int]:
        """How often each word occurs among the tokens from ``start`` to ``stop``, exclusive."""
        first, last = np.searchsorted(self.last_tokens, [start, stop])
        found, times = np.unique(self.words[first:last], return_counts=True)
        return {self.forms[number]: count for number, count in zip(found.tolist(), times.tolist(), strict=True)}

    def without_first(self, count: int) -> EncodedTags:
        """The same without the first ``count`` tokens and the words that end in them."""
        first = int(np.searchsorted(self.last_tokens, count))
        return EncodedTags(self.tags[count:], self.forms, self.words[first:], self.last_tokens[first:] - count)


@dataclass(frozen=True)
class TokenizedTexts:
    """Concatenated documents.

    Attributes:
        tokens: ids, uint16 or uint32, no special tokens, [num_tokens].
        is_word_start: bool, [num_tokens].
        lengths: tokens of each document, int64, [num_documents]; 0 for an empty one.
        tagged: parts of speech; None without a tagger.
    """

    tokens: npt.NDArray[np.unsignedinteger[Any]]
    is_word_start: npt.NDArray[np.bool_]
    lengths: npt.NDArray[np.int64]
    tagged: EncodedTags | None = None

    def without_first(self, count: int) -> TokenizedTexts:
        """All documents but the first ``count``."""
        start = int(self.lengths[:count].sum())
        tagged = None if self.tagged is None else self.tagged.without_first(start)
        return TokenizedTexts(self.tokens[start:], self.is_word_start[start:], self.lengths[count:], tagged)


class CorpusTokenizer:
    """A tokenizer as a function from texts to arrays.

    Special tokens spelt out in a text (``[MASK]``, ``</s>``) are encoded as plain text, so a corpus cannot
    forge them; where a model has them among its ordinary pieces, as Unigram models do, they are unknown. Everything
    else is encoded as the tokenizer does.

    Args:
        tokenizer: the tokenizer; its options are changed.
        tagger: also tags the words; None for no tags.
    """

    def __init__(self, tokenizer: Tokenizer, tagger: Tagger | None = None) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        self._tokenizer = tokenizer
        self._tagger = tagger
        self.is_uncased = is_uncased(tokenizer)
        self.dtype = token_dtype(max(vocabulary.values()) + 1)
        # To the library, words end at spaces in SentencePiece models; without a pre-tokenizer, the text is one word.
        self._starts_word = np.zeros(max(vocabulary.values()) + 1, dtype=bool)
        added = tokenizer.get_added_tokens_decoder()
        marks = word_marks(tokenizer)
        starts = begins_without_space if marks.is_sentencepiece else lambda token: False
        self._starts_word[
            [i for token, i in vocabulary.items() if i not in added and (token[:1] == _METASPACE or starts(token))]
        ] = True
        self._is_special = np.zeros(len(self._starts_word), dtype=bool)
        self._is_special[[i for i, token in added.items() if token.special]] = True
        self._unknown = None if marks.unknown is None else tokenizer.token_to_id(marks.unknown)
        self._can_cut = self._ids("One two\nthree") == [i for t in ("One", " two", "\nthree") for i in self._ids(t)]

    def __call__(self, texts: Sequence[str]) -> TokenizedTexts:
        """Encode documents; the result does not depend on how they are grouped into calls."""
        pieces = [cut(text) if self._can_cut else [text] for text in texts]
        encodings = self._tokenizer.encode_batch(list(chain.from_iterable(pieces)), add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        sizes = np.fromiter(map(len, ids), np.int64, len(ids))
        num_tokens = int(sizes.sum())
        tokens = np.fromiter(chain.from_iterable(ids), self.dtype, num_tokens)
        if self._unknown is not None:
            tokens[self._is_special[tokens]] = self._unknown
        words = np.fromiter(chain.from_iterable(e.word_ids for e in encodings), np.int64, num_tokens)
        is_word_start = self._starts_word[tokens]
        is_word_start[1:] |= words[1:] != words[:-1]
        ends = np.cumsum(sizes)
        is_word_start[(ends - sizes)[sizes > 0]] = True
        last_pieces = np.cumsum([len(p) for p in pieces], dtype=np.int64) - 1
        document_ends = ends[last_pieces] if len(texts) else ends
        lengths = np.diff(document_ends, prepend=0)
        if self._tagger is None:
            return TokenizedTexts(tokens, is_word_start, lengths)
        spans = _spans(encodings, list(chain.from_iterable(pieces)), sizes)
        return TokenizedTexts(tokens, is_word_start, lengths, self._tagged(texts, spans, is_word_start))

    def _tagged(
        self, texts: Sequence[str], spans: npt.NDArray[np.int64], is_word_start: npt.NDArray[np.bool_]
    ) -> EncodedTags:
        """Tag documents and find each token's word by the positions of both in the joined texts."""
        assert self._tagger is not None
        found = [tag_text(text, self._tagger) for text in texts]
        begins = np.cumsum([0, *map(len, texts)])
        starts, ends = (
            np.concatenate(
                [np.empty(0, np.int64), *(getattr(t, edge) + b for t, b in zip(found, begins, strict=False))]
            )
            for edge in ("starts", "ends")
        )
        numbers = np.concatenate([np.zeros(1, np.uint8), *(t.tags for t in found)])  # the first is for no word
        word = _words_of(spans, starts, ends, is_word_start)
        is_edge = np.concatenate([is_word_start | (np.diff(word, prepend=-1) != 0), [True]])
        first, last = np.flatnonzero(is_edge[:-1] & (word >= 0)), np.flatnonzero(is_edge[1:] & (word >= 0))
        # The tokenizer splits the other words into several, or makes them part of another one.
        is_whole = (spans[first, 0] <= starts[word[first]]) & (spans[last, 1] == ends[word[last]])
        numbers[word[first[~is_whole]] + 1] = 0

        found, last = word[first[is_whole]], last[is_whole]
        text = "".join(texts)
        spelling = str.lower if self.is_uncased else str
        edges = zip(starts[found].tolist(), ends[found].tolist(), numbers[found + 1].tolist(), strict=True)
        form_numbers: dict[tuple[str, int], int] = {}
        words = [
            form_numbers.setdefault((spelling(text[start:end]), tag), len(form_numbers))
            for start, end, tag in edges
            if tag
        ]
        return EncodedTags(
            numbers[word + 1], tuple(form_numbers), np.array(words, np.int64), last[numbers[found + 1] > 0]
        )

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids


def _spans(encodings: Sequence[Encoding], pieces: Sequence[str], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each token begins and ends in the joined pieces, in characters, int64 [num_tokens, 2]."""
    flat = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    spans = np.fromiter(flat, np.int64, 2 * int(sizes.sum())).reshape(-1, 2)
    begins = np.cumsum([0, *map(len, pieces)], dtype=np.int64)[:-1]
    return spans + np.repeat(begins, sizes)[:, None]


def _words_of(
    spans: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    is_word_start: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    """Index of the word that each token is in, ignoring white space before it, int64 [num_tokens]; -1 for none."""
    word = np.searchsorted(starts, spans[:, 1]) - 1  # the last one that begins before the token ends
    ends = np.concatenate([[0], ends])  # [word]: of the word before; [word + 1]: of the word
    lies_within = (word >= 0) & (spans[:, 1] <= ends[word + 1]) & (spans[:, 0] >= ends[word])
    # A token of white space alone, as SentencePiece may have before a word, belongs to the word that follows.
    is_blank = is_word_start & (spans[:, 0] >= ends[word + 1])
    word = np.where(lies_within, word, -1)
    leads = np.flatnonzero(is_blank[:-1] & ~is_word_start[1:])
    word[leads] = word[leads + 1]
    return word


def is_uncased(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer ignores case."""
    normalizer = tokenizer.normalizer
    return normalizer is not None and "A" not in normalizer.normalize_str("A")


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """The smallest of uint16 and uint32, little-endian, that holds every id."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def cut(text: str) -> list[str]:
    """Cut a long text between words into pieces that join to the text; at least one piece, possibly empty."""
    pieces, start = [], 0
    while len(text) - start > _PIECE_CHARACTERS:
        match = _SAFE_CUT.search(text, start + _PIECE_CHARACTERS, start + _LONGEST_PIECE)
        end = match.start() if match else min(start + _LONGEST_PIECE, len(text))
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Restrict the tokenizer library to one thread: work is parallelized over processes."""
    before = os.environ.get("TOKENIZERS_PARALLELISM")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TOKENIZERS_PARALLELISM"]
        else:
            os.environ["TOKENIZERS_PARALLELISM"] = before
