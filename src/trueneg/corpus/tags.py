"""The parts of speech of a corpus's words, stored next to its tokens: one byte per token, and a table of the words.

``corpus build --tag`` adds ``tags.json`` (written last except for ``corpus.json``) to a corpus's folder, and two files
to each of its shards: ``tags`` (uint8, the number in :data:`trueneg.lexicon.tags.PENN` of the tag of the word that the
token belongs to, 0 if it belongs to none) and ``forms`` (UTF-8, a line for each word and tag: ``word⇥tag⇥count``,
in code-point order). The corpus itself, and so its fingerprint, is the same as without them.

Words are determined in the text, as runs of letters and digits: SentencePiece's "(cat)," is punctuation, "cat" and
punctuation. Only a word that the tokenizer keeps whole has a tag: it lies within one of the tokenizer's words, and no
token crosses its ends. So the tokens "don", "'" and "t" have no tag, since the tagger reads "do n't".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trueneg.corpus.files import Description, check_size
from trueneg.corpus.store import Corpus, Split, shard_path
from trueneg.errors import CorpusError
from trueneg.files.verified import Expected, verify
from trueneg.lexicon.tags import NUMBERS, PENN
from trueneg.lexicon.wordnet_location import verified_folder

TAGS_FILE = "tags.json"
PARTS = ("tags", "forms")
_AGAIN = "copy the corpus or build it again with --tag --overwrite"


@dataclass(frozen=True)
class ShardTags:
    """A shard's tagged words.

    Attributes:
        num_words: words with a tag.
        num_forms: distinct words, by spelling and tag.
        num_bytes: size of the file ``forms``.
        checksums: SHA-256 of each file, by part.
    """

    num_words: int
    num_forms: int
    num_bytes: int
    checksums: Mapping[str, str]


@dataclass(frozen=True)
class TagsInfo(Description):
    """Describes the tags of a corpus.

    Attributes:
        corpus: the corpus's fingerprint.
        tagger: the tagger's name in the options.
        provenance: the versions that its output depends on.
        is_uncased: whether the table's words are in lower case, as the tokenizer reads them; the tagger sees
            them as they are written.
        splits: the shards of each split, in reading order.
        fingerprint: 16 hexadecimal digits over all of the above.
    """

    corpus: str
    tagger: str
    provenance: Mapping[str, str]
    is_uncased: bool
    splits: Mapping[Split, tuple[ShardTags, ...]]
    fingerprint: str = ""
    format_version: int = Description.FORMAT_VERSION

    @classmethod
    def read(cls, folder: str | Path) -> TagsInfo:
        """Read a corpus folder's ``tags.json``.

        Raises:
            CorpusError: if it is missing, truncated, changed, or of another format version.
        """
        path = Path(folder) / TAGS_FILE
        if not path.is_file():
            raise CorpusError(f"the corpus '{folder}' has no tags: build it again with --tag --overwrite")
        return cls.read_file(path, _AGAIN)

    def fault(self) -> str | None:
        """Return what is inconsistent in the description, None if nothing is."""
        if any(shard.checksums.keys() != set(PARTS) for shards in self.splits.values() for shard in shards):
            return f"its checksums are not those of {' and '.join(PARTS)}"
        return None


@dataclass(frozen=True)
class WordTable:
    """The words of a split, each with each of its tags, in code-point order, then by tag.

    Attributes:
        texts: as they are written; in lower case if the tokenizer ignores case.
        tags: numbers of tags, uint8 [num_forms], none of them 0.
        counts: how often each occurs, int64 [num_forms].
    """

    texts: tuple[str, ...]
    tags: npt.NDArray[np.uint8]
    counts: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tags:
    """The tags of a split of a corpus.

    Attributes:
        corpus: the open corpus.
        info: their description.
    """

    corpus: Corpus
    info: TagsInfo

    @classmethod
    def open(cls, corpus: Corpus) -> Tags:
        """Open a corpus's tags; they are verified if the corpus was verified when it was opened.

        Raises:
            CorpusError: if there are none, or if they are damaged, of another version or of another corpus.

        Example::

            tags = Tags.open(Corpus.open("corpus"))
            words = tags.words()  # to compile what may replace each
            batch = RowIndex(tags.corpus, length=128, tags=tags).read(np.arange(32))  # batch.tags
        """
        tags = cls(corpus, TagsInfo.read(corpus.path))
        tags.check(corpus)
        for number, (shard, stored) in enumerate(zip(tags.shards, corpus.shards, strict=True)):
            for part, size in (("tags", stored.num_tokens), ("forms", shard.num_bytes)):
                check_size(shard_path(corpus.path, corpus.split, number, part), size, _AGAIN)
        if corpus.is_verified:
            tags.verify(again=False)
        return tags

    @classmethod
    def find(cls, corpus: Corpus) -> Tags | None:
        """Like ``open``, but return None for a corpus that was built without tags."""
        return cls.open(corpus) if (corpus.path / TAGS_FILE).exists() else None

    def check(self, corpus: Corpus) -> None:
        """Refuse another corpus, or another split.

        Raises:
            CorpusError: naming both.
        """
        if self.info.corpus != corpus.info.fingerprint:
            raise CorpusError(
                f"'{self.corpus.path / TAGS_FILE}' belongs to another corpus (fingerprint {self.info.corpus}, "
                f"'{corpus.path}' has {corpus.info.fingerprint}): {_AGAIN}"
            )
        if len(self.info.splits.get(corpus.split, ())) != len(corpus.shards):
            raise CorpusError(
                f"'{self.corpus.path / TAGS_FILE}' is damaged (it lacks shards of the split '{corpus.split}'): {_AGAIN}"
            )
        if self.corpus.split != corpus.split:
            raise CorpusError(
                f"the tags of '{self.corpus.path}' were opened for the split '{self.corpus.split}', not for "
                f"'{corpus.split}'"
            )

    @property
    def shards(self) -> tuple[ShardTags, ...]:
        """The split's shards."""
        return self.info.splits[self.corpus.split]

    def verify(self, *, again: bool = True) -> None:
        """Compare the files of the split's tags with their checksums; check that every tag is valid.

        Args:
            again: read every byte, even of files that were verified before and have not changed since.

        Raises:
            CorpusError: naming the first file that is damaged.
        """
        files = [
            Expected(
                shard_path(self.corpus.path, self.corpus.split, number, part),
                shard.checksums[part],
                f"{part} {len(PENN)}",
                partial(self._fault, number, part),
            )
            for number, shard in enumerate(self.shards)
            for part in PARTS
        ]
        verify(files, CorpusError, _AGAIN, verified_folder(), again=again)

    def _fault(self, number: int, part: str) -> str | None:
        """What is wrong with the content of a file whose checksum is right; forms are checked as they are read."""
        if part == "tags" and (largest := int(self._map(number).max())) >= len(PENN):
            return f"there is no tag {largest}"
        return None

    def windows(self, starts: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
        """Tags of runs of tokens, one run per row; past the end of the split, its last token's tag is repeated.

        Args:
            starts: index of each run's first token, [n].
            width: run length in tokens.

        Returns:
            Numbers of tags, uint8 [n, width].
        """
        places = np.minimum(starts[:, None] + np.arange(width), self.corpus.num_tokens - 1)
        tags = np.empty(places.shape, dtype=np.uint8)
        for number, here, local in self.corpus.by_shard(places):
            tags[here] = np.take(self._maps[number], local)
        return tags

    def words(self) -> WordTable:
        """Read the table of the words of the split.

        Raises:
            CorpusError: naming the file and line of an invalid entry.
        """
        counts: Counter[tuple[str, int]] = Counter()
        for number in range(len(self.shards)):
            file = shard_path(self.corpus.path, self.corpus.split, number, "forms")
            counts.update(_read_forms(file))
        forms = sorted(counts)
        return WordTable(
            texts=tuple(text for text, _ in forms),
            tags=np.array([tag for _, tag in forms], dtype=np.uint8),
            counts=np.array([counts[form] for form in forms], dtype=np.int64),
        )

    @cached_property
    def _maps(self) -> tuple[npt.NDArray[np.uint8], ...]:
        return tuple(map(self._map, range(len(self.shards))))

    def _map(self, number: int) -> npt.NDArray[np.uint8]:
        path = shard_path(self.corpus.path, self.corpus.split, number, "tags")
        return np.memmap(path, dtype=np.uint8, mode="r").view(np.ndarray)


def forms_to_bytes(counts: Mapping[tuple[str, int], int]) -> bytes:
    r"""Serialize words and the numbers of their tags, with their counts.

    Example:
        >>> forms_to_bytes({("runs", 32): 2, ("cat", 12): 1})
        b'cat\tNN\t1\nruns\tVBZ\t2\n'
    """
    return "".join(f"{text}\t{PENN[tag]}\t{count}\n" for (text, tag), count in sorted(counts.items())).encode()


def _read_forms(file: Path) -> dict[tuple[str, int], int]:
    counts: dict[tuple[str, int], int] = {}
    try:
        for line in file.read_bytes().decode().splitlines():
            text, tag, count = line.split("\t")
            counts[text, NUMBERS[tag]] = int(count)
    except (ValueError, KeyError) as error:
        raise CorpusError(f"'{file}', line {len(counts) + 1}: no word, tag and count: {_AGAIN}") from error
    return counts
