"""Detect held-out text that is also in the training text."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from itertools import islice

from trueneg.corpus.remote import RemoteFile, TextFile
from trueneg.errors import CorpusError, TruenegWarning

_MOST_DOCUMENTS = 1 << 18  # held-out ones that are looked for: some 30 MB of digests
_TOLERATED = 0.01  # share of them: short texts repeat, as "Thank you." does


def refuse_same_files(training: Sequence[TextFile], held_out: Sequence[TextFile]) -> None:
    """Refuse held-out files that are also training files, under whatever name.

    Raises:
        CorpusError: naming such a file.
    """
    trained_on = set(map(_identity, training))
    for path in held_out:
        if _identity(path) in trained_on:
            raise CorpusError(
                f"--valid: '{path}' is also a file to train on, so that the held-out loss would say nothing: name "
                f"other text, or a fraction of the documents, as with --valid 0.01"
            )


def _identity(file: TextFile) -> object:
    if isinstance(file, RemoteFile):
        return file.url
    stat = file.stat()
    return stat.st_dev, stat.st_ino


class Overlap:
    """Counts held-out documents that are also training documents, by their text.

    Args:
        held_out: Held-out documents; of very many, only the first ones are looked for.

    Example:
        >>> overlap = Overlap(["a", "b", ""])
        >>> for text in ("b", "c", "b"):
        ...     overlap.see(text)
        >>> overlap.num_found, overlap.num_held_out
        (1, 2)
    """

    def __init__(self, held_out: Iterable[str]) -> None:
        self._held_out = {_digest(text) for text in islice(filter(None, held_out), _MOST_DOCUMENTS)}
        self._found: set[bytes] = set()

    @property
    def num_held_out(self) -> int:
        """Number of distinct documents that are looked for."""
        return len(self._held_out)

    @property
    def num_found(self) -> int:
        """Number of them that were seen."""
        return len(self._found)

    def see(self, text: str) -> None:
        """Check a training document."""
        if (digest := _digest(text)) in self._held_out:
            self._found.add(digest)

    @property
    def found(self) -> tuple[str, ...]:
        """Hexadecimal digests of the held-out documents seen since the last call of ``forget``."""
        return tuple(sorted(digest.hex() for digest in self._found))

    def forget(self) -> None:
        """Forget what was seen."""
        self._found.clear()

    def warn(self) -> None:
        """Warn if more documents were found than by chance."""
        warn_of_overlap(self.num_found, self.num_held_out)


def warn_of_overlap(num_found: int, num_held_out: int) -> None:
    """Warn if more held-out documents were found among the training documents than by chance."""
    if num_found > _TOLERATED * num_held_out:
        warnings.warn(
            f"{num_found:,} of {num_held_out:,} different held-out documents are also among those to train on: the "
            f"held-out loss does not say how a model does on new text",
            TruenegWarning,
            stacklevel=4,
        )


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
