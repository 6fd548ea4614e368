"""Antonyms and sister terms in the place of a target."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from trueneg.detectors.scorers.base import Substitution
from trueneg.evaluation.detectors.distractors import Distractor, distractors, sister_terms
from trueneg.evaluation.detectors.swords import Item
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PartOfSpeech

MAKE = Path(__file__).parents[2] / "data" / "wordnet" / "make.py"

SYNSETS: dict[str, tuple[str, str, list[tuple[str, str, str]], str]] = {
    "place": ("n", "place", [("~", "town", "0000"), ("~", "village", "0000"), ("~", "port", "0000")], "somewhere"),
    "town": ("n", "town burg", [("@", "place", "0000")], "a small city"),
    "village": ("n", "village", [("@", "place", "0000")], "a small town"),
    "port": ("n", "port burg", [("@", "place", "0000")], "a town with ships"),
    "people": ("n", "town people", [("@", "group", "0000")], "those who live there"),
    "group": ("n", "group", [("~", "people", "0000"), ("~", "army", "0000")], "several"),
    "army": ("n", "army", [("@", "group", "0000")], "a group with weapons"),
    "stay": ("v", "stay rest", [("!", "go", "0101")], "be still"),
    "go": ("v", "go", [("!", "stay", "0101")], "change place"),
    "big": ("a", "big", [("!", "small", "0101")], "of size"),
    "small": ("a", "small", [("!", "big", "0101")], "of no size"),
    "soon": ("r", "soon", [], "in a while"),
}


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> WordNet:
    specification = importlib.util.spec_from_file_location("make_wordnet", MAKE)
    assert specification and specification.loader
    make = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(make)
    make.SYNSETS = SYNSETS
    folder = tmp_path_factory.mktemp("wordnet")
    for name, content in make.build().items():
        (folder / name).write_text(content)
    return WordNet.load(folder)


def item(text: str, word: str, lemma: str, pos: PartOfSpeech | None, substitute: str = "x", share: float = 0) -> Item:
    place = Substitution(text, text.index(word), text.index(word) + len(word), substitute, pos)
    return Item(place, share, f"t:{word}", f"s:{word}.{substitute}", lemma, substitute)


def words(found: list[Distractor], kind: str) -> list[str]:
    return [d.substitution.substitute for d in found if d.kind == kind]


def test_sisters_are_those_of_the_first_sense_without_synonyms(wordnet: WordNet) -> None:
    assert sister_terms(wordnet, "town", "n") == {"village", "port"}  # neither "burg" nor "army"
    assert sister_terms(wordnet, "village", "n") == {"town", "burg", "port"}
    assert sister_terms(wordnet, "nothing", "n") == sister_terms(wordnet, "big", "a") == frozenset()


def test_wrong_words_stand_in_the_form_of_the_target(wordnet: WordNet) -> None:
    items = [item("Towns stayed.", "Towns", "town", "n"), item("It has stayed BIG.", "stayed", "stay", "v")]
    found = distractors([*items, item("It has stayed BIG.", "BIG", "big", "a")], wordnet)
    assert [(d.kind, d.substitution.substituted, d.target_id) for d in found] == [
        ("sisters", "Ports stayed.", "t:Towns"),
        ("sisters", "Villages stayed.", "t:Towns"),
        ("antonyms", "It has gone BIG.", "t:stayed"),
        ("antonyms", "It has stayed SMALL.", "t:BIG"),
    ]
    assert words(distractors(items, wordnet, inflect=False), "antonyms") == ["go"]


def test_what_some_judges_accept_is_not_wrong(wordnet: WordNet) -> None:
    text = "Towns stayed."
    accepted = [item(text, "Towns", "town", "n", "Village", 0.1), item(text, "stayed", "stay", "v", "go", 0.9)]
    rejected = item(text, "Towns", "town", "n", "port", 0.09)
    assert [d.substitution.substitute for d in distractors([*accepted, rejected], wordnet)] == ["Ports"]


def test_targets_without_such_words_have_none(wordnet: WordNet) -> None:
    places: list[tuple[str, PartOfSpeech | None]] = [("soon", "r"), ("qwzx", "n"), ("town", None)]
    for word, pos in places:
        assert distractors([item(f"a {word} word", word, word, pos)], wordnet) == []


def test_sisters_are_capped_by_a_draw_that_repeats(wordnet: WordNet) -> None:
    items = [item("a village", "village", "village", "n")]
    drawn = {tuple(words(distractors(items, wordnet, max_sisters=2, seed=seed), "sisters")) for seed in range(20)}
    assert all(len(set(words)) == 2 for words in drawn)
    assert len(drawn) == 3
    one, other = (distractors(items, wordnet, max_sisters=2, seed=7) for _ in range(2))
    assert one == other
