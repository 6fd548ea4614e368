"""The folder of a recipe's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trueneg.config.codec import differences, load_config, save_config
from trueneg.errors import ConfigError

SETTINGS = "settings.json"


def claim_folder(folder: Path, settings: Any) -> None:
    """Record the settings (a dataclass) of a folder's results.

    Raises:
        ConfigError: if the folder has results with other settings.
    """
    path = folder / SETTINGS
    if path.is_file() and (changed := differences(load_config(type(settings), path), settings)):
        raise ConfigError(f"'{folder}' holds results of other settings ({', '.join(changed)}): give another --out")
    folder.mkdir(parents=True, exist_ok=True)
    save_config(settings, path)
