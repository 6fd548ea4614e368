"""Adding a sentence: where it goes, what it never does, and what is said of it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from squad_world import squad, tagger, wordnet

from trueneg.attacks.base import AdversarialExample
from trueneg.attacks.squad.add_sentence.attack import PROFILES, AddOptions, add_sentence
from trueneg.attacks.squad.add_sentence.substitutes import NAMES
from trueneg.attacks.squad.swap_synonyms import SwapOptions, swap_synonyms
from trueneg.tasks.squad_reading import SquadAnswer, SquadExample

CONTEXT = "It was cold. The painter Luther was seen in Rome in 1985. He met Dr. Faust and left. It rained."
QUESTION = "Where was Luther seen in 1985?"


def attacked(
    example: SquadExample, options: AddOptions | None = None, seed: int = 1
) -> AdversarialExample[SquadExample]:
    [found] = add_sentence([example], seed=seed, wordnet=wordnet(), tagger=tagger(), options=options)
    return found


def test_a_distractor_about_something_else() -> None:
    found = attacked(squad(QUESTION, CONTEXT, "Rome", "in Rome"))
    notes = found.notes
    assert found.outcome == "changed"
    _, _, name, _, _, year = notes["altered_question"].rstrip("?").split()
    assert notes["distractor"] == f"{name} was seen in {year} in {notes['fake_answer']}."
    assert notes["fake_answer"] in NAMES["place"] and "1985" not in notes["distractor"]
    assert notes["rules"] == {
        "alteration": ["name:surname", "number"],
        "answer": "name:place",
        "sentence": "be-adjunct-adjunct",
    }
    assert (
        notes["is_question_changed"] and notes["has_fake_answer"] and notes["is_answer_outside"] and notes["is_valid"]
    )


def place(options: AddOptions, seed: int = 1) -> str:
    found = attacked(squad(QUESTION, CONTEXT, "Rome"), options, seed)
    at = found.notes["position"]
    assert found.adversarial.context[at:].startswith(found.notes["distractor"])
    return found.adversarial.context.replace(found.notes["distractor"], "X.")


def test_where_it_goes() -> None:
    assert place(AddOptions(position="append")) == f"{CONTEXT} X."
    assert place(AddOptions(position="prepend")) == f"X. {CONTEXT}"
    assert place(AddOptions(position="before_answer")) == CONTEXT.replace("The painter", "X. The painter")
    places = {place(AddOptions(position="random"), seed) for seed in range(60)}
    assert places == {
        f"X. {CONTEXT}",
        f"{CONTEXT} X.",
        CONTEXT.replace("The painter", "X. The painter"),
        CONTEXT.replace("He met", "X. He met"),
        CONTEXT.replace("It rained", "X. It rained"),
    }


def test_an_answer_over_two_sentences_is_not_cut() -> None:
    example = squad(QUESTION, CONTEXT, "in Rome in 1985. He met")
    for seed in range(40):
        assert "in Rome in 1985. He met" in attacked(example, seed=seed).adversarial.context


@pytest.mark.parametrize(
    "example, reason",
    [
        (squad(QUESTION, " ", "Rome"), "empty context"),
        (squad("", CONTEXT, "Rome"), "empty question"),
        (squad(QUESTION, CONTEXT, is_impossible=True), "impossible question"),
        (squad(QUESTION, CONTEXT), "no answers"),
        (squad(QUESTION, CONTEXT, "Vienna"), "no answer is in the context"),
        (squad("Was Luther in Rome?", CONTEXT, "Rome"), "no question phrase"),
        (squad("Who left?", CONTEXT, "Luther"), "question not altered"),
        (squad("When did Luther qwzx plugh?", CONTEXT, "1985"), "no rule makes a sentence of the question"),
        (squad("In what year was Luther seen?", CONTEXT, "seen"), "the right answer is in the sentence"),
    ],
)
def test_what_cannot_be_attacked_says_why(example: SquadExample, reason: str) -> None:
    found = attacked(example)
    assert (found.outcome, found.adversarial, found.notes) == ("unchanged", example, {"reason": reason})


def test_an_answer_elsewhere_than_at_its_offset() -> None:
    example = replace(squad(QUESTION, CONTEXT), answers=(SquadAnswer("Rome", 3),))
    assert attacked(example).notes == {"reason": "an answer is not at its offset"}


def test_textflint_adds_a_sentence_whether_or_not_it_misleads() -> None:
    found = attacked(squad("Who left?", CONTEXT, "Luther"), PROFILES["textflint"])
    assert found.notes["distractor"].endswith(" left.") and found.notes["fake_answer"] in NAMES["person"]
    assert not found.notes["is_question_changed"] and not found.notes["is_valid"]
    assert found.adversarial.context.index(found.notes["distractor"]) < found.adversarial.context.index("The painter")


def test_an_alteration_that_the_sentence_does_not_show_does_not_count() -> None:
    # "What large film" becomes "a hamster": that it was changed into a small one is lost.
    example = squad("What large film won?", "It was a ship that won.", "a ship")
    assert attacked(example).notes == {"reason": "the sentence has nothing of what was altered"}
    found = attacked(example, AddOptions(require_valid=False))
    assert found.outcome == "changed" and not found.notes["is_question_changed"] and not found.notes["is_valid"]


def test_a_sentence_in_the_order_of_the_question_as_a_last_resort() -> None:
    found = attacked(squad("When did Luther qwzx plugh?", CONTEXT, "1985"), AddOptions(last_resort=True))
    assert found.notes["rules"]["sentence"] == "replace"


SENTENCES = [
    "It rained.",
    "Luther met J. Doe (“a painter”) in Rome!",
    "He paid $5.5 to Dr. Faust?",
    "naïve — Ünder.",
    "Why",
]
QUESTIONS = [
    QUESTION,
    "Who met Luther?",
    "What did Dr. Faust's painter see in Paris?",
    "How many?",
    "Is it?",
    "In what?",
]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5),
    st.sampled_from([" ", "  ", "\n"]),
    st.sampled_from(QUESTIONS),
    st.tuples(st.integers(0, 60), st.integers(1, 30)),
    st.integers(0, 9),
    st.sampled_from([*PROFILES.values(), AddOptions("before_answer")]),
)
def test_answers_stay_and_only_a_sentence_comes_in(
    sentences: list[str], space: str, question: str, span: tuple[int, int], seed: int, options: AddOptions
) -> None:
    context = space.join(sentences)
    start = min(span[0], len(context) - 1)
    answer = context[start : start + span[1]]
    example = replace(squad(question, context), answers=(SquadAnswer(answer, start),))
    found = attacked(example, options, seed)
    after = found.adversarial
    [moved] = after.answers
    assert moved.text == answer and moved.start is not None
    assert after.context.startswith(answer, moved.start)
    assert (after.question, after.key, after.group) == (example.question, example.key, example.group)
    if found.outcome == "unchanged":
        assert after == example and found.notes["reason"]
        return
    at, distractor = found.notes["position"], found.notes["distractor"]
    assert after.context[at : at + len(distractor)] == distractor
    around = (after.context[:at], after.context[at + len(distractor) :])
    assert context in (around[0] + around[1].removeprefix(" "), around[0].removesuffix(" ") + around[1])
    flags = [found.notes[flag] for flag in ("is_question_changed", "has_fake_answer", "is_answer_outside")]
    assert found.notes["is_valid"] == all(flags)
    if options.require_valid:
        assert found.notes["is_valid"]
        assert answer.strip().lower() == "" or f" {answer.strip().lower()} " not in f" {distractor.lower()} "


def test_an_example_does_not_depend_on_the_others() -> None:
    examples = [squad(QUESTION, CONTEXT, "Rome", key=f"q{number}") for number in range(6)]
    together = add_sentence(examples, seed=3, wordnet=wordnet(), tagger=tagger())
    assert together == [attacked(example, seed=3) for example in examples]
    assert len({found.adversarial.context for found in together}) > 1  # the key counts


def everything() -> list[str]:
    """What every profile of both attacks makes of an example."""
    example = squad(QUESTION, "Luther saw cheerful movies, large and big, in Rome.", "Rome")
    swaps = [
        swap_synonyms([example], seed=3, wordnet=wordnet(), tagger=tagger(), options=options)
        for options in (SwapOptions(share=1.0), SwapOptions.textflint())
    ]
    return [repr(attacked(example, options, seed=3)) for options in PROFILES.values()] + [*map(repr, swaps)]


def test_nothing_depends_on_hashing() -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "1"}  # in this process it is another
    script = "from test_add_sentence import everything; print(*everything(), sep=chr(0), end='')"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout.split("\0") == everything()
