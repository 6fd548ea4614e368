"""Annotations on disk: each token's accepted substitutes and their credit, memory-mapped.

A folder holds ``annotations.json`` (written last, so that a folder without it is unfinished) and for each split of
the corpus four flat little-endian files: ``counts`` (uint8, a token's number of substitutes), ``substitutes`` (their
ids, in the corpus's dtype, a token's best one first), ``credits`` (uint8, in 255ths) and ``blocks`` (int64, the index
of the first substitute of every 64th token, and the end). Any run of tokens is found in time that does not depend on
where it is, and its data are contiguous.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trueneg.corpus.files import Description, check_size
from trueneg.corpus.store import PARTS as IN_PARTS
from trueneg.corpus.store import Corpus, Split, TokenType
from trueneg.errors import CorpusError
from trueneg.files.verified import Expected, verify
from trueneg.lexicon.wordnet_location import verified_folder

INFO_FILE = "annotations.json"
JOURNAL_FILE = "annotating.json"
PARTS = ("counts", "blocks", "substitutes", "credits")
BLOCK = 64
"""Tokens per entry of ``blocks``: an eighth of a byte per token, and few counts to add up to find a token."""
FULL = 255
"""The stored credit that means 1."""
MOST = 255
"""The largest value of a count."""
_AGAIN = "copy the annotations or annotate the corpus again"
_STRETCH = 1 << 22  # tokens whose counts are added up at once, a multiple of BLOCK

_Int64s = npt.NDArray[np.int64]
_UInt8s = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class SplitAnnotations:
    """Counts of the annotations of a split.

    Attributes:
        num_tokens: tokens of the split.
        num_annotated: tokens annotated, which are the first ones of the split.
        num_rows: rows annotated.
        num_with_substitutes: tokens with a substitute.
        num_pairs: substitutes stored.
        num_left_out: accepted substitutes beyond the largest number kept for a token, which are not stored.
        most_found: the largest number of substitutes stored for a token.
        checksums: SHA-256 of each file, by part.
    """

    num_tokens: int
    num_annotated: int = 0
    num_rows: int = 0
    num_with_substitutes: int = 0
    num_pairs: int = 0
    num_left_out: int = 0
    most_found: int = 0
    checksums: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share of the split's tokens that are annotated, in [0, 1]."""
        return self.num_annotated / self.num_tokens


@dataclass(frozen=True)
class AnnotationsInfo(Description):
    """Description of annotations.

    Attributes:
        corpus: the corpus's fingerprint.
        tokenizer_fingerprint: its tokenizer's fingerprint.
        dtype: numpy dtype name of the stored ids.
        detector: the annotator's name in the options.
        provenance: where the detector's resources and threshold come from.
        most: the largest number of substitutes kept for a token, the best ones.
        length: row length in tokens: the annotator's context.
        splits: counts of each split, by name.
        fingerprint: 16 hexadecimal digits over all of the above.
    """

    corpus: str
    tokenizer_fingerprint: str
    dtype: TokenType
    detector: str
    provenance: Mapping[str, str]
    most: int
    length: int
    splits: Mapping[Split, SplitAnnotations]
    fingerprint: str = ""
    format_version: int = Description.FORMAT_VERSION

    @property
    def share(self) -> float:
        """The share of all splits' tokens that are annotated, in [0, 1]."""
        splits = self.splits.values()
        return sum(split.num_annotated for split in splits) / sum(split.num_tokens for split in splits)

    @classmethod
    def read(cls, folder: str | Path) -> AnnotationsInfo:
        """Read a folder's ``annotations.json``.

        Raises:
            CorpusError: if it is missing, truncated, changed, or of another format version.
        """
        path = Path(folder) / INFO_FILE
        if not path.is_file():
            if path.with_name(JOURNAL_FILE).is_file():
                raise CorpusError(f"'{folder}' is unfinished: run the same 'trueneg corpus annotate' again")
            if path.with_name(IN_PARTS).is_dir():
                raise CorpusError(f"'{folder}' is in parts: run 'trueneg corpus finish {folder}'")
            raise CorpusError(f"no annotations at '{folder}': make them with 'trueneg corpus annotate'")
        return cls.read_file(path, "annotate the corpus again")

    def fault(self) -> str | None:
        """Return what is inconsistent in the description, None if nothing is."""
        if not self.splits:
            return "it has no split"
        for name, split in self.splits.items():
            if not 0 < split.num_annotated <= split.num_tokens:
                return f"'{name}' has {split.num_annotated} of {split.num_tokens} tokens annotated"
            if not 0 <= split.most_found <= self.most <= MOST:
                return f"a token of '{name}' has {split.most_found} substitutes, of at most {self.most}"
            if split.checksums.keys() != set(PARTS):
                return f"the checksums of '{name}' are not those of {', '.join(PARTS)}"
        return None


def part_path(folder: Path, split: str, part: str) -> Path:
    """The path of a part of a split."""
    return folder / split / f"{part}.bin"


def part_sizes(split: SplitAnnotations, dtype: np.dtype[Any]) -> dict[str, int]:
    """Bytes of each of a split's files."""
    return {
        "counts": split.num_annotated,
        "blocks": (-(-split.num_annotated // BLOCK) + 1) * 8,
        "substitutes": split.num_pairs * dtype.itemsize,
        "credits": split.num_pairs,
    }


def block_starts(counts: Path) -> _Int64s:
    """The index of the first substitute of every block of tokens, and the end, computed from the file of counts."""
    sums = [np.zeros(1, dtype=np.int64)]
    with counts.open("rb") as file:
        while stretch := file.read(_STRETCH):
            numbers = np.frombuffer(stretch, dtype=np.uint8)
            sums.append(np.add.reduceat(numbers, np.arange(0, len(numbers), BLOCK), dtype=np.int64))
    return np.cumsum(np.concatenate(sums))


def quantised(credit: npt.ArrayLike) -> _UInt8s:
    """Quantise credit in [0, 1] to the nearest 255th, a half rounded up, but positive credit never to 0.

    So 1 stays 1, credit of at least 1/2 stays at least 1/2, credit below 1/2 stays below, and credit above 1/510
    changes by at most 1/510.

    Example:
        >>> quantised([0, 1e-9, 0.4999, 0.5, 1]).tolist()
        [0, 1, 127, 128, 255]
    """
    exact = np.asarray(credit, dtype=np.float64)
    nearest = np.floor(exact * FULL + 0.5)
    return np.where(exact > 0, np.maximum(nearest, 1), 0).astype(np.uint8)


@dataclass(frozen=True)
class Annotations:
    """Annotations of a split of a corpus.

    Attributes:
        path: their folder.
        split: the split's name.
        info: their description.
        vocab_size: vocabulary size of the corpus, above all ids of substitutes.
    """

    path: Path
    split: Split
    info: AnnotationsInfo
    vocab_size: int

    @classmethod
    def open(cls, path: str | Path, corpus: Corpus) -> Annotations:
        """Open the annotations of a split; they are verified if the corpus was verified when it was opened.

        Raises:
            CorpusError: if the annotations are missing, unfinished, damaged, of another version or of another corpus,
                or have no such split.
        """
        annotations = cls(Path(path), corpus.split, AnnotationsInfo.read(path), corpus.info.vocab_size)
        annotations.check(corpus)
        info = annotations.info
        for part, size in part_sizes(annotations.counts, np.dtype(info.dtype)).items():
            file = part_path(annotations.path, corpus.split, part)
            check_size(file, size, _AGAIN)
        if corpus.is_verified:
            annotations.verify(again=False)
        return annotations

    def check(self, corpus: Corpus) -> None:
        """Refuse another corpus, or another split.

        Raises:
            CorpusError: naming both.
        """
        if self.info.corpus != corpus.info.fingerprint:
            raise CorpusError(
                f"'{self.path}' annotates another corpus (fingerprint {self.info.corpus}, '{corpus.path}' has "
                f"{corpus.info.fingerprint}): annotate this one with 'trueneg corpus annotate'"
            )
        if self.split != corpus.split:
            raise CorpusError(f"'{self.path}' was opened for the split '{self.split}', not for '{corpus.split}'")
        if corpus.split not in self.info.splits:
            raise CorpusError(
                f"'{self.path}' does not annotate the split '{corpus.split}' of its corpus, only "
                f"{', '.join(self.info.splits)}: annotate all splits, or leave that one unused"
            )
        if self.counts.num_tokens != corpus.num_tokens:
            raise CorpusError(
                f"'{self.path / INFO_FILE}' is damaged ({self.counts.num_tokens:,} tokens of '{corpus.split}', which "
                f"has {corpus.num_tokens:,}): annotate the corpus again"
            )

    @property
    def counts(self) -> SplitAnnotations:
        """Counts of the split."""
        return self.info.splits[self.split]

    @property
    def width(self) -> int:
        """Length of the padded lists of substitutes: that of the longest list of any split, at least 1."""
        return max(1, *(split.most_found for split in self.info.splits.values()))

    def verify(self, *, again: bool = True) -> None:
        """Compare the split's files with their checksums; check that they fit each other and the vocabulary.

        Args:
            again: read every byte, even of files that were verified before and have not changed since.

        Raises:
            CorpusError: naming the first file that is damaged.
        """
        files = [
            Expected(
                part_path(self.path, self.split, part),
                self.counts.checksums[part],
                f"{part} {self.info.dtype} {self.vocab_size} {self.counts.checksums['counts']}",
                partial(self._fault, part),
            )
            for part in PARTS
        ]
        verify(files, CorpusError, _AGAIN, verified_folder(), again=again)

    def _fault(self, part: str) -> str | None:
        """What is wrong with the content of a file whose checksum is right."""
        if part == "counts" and int(self._counts.max()) > self.counts.most_found:
            return f"a token has more than {self.counts.most_found} substitutes"
        if part == "blocks":
            expected = block_starts(part_path(self.path, self.split, "counts"))
            if not np.array_equal(self._blocks, expected) or expected[-1] != self.counts.num_pairs:
                return "its numbers are not those that follow from the counts"
        if part == "substitutes" and len(self._substitutes):
            largest = int(self._substitutes.max())
            return None if largest < self.vocab_size else f"the id {largest} lies outside the vocabulary"
        return None

    def windows(self, starts: _Int64s, width: int) -> tuple[npt.NDArray[np.int32], _UInt8s]:
        """Substitutes of runs of tokens, one run per row; none past the annotated tokens.

        Args:
            starts: index of each run's first token, [n].
            width: run length in tokens.

        Returns:
            Ids, int32 [n, width, self.width], and their credit in 255ths, uint8 of the same shape: the best first,
            both padded with 0.
        """
        return self.lists(*self.places(starts, width))

    def places(self, starts: _Int64s, width: int) -> tuple[_UInt8s, _Int64s]:
        """Locate the substitutes of runs of tokens.

        Returns:
            The number of each token's substitutes, uint8 [n, width], and the index of its first, int64 [n, width].
        """
        block = np.minimum(starts // BLOCK, len(self._blocks) - 1)
        places = (block * BLOCK)[:, None] + np.arange(BLOCK - 1 + width)
        counts = np.take(self._counts, places, mode="clip")
        counts[places >= len(self._counts)] = 0
        ends = np.cumsum(counts, axis=1, dtype=np.int64) + self._blocks[block, None]
        columns = np.minimum(starts - block * BLOCK, BLOCK - 1)[:, None] + np.arange(width)
        wanted = np.take_along_axis(counts, columns, axis=1)
        return wanted, np.take_along_axis(ends, columns, axis=1) - wanted

    def lists(self, counts: _UInt8s, first: _Int64s) -> tuple[npt.NDArray[np.int32], _UInt8s]:
        """Substitutes at the locations that ``places`` returns.

        Args:
            counts: the number of each token's substitutes, of any shape.
            first: the index of the first, of the same shape.

        Returns:
            As ``windows``, of the shape [*counts.shape, self.width].
        """
        ids = np.zeros((*counts.shape, self.width), dtype=np.int32)
        credit = np.zeros(ids.shape, dtype=np.uint8)
        places = np.flatnonzero(counts)
        sizes = counts.ravel()[places].astype(np.int64)
        begins = np.cumsum(sizes) - sizes
        numbers = np.arange(int(sizes.sum()))
        source = numbers + np.repeat(first.ravel()[places] - begins, sizes)
        target = numbers + np.repeat(places * self.width - begins, sizes)
        ids.reshape(-1)[target] = np.take(self._substitutes, source)
        credit.reshape(-1)[target] = np.take(self._credits, source)
        return ids, credit

    @cached_property
    def _counts(self) -> _UInt8s:
        return self._map("counts", np.dtype("u1"))

    @cached_property
    def _blocks(self) -> _Int64s:
        return self._map("blocks", np.dtype("<i8"))

    @cached_property
    def _substitutes(self) -> npt.NDArray[Any]:
        return self._map("substitutes", np.dtype(self.info.dtype))

    @cached_property
    def _credits(self) -> _UInt8s:
        return self._map("credits", np.dtype("u1"))

    def _map(self, part: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        file = part_path(self.path, self.split, part)
        if not file.stat().st_size:  # an empty file cannot be memory-mapped
            return np.zeros(0, dtype=dtype)
        return np.memmap(file, dtype=dtype, mode="r").view(np.ndarray)  # indexes faster than a memmap
