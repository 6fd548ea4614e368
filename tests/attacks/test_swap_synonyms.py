"""Swapping synonyms: what may change, what never does, and that it is a function of seed and key."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from squad_world import squad, tagger, wordnet

from trueneg.attacks.base import AdversarialExample
from trueneg.attacks.squad.swap_synonyms import SwapOptions, swap_synonyms
from trueneg.tasks.squad_reading import SquadAnswer, SquadExample

ALL = SwapOptions(share=1.0, max_swaps=50)
FLINT = replace(SwapOptions.textflint(), share=1.0, max_swaps=50)


def attacked(example: SquadExample, options: SwapOptions = ALL, seed: int = 1) -> AdversarialExample[SquadExample]:
    [found] = swap_synonyms([example], seed=seed, wordnet=wordnet(), tagger=tagger(), options=options)
    return found


def context_after(context: str, *answers: str, options: SwapOptions = ALL) -> str:
    return attacked(squad("Who?", context, *(answers or ("Ada",))), options).adversarial.context


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Ada saw a car, two big cars and an automobile; it started quickly.",
         "Ada saw an automobile, two large automobiles and a car; it commenced rapidly."),
        ("Ada left. Cars came.", "Ada left. Automobiles came."),
        # A film is as often a movie as a movie is: both have it first; a coating is a film in its second meaning.
        ("Ada saw a movie with a coating.", "Ada saw a film with a coating."),
        ("Ada saw a cheerful car.", "Ada saw a blithe automobile."),  # a satellite
        ("Ada saw Big Car near a car-park of a high school. A Film of 1990, so-big, a big's; CARS Quickly left.", None),
    ],
)  # fmt: skip
def test_usual_words_become_synonyms_that_agree_and_names_and_compounds_stay(before: str, after: str | None) -> None:
    assert context_after(before) == (after or before)


def test_no_word_of_any_answer_changes_anywhere_and_none_comes_in() -> None:
    context = "A car is big. Ada saw a large automobile."
    assert context_after(context, "a large automobile", "big") == context
    assert context_after("Ada saw a car quickly.", "saw a") == "Ada saw a car rapidly."  # not "saw an"


def test_the_notes_say_what_was_swapped() -> None:
    found = attacked(squad("Who?", "Ada saw a car.", "Ada"))
    assert found.outcome == "changed"
    assert found.notes == {"swaps": [[10, "car", "automobile"]]}
    assert found.adversarial.question == "Who?" and found.adversarial.key == "q1"


def test_how_many_are_swapped() -> None:
    context = "Ada said " + "quickly " * 40 + "."  # 43 words and marks

    def num(options: SwapOptions) -> int:
        return len(attacked(squad("Who?", context, "Ada"), options).notes["swaps"])

    assert [num(SwapOptions()), num(SwapOptions(max_swaps=3)), num(SwapOptions(share=0.01)), num(ALL)] == [4, 3, 1, 40]


def test_textflint_takes_any_lemma_as_it_is_except_of_satellites() -> None:
    example = squad("Who?", "Ada saw cheerful movies of 1990.", "Ada")
    found = {attacked(example, FLINT, seed).adversarial.context for seed in range(30)}
    assert found == {f"Ada saw cheerful {lemma} of 1990." for lemma in ("movie", "film", "pic", "Movie")}


def test_a_context_without_synonyms_stays_and_says_why() -> None:
    example = squad("Who?", "Ada won.", "Ada")
    found = attacked(example)
    assert (found.outcome, found.adversarial, found.notes) == (
        "unchanged",
        example,
        {"reason": "no word has a synonym"},
    )


PIECES = [
    "a big car",
    "the movie",
    "Ada",
    "an automobile",
    "quickly",
    "1990,",
    "“cheerful”",
    "started",
    "Cars.",
    "naïve",
    "—",
]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=12),
    st.integers(0, 11),
    st.integers(1, 3),
    st.integers(0, 5),
    st.sampled_from([ALL, SwapOptions(), FLINT]),
)
def test_answers_stay_and_so_does_all_other_text(
    pieces: list[str], first: int, num: int, seed: int, options: SwapOptions
) -> None:
    first = min(first, len(pieces) - 1)
    context, answer = " ".join(pieces), " ".join(pieces[first : first + num])
    start = len(" ".join([*pieces[:first], ""])) if first else 0
    example = replace(squad("Who?", context), answers=(SquadAnswer(answer, start),))
    found = attacked(example, options, seed)
    after = found.adversarial
    [moved] = after.answers
    assert moved.text == answer and moved.start is not None
    assert after.context[moved.start : moved.start + len(answer)] == answer
    swaps = {old.lower(): new for _, old, new in found.notes.get("swaps", [])}
    old_words, new_words = re.findall(r"\w+|\W+", context), re.findall(r"\w+|\W+", after.context)
    assert len(old_words) == len(new_words)
    for old, new in zip(old_words, new_words, strict=True):
        assert old == new or old.lower() in swaps or {old.lower(), new.lower()} == {"a", "an"}
    assert swaps.keys().isdisjoint(re.findall(r"\w+", answer.lower()))
