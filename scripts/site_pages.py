"""Pages of the site that are made: README.md is its first, the tutorial a notebook, the API's has the public names."""

from __future__ import annotations

import json
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
    """Add the pages that are no Markdown in docs/."""
    for page, name in ELSEWHERE.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](").replace("](README.md", "](index.md")
        text = text.replace("](tutorial.ipynb", "](tutorial.md")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "tutorial.md", content=notebook_page(ROOT / "docs" / "tutorial.ipynb")))
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


def notebook_page(path: Path) -> str:
    """Write a notebook as a page: text, code, and what the code printed."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        printed = ["".join(output["text"]) for output in cell.get("outputs", []) if output["output_type"] == "stream"]
        parts += [f"```text\n{text.rstrip()}\n```" for text in printed]
    return "\n\n".join(parts).replace("](../README.md", "](index.md")
