"""Adding a sentence: where it goes, what it never does, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from squad_world import squad, tagger, wordnet

from trueneg.attacks.base import AdversarialExample
from trueneg.attacks.squad.add_sentence.attack import PROFILES, AddOptions, add_sentence
from trueneg.attacks.squad.add_sentence.substitutes import NAMES
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
    assert notes["is_valid"]


def place(options: AddOptions, seed: int = 1) -> str:
    found = attacked(squad(QUESTION, CONTEXT, "Rome"), options, seed)
    at = found.notes["position"]
    assert found.adversarial.context[at:].startswith(found.notes["distractor"])
    return found.adversarial.context.replace(found.notes["distractor"], "X.")


def test_where_it_goes() -> None:
    first, last = f"X. {CONTEXT}", f"{CONTEXT} X."
    between = [CONTEXT.replace(start, f"X. {start}") for start in ("The painter", "He met", "It rained")]
    fixed = [place(AddOptions(position=position)) for position in ("prepend", "append", "before_answer")]
    assert fixed == [first, last, between[0]]
    assert {place(AddOptions(position="random"), seed) for seed in range(60)} == {first, last, *between}


def test_an_answer_over_two_sentences_is_not_cut() -> None:
    example = squad(QUESTION, CONTEXT, "in Rome in 1985. He met")
    for seed in range(40):
        assert "in Rome in 1985. He met" in attacked(example, seed=seed).adversarial.context


@pytest.mark.parametrize(
    "example, reason",
    [
        (squad("Was Luther in Rome?", CONTEXT, "Rome"), "no question phrase"),
        (squad("Who left?", CONTEXT, "Luther"), "question not altered"),
        (squad("When did Luther qwzx plugh?", CONTEXT, "1985"), "no rule makes a sentence of the question"),
        (squad("In what year was Luther seen?", CONTEXT, "seen"), "the right answer is in the sentence"),
    ],
)
def test_what_cannot_be_attacked_says_why(example: SquadExample, reason: str) -> None:
    found = attacked(example)
    assert (found.outcome, found.adversarial, found.notes) == ("unchanged", example, {"reason": reason})


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
    "It rained.", "Luther met J. Doe (“a painter”) in Rome!", "He paid $5.5 to Dr. Faust?", "naïve — Ünder.", "Why",
]  # fmt: skip
QUESTIONS = [
    QUESTION, "Who met Luther?", "What did Dr. Faust's painter see in Paris?", "How many?", "Is it?", "In what?",
]  # fmt: skip


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
