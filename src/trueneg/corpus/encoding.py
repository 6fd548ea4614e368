"""Texts to token ids and word starts, at the speed of the tokenizer's own batch call."""

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

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# A tokenizer slows down on long texts and wants memory, so they go in pieces. A cut before the one space between
# two words changes no token for nearly all tokenizers (the others are found out); a text without any is cut late.
_PIECE_CHARACTERS = 1 << 12
_LONGEST_PIECE = 1 << 20
_SAFE_CUT = re.compile(r"(?<=\S)[ \n](?=\S)")
_METASPACE = "\u2581"


@dataclass(frozen=True)
class Encoded:
    """Documents one after another.

    Attributes:
        tokens: ids, uint16 or uint32, no special tokens, [num_tokens].
        is_word_start: bool, [num_tokens].
        lengths: tokens of each document, int64, [num_documents]; 0 for one that is empty.
    """

    tokens: npt.NDArray[np.unsignedinteger[Any]]
    is_word_start: npt.NDArray[np.bool_]
    lengths: npt.NDArray[np.int64]


class Encoder:
    """A tokenizer as a function from texts to arrays.

    Special tokens spelt out in a text (``[MASK]``, ``</s>``) are encoded as the plain text they are: a corpus
    cannot forge them. Everything else is what the tokenizer gives.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        self._tokenizer = tokenizer
        self.dtype = token_dtype(max(vocabulary.values()) + 1)
        # Without a pre-tokenizer, as in some SentencePiece models, the whole text is one word to the library.
        self._starts_word = np.zeros(max(vocabulary.values()) + 1, dtype=bool)
        self._starts_word[[i for token, i in vocabulary.items() if token.startswith(_METASPACE)]] = True
        self._can_cut = self._ids("One two\nthree") == [i for t in ("One", " two", "\nthree") for i in self._ids(t)]

    def __call__(self, texts: Sequence[str]) -> Encoded:
        """Encode documents; the result does not depend on how they are grouped into calls."""
        pieces = [cut(text) if self._can_cut else [text] for text in texts]
        encodings = self._tokenizer.encode_batch(list(chain.from_iterable(pieces)), add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        sizes = np.fromiter(map(len, ids), np.int64, len(ids))
        num_tokens = int(sizes.sum())
        tokens = np.fromiter(chain.from_iterable(ids), self.dtype, num_tokens)
        words = np.fromiter(chain.from_iterable(e.word_ids for e in encodings), np.int64, num_tokens)
        is_word_start = self._starts_word[tokens]
        is_word_start[1:] |= words[1:] != words[:-1]
        ends = np.cumsum(sizes)
        is_word_start[(ends - sizes)[sizes > 0]] = True
        last_pieces = np.cumsum([len(p) for p in pieces], dtype=np.int64) - 1
        document_ends = ends[last_pieces] if len(texts) else ends
        return Encoded(tokens, is_word_start, np.diff(document_ends, prepend=0))

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """The smallest of uint16 and uint32, little-endian, that holds every id."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def cut(text: str) -> list[str]:
    """Cut a long text between words into pieces that join to the text; at least one piece, maybe empty."""
    pieces, start = [], 0
    while len(text) - start > _PIECE_CHARACTERS:
        match = _SAFE_CUT.search(text, start + _PIECE_CHARACTERS, start + _LONGEST_PIECE)
        end = match.start() if match else min(start + _LONGEST_PIECE, len(text))
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Keep the tokenizer library to one thread: the processes are the parallelism."""
    before = os.environ.get("TOKENIZERS_PARALLELISM")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TOKENIZERS_PARALLELISM"]
        else:
            os.environ["TOKENIZERS_PARALLELISM"] = before
