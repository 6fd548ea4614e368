"""The shards of a corpus that is being built, and the journal of those that are finished."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from trueneg.corpus.encoding import TokenizedTexts
from trueneg.corpus.journal import ANEW, clear, goes_on, read_journal, write_journal
from trueneg.corpus.store import INFO_FILE, JOURNAL_FILE, SHARD_PARTS, ShardInfo, Split, SplitInfo, shard_path
from trueneg.corpus.tags import PARTS as TAG_PARTS
from trueneg.corpus.tags import TAGS_FILE, ShardTags, forms_to_bytes
from trueneg.errors import CorpusError
from trueneg.files.verified import Expected, verify
from trueneg.files.whole import flush
from trueneg.lexicon.wordnet_location import verified_folder

BUILT_FILE = "built.json"  # next to a finished corpus: the fingerprint of its inputs


@dataclass(frozen=True)
class _Begun:
    """Content of a journal: the inputs, and what is finished."""

    inputs: dict[str, Any]
    splits: dict[Split, SplitInfo]
    tags: dict[Split, tuple[ShardTags, ...]]

    def files(self, folder: Path) -> list[Expected]:
        """Files of the finished shards."""
        of_files = [(name, [shard.checksums for shard in split.shards]) for name, split in self.splits.items()]
        of_files += [(name, [shard.checksums for shard in those]) for name, those in self.tags.items()]
        return [
            Expected(shard_path(folder, name, number, part), digest)
            for name, parts_of in of_files
            for number, parts in enumerate(parts_of)
            for part, digest in parts.items()
        ]


@dataclass
class BuildJournal:
    """The finished shards of an unfinished build, kept in ``build.json``."""

    folder: Path
    inputs: dict[str, Any]
    splits: dict[Split, SplitInfo]
    tags: dict[Split, tuple[ShardTags, ...]]
    """Tags of the shards, if the corpus is tagged."""

    @classmethod
    def open(
        cls,
        folder: Path,
        inputs: dict[str, Any],
        splits: Sequence[Split],
        *,
        overwrite: bool,
        own: Collection[str] = (),
    ) -> BuildJournal:
        """Resume the build that a folder holds, or begin one.

        Args:
            folder: the corpus folder.
            inputs: what it is built from.
            splits: the splits of the corpus.
            overwrite: whether another build may be discarded.
            own: names of other files that the folder may already hold.

        Raises:
            CorpusError: for a build of other inputs or a damaged one, unless it may be overwritten.
        """
        stored: _Begun | CorpusError | None
        try:
            stored = read_journal(_Begun, folder / JOURNAL_FILE)
            verify(stored.files(folder) if stored else (), CorpusError, ANEW, verified_folder())
        except CorpusError as error:
            stored = error
        begun = stored.inputs if isinstance(stored, _Begun) else stored
        names = {"finished": INFO_FILE, "journal": JOURNAL_FILE}
        is_begun = goes_on(folder, "corpus", **names, stored=begun, inputs=inputs, overwrite=overwrite, own=own)
        if is_begun and isinstance(stored, _Begun):
            return cls(folder, inputs, stored.splits, stored.tags)
        folder.mkdir(parents=True, exist_ok=True)
        journal = cls(folder, inputs, {split: SplitInfo() for split in splits}, dict.fromkeys(splits, ()))
        journal.save()  # first: a folder with both files is an unfinished build
        clear(folder, INFO_FILE, TAGS_FILE, BUILT_FILE)
        return journal

    def save(self) -> None:
        """Write the journal."""
        content = dataclasses.asdict(_Begun(self.inputs, self.splits, self.tags))
        write_journal(self.folder / JOURNAL_FILE, content)


class SplitWriter:
    """Writes a split shard by shard: files are renamed once they are complete, then recorded in the journal."""

    def __init__(
        self, journal: BuildJournal, split: Split, dtype: np.dtype[Any], shard_tokens: int, unknown_id: int | None
    ) -> None:
        self._journal = journal
        self._split = split
        self._dtype = dtype
        self._shard_tokens = shard_tokens
        self._unknown_id = unknown_id
        self._begin()

    @property
    def info(self) -> SplitInfo:
        """The finished shards of the split."""
        return self._journal.splits[self._split]

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts.values():
            part.file.close()

    def _begin(self) -> None:
        self._parts: dict[str, _PartFile] = {}
        self._lengths: list[npt.NDArray[np.int64]] = []
        self._bits = np.empty(0, dtype=bool)
        self._forms: Counter[tuple[str, int]] = Counter()
        self._num_tokens = self._num_documents = self._num_empty = self._num_unknown = 0

    def write(self, encoded: TokenizedTexts) -> None:
        """Append documents, ending a shard once it is full."""
        ends = np.cumsum(encoded.lengths)
        document = token = 0
        while document < len(ends):
            missing = token + self._shard_tokens - self._num_tokens
            stop = min(int(np.searchsorted(ends, missing)) + 1, len(ends))
            end = int(ends[stop - 1])
            self._append(encoded, slice(token, end), slice(document, stop))
            if self._num_tokens >= self._shard_tokens:
                self.close_shard()
            document, token = stop, end

    def _append(self, encoded: TokenizedTexts, those: slice, documents: slice) -> None:
        """Append the ``documents`` of a unit, whose tokens are ``those``."""
        tokens, lengths, tagged = encoded.tokens[those], encoded.lengths[documents], encoded.tagged
        if not self._parts:
            parts = SHARD_PARTS if tagged is None else (*SHARD_PARTS, *TAG_PARTS)
            paths = {part: shard_path(self._journal.folder, self._split, len(self.info.shards), part) for part in parts}
            paths["tokens"].parent.mkdir(exist_ok=True)
            self._parts = {part: _PartFile(path) for part, path in paths.items()}
        self._parts["tokens"].write(tokens.tobytes())
        if tagged is not None:
            self._parts["tags"].write(tagged.tags[those].tobytes())
            self._forms.update(tagged.counts(those.start, those.stop))
        bits = np.concatenate([self._bits, encoded.is_word_start[those]])
        whole = len(bits) // 8 * 8
        self._parts["words"].write(np.packbits(bits[:whole]).tobytes())
        self._bits = bits[whole:]
        kept = lengths[lengths > 0]
        self._lengths.append(kept)
        self._num_tokens += len(tokens)
        self._num_documents += len(kept)
        self._num_empty += len(lengths) - len(kept)
        if self._unknown_id is not None:
            self._num_unknown += int(np.count_nonzero(tokens == self._unknown_id))

    def close_shard(self) -> None:
        """Finish the current shard, if any, and record it and all counts in the journal."""
        shards = self.info.shards
        if self._num_documents:
            self._parts["words"].write(np.packbits(self._bits).tobytes())
            offsets = np.cumsum(np.concatenate([[0], *self._lengths]), dtype="<i8")
            self._parts["offsets"].write(offsets.tobytes())
            forms = forms_to_bytes(self._forms)
            if "forms" in self._parts:
                self._parts["forms"].write(forms)
            checksums = {part: file.finish() for part, file in self._parts.items()}
            of_tags = {part: checksums.pop(part) for part in TAG_PARTS if part in checksums}
            shards = (*shards, ShardInfo(self._num_documents, self._num_tokens, checksums))
            if of_tags:
                found = ShardTags(self._forms.total(), len(self._forms), len(forms), of_tags)
                self._journal.tags[self._split] = (*self._journal.tags[self._split], found)
        else:
            for file in self._parts.values():
                file.discard()
        self._journal.splits[self._split] = SplitInfo(
            num_documents=self.info.num_documents + self._num_documents,
            num_tokens=self.info.num_tokens + self._num_tokens,
            num_empty_documents=self.info.num_empty_documents + self._num_empty,
            num_unknown_tokens=self.info.num_unknown_tokens + self._num_unknown,
            shards=shards,
        )
        self._begin()
        self._journal.save()


class _PartFile:
    """A file under a provisional name until it is finished, with its checksum computed while writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._provisional = path.with_suffix(".part")
        self._digest = hashlib.sha256()
        self.file: IO[bytes] = self._provisional.open("wb")

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self._digest.update(data)

    def finish(self) -> str:
        with self.file:
            flush(self.file)
        self._provisional.replace(self._path)
        return self._digest.hexdigest()

    def discard(self) -> None:
        self.file.close()
        self._provisional.unlink()
