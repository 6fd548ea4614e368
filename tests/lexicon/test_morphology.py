from __future__ import annotations

import pytest

from trueneg.lexicon.morphology import agreeing_forms
from trueneg.lexicon.wordnet_location import PartOfSpeech


@pytest.mark.parametrize(
    ("form", "base", "substitute", "pos", "forms"),
    [
        ("movie", "movie", "film", "n", {"film"}),
        ("movies", "movie", "film", "n", {"films"}),  # not "film", which is also listed as a plural
        ("animals", "animal", "sheep", "n", {"sheep"}),
        ("remained", "remain", "rest", "v", {"rested"}),
        ("remaining", "remain", "stay", "v", {"staying"}),
        ("remain", "remain", "stay", "v", {"stay"}),
        ("moved", "move", "go", "v", {"went", "gone"}),  # a past or a participle
        ("gone", "go", "move", "v", {"moved"}),
        ("went", "go", "take", "v", {"took"}),
        ("bigger", "big", "large", "a", {"larger"}),
        ("big", "big", "large", "a", {"large"}),
        ("quickly", "quickly", "rapidly", "r", {"rapidly"}),
        ("movies", "movie", "zzyzx", "n", set()),  # no guesses
        ("movie", "movie", "zzyzx", "n", {"zzyzx"}),
    ],
)
def test_agreement(form: str, base: str, substitute: str, pos: PartOfSpeech, forms: set[str]) -> None:
    assert agreeing_forms(form, base, substitute, pos) == forms


def test_unknown_adjectives_are_not_compared() -> None:
    assert agreeing_forms("bigger", "big", "beautiful", "a") == frozenset()
