"""Relations of words in the hand-made WordNet."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_replacements import Synsets, made_wordnet

from trueneg.lexicon.relations import Relation, Relations
from trueneg.lexicon.wordnet import WordNet


@pytest.fixture
def relations(wordnet: WordNet) -> Relations:
    return Relations(wordnet)


@pytest.mark.parametrize(
    ("word", "other", "pos", "wanted"),
    [
        ("movie", "film", "n", {"synonym", "first synonym"}),
        ("movies", "Films", None, {"synonym", "first synonym"}),
        ("film", "coating", "n", {"synonym"}),
        ("film", "movie", "n", {"synonym", "first synonym"}),
        ("movie", "motion pictures", "n", {"synonym", "first synonym"}),
        ("movie", "show", "n", {"hypernym"}),
        ("show", "movie", "n", set()),  # the hand-made file points one way only
        ("animal", "mice", "n", {"hyponym"}),
        ("mouse", "beast", "n", {"hypernym"}),
        ("paris", "city", "n", {"hypernym"}),
        ("large", "big", "a", {"synonym", "first synonym"}),
        ("large", "small", "a", {"antonym", "opposite"}),
        ("large", "little", "a", {"opposite"}),
        ("bigger", "little", "a", {"antonym", "opposite"}),
        ("stay", "move", "v", {"antonym", "opposite"}),
        ("stay", "go", "v", set()),
        ("remain", "move", "v", {"opposite"}),
        ("glad", "unhappy", "a", {"opposite"}),
        ("glad", "happy", "a", {"similar"}),
        ("happy", "cheerful", "a", {"similar"}),
        ("stay", "check", "v", set()),
        ("stay", "check", "n", {"synonym", "first synonym"}),
        ("movie", "movie", "n", set()),
        ("movies", "movie", "n", set()),
        ("movie", "nothing at all", None, set()),
        ("qwzx", "movie", None, set()),
        ("", "movie", None, set()),
    ],
)
def test_how_two_words_are_related(
    word: str, other: str, pos: str | None, wanted: set[Relation], relations: Relations
) -> None:
    assert relations.between(word, other, pos) == wanted  # type: ignore[arg-type]


def test_a_phrase_is_found_by_the_base_form_of_any_of_its_words(tmp_path: Path) -> None:
    moment: Synsets = {"moment": ("n", "moment point_in_time", [], "a while"), "point": ("n", "point", [], "a dot")}
    relations = Relations(made_wordnet(tmp_path, moment))
    assert relations.between("moments", "points in time", "n") == {"synonym", "first synonym"}
    assert relations.between("moment", "points in times", "n") == frozenset(), "one word is changed, not two"


def test_sisters_have_a_hypernym_in_common(tmp_path: Path) -> None:
    up, below = [("@", "place", "0000")], ("village", "borough", "river")
    places: Synsets = {
        "place": ("n", "place site", [("~", name, "0000") for name in below], "somewhere"),
        "village": ("n", "village hamlet", up, "a small one"),
        "borough": ("n", "borough", up, "a part of one"),
        "river": ("n", "river", up, "water"),
        "bank": ("n", "bank", [], "where money is"),
    }
    relations = Relations(made_wordnet(tmp_path, places))
    assert relations.between("village", "boroughs", "n") == {"sister"}
    assert relations.between("villages", "hamlets", "n") == {"synonym", "first synonym"}
    assert relations.between("village", "site") == {"hypernym"}
    assert relations.between("place", "rivers") == {"hyponym"}
    assert relations.between("village", "bank") == set()


def test_what_is_derived_is_of_the_word_that_the_pointer_starts_from(tmp_path: Path) -> None:
    derived = [("+", "mover", "0201"), ("+", "travel", "0102"), ("^", "route", "0000")]
    moves: Synsets = {
        "act": ("n", "move motion", derived, "an act"),
        "mover": ("n", "mover", [], "who moves"),
        "travel": ("n", "travel traveller", [], "a trip"),
        "route": ("n", "route", [], "a way"),
    }
    relations = Relations(made_wordnet(tmp_path, moves))
    assert relations.between("motion", "mover") == {"derived"}
    assert relations.between("move", "mover") == set()
    assert relations.between("move", "traveller") == {"derived"}
    assert relations.between("move", "travel") == set()
    assert relations.between("motion", "route") == {"also"}


def test_each_word_is_read_once(relations: Relations, monkeypatch: pytest.MonkeyPatch) -> None:
    first = relations.of("movie")
    monkeypatch.setattr(WordNet, "senses", None)
    assert relations.of("Movie") is first
    assert "movie" not in first and first["film"] == {"synonym", "first synonym"}
