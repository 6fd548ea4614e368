"""Wrong answers: of the right kind, and never the right one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from squad_world import tagger, wordnet

from trueneg.attacks.squad.add_sentence.entities import WordNetEntities
from trueneg.attacks.squad.add_sentence.fake_answer import POOLS, Asked, FakeAnswer, fake_answer, verb_phrase
from trueneg.attacks.squad.add_sentence.question_words import read_words
from trueneg.attacks.squad.add_sentence.substitutes import NAMES


def fake(answer: str, asked: Asked, rules: str = "strict", *, is_sampled: bool = True, seed: int = 1) -> FakeAnswer:
    entities = WordNetEntities(wordnet())
    return fake_answer(
        read_words(answer, tagger()),
        asked,
        rules=rules,  # type: ignore[arg-type]
        is_sampled=is_sampled,
        entities=entities,
        kind_of=entities.kind,
        taken="",
        randomness=random.Random(seed),
    )


WHAT, WHO, WHEN, WHERE = Asked("what"), Asked("who"), Asked("when"), Asked("where")


def test_figures_keep_their_words() -> None:
    found = fake("around 50 years of age", Asked("what", "age"))
    assert found.kind == "figure" and found.text.startswith("around ") and found.text.endswith(" years of age")
    assert "50" not in found.text
    assert int(fake("before the war ended", WHEN).text) in range(1650, 1950)
    assert fake("several", Asked("how many", "ships")).text.isdigit()


@pytest.mark.parametrize(
    "answer, asked, pool",
    [
        ("Ada Lovelace", WHO, NAMES["person"]),
        ("filmmakers", WHO, POOLS["people"]),
        ("Paris", WHERE, NAMES["place"]),
        ("near the river", WHERE, NAMES["place"]),
        ("Xyzzy", Asked("what", "company"), NAMES["organization"]),
        ("NASA", WHAT, NAMES["abbreviation"]),
        ("ships", WHAT, POOLS["plural"]),
        ("a ship", WHAT, [f"a {noun}" for noun in POOLS["count"]]),
        ("the ship", WHAT, [f"the {noun}" for noun in POOLS["count"]]),
        ("oxygen", WHAT, POOLS["noun"]),
        ("big", WHAT, POOLS["adjective"]),
        ("wooden ships", Asked("what", "ship", is_kind=True), POOLS["adjective"]),
        ("to reduce costs", WHAT, [f"to {verb}" for verb in POOLS["verb"]]),
        ("ships", Asked("what", is_action=True), POOLS["verb"]),
        ("lack of money", Asked("why"), POOLS["reason"]),
        ("annually", Asked("how often"), POOLS["adverb"]),
    ],
)
def test_an_answer_of_the_same_kind(answer: str, asked: Asked, pool: list[str]) -> None:
    assert fake(answer, asked).text in pool


def test_several_people() -> None:
    names = fake("Ada Lovelace and Charles Babbage", Asked("who", is_plural=True)).text.split(" and ")
    assert len(set(names)) == 2 and set(names) <= set(NAMES["person"])


def test_a_fixed_answer_is_always_the_same() -> None:
    assert len({fake("ships", WHAT, is_sampled=False, seed=seed).text for seed in range(9)}) == 1
    assert len({fake("ships", WHAT, seed=seed).text for seed in range(30)}) > 1


@pytest.mark.parametrize(
    "answer, asked, text, rule",
    [
        # By hand after ans_date and ans_number of the authors' convert_questions.py.
        ("1985", WHEN, "1960", "date"),
        ("12 June", WHEN, "23 December", "date"),
        ("May 25, 1990", WHEN, "November 14, 1965", "date"),
        ("March 3rd, 1998", WHEN, "September 3rd, 1973", "date"),
        ("June", WHEN, "December", "date"),
        ("500 ships", WHAT, "100 ships", "number"),
        ("1985 ships", WHAT, "1910 ships", "number"),
        ("25 ships in June", WHAT, "75 ships in June", "number"),
        ("12", Asked("how many", "ships"), "62", "number"),
        ("ten", Asked("how many", "ships"), "60", "number"),
        ("Twenty-five ships", WHAT, "75-five ships", "number"),
        ("zero", Asked("how many", "ships"), "60", "number"),
        ("0.5", Asked("how much"), "5.5", "number"),
        ("3rd", WHAT, "8", "number"),
        ("50 million", Asked("how many"), "10 thousand", "number"),
        ("Luther", WHO, "Jeff Dean", "ner_person"),
        ("Paris", WHAT, "Chicago", "ner_place"),
        ("several", Asked("how many", "ships"), "42", "wh_how_many"),
        ("NASA", WHAT, None, None),
        ("a ship", WHAT, "a hamster", "pos_end_nn"),
        ("ships", WHAT, "hamsters", "pos_end_nns"),
        ("big", WHAT, "deep", "pos_end_jj"),
        ("above", WHAT, "aliens", "catch_all"),
    ],
)
def test_the_rules_of_2017(answer: str, asked: Asked, text: str | None, rule: str | None) -> None:
    found = fake(answer, asked, "jia2017", is_sampled=False)
    if text is None:
        assert found.rule in ("abbrev", "ner_organization", "ner_other")
    else:
        assert (found.text, found.rule) == (text, rule)


def test_textflint_knows_no_figures() -> None:
    assert fake("500 ships", WHAT, "textflint", is_sampled=False).text == "hamsters"


def test_forms_of_verbs() -> None:
    assert [verb_phrase("feed the birds", tag) for tag in ("VB", "VBD", "VBG")] == [
        "feed the birds",
        "fed the birds",
        "feeding the birds",
    ]
    assert all(verb_phrase(base, "VBD") != base for base in POOLS["verb"])


ANSWERS = ["the 1950s", "Ada", "a", "of", "“naïve” ships", "...", "$5", "3–4", "the", "to", "going home", "UN", "3rd"]


@settings(deadline=None)
@given(
    st.sampled_from(ANSWERS),
    st.sampled_from([WHAT, WHO, WHEN, WHERE, Asked("how many", "ships"), Asked("how"), Asked("why")]),
    st.sampled_from(["strict", "jia2017", "textflint"]),
    st.integers(0, 20),
)
def test_there_is_always_one_and_it_is_another(answer: str, asked: Asked, rules: str, seed: int) -> None:
    found = fake(answer, asked, rules, is_sampled=rules == "strict", seed=seed)
    assert found.text.strip() == found.text != ""
    assert found.text.lower() != answer.lower()
