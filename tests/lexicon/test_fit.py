"""Which words could stand for which, on the hand-made WordNet and by what needs none."""

from __future__ import annotations

import pytest

from trueneg.lexicon.compatibility import Compatibility
from trueneg.lexicon.wordnet import WordNet


@pytest.fixture
def fit(wordnet: WordNet) -> Compatibility:
    return Compatibility(wordnet)


@pytest.mark.parametrize(
    ("word", "other", "wanted"),
    [
        ("movies", "films", True),
        ("movies", "film", False),  # another form
        ("movies", "movie", False),  # the same word
        ("stayed", "remained", True),
        ("stayed", "remains", False),
        ("stay", "stays", False),
        ("large", "big", True),
        ("large", "bigger", False),
        ("large", "small", False),  # opposites
        ("bigger", "littler", False),  # in any form
        ("glad", "unhappy", False),  # of "happy", which "unhappy" does not lead to
        ("happy", "movie", False),  # an adjective and a noun
        ("January", "december", False),
        ("January", "movie", True),
        ("day", "years", False),
        ("miles", "kilometres", False),
        ("day", "movie", True),
        ("six", "five", False),
        ("1921", "1922", False),
        ("six", "movies", True),
        ("paris", "movie", False),  # a name
        ("Paris", "Movie", False),
        ("qwzx", "movie", True),  # of what WordNet does not know it says nothing
        ("qwzx", "blub", True),
    ],
)
def test_what_fits(word: str, other: str, wanted: bool, fit: Compatibility) -> None:
    assert fit.fits(word, other) is wanted
    assert fit.fits(other, word) is wanted
