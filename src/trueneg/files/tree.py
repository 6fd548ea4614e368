"""All files below a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path


def files_below(folder: Path, on_error: Callable[[OSError], object] = lambda _: None) -> list[Path]:
    """List the files below a folder, sorted; links to folders are followed, each folder once, so loops are safe.

    Args:
        folder: The folder.
        on_error: Called with the error of a folder that cannot be listed, or of a link that leads nowhere: its
            ``filename`` is the path. If it returns, they are left out.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files_below(Path(folder))
        []
    """
    found, seen = list[Path](), set[tuple[int, int]]()
    for place, folders, files in os.walk(folder, onerror=on_error, followlinks=True):
        status = Path(place).stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders.sort()
        found += [path for name in files if is_regular(path := Path(place, name), on_error)]
    return sorted(found)


def is_regular(path: Path, on_error: Callable[[OSError], object]) -> bool:
    """Whether a path is a file; unlike ``Path.is_file``, it tells of links that lead nowhere."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        on_error(error)
        return False
