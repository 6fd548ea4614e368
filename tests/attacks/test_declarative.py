"""Questions as sentences, by rules that need no parser."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from squad_world import tagger

from trueneg.attacks.squad.add_sentence.answers import AnswerKind, FakeAnswer
from trueneg.attacks.squad.add_sentence.declarative import declarative, expected_answer
from trueneg.attacks.squad.add_sentence.questions import read_words


def sentence(question: str, answer: str, kind: AnswerKind = "noun") -> str:
    found = declarative(read_words(question, tagger()), FakeAnswer(answer, kind, "test"), last_resort=False)
    return found.text if found else ""


@pytest.mark.parametrize(
    "question, answer, kind, expected",
    [
        # do-support, in every tense
        ("What did Luther refuse?", "honey", "noun", "Luther refused honey."),
        ("What does the river separate?", "honey", "noun", "The river separates honey."),
        ("Who do gurus control?", "Jeff Dean", "person", "Gurus control Jeff Dean."),
        ("What did he not find?", "honey", "noun", "He did not find honey."),
        ("What did she go to?", "honey", "noun", "She went to honey."),
        ("What did Luther refuse to do?", "paint the walls", "verb", "Luther refused to paint the walls."),
        ("What did Tesla do?", "feed the birds", "verb", "Tesla fed the birds."),
        ("What did he put emphasis on?", "honey", "noun", "He put emphasis on honey."),
        ("What did he think that it became?", "honey", "noun", "He thought that it became honey."),
        ("How many seats does the theatre have?", "42", "figure", "The theatre has 42 seats."),
        ("Who did they name king?", "Jeff Dean", "person", "They named Jeff Dean king."),
        # when, where, why, how, and prepositions
        ("When did the age begin?", "1956", "figure", "The age began in 1956."),
        ("When did England declare war?", "May 18, 1756", "figure", "England declared war on May 18, 1756."),
        ("What year did Iqbal return to Lahore?", "1901", "figure", "Iqbal returned to Lahore in 1901."),
        ("In what year did Dewar experiment?", "1866", "figure", "Dewar experimented in 1866."),
        ("Where was the university founded?", "Chicago", "place", "The university was founded in Chicago."),
        ("What does cycling promote?", "honey", "noun", "Cycling promotes honey."),
        ("The aim was to do what?", "repair old clocks", "verb", "The aim was to repair old clocks."),
        ("What are they responsible for?", "open a bakery", "verb", "They are responsible for opening a bakery."),
        ("What is the rock called that he saw?", "honey", "noun", "The rock is called honey that he saw."),
        ("What else was lowered?", "honey", "noun", "Honey was lowered."),
        ("When did he say it did not work?", "1956", "figure", "He said it did not work in 1956."),
        ("What often affects them?", "gardens", "plural", "Gardens often affect them."),
        ("Where was the lab set up?", "Chicago", "place", "The lab was set up in Chicago."),
        ("Of what group is oxygen a member?", "honey", "noun", "Oxygen is a member of honey."),
        ("Why did he leave?", "bad weather", "noun", "He left because of bad weather."),
        ("How did he win?", "feeding the birds", "gerund", "He won by feeding the birds."),
        ("How long did they stay?", "3 days", "figure", "They stayed for 3 days."),
        ("When was it restored after the war?", "1943", "figure", "It was restored in 1943 after the war."),
        # be
        ("What is the basic unit of the church?", "honey", "noun", "The basic unit of the church is honey."),
        ("Who was Kennedy's vice president?", "Jeff Dean", "person", "Kennedy's vice president was Jeff Dean."),
        ("What's the name of the team?", "Acme", "organization", "The name of the team is Acme."),
        ("What was used by the West?", "honey", "noun", "Honey was used by the West."),
        ("Who was responsible for the walls?", "Jeff Dean", "person", "Jeff Dean was responsible for the walls."),
        ("What is the device called?", "honey", "noun", "The device is called honey."),
        ("What is a PPP also known as?", "honey", "noun", "A PPP is also known as honey."),
        ("How old was Tesla when he wrote it?", "42", "figure", "Tesla was 42 when he wrote it."),
        ("How many rings are there?", "42", "figure", "There are 42 rings."),
        ("What causes strain?", "gardens", "plural", "Gardens cause strain."),
        # modals, perfects
        ("How many Grammys has Lady Gaga won?", "42", "figure", "Lady Gaga has won 42 Grammys."),
        ("Where can chloroplasts be found?", "Chicago", "place", "Chloroplasts can be found in Chicago."),
        ("What can lead to higher wages?", "honey", "noun", "Honey can lead to higher wages."),
        # the question phrase
        ("What trading company helped them?", "Acme", "organization", "The trading company Acme helped them."),
        ("What kind of buildings are in the towns?", "deep", "adjective", "Deep buildings are in the towns."),
        ("Whose chair was broken?", "Jeff Dean", "person", "Jeff Dean's chair was broken."),
        ("What is an example of a parasite?", "honey", "noun", "An example of a parasite is honey."),
        # a statement with a gap, and what comes before the question
        ("The term means what in English?", "honey", "noun", "The term means honey in English."),
        ("When forces differ, what law gives symmetry?", "Acme", "organization",
         "When forces differ, the law Acme gives symmetry."),
        ("In 1517 who was the bishop?", "Jeff Dean", "person", "In 1517, the bishop was Jeff Dean."),
    ],
)  # fmt: skip
def test_sentences(question: str, answer: str, kind: AnswerKind, expected: str) -> None:
    assert sentence(question, answer, kind) == expected


def test_what_has_no_question_phrase() -> None:
    words = read_words("Are oxygen levels going up or down?", tagger())
    assert expected_answer(words) is None
    assert declarative(words, FakeAnswer("x", "noun", "")) is None


def test_the_last_resort_leaves_the_order_of_words() -> None:
    words = read_words("When did Xyzzy qwzx plugh?", tagger())
    answer = FakeAnswer("1956", "figure", "")
    assert declarative(words, answer, last_resort=False) is None
    found = declarative(words, answer)
    assert found is not None and (found.text, found.rule) == ("1956 did Xyzzy qwzx plugh.", "replace")


def test_what_is_asked_for() -> None:
    def of(question: str) -> tuple[str, str, bool, bool]:
        found = expected_answer(read_words(question, tagger()))
        assert found is not None
        assert question[slice(*found.phrase)].lower().startswith(("wh", "how", "w"))
        return found.wh, found.head, found.is_plural, found.is_kind

    assert of("Which Italian painter was depicted?") == ("what", "painter", False, False)
    assert of("What is the name of the river?") == ("what", "river", False, False)
    assert of("What types of movies did he show?") == ("what", "movies", True, True)
    assert of("Who were the founders?") == ("who", "", True, False)


PIECES = "what which who how many did was is the of in Rome film , ' ( “ - 's n't not U.S. 1985 that ?".split()  # noqa: SIM905


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=9))
def test_anything_becomes_a_sentence_or_nothing(words: list[str]) -> None:
    found = declarative(read_words(" ".join(words), tagger()), FakeAnswer("honey", "noun", ""))
    if found is not None:
        assert found.text.endswith(".") and "?" not in found.text and "  " not in found.text
        assert "honey" in found.text.lower()
