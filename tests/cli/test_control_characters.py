"""Whatever data says, no terminal, page or table obeys it: looked for in the bytes that verbs write."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from command_line import Said, World, trueneg, works

from made_up_results import write_model

NASTY = "a\x1b]0;owned\x07\x1b[31m\x9b2J\u202eb"
ARGUMENTS = {"terminal": [], "csv": ["--format", "csv"], "html": ["--format", "html"], "json": ["--json"]}


def commands(text: str) -> set[str]:
    """Characters of a text that a terminal obeys, or that turn it round."""
    return {c for c in text if (unicodedata.category(c) == "Cc" and c != "\n") or c == "\u202e"}


def shows_it(said: Said, code: int) -> None:
    """The data was told of, and nothing of it was left to be obeyed."""
    assert said.code == code, said.err
    assert "owned" in said.out + said.err
    assert not commands(said.out) and not commands(said.err)


@pytest.fixture
def results(tmp_path: Path) -> list[Path]:
    return [write_model(tmp_path / name, share) for name, share in (("base", 0.7), (NASTY, 0.8))]


def test_names_of_columns(world: World, tmp_path: Path) -> None:
    table = tmp_path / "reviews.csv"
    table.write_text(f"text,{NASTY}\nfine,1\n", encoding="utf-8")
    asked = ("finetune", world.run, "--task", "classification", "--data", table, "--label-column", "nope")
    shows_it(trueneg(*asked, "--out", tmp_path / "out"), 1)


def test_names_of_json_fields(world: World, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps({NASTY: "text"}) + "\n")
    asked = ("corpus", "build", tmp_path / "t.jsonl", "--tokenizer", world.tokenizer, "--out", tmp_path / "c")
    shows_it(trueneg(*asked), 1)


@pytest.mark.parametrize("form", ARGUMENTS)
@pytest.mark.parametrize("verb", ["compare", "report"])
def test_names_of_models(results: list[Path], tmp_path: Path, verb: str, form: str) -> None:
    shows_it(works(verb, *results, *ARGUMENTS[form]), 0)
    if form in ("csv", "html"):
        works(verb, *results, *ARGUMENTS[form], "--out", tmp_path / "out")
        written = (tmp_path / "out").read_text(encoding="utf-8")
        assert "owned" in written and not commands(written)


def test_a_text_that_is_inspected(world: World, tmp_path: Path) -> None:
    text, page = f"the large {NASTY} town", tmp_path / f"{NASTY}.html"
    shows_it(works("inspect", world.run, text, "--mask", "large", "--html", page), 0)
    assert "owned" in (written := page.read_text(encoding="utf-8")) and not commands(written)
    said = works("inspect", world.run, text, "--mask", "large", "--json")
    shows_it(said, 0)
    assert said.data["text"] == text  # escaped as JSON has it: nothing is lost


def test_the_text_of_a_run(world: World, tmp_path: Path) -> None:
    (tmp_path / NASTY).mkdir()
    out = tmp_path / NASTY / "page.html"
    shows_it(works("report", world.run, "--out", out), 0)
