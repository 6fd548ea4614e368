"""What every test runs under: offline, one thread, no display. Set before torch is imported."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "COLUMNS": "120",
}

import pytest


@pytest.fixture(scope="session", autouse=True)
def _away_from_the_source_tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run in a folder of its own, so that a file named without one never lands in the repository, nor one in a home."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("working"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRUENEG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
    os.chdir(before)


# What trains, attacks, kills processes or starts the command line again and again: left out by `make check`.
SLOW_FOLDERS = {
    "attacks",
    "browser",
    "cli",
    "corpus",
    "device",
    "faults",
    "integrations",
    "loop",
    "models",
    "parity",
    "recipes",
}
SLOW_FILES = {
    "test_checkpoint.py",
    "test_streams.py",
    "test_commands_said.py",
    "test_plugins.py",
    "test_readme.py",
    "test_setup.py",
}


def pytest_collection_finish() -> None:
    """Keep the garbage collector from reading torch and all collected tests again and again."""
    gc.collect()
    gc.freeze()


LONGEST = ["recipes", "test_readme.py", "faults", "loop", "cli", "integrations", "attacks", "device"]
"""What is begun first, so that side by side no process waits for another's long file at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what a folder or a file of such tests holds; begin with the longest."""
    here, rank = Path(__file__).parent, dict[Path, int]()
    for item in items:
        place = item.path.relative_to(here) if item.path.is_relative_to(here) else item.path
        if SLOW_FOLDERS & set(place.parts) or place.name in SLOW_FILES:
            item.add_marker(pytest.mark.slow)
        first = place.parts[0]
        rank[item.path] = LONGEST.index(first) if first in LONGEST else len(LONGEST)
    items.sort(key=lambda item: rank[item.path])
