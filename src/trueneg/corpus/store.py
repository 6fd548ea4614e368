"""A corpus on disk: its description, and its tokens, memory-mapped.

A folder holds ``corpus.json`` (written last, so that a folder without it is unfinished), ``tokenizer/``, and
for each split numbered shards of three flat little-endian files: ``tokens`` (uint16, or uint32 for more than
65,536 ids), ``offsets`` (int64, where each document begins, and the end) and ``words`` (one bit per token, the
first token in the highest bit of the first byte: 1 where a word begins). The module ``tags`` describes the files that
``--tag`` adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from trueneg.corpus.files import Description, check_size
from trueneg.errors import CorpusError
from trueneg.files.verified import Expected, verify
from trueneg.lexicon.wordnet_location import verified_folder
from trueneg.tokenizer import fingerprint, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

INFO_FILE = "corpus.json"
JOURNAL_FILE = "build.json"
PARTS = "parts"
"""Folder of the parts of a corpus or of annotations, until they are merged."""
SHARD_PARTS = ("tokens", "offsets", "words")
_AGAIN = "copy or build the corpus again"
_OFFSETS = np.dtype("<i8")

Split = Literal["train", "valid"]
TokenType = Literal["uint16", "uint32"]
"""Allowed dtypes of stored token ids; with others numpy could interpret a file's bytes as object pointers."""


@dataclass(frozen=True)
class SourceInfo:
    """A file that a corpus was built from; ``num_bytes`` is None for a hub data set."""

    name: str
    num_bytes: int | None


@dataclass(frozen=True)
class ShardInfo:
    """A shard's counts and the SHA-256 of each of its files, by part."""

    num_documents: int
    num_tokens: int
    checksums: Mapping[str, str]


@dataclass(frozen=True)
class SplitInfo:
    """Counts of a split, and of what was left out of it.

    Attributes:
        num_documents: documents stored.
        num_tokens: tokens stored.
        num_empty_documents: documents that had no token and were left out.
        num_unknown_tokens: stored tokens that are the tokenizer's unknown token.
        shards: its shards, in reading order.
    """

    num_documents: int = 0
    num_tokens: int = 0
    num_empty_documents: int = 0
    num_unknown_tokens: int = 0
    shards: tuple[ShardInfo, ...] = ()


@dataclass(frozen=True)
class CorpusInfo(Description):
    """Describes a built corpus; equal builds have equal files, whatever the number of workers.

    Attributes:
        tokenizer_fingerprint: ``trueneg.tokenizer.fingerprint`` of the tokenizer.
        vocab_size: one more than the largest token id.
        special_ids: ids by role: mask, pad, start, end.
        dtype: numpy dtype name of the stored ids.
        splits: ``train`` and maybe ``valid``.
        sources: the files read, in order, those of ``valid`` after those of ``train``.
        fingerprint: 16 hexadecimal digits over all of the above except the sources.
    """

    NOT_IN_FINGERPRINT = ("sources",)

    tokenizer_fingerprint: str
    vocab_size: int
    special_ids: Mapping[str, int]
    dtype: TokenType
    splits: Mapping[Split, SplitInfo]
    sources: tuple[SourceInfo, ...] = ()
    fingerprint: str = ""
    format_version: int = Description.FORMAT_VERSION

    @property
    def num_documents(self) -> int:
        """Documents of all splits."""
        return sum(split.num_documents for split in self.splits.values())

    @property
    def num_tokens(self) -> int:
        """Tokens of all splits."""
        return sum(split.num_tokens for split in self.splits.values())

    @classmethod
    def read(cls, folder: str | Path) -> CorpusInfo:
        """Read a corpus folder's ``corpus.json``.

        Raises:
            CorpusError: if it is missing, truncated, changed, or of another format version.
        """
        path = Path(folder) / INFO_FILE
        if not path.is_file():
            if path.with_name(JOURNAL_FILE).is_file():
                raise CorpusError(f"the corpus '{folder}' is unfinished: run the same 'trueneg corpus build' again")
            if path.with_name(PARTS).is_dir():
                raise CorpusError(f"the corpus '{folder}' is in parts: run 'trueneg corpus finish {folder}'")
            raise CorpusError(f"no corpus at '{folder}': make one with 'trueneg corpus build'")
        return cls.read_file(path, "build the corpus again")

    def fault(self) -> str | None:
        """Return what is inconsistent in the description, None if nothing is."""
        if "train" not in self.splits:
            return "it has no split 'train'"
        if not {"pad", "start", "end"} <= self.special_ids.keys():
            return "it lacks a special token"
        if not all(0 <= token < self.vocab_size for token in self.special_ids.values()):
            return "a special token is outside the vocabulary"
        for name, split in self.splits.items():
            if any(shard.num_documents < 1 or shard.num_tokens < shard.num_documents for shard in split.shards):
                return f"a shard of '{name}' has fewer tokens than documents, or none"
            for count in ("num_documents", "num_tokens"):
                if getattr(split, count) != sum(getattr(shard, count) for shard in split.shards):
                    return f"the {count} of '{name}' is not the sum of its shards'"
            if any(shard.checksums.keys() != set(SHARD_PARTS) for shard in split.shards):
                return f"the checksums of '{name}' are not those of {', '.join(SHARD_PARTS)}"
        return None


def _offsets_fault(offsets: npt.NDArray[np.int64], num_tokens: int) -> str | None:
    # Compared, not subtracted: a difference of damaged numbers may wrap around.
    ascend = offsets[0] == 0 and offsets[-1] == num_tokens and bool((offsets[1:] > offsets[:-1]).all())
    return None if ascend else f"its numbers do not ascend from 0 to {num_tokens:,}"


def shard_path(folder: Path, split: str, number: int, part: str) -> Path:
    """Return the path of a part of a shard."""
    return folder / split / f"{number:05d}.{part}.bin"


def shard_sizes(shard: ShardInfo, dtype: np.dtype[Any]) -> dict[str, int]:
    """Bytes of each of a shard's files."""
    return {
        "tokens": shard.num_tokens * dtype.itemsize,
        "offsets": (shard.num_documents + 1) * 8,
        "words": (shard.num_tokens + 7) // 8,
    }


@dataclass(frozen=True)
class Corpus:
    """A split of a finished corpus; tokens and documents are numbered across shards.

    Attributes:
        path: the corpus folder.
        split: its name.
        info: the description of the whole corpus.
        is_verified: whether its files were compared with their checksums when it was opened; if so, annotations and
            tags that are opened for it are verified, too.
    """

    path: Path
    split: Split
    info: CorpusInfo
    is_verified: bool = False

    @classmethod
    def open(cls, path: str | Path, split: str = "train", *, expect: str | None = None, verify: bool = True) -> Corpus:
        """Open a split.

        Args:
            path: a corpus folder.
            split: ``train`` or ``valid``.
            expect: the fingerprint of the tokenizer that the tokens must come from; None accepts any.
            verify: compare every file with its checksum, unless that was done since it last changed; if False, only
                the description and the files' sizes are checked, not their bytes.

        Raises:
            CorpusError: if the corpus is missing, unfinished, damaged, of another version or tokenizer, or has
                no such split.
        """
        info = CorpusInfo.read(path)
        if split not in info.splits:
            raise CorpusError(
                f"the corpus '{path}' has no split '{split}', only {', '.join(info.splits)}: "
                f"build it with --valid FILE|FRACTION"
            )
        corpus = cls(Path(path), cast(Split, split), info, is_verified=verify)
        if expect is not None:
            corpus.check_tokenizer(expect)
        for number, shard in enumerate(corpus.shards):
            for part, size in shard_sizes(shard, corpus.dtype).items():
                file = shard_path(corpus.path, split, number, part)
                check_size(file, size, _AGAIN)
        if verify:
            corpus.verify(again=False)
        return corpus

    def check_tokenizer(self, fingerprint: str) -> None:
        """Refuse a tokenizer that the corpus was not built with.

        Raises:
            CorpusError: if the fingerprints differ.
        """
        if fingerprint != self.info.tokenizer_fingerprint:
            raise CorpusError(
                f"the corpus '{self.path}' was built with tokenizer {self.info.tokenizer_fingerprint}, not "
                f"{fingerprint}: build it with this one, or use the one in '{self.path / 'tokenizer'}'"
            )

    def load_tokenizer(self) -> PreTrainedTokenizerFast:
        """Load the corpus's copy of the tokenizer that it was built with.

        Raises:
            CorpusError: if the copy was changed or replaced.
            ModelError: if it cannot be loaded.
        """
        folder = self.path / "tokenizer"
        tokenizer = load_tokenizer(folder)
        if (found := fingerprint(tokenizer)) != self.info.tokenizer_fingerprint:
            raise CorpusError(
                f"'{folder}' is not the tokenizer that '{self.path}' was built with (fingerprint {found}, not "
                f"{self.info.tokenizer_fingerprint}): it was damaged or replaced: {_AGAIN}"
            )
        return tokenizer

    def verify(self, *, again: bool = True) -> None:
        """Compare the split's files with their checksums; check that offsets ascend and ids are in the vocabulary.

        Args:
            again: read every byte, even of files that were verified before and have not changed since.

        Raises:
            CorpusError: naming the first file that is damaged.
        """
        files = [
            Expected(
                shard_path(self.path, self.split, number, part),
                shard.checksums[part],
                f"{part} {self.dtype} {shard.num_tokens} {self.info.vocab_size}",
                partial(self._fault, number, part),
            )
            for number, shard in enumerate(self.shards)
            for part in SHARD_PARTS
        ]
        verify(files, CorpusError, _AGAIN, verified_folder(), again=again)

    def _fault(self, number: int, part: str) -> str | None:
        """Return what is wrong with the content of a file whose checksum is right."""
        if part == "offsets":
            return _offsets_fault(self._map(number, part, _OFFSETS), self.shards[number].num_tokens)
        if part == "tokens" and (largest := int(self._map(number, part, self.dtype).max())) >= self.info.vocab_size:
            return f"the id {largest} is outside the vocabulary of {self.info.vocab_size:,}"
        return None

    @property
    def num_documents(self) -> int:
        """Documents in the split."""
        return self.info.splits[self.split].num_documents

    @property
    def num_tokens(self) -> int:
        """Tokens in the split, without special tokens."""
        return self.info.splits[self.split].num_tokens

    @property
    def shards(self) -> tuple[ShardInfo, ...]:
        """The split's shards."""
        return self.info.splits[self.split].shards

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored ids."""
        return np.dtype(self.info.dtype)

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where each document begins among the split's tokens, and the end, int64 [num_documents + 1].

        Raises:
            CorpusError: if those of a shard do not ascend from 0 to its number of tokens.
        """
        parts = [np.zeros(1, dtype=np.int64)]
        for number, shard in enumerate(self.shards):
            offsets = self._map(number, "offsets", _OFFSETS)
            if fault := _offsets_fault(offsets, shard.num_tokens):
                file = shard_path(self.path, self.split, number, "offsets")
                raise CorpusError(f"'{file}' is damaged ({fault}): {_AGAIN}")
            parts.append(offsets[1:] + self._starts[number])
        return np.concatenate(parts)

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        return np.cumsum([0] + [shard.num_tokens for shard in self.shards])

    @cached_property
    def _maps(self) -> tuple[tuple[npt.NDArray[Any], npt.NDArray[np.uint8]], ...]:
        return tuple(
            (self._map(number, "tokens", self.dtype), self._map(number, "words", np.dtype("u1")))
            for number in range(len(self.shards))
        )

    def _map(self, number: int, part: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        file = shard_path(self.path, self.split, number, part)
        return np.memmap(file, dtype=dtype, mode="r").view(np.ndarray)  # indexes faster than a memmap

    def tokens(self, start: int, stop: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Ids of tokens ``start`` to ``stop``, exclusive, in the stored dtype."""
        if not 0 <= start <= stop <= self.num_tokens:
            raise IndexError(f"tokens {start} to {stop} of {self.num_tokens}")
        first, last = np.searchsorted(self._starts, [start, max(stop - 1, start)], side="right") - 1
        pieces = [
            self._maps[n][0][max(start - self._starts[n], 0) : stop - self._starts[n]]
            for n in range(first, min(last + 1, len(self.shards)))
        ]
        return np.concatenate([np.empty(0, dtype=self.dtype), *pieces])

    def document(self, number: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Ids of a document, without special tokens."""
        return self.tokens(int(self.offsets[number]), int(self.offsets[number + 1]))

    def gather(self, places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Look up tokens at any positions.

        Args:
            places: indices of tokens in the split, any shape.

        Returns:
            Their ids, int64, and whether a word begins there, bool, of the same shape.
        """
        ids = np.empty(places.shape, dtype=np.int64)
        is_word_start = np.empty(places.shape, dtype=bool)
        shard_of = np.searchsorted(self._starts, places, side="right") - 1
        for number in np.unique(shard_of):
            here = shard_of == number
            ids[here], is_word_start[here] = self._look_up(number, places[here] - self._starts[number])
        return ids, is_word_start

    def windows(self, starts: npt.NDArray[np.int64], width: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Runs of tokens, one per row; past the end of the split, its last token is repeated.

        Args:
            starts: index of each run's first token, [n].
            width: run length in tokens.

        Returns:
            Ids, int64 [n, width], and whether a word begins there, bool [n, width].
        """
        places = np.minimum(starts[:, None] + np.arange(width), self.num_tokens - 1)
        ids = np.empty(places.shape, dtype=np.int64)
        is_word_start = np.empty(places.shape, dtype=bool)
        for number, here, local in self.by_shard(places):
            ids[here], is_word_start[here] = self._look_up(number, local)
        return ids, is_word_start

    def by_shard(self, places: npt.NDArray[np.int64]) -> Iterator[tuple[int, Any, npt.NDArray[np.int64]]]:
        """Group positions by shard.

        Args:
            places: indices of tokens in the split, [n, width], ascending in each row.

        Yields:
            The number of a shard, an index that selects the places in it, and their indices among its tokens.
        """
        first, last = (np.searchsorted(self._starts, places[:, [0, -1]], side="right") - 1).T
        for number in np.unique(first):
            here = (first == number) & (last == number)
            yield number, here, places[here] - self._starts[number]
        rows = np.flatnonzero(first != last)
        shard_of = np.searchsorted(self._starts, places[rows], side="right") - 1
        for number in np.unique(shard_of):
            row, column = np.nonzero(shard_of == number)
            yield number, (rows[row], column), places[rows[row], column] - self._starts[number]

    def _look_up(
        self, number: int, local: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.bool_]]:
        tokens, words = self._maps[number]
        bits = np.take(words, local >> 3) >> (7 - (local & 7)).astype(np.uint8)
        return np.take(tokens, local), (bits & 1).astype(bool)
