"""Pages of the site that lie elsewhere: README.md is its first page, and the API's is made of the public names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import trueneg

ROOT = Path(__file__).parent.parent
ELSEWHERE = {"index.md": "README.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
"""Page of the site to file of the repository."""
KINDS = {
    "Text and lexicon": ("corpus", "lexicon", "tokenizer"),
    "Training": ("runs", "objectives", "models", "training"),
    "False negatives": ("detectors",),
    "Measuring": ("evaluation", "attacks", "reporting"),
    "Everything else": ("",),
}
"""Section of the API page to the packages whose names it has."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that do not lie in docs/."""
    for page, name in ELSEWHERE.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](").replace("](README.md", "](index.md")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "api.md", content=api_page()))
    return files


def on_page_markdown(markdown: str, **given: Any) -> str:
    """Turn links from docs/ to the repository's own pages into links between pages of the site."""
    return markdown.replace("](../CHANGELOG.md", "](CHANGELOG.md").replace("](../CONTRIBUTING.md", "](CONTRIBUTING.md")


def api_page() -> str:
    """Write the page of all public names, by the package that each is in."""
    left = dict(trueneg._PUBLIC)
    parts = ["# Python API\n\nEvery name is imported from `trueneg`, which loads it when it is first used.\n"]
    for section, packages in KINDS.items():
        found = {name: place for name, place in left.items() if any(place.startswith(f"trueneg.{p}") for p in packages)}
        left = {name: place for name, place in left.items() if name not in found}
        parts.append(f"## {section}\n")
        for name in sorted(found, key=str.lower):
            options = f"    options:\n      heading: trueneg.{name}\n      toc_label: {name}\n"
            parts.append(f"::: {found[name].replace(':', '.')}\n{options}")
    return "\n".join(parts)
