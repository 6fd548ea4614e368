"""Words of one family, and names, in the hand-made WordNet with some more in it."""

from __future__ import annotations

import pytest
from test_replacements import Synsets, made_wordnet

from trueneg.lexicon.compatibility import is_proper
from trueneg.lexicon.families import Families
from trueneg.lexicon.wordnet import WordNet

SYNSETS: Synsets = {
    "Nippon": ("n", "Nippon Japan", [("@i", "town", "0000")], "some islands"),
    "lacquer": ("n", "nippon", [], "a lacquer"),
    "Nipponese": ("a", "Nipponese", [("\\", "Nippon", "0101")], "of some islands"),
    "person of": ("n", "Nipponese", [("@", "thing", "0000")], "who lives there"),
    "Yank": ("n", "Yank", [("@", "thing", "0000")], "a northerner"),
    "bird": ("n", "turkey", [("@", "thing", "0000")], "a bird"),
    "country": ("n", "Turkey", [("@i", "town", "0000")], "a land"),
    "God": ("n", "God", [("@i", "thing", "0000")], "one"),
    "god": ("n", "god", [("@", "thing", "0000")], "one of many"),
    "March": ("n", "March", [], "a month"),
    "May": ("n", "May", [], "a month"),
    "to polish": ("v", "polish", [], "to make shine"),
    "Polish": ("a", "Polish", [], "of a land"),
    "sing": ("v", "sing", [("+", "singer", "0101"), ("+", "song", "0101")], "make music"),
    "singer": ("n", "singer vocalist", [("+", "sing", "0101")], "who sings"),
    "song": ("n", "song", [("+", "sing", "0101")], "what is sung"),
    "maker": ("n", "maker", [], "who makes"),
    "filmmaker": ("n", "filmmaker", [], "who makes films"),
    "filmdom": ("n", "filmdom", [], "all films"),
    "historic": ("a", "historic", [("\\", "past", "0101")], "of note"),
    "of history": ("a", "historic historical", [("\\", "past", "0201")], "of what was"),
    "past": ("n", "history", [], "what was"),
}


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Families:
    return Families(made_wordnet(tmp_path_factory.mktemp("wordnet"), SYNSETS))


@pytest.mark.parametrize(
    ("word", "other", "wanted"),
    [
        ("Nipponese", "nippon", True),  # the pointer is the adjective's
        ("nipponese", "japan", False),  # of one word of the synset, not of all
        ("songs", "singing", True),
        ("singers", "songs", True),  # both of "sing"
        ("vocalist", "song", False),
        ("films", "film", False),  # forms of one word
        ("filmmakers", "films", True),
        ("filmmakers", "maker", False),  # its head
        ("filmdom", "film", False),  # what is left is no word
        ("filmmakers", "movies", False),
        ("historic", "history", True),
        ("historic", "historical", False),  # synonyms
        ("mouse", "animals", False),
        ("qwzx", "song", False),
    ],
)
def test_what_is_of_one_family(word: str, other: str, wanted: bool, families: Families) -> None:
    assert families.are_related(word, other) is wanted
    assert families.are_related(other, word) is wanted


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("paris", True),
        ("PARIS", True),
        ("french capital", True),
        ("nippon", True),  # its first meaning
        ("nipponese", True),  # each of its parts of speech
        ("yanks", True),  # no individual
        ("turkey", False),  # not its first
        ("god", True),
        ("gods", False),  # an individual has no plural
        ("polish", False),  # not each of its parts of speech
        ("may", False),
        ("march", False),
        ("mouse", False),
        ("qwzx", False),
    ],
)
def test_what_is_a_name(word: str, wanted: bool, families: Families) -> None:
    assert is_proper(word, families.wordnet) is wanted


def test_synonyms_share_a_meaning(wordnet: WordNet) -> None:
    assert wordnet.are_synonyms("movies", "film") and wordnet.are_synonyms("coating", "films")
    assert not wordnet.are_synonyms("movie", "coating") and not wordnet.are_synonyms("movie", "qwzx")
