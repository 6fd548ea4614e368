"""What made a result: versions, and the source's revision."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trueneg.version import __version__


def versions() -> dict[str, str]:
    """Collect the versions that figures depend on; ``revision`` is the source's git commit, if there is one."""
    found = {"python": platform.python_version(), "trueneg": __version__}
    for package in ("torch", "transformers", "tokenizers", "numpy", "lemminflect"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if revision := _revision(Path(__file__).parents[2]):
        found["revision"] = revision
    return found


def _revision(folder: Path) -> str:
    """Find the commit of a source tree, with ``+`` if it was changed since; empty outside a repository of its own."""
    try:
        describe = ["git", "-C", str(folder), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
        is_tracked = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "--error-unmatch", "errors.py"], capture_output=True, check=False
        )
        if is_tracked.returncode:
            return ""
        return subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""  # there is no git
