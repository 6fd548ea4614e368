"""Tagging a corpus from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import fails, works, write_text


@pytest.fixture(scope="module")
def building(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    folder = tmp_path_factory.mktemp("text")
    text = write_text(folder / "text.txt", 60)
    works("tokenizer", "train", text, "--vocab-size", 120, "--out", folder / "tok")
    return ["corpus", "build", text, "--tokenizer", folder / "tok"]


def test_a_tagged_corpus_says_who_tagged_it(building: list[object], tmp_path: Path) -> None:
    told = works(*building, "--out", tmp_path / "a", "--tag")
    assert "tagged words: train " in told.out
    data = works("corpus", "info", tmp_path / "a", "--verify", "--json").data
    assert data["tags"]["tagger"] == "pattern"
    assert data["verified"]
    assert f"{data['tags']['num_words']['train']:,} (by 'pattern', textblob " in told.out
    again = works(*building, "--out", tmp_path / "b", "--tagger", "pattern-fast", "--json").data
    assert again["tags"]["tagger"] == "pattern-fast"
    assert again["info"]["fingerprint"] == data["fingerprint"]
    file = tmp_path / "a" / "train" / "00000.tags.bin"
    file.write_bytes(bytes(file.stat().st_size))
    assert "is damaged (checksum)" in fails("corpus", "info", tmp_path / "a", "--verify")


def test_a_tagger_that_is_none(building: list[object], tmp_path: Path) -> None:
    building = [*building, "--out", tmp_path / "out"]
    assert "did you mean 'pattern'?" in fails(*building, "--tagger", "patern")
    assert "tagged" not in works(*building).out
    assert works("corpus", "info", tmp_path / "out", "--json").data["tags"] is None
