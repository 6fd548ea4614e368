"""trueneg: pre-train text encoders on true negatives.

A masked model that predicts "main" where the text had "primary" is right, and should not be punished. This
package finds such false negatives, keeps them out of the loss, and measures what that gains. Importing it
loads nothing heavy; each name below is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC: dict[str, str] = {}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'trueneg' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    return __all__
