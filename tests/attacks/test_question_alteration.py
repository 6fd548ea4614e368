"""Altering questions: names, numbers and antonyms, and nothing else."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from squad_world import tagger, wordnet

from trueneg.attacks.squad.add_sentence.question_alteration import AlteredQuestion, alter_question
from trueneg.attacks.squad.add_sentence.questions import read_words, written
from trueneg.attacks.squad.add_sentence.substitutes import (
    NAMES,
    NATIONALITIES,
    WordNetEntities,
    WordNetNeighbours,
    changed_figure,
)
from trueneg.attacks.squad.edits import edited_text


def altered(question: str, context: str = "", seed: int = 1) -> AlteredQuestion:
    found = alter_question(
        read_words(question, tagger()),
        neighbours=WordNetNeighbours(wordnet()),
        entities=WordNetEntities(wordnet()),
        context=context,
        randomness=random.Random(seed),
    )
    assert " ".join(written(found.words).split()) == " ".join(edited_text(question, found.edits).split())
    assert len(found.edits) == len(found.rules)
    return found


def text(question: str, **options: object) -> str:
    return edited_text(question, altered(question, **options).edits)  # type: ignore[arg-type]


def test_names_by_what_they_are_names_of() -> None:
    assert text("What did Luther write?").split()[2] in NAMES["surname"]
    assert text("Who was seen in Paris?").rstrip("?").split()[-1] in NAMES["place"]
    assert text("What did the FBI find?").split()[3] in NAMES["abbreviation"]
    assert text("Who paid the Broncos?").rstrip("?").split()[-1] in NAMES["group"]
    assert text("Who signed the Treaty of Paris?").startswith("Who signed the Treaty of ")
    assert text("Who owns the Paris Company?").endswith(" Company?")
    assert text("Which Italian painter won?").split()[1] in set(NATIONALITIES) - {"Italian"}


def test_numbers_and_antonyms() -> None:
    found = altered("What large film was shown in 1985?")
    assert found.rules == ("antonym", "number")
    assert found.edits[0].text == "small"
    assert int(found.edits[1].text) in range(1955, 1985)
    assert altered("Who was paid in October?").rules == ("number",)
    assert text("Who won Super Bowl 50?").startswith("Who won Super Bowl ") is True
    assert text("Who won Super Bowl 50?") != "Who won Super Bowl 50?"


def test_a_neighbour_only_where_nothing_else_was_altered() -> None:
    assert text("Who made the film?") == "Who made the concert?"
    assert text("Who made the large film?") == "Who made the small film?"
    assert altered("Who made it?").edits == ()


def test_no_name_that_the_context_has() -> None:
    every = " ".join(NAMES["surname"][1:])
    assert {text("What did Luther write?", context=every, seed=seed) for seed in range(8)} == {
        f"What did {NAMES['surname'][0]} write?"
    }


def test_articles_and_possessives_agree() -> None:
    assert text("Who saw a large car?") == "Who saw a small car?"
    found = text("Who owns an FBI file?", seed=2)
    assert found in {
        f"Who owns {'an' if n == 'OPEC' or n == 'ASEAN' else 'a'} {n} file?" for n in NAMES["abbreviation"]
    }
    assert text("Who read Dioscorides' book?").split()[2].endswith(("'s", "s'"))


def test_sisters_in_wordnet() -> None:
    neighbours = WordNetNeighbours(wordnet())
    assert neighbours("movies", "NNS") == ("concerts",)
    assert neighbours("Paris", "NNP") == ("Rome",)
    assert neighbours("xyzzy", "NN") == ()
    assert neighbours.antonyms("large", "JJ") == ["small"]
    assert neighbours.antonyms("heavy", "JJ") == [], "no text of WordNet's has it"


@given(
    st.sampled_from(["1985", "1950s", "$500,000", "twelve", "19th", "third", "Monday", "March", "XII", "8"]),
    st.integers(),
)
def test_figures_always_change_and_keep_their_form(word: str, seed: int) -> None:
    new = changed_figure(word, random.Random(seed))
    assert new is not None and new != word
    assert new[0].isdigit() == word[0].isdigit() and new[0].isupper() == word[0].isupper()
    assert new[-2:] == word[-2:] if word.endswith("0s") else True
    assert new[-2:] in ("st", "nd", "rd", "th") if word.endswith("th") else True


@given(st.integers(0, 3000), st.booleans(), st.sampled_from(["", "-century"]), st.integers())
def test_an_ordinal_becomes_another_that_there_is(number: int, is_upper: bool, rest: str, seed: int) -> None:
    def ordinal(value: int) -> str:
        teens = value // 10 % 10 == 1
        return f"{value}" + ("th" if teens else ("th", "st", "nd", "rd", *["th"] * 6)[value % 10])

    word = ordinal(number).upper() if is_upper else ordinal(number)
    new = changed_figure(word + rest, random.Random(seed))
    assert new is not None and new.endswith(rest) and new != word + rest
    other = new.removesuffix(rest)
    assert other == (ordinal(int(other[:-2])).upper() if is_upper else ordinal(int(other[:-2])))


QUESTIONS = [
    "What did the “Doctor Who” team of St. Mary's win in 1966 at $5.5 a head?",
    "In which year (A.D.) was the U.S. army — the largest one — beaten?",
    "Who?",
    "???",
    "Whose Paris's?",
    "naïve Ñandú in Łódź 42% who",
]


@settings(deadline=None)
@given(st.sampled_from(QUESTIONS), st.integers(0, 50))
def test_what_is_not_altered_stays(question: str, seed: int) -> None:
    found = altered(question, seed=seed)
    assert all(question[edit.start : edit.end] != edit.text for edit in found.edits)
    if not found.edits:
        assert edited_text(question, found.edits) == question
