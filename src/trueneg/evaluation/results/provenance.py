"""Provenance of a result: versions, and the source's revision."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trueneg.files.whole import write_json
from trueneg.version import __version__


@dataclass(frozen=True)
class Provenance:
    """Provenance of a run: ``provenance.json`` in its folder."""

    versions: dict[str, str] = field(default_factory=dict)
    command: str = ""
    """The command line; empty if it was made from Python."""


def note_provenance(path: Path) -> None:
    """Write a run's provenance into its folder."""
    is_command = Path(sys.argv[0]).name in ("trueneg", "__main__.py")
    command = shlex.join(["trueneg", *sys.argv[1:]]) if is_command else ""
    write_json(path, asdict(Provenance(versions(), command)))


def versions() -> dict[str, str]:
    """Collect the versions that results depend on; ``revision`` is the source's git commit, if there is one."""
    found = {"python": platform.python_version(), "trueneg": __version__}
    for package in ("torch", "transformers", "tokenizers", "numpy", "lemminflect"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if revision := _revision(Path(__file__).parents[2]):
        found["revision"] = revision
    return found


@cache
def _revision(folder: Path) -> str:
    """Find the commit of a source tree, with ``+`` for uncommitted changes; empty outside its own repository."""
    try:
        describe = ["git", "-C", str(folder), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
        is_tracked = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "--error-unmatch", "errors.py"], capture_output=True, check=False
        )
        if is_tracked.returncode:
            return ""
        return subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""  # git is not installed
