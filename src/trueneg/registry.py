"""Tables of names: one dict a kind, each entry loaded when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from trueneg.errors import ConfigError, unknown_name


def load(kind: str, name: str, table: Mapping[str, str]) -> Any:
    """Load what ``table`` has under ``name``, written as ``module:attribute``.

    Raises:
        ConfigError: for a name that is not in the table, with the closest one that is.

    Example:
        >>> load("shape", "sqare", {"square": "math:sqrt"})
        Traceback (most recent call last):
        trueneg.errors.ConfigError: unknown shape 'sqare': did you mean 'square'? Known: square
    """
    if name not in table:
        raise ConfigError(unknown_name(kind, name, table))
    module, _, attribute = table[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
