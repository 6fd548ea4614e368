"""Everything that can go wrong through a user's input, as one small hierarchy.

Every message names the file, line or option at fault and says what to do next. Programming mistakes are
plain ``AssertionError``s or ``TypeError``s and are never caught.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TruenegError(Exception):
    """A user's error: what is wrong, where, and the remedy, in one line."""


class ConfigError(TruenegError):
    """An unknown or ill-typed option."""


class CorpusError(TruenegError):
    """Text or a built corpus that cannot be used."""


class TaskError(TruenegError):
    """Labelled data that cannot be used."""


class LexiconError(TruenegError):
    """A lexicon that is missing, torn or built for another tokenizer."""


class ModelError(TruenegError):
    """A checkpoint, tokenizer or backbone that cannot be used."""


class CheckpointError(TruenegError):
    """A training checkpoint that is torn or belongs to another run."""


class BusyError(TruenegError):
    """A folder that another process writes into."""


class DivergedError(TruenegError):
    """The loss became NaN or infinite."""


class MissingExtraError(TruenegError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package '{package}': run  pip install 'trueneg[{extra}]'")


class Interrupted(TruenegError):
    """Stopped by Ctrl-C or SIGTERM, after saving."""


class TruenegWarning(UserWarning):
    """Something a user should look at that does not stop the work."""


def unknown_name(kind: str, name: str, known: Iterable[str], shown_by: str = "") -> str:
    """Say that ``name`` is no ``kind``, with the closest known name and all others.

    Args:
        kind: What it should have been.
        name: What was written.
        known: All there are.
        shown_by: A command that shows them, where they are too many for a line.

    Example:
        >>> unknown_name("detector", "lexcial", ["lexical", "neighbours"])
        "unknown detector 'lexcial': did you mean 'lexical'? Known: lexical, neighbours"
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    rest = f"'{shown_by}' shows all of them" if shown_by else f"Known: {', '.join(names)}"
    return f"unknown {kind} {name!r}: {hint}{rest}"
