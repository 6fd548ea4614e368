"""``trueneg inspect`` in a terminal: what it prints, the page it writes, and mistakes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import World, fails, works

TEXT = "The large beast will stay near the town ."


def test_a_word_with_its_predictions_and_synonyms(world: World, tmp_path: Path) -> None:
    page = tmp_path / "pages" / "large.html"
    told = ("inspect", world.run, TEXT, "--mask", "large", "--top", 3, "--detector", "lexical")
    said = works(*told, "--html", page)
    assert f"predictions of {world.run}" in said.out
    assert "The [large] beast will stay near the town ." in said.out
    assert "in the vocabulary: big" in said.out
    assert str(page) in said.out
    assert "\x1b" not in said.out  # not a terminal: no colours, and nothing is lost
    assert "<section" in page.read_text()
    (word,) = works(*told, "--json").data["words"]
    assert word["gold"] == "large"
    for predicted in word["predictions"]:
        assert predicted["text"] in said.out
    assert len(word["predictions"]) == 3


def test_every_word_is_the_default(world: World) -> None:
    found = works("inspect", world.run, TEXT, "--every-word", "--json").data["words"]
    assert [word["gold"] for word in found] == TEXT.split()[:-1]
    assert works("inspect", world.run, TEXT, "--json").data["words"] == found


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        ([TEXT, "--mask", "small"], "--mask small: the text has no such word; its words are The, large"),
        ([TEXT, "--mask", "large", "--every-word"], "exclude each other"),
        (["..."], "the text has no words"),
        ([TEXT * 10], "reads at most 64"),
        ([TEXT, "--detector", "lexcial"], "did you mean 'lexical'?"),
        ([TEXT, "--detector", "ema"], "'ema' works in training only"),
        ([TEXT, "--device", "gpu"], "--device must be cpu, cuda"),
    ],
)
def test_mistakes(world: World, arguments: list[str], complaint: str) -> None:
    assert complaint in fails("inspect", world.run, *arguments)


def test_an_electra_discriminator_alone_predicts_nothing(world: World, tmp_path: Path) -> None:
    alone = tmp_path / "discriminator"
    shutil.copytree(world.run / "hf", alone)
    shutil.rmtree(alone / "generator")
    assert "has no masked-LM head" in fails("inspect", alone, TEXT)


def test_a_page_where_a_folder_is(world: World, tmp_path: Path) -> None:
    assert "is a folder: name a file, as" in fails("inspect", world.run, TEXT, "--html", tmp_path)
