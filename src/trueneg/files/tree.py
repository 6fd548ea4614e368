"""All files below a folder."""

from __future__ import annotations

import os
from pathlib import Path


def files_below(folder: Path) -> list[Path]:
    """List the files below a folder, sorted; links to folders are followed, each folder once, so loops are safe.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files_below(Path(folder))
        []
    """
    found, seen = list[Path](), set[tuple[int, int]]()
    for place, folders, files in os.walk(folder, followlinks=True):
        status = Path(place).stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders.sort()
        found += [path for name in files if (path := Path(place, name)).is_file()]
    return sorted(found)
