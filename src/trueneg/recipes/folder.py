"""The folder of a recipe's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trueneg.config.codec import differences, load_config, save_config
from trueneg.config.fields import names_where
from trueneg.errors import ConfigError

SETTINGS = "settings.json"


def claim_folder(folder: Path, settings: Any, *, is_fixed: bool = True) -> None:
    """Record the settings (a dataclass) of a folder's results.

    Args:
        folder: The folder.
        settings: A dataclass; options with ``resume="free"`` may always change.
        is_fixed: Whether the others may not.

    Raises:
        ConfigError: if the folder has results with other settings.
    """
    path = folder / SETTINGS
    free = names_where(type(settings), lambda rule: rule.resume == "free")
    before = differences(load_config(type(settings), path), settings) if path.is_file() else []
    changed = [line for line in before if line.partition(":")[0] not in free]
    if changed and is_fixed:
        raise ConfigError(f"'{folder}' holds results of other settings ({', '.join(changed)}): give another --out")
    folder.mkdir(parents=True, exist_ok=True)
    save_config(settings, path)
