"""Verbs that read a corpus for long notice damage first, unless they are told not to look."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from command_line import World, fails, pretrain_options, works


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
