"""What WordNet's relations and lists of words say of two words."""

from __future__ import annotations

import pytest
from tiny_encoders import at

from trueneg.detectors import make_scorer
from trueneg.detectors.scorers.base import Substitution
from trueneg.detectors.specification import Resources
from trueneg.lexicon.table import FORMS

SENTENCE = {
    "movies": "two movies in a row",
    "large": "the large mouse",
    "mouse": "the mouse sat",
    "stay": "they stay here",
    "film": "a film on glass",
    "city": "the city is old",
    "saw": "we saw it",
    "cheerful": "a cheerful child",
    "unhappy": "an unhappy child",
}


@pytest.mark.parametrize(
    ("name", "word", "substitute", "wanted"),
    [
        ("lexical", "movies", "films", 1),
        ("lexical", "movies", "motion pictures", 1),
        ("lexical", "movies", "movie", 0),
        ("lexical", "large", "small", 0),
        ("lexical", "stay", "check", 1),
        ("lexical", "city", "qwzx", 0),
        ("lexical[forms=retrieved]", "movies", "movie", 1),
        ("lexical[forms=retrieved]", "movies", "film", 1),
        ("lexical[forms=retrieved]", "movies", "films", 0),
        ("lexical[forms=retrieved]", "movies", "motion picture", 1),
        ("lexical[forms=lemma]", "movies", "movie", 0),
        ("lexical[forms=lemma]", "movies", "film", 1),
        ("lexical[forms=agree]", "movies", "film", 0),
        ("lexical[forms=agree]", "movies", "Films", 1),
        ("first-sense", "film", "movie", 1),
        ("first-sense", "film", "coating", 0),
        ("antonym", "large", "small", 1),
        ("antonym", "large", "little", 1),
        ("antonym", "large", "big", 0),
        ("antonym", "cheerful", "unhappy", 1),
        ("antonym", "unhappy", "cheerful", 1),
        ("hypernym", "mouse", "animal", 1),
        ("hypernym", "mouse", "thing", 0),
    ],
)
def test_relations(name: str, word: str, substitute: str, wanted: int, resources: Resources) -> None:
    scorer = make_scorer(name, resources)
    assert scorer.acceptance([at(SENTENCE[word], word, substitute)]).tolist() == [wanted]
    assert scorer.provenance["wordnet"] == resources.relations.wordnet.version


def test_each_table_has_another_digest(resources: Resources) -> None:
    names = ("lexical", *(f"lexical[forms={forms}]" for forms in FORMS))
    assert len({make_scorer(name, resources).digest() for name in names}) == 4


def test_part_of_speech_narrows_what_is_related(resources: Resources) -> None:
    scorer = make_scorer("lexical", resources)
    asked = [
        Substitution("they stay here", 5, 9, word, pos) for word in ("check", "remain") for pos in ("n", "v", None)
    ]  # type: ignore[arg-type]
    assert scorer.scores(asked).tolist() == [1, 0, 1, 0, 1, 1]


def test_sisters_are_no_synonyms(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    related = {
        "film": frozenset({"sister"}),
        "movie": frozenset({"sister", "synonym"}),
        "show": frozenset({"hypernym"}),
    }
    monkeypatch.setattr(resources.relations, "between", lambda word, other, pos: related[other])
    asked = [at("a picture", "picture", word) for word in related]
    assert make_scorer("sister", resources).scores(asked).tolist() == [1, 0, 0]
    assert make_scorer("lexical", resources).scores(asked).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("name", "text", "word", "substitute", "wanted"),
    [
        ("calendar", "in January it rains", "January", "june", 1),
        ("calendar", "on monday", "monday", "June", 1),
        ("calendar", "on monday", "monday", "mornings", 0),
        ("number", "in 1990 it was", "1990", "twelve", 1),
        ("number", "all twenty-one of them", "twenty-one", "thirty", 1),
        ("number", "the first one", "first", "1,000th", 1),
        ("number", "the first one", "first", "initial", 0),
        ("number", "a - b", "-", "1", 0),
        ("name", "he lives in paris now", "paris", "town", 1),
        ("name", "he lives in town now", "town", "paris", 1),
        ("name", "he met Smith there", "Smith", "Jones", 1),
        ("name", "Quite so", "Quite", "Very", 0),
        ("name", "I saw. Quite so", "Quite", "Very", 0),
        ("name", "we saw The mouse", "The", "A", 0),
        ("name", "the mouse sat", "mouse", "animal", 0),
        ("name", "the Mouse sat", "Mouse", "Animal", 0),
    ],
)
def test_classes(name: str, text: str, word: str, substitute: str, wanted: int, resources: Resources) -> None:
    scorer = make_scorer(name, resources)
    assert scorer.scores([at(text, word, substitute)]).tolist() == [wanted]
    assert scorer.provenance["class"] == name
