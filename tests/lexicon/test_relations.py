"""Relations of words in the hand-made WordNet."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from tiny_lexicon import TINY_WORDNET

from trueneg.lexicon.relations import RELATIONS, Relation, Relations
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


def write_wordnet(folder: Path, nouns: list[tuple[str, list[tuple[str, str, str]]]], adjectives: str = "") -> WordNet:
    """A WordNet whose nouns are as given: their words, and pointers to others by their first word."""
    for file in TINY_WORDNET.iterdir():
        if file.suffix != ".py" and file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    names = [words.split()[0] for words, _ in nouns]
    offsets = dict.fromkeys(names, 0)
    lines: list[str] = []
    for _ in range(2):
        lines, offset = [], 0
        for words, pointers in nouns:
            members = words.split()
            named = "".join(f" {symbol} {offsets[to]:08d} n {numbers}" for symbol, to, numbers in pointers)
            offsets[members[0]] = offset
            written = " ".join(f"{member} 0" for member in members)
            lines.append(f"{offset:08d} 03 n {len(members):02x} {written} {len(pointers):03d}{named} | gloss  \n")
            offset += len(lines[-1])
    (folder / "data.noun").write_text("".join(lines))
    senses: dict[str, list[int]] = {}
    for words, _ in nouns:
        for member in words.split():
            senses.setdefault(member.lower(), []).append(offsets[words.split()[0]])
    index = [
        f"{lemma} n {len(found)} 0 {len(found)} 0 {' '.join(f'{o:08d}' for o in found)}  \n"
        for lemma, found in sorted(senses.items())
    ]
    (folder / "index.noun").write_text("".join(index))
    (folder / "noun.exc").write_text("")
    return WordNet.load(folder)


def test_a_phrase_is_found_by_the_base_form_of_any_of_its_words(tmp_path: Path) -> None:
    relations = Relations(write_wordnet(tmp_path, [("moment point_in_time", []), ("point", [])]))
    assert relations.between("moments", "points in time", "n") == {"synonym", "first synonym"}
    assert relations.between("moment", "points in times", "n") == frozenset(), "one word is changed, not two"


def test_sisters_have_a_hypernym_in_common(tmp_path: Path) -> None:
    up, down = ("@", "place", "0000"), [("~", name, "0000") for name in ("town", "city", "river")]
    nouns = [("place site", down), ("town municipality", [up]), ("city", [up]), ("river", [up]), ("bank", [])]
    relations = Relations(write_wordnet(tmp_path, nouns))
    assert relations.between("town", "cities", "n") == {"sister"}
    assert relations.between("towns", "municipalities", "n") == {"synonym", "first synonym"}
    assert relations.between("town", "site") == {"hypernym"}
    assert relations.between("place", "rivers") == {"hyponym"}
    assert relations.between("town", "bank") == set()


def test_what_is_derived_is_of_the_word_that_the_pointer_starts_from(tmp_path: Path) -> None:
    nouns = [
        ("move motion", [("+", "mover", "0201"), ("+", "travel", "0102"), ("^", "route", "0000")]),
        ("mover", []),
        ("travel traveller", []),
        ("route", []),
    ]
    relations = Relations(write_wordnet(tmp_path, nouns))
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


def test_every_relation_has_a_name() -> None:
    assert set(get_args(Relation)) == set(RELATIONS) and len(RELATIONS) == 10
