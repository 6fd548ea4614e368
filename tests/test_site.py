"""The website of the documentation: built without a warning, complete, and read without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trueneg

ROOT = Path(__file__).parent.parent
LOADED = re.compile(
    r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"|<link[^>]*rel="(?:stylesheet|preload)"[^>]*href="([^"]+)"'
)
TITLE = re.compile(r'<h3 id="[^"]+" class="doc doc-heading">\s*trueneg\.(\w+)')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a broken link, anchor or docstring ends it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", str(ROOT / "mkdocs.yml"), "-d", str(folder)],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def test_every_page_and_public_name_is_there(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {path.stem for path in site.glob("*.html")}
    assert set(TITLE.findall((site / "api.html").read_text())) == set(trueneg.__all__) - {"__version__"}


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loaded = {one for page in site.glob("*.html") for found in LOADED.findall(page.read_text()) for one in found if one}
    assert len(loaded) > 3
    assert not [one for one in loaded if "//" in one]


def test_the_guide_for_language_models_names_pages_that_exist() -> None:
    named = re.findall(r"\]\(([^)#]+)\)", (ROOT / "llms.txt").read_text())
    assert len(named) > 10
    assert not [name for name in named if not (ROOT / name).is_file()]
