"""Wrong answers: of the right kind, and never the right one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from squad_world import tagger, wordnet

from trueneg.attacks.squad.add_sentence.answers import POOLS, ExpectedAnswer, FakeAnswer, fake_answer, verb_phrase
from trueneg.attacks.squad.add_sentence.questions import read_words
from trueneg.attacks.squad.add_sentence.substitutes import NAMES, WordNetEntities


def fake(answer: str, expected: ExpectedAnswer, seed: int = 1) -> FakeAnswer:
    return fake_answer(
        read_words(answer, tagger()),
        expected,
        entities=WordNetEntities(wordnet()),
        taken="",
        randomness=random.Random(seed),
    )


WHAT, WHO, WHEN, WHERE = ExpectedAnswer("what"), ExpectedAnswer("who"), ExpectedAnswer("when"), ExpectedAnswer("where")


def test_figures_keep_their_words() -> None:
    found = fake("around 50 years of age", ExpectedAnswer("what", "age"))
    assert found.kind == "figure" and found.text.startswith("around ") and found.text.endswith(" years of age")
    assert "50" not in found.text
    assert int(fake("before the war ended", WHEN).text) in range(1650, 1950)
    assert fake("several", ExpectedAnswer("how many", "ships")).text.isdigit()


@pytest.mark.parametrize(
    "answer, expected, pool",
    [
        ("Ada Lovelace", WHO, NAMES["person"]),
        ("filmmakers", WHO, POOLS["people"]),
        ("Paris", WHERE, NAMES["place"]),
        ("near the river", WHERE, NAMES["place"]),
        ("Xyzzy", ExpectedAnswer("what", "company"), NAMES["organization"]),
        ("NASA", WHAT, NAMES["abbreviation"]),
        ("ships", WHAT, POOLS["plural"]),
        ("a ship", WHAT, [f"a {noun}" for noun in POOLS["count"]]),
        ("the ship", WHAT, [f"the {noun}" for noun in POOLS["count"]]),
        ("oxygen", WHAT, POOLS["noun"]),
        ("big", WHAT, POOLS["adjective"]),
        ("wooden ships", ExpectedAnswer("what", "ship", is_kind=True), POOLS["adjective"]),
        ("to reduce costs", WHAT, [f"to {verb}" for verb in POOLS["verb"]]),
        ("ships", ExpectedAnswer("what", is_action=True), POOLS["verb"]),
        ("lack of money", ExpectedAnswer("why"), POOLS["reason"]),
        ("annually", ExpectedAnswer("how often"), POOLS["adverb"]),
    ],
)
def test_an_answer_of_the_same_kind(answer: str, expected: ExpectedAnswer, pool: list[str]) -> None:
    assert fake(answer, expected).text in pool


def test_several_people() -> None:
    names = fake("Ada Lovelace and Charles Babbage", ExpectedAnswer("who", is_plural=True)).text.split(" and ")
    assert len(set(names)) == 2 and set(names) <= set(NAMES["person"])


def test_forms_of_verbs() -> None:
    verbs = [verb_phrase("feed the birds", tag).split()[0] for tag in ("VB", "VBD", "VBZ", "VBG", "VBN")]
    assert verbs == ["feed", "fed", "feeds", "feeding", "fed"]
    assert all(verb_phrase(base, "VBD") != base for base in POOLS["verb"])


ANSWERS = ["the 1950s", "Ada", "a", "of", "“naïve” ships", "...", "$5", "3–4", "the", "to", "going home", "UN", "3rd"]


@settings(deadline=None)
@given(
    st.sampled_from(ANSWERS),
    st.sampled_from(
        [WHAT, WHO, WHEN, WHERE, ExpectedAnswer("how many", "ships"), ExpectedAnswer("how"), ExpectedAnswer("why")]
    ),
    st.integers(0, 20),
)
def test_there_is_always_one_and_it_is_another(answer: str, expected: ExpectedAnswer, seed: int) -> None:
    found = fake(answer, expected, seed)
    assert found.text.strip() == found.text != ""
    assert found.text.lower() != answer.lower()
