"""Names of detectors that fit into a table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_PATH = re.compile(r"(?<=:)[^:\[\]@|&!]*[^:\[\]@|&!\s]")


def short_names(detectors: Iterable[str]) -> dict[str, str]:
    """Shorten specifications by the folders of their files and encoders, where they stay distinct.

    Example:
        >>> short_names(["lexical", "contextual:/models/minilm/model@0.65", "neighbours:data/glove.txt"])
        {'lexical': 'lexical', 'contextual:/models/minilm/model@0.65': 'contextual:minilm/model@0.65', \
'neighbours:data/glove.txt': 'neighbours:glove.txt'}
    """
    names = {detector: _PATH.sub(_last_parts, detector) for detector in detectors}
    return names if len(set(names.values())) == len(names) else {detector: detector for detector in names}


def _last_parts(match: re.Match[str]) -> str:
    path = Path(match.group())
    return path.name if path.suffix else "/".join(path.parts[-2:])
