"""Exceptions for errors in a user's input or environment, as one small hierarchy.

Every message names the file, line or option at fault and says what to do next. Programming mistakes are
plain ``AssertionError``s or ``TypeError``s and are never caught.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class TruenegError(Exception):
    """A user's error: what is wrong, where, and the remedy, in one line.

    Remedies name the command line's options. A note gives their Python equivalents; tracebacks show it, the command
    line does not.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        if options := list(dict.fromkeys(_OPTION.findall(message))):
            self.add_note(f"In Python: {', '.join(f'{_in_python(option)} for --{option}' for option in options)}")


class ConfigError(TruenegError):
    """An unknown or ill-typed option."""


class CorpusError(TruenegError):
    """Text or a built corpus that cannot be used."""


class TaskError(TruenegError):
    """Labelled data that cannot be used."""


class LexiconError(TruenegError):
    """A lexicon that is missing, damaged or built for another tokenizer."""


class ModelError(TruenegError):
    """A checkpoint, tokenizer or backbone that cannot be used."""


class CheckpointError(TruenegError):
    """A training checkpoint that is damaged or belongs to another run."""


class BusyError(TruenegError):
    """A folder that another process is writing into."""


class LostProcessError(TruenegError):
    """Another process of the same job that has died or does not respond."""


class JobError(TruenegError):
    """Failed jobs of a plan."""


class OutOfMemoryError(TruenegError):
    """Training that needs more memory than there is."""


class DivergedError(TruenegError):
    """The loss became NaN or infinite."""


class MissingExtraError(TruenegError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package '{package}': run  {install_command(extra)}")


class Interrupted(TruenegError):
    """A run stopped by Ctrl-C, SIGTERM or a closed terminal, after saving."""


class TruenegWarning(UserWarning):
    """Something a user should look at that does not stop the work."""


class TruenegDeprecationWarning(TruenegWarning):
    """An old name of an option, value, file or metric was used; it is supported for one more version."""


def install_command(extra: str) -> str:
    """Commands that install an extra, from a clone of trueneg and from a package index.

    Example:
        >>> install_command("wandb")
        "pip install -e '.[wandb]'  in a clone of trueneg, or  pip install 'trueneg[wandb]'  if it came from an index"
    """
    in_clone, from_index = f"pip install -e '.[{extra}]'", f"pip install 'trueneg[{extra}]'"
    return f"{in_clone}  in a clone of trueneg, or  {from_index}  if it came from an index"


_OPTION = re.compile(r"(?<![\w-])--(?!no-install-recommends)([a-z][a-z-]*[a-z])")
_SWITCHES = {"lines", "over-training", "overwrite", "pack", "partial", "resume"}
_OF_A_RUN = {
    "extend-vocabulary": "model.extend_vocabulary",
    "hard-correction": "objective.correction.detector",
    "set": "key",
    "soft-regularization": "objective.regularization.level",
    "steps": "train.steps",
    "warmup": "optimizer.warmup_steps",
}


def _in_python(option: str) -> str:
    """The Python equivalent of a command-line option, as an argument of the public functions."""
    if option in _OF_A_RUN:
        return f'settings=["{_OF_A_RUN[option]}=…"]'
    if option == "from":
        return "start_from=…"
    return f"{option.replace('-', '_')}={'True' if option in _SWITCHES else '…'}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means out of memory, on any device: on a CPU torch raises a plain ``RuntimeError``.

    Example:
        >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"))
        True
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, if it is loaded
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _NO_MEMORY)


_NO_MEMORY = ("can't allocate memory", "std::bad_alloc")


def unknown_name(kind: str, name: str, known: Iterable[str], shown_by: str = "", meant: str = "") -> str:
    """Error message for an unknown ``name``, with the closest known name and all others.

    Args:
        kind: What the name should be.
        name: The name given.
        known: All valid names.
        shown_by: A command that lists them, if they are too many for a line.
        meant: The name to suggest, if it is known, however different its spelling.

    Example:
        >>> unknown_name("detector", "lexcial", ["lexical", "neighbours"])
        "unknown detector 'lexcial': did you mean 'lexical'? Known: lexical, neighbours"
    """
    names = sorted(known)
    close = [meant] if meant else difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    rest = f"'{shown_by}' shows all of them" if shown_by else f"Known: {', '.join(names)}"
    return f"unknown {kind} {name!r}: {hint}{rest}"
