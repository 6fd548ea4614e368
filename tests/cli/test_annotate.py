"""``corpus annotate``, and training on what it wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import WORDNET, World, contents, fails, pretrain_options, works


def annotate(world: World, out: Path, *options: object) -> tuple[object, ...]:
    return ("corpus", "annotate", world.corpus, "--detector", "lexical", "--out", out, *options)


def weights(run: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(run / "hf").items() if name.endswith(".safetensors")}


def test_a_run_on_annotations_is_the_run_that_judges_as_it_goes(world: World, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    data = works(*annotate(world, notes, "--wordnet", WORDNET), "--json").data
    assert data["share"] == 1
    assert data["info"] == json.loads((notes / "annotations.json").read_text())
    for name, detector in (("online", "lexical"), ("offline", f"annotated:{notes}")):
        works(*pretrain_options(world, tmp_path / name), "--hard-correction", detector, "--wordnet", WORDNET, "-q")
    assert weights(tmp_path / "online") == weights(tmp_path / "offline")


def test_it_says_what_was_found_and_what_is_missing(world: World, tmp_path: Path) -> None:
    told = works(*annotate(world, tmp_path / "whole", "--most", 1)).out
    assert f"use it with --hard-correction annotated:{tmp_path / 'whole'}" in told
    assert "tokens have a substitute" in told
    assert "beyond 1 a token left out" in told
    assert "only" not in told
    part = works(*annotate(world, tmp_path / "part", "--max-rows", 3)).out
    assert "of the corpus is annotated: in the rest nothing will be corrected" in part
    options = ("--hard-correction", f"annotated:{tmp_path / 'part'}")
    assert "warning: the annotations" in works(*pretrain_options(world, tmp_path / "run"), *options).err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--detector", "lexcial"), "did you mean 'lexical'"),
        (("--most", 300), "between 1 and 255"),
        (("--split", "test"), "has no split 'test'"),
    ],
)
def test_bad_options(world: World, tmp_path: Path, options: tuple[object, ...], complaint: str) -> None:
    assert complaint in fails(*annotate(world, tmp_path / "notes"), *options)
    assert not (tmp_path / "notes").exists()


def test_bad_folders(world: World, tmp_path: Path) -> None:
    assert "no corpus at" in fails("corpus", "annotate", tmp_path, "--detector", "lexical", "--out", tmp_path / "notes")
    works(*annotate(world, tmp_path / "notes"))
    assert "holds the finished annotations" in fails(*annotate(world, tmp_path / "notes"))
    works(*annotate(world, tmp_path / "notes", "--overwrite"))
    (tmp_path / "file").write_text("")
    assert "file is a file: name a folder" in fails(*annotate(world, tmp_path / "file"))


@pytest.mark.parametrize(
    ("detector", "complaint"),
    [
        ("annotated", "say what it is made from, as annotated:FOLDER"),
        ("annotated:absent", "no annotations at 'absent': make them with 'trueneg corpus annotate'"),
        ("annotated:one | annotated:two", "a run reads one folder of annotations"),
    ],
)
def test_annotations_that_are_not_there(world: World, tmp_path: Path, detector: str, complaint: str) -> None:
    assert complaint in fails(*pretrain_options(world, tmp_path / "run"), "--hard-correction", detector)
