"""The tutorial, a notebook: every cell runs, and what it shows of itself is what comes out."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbclient
import nbformat
import pytest
from nbformat import NotebookNode

from trueneg.lexicon.wordnet_location import find_wordnet

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.ipynb"
SMALLER = {"steps = 120": "steps = 2", "documents[::8]": "documents[::200]", "num_rows=300": "num_rows=20"}
REPRODUCIBLE = ("punished before", "in context")
"""What cells print that do not depend on how long was trained."""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[NotebookNode, NotebookNode]]:
    """Cells of code as they stand in the repository and as they ran, with fewer steps on less text."""
    written, run = (nbformat.read(TUTORIAL, as_version=4) for _ in range(2))
    for old in SMALLER:
        assert sum(cell.source.count(old) for cell in run.cells) == 1, old
    for cell in run.cells:
        for old, new in SMALLER.items():
            cell.source = cell.source.replace(old, new)
        cell.outputs = []
    folder = {"metadata": {"path": str(tmp_path_factory.mktemp("tutorial"))}}
    with pytest.MonkeyPatch.context() as patch:
        # WordNet itself, as a user has it; other tests name their own, and another place for caches.
        patch.delenv("WNSEARCHDIR", raising=False)
        patch.delenv("TRUENEG_CACHE")
        environment = os.environ | {"WNSEARCHDIR": str(find_wordnet())}
    environment["TRUENEG_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    nbclient.NotebookClient(run, timeout=500, kernel_name="python3", resources=folder).execute(env=environment)
    return [pair for pair in zip(written.cells, run.cells, strict=True) if pair[0].cell_type == "code"]


def printed(cell: NotebookNode) -> str:
    return "".join(output.text for output in cell.outputs if output.get("name") == "stdout")


def test_every_cell_prints_something(cells: list[tuple[NotebookNode, NotebookNode]]) -> None:
    assert len(cells) >= 6
    assert all(printed(written) and printed(run) for written, run in cells)


def test_what_does_not_depend_on_training_is_as_it_is_shown(cells: list[tuple[NotebookNode, NotebookNode]]) -> None:
    shown = [(printed(written), printed(run)) for written, run in cells]
    for words in REPRODUCIBLE:
        (pair,) = [pair for pair in shown if words in pair[0]]
        assert pair[0] == pair[1]


def test_the_notebook_names_no_machine() -> None:
    text = TUTORIAL.read_text()
    assert len(text) < 50_000
    assert not re.search(r"/(?:home|root|work|usr|tmp)/", text)
