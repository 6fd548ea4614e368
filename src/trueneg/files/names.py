"""Short, distinct names for folders, to show instead of their full paths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trueneg.errors import ConfigError


def distinct_names(folders: Sequence[str | Path], min_parts: int = 1) -> list[str]:
    """As few of the last parts of each path as keep all of them distinct.

    Args:
        folders: Their paths.
        min_parts: Minimum number of parts to show.

    Raises:
        ConfigError: if a folder is given twice.

    Example:
        >>> distinct_names(["runs/base", "other/base"]), distinct_names(["runs/base", "runs/hc"])
        (['runs/base', 'other/base'], ['base', 'hc'])
    """
    paths = [Path(folder).resolve() for folder in folders]
    if twice := [str(folder) for folder, path in zip(folders, paths, strict=True) if paths.count(path) > 1]:
        raise ConfigError(f"'{twice[0]}' is named twice: name each folder once")
    longest = max(min_parts, *(len(path.parts) for path in paths)) if paths else min_parts
    named = (["/".join(path.parts[-depth:]) for path in paths] for depth in range(min_parts, longest + 1))
    return next(names for names in named if len(set(names)) == len(names))
