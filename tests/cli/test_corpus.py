"""Corpora from the command line: tagged, and verified by the verbs that read them for long."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import get_args

import pytest
from command_line import World, fails, pretrain_options, works, write_text
from typer.models import OptionInfo

from trueneg.cli.options import MaxDocumentMib
from trueneg.corpus.build import build_corpus
from trueneg.corpus.formats import _LONGEST_DOCUMENT


@pytest.fixture
def damaged(world: World, tmp_path: Path) -> Path:
    """One bit of where words begin, in each split: whoever does not look can read it."""
    folder = Path(shutil.copytree(world.corpus, tmp_path / "corpus"))
    for split in ("train", "valid"):
        file = folder / split / "00000.words.bin"
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    return folder


def test_verbs_verify(world: World, damaged: Path, tmp_path: Path) -> None:
    pretrain = pretrain_options(world, tmp_path / "run")
    pretrain = tuple(damaged if word == world.corpus else word for word in pretrain)
    assert damaged in pretrain
    verbs = {
        "pretrain": (*pretrain, "--steps", 1),
        "evaluate": ("evaluate", world.run, "--corpus", damaged, "--task", "false-negatives", "--rows", 4),
        "annotate": ("corpus", "annotate", damaged, "--detector", "lexical", "--out", tmp_path / "notes"),
    }
    for verb in verbs.values():
        assert "00000.words.bin' is damaged (checksum)" in fails(*verb)
        works(*verb, "--no-verify")
    assert "00000.words.bin' is damaged (checksum)" in fails("corpus", "info", damaged, "--verify")
    works("corpus", "info", damaged)


def test_prototypes_are_refused_before_the_work(damaged: Path, tmp_path: Path) -> None:
    """The encoder is not there: whatever is said before, is said before it is loaded."""
    (tmp_path / "file").touch()
    verb = ("detect", "prototypes", "--encoder", "./absent", "--corpus", damaged, "--out")
    assert re.search(r"--out .*file/p.* cannot be written .*: name another file", fails(*verb, tmp_path / "file" / "p"))
    assert "00000.words.bin' is damaged (checksum)" in fails(*verb, tmp_path / "p")
    assert "absent" in fails(*verb, tmp_path / "p", "--no-verify")
    assert not (tmp_path / "p").exists()


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


def test_how_long_documents_of_text_files_may_be_is_said_as_it_is() -> None:
    (option,) = [told for told in get_args(MaxDocumentMib) if isinstance(told, OptionInfo)]
    verbs = (Path(__file__).parents[2] / "docs" / "verbs.md").read_text()
    for said in (option.help, build_corpus.__doc__, verbs):
        words = " ".join((said or "").split())
        assert re.search(rf"\.txt`* files? .*cut at .*{_LONGEST_DOCUMENT:,} characters.* warning", words), said
        assert re.search(r"a line,? or (of )?a record's text", words), said
