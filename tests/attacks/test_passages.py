"""Texts cut into words and joined again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueneg.attacks.words import WORDS, AttackableTexts, Passage
from trueneg.tasks.text import TextExample

TEXTATTACK, JIN = WORDS["textattack"], WORDS["jin2019"]
TEXTS = st.text(st.sampled_from("ab1'-_*@ .,!?()\n\tÉ`n't"), max_size=30)
EXAMPLES = st.builds(TextExample, st.just("k"), TEXTS, st.none() | TEXTS, st.just(1), st.just("g"))


def words(text: str, pattern: str = "textattack") -> list[str]:
    return list(Passage.of(TextExample("0", text), WORDS[pattern]).words)


def test_words_are_textattacks() -> None:
    golden = json.loads(Path(__file__).parents[1].joinpath("data/attacks/golden.json").read_text("utf-8"))
    for text, expected in golden["words"]:
        assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "a film , and it 's n't bad !": ["a", "film", ",", "and", "it", "'s", "n't", "bad", "!"],
        "It's DON'T (we've), can't? I'd": "It 's DO N'T ( we 've ) , ca n't ? I 'd".split(),  # noqa: SIM905
        "n't 's rock'n'roll they'll.": ["n't", "'s", "rock'n'roll", "they", "'ll"],
        "half-baked; 3.5": ["half", "baked", "3", "5"],
    }.items(),
)
def test_words_are_what_the_authors_cleaning_leaves(text: str, expected: list[str]) -> None:
    assert words(text, "jin2019") == expected


@given(EXAMPLES, st.sampled_from(sorted(WORDS)), st.sampled_from(["first", "second", "both"]), st.booleans())
def test_cutting_and_joining_changes_nothing(
    example: TextExample, pattern: str, attacked: AttackableTexts, is_alone: bool
) -> None:
    passage = Passage.of(example, WORDS[pattern], attacked, is_alone=is_alone)
    assert passage.to_example() == example
    assert not passage.changed_from(passage)


@given(EXAMPLES, st.sampled_from(["first", "second", "both"]), st.booleans(), st.data())
def test_a_change_is_where_it_belongs(
    example: TextExample, attacked: AttackableTexts, is_alone: bool, data: st.DataObject
) -> None:
    passage = Passage.of(example, TEXTATTACK, attacked, is_alone=is_alone)
    for place in passage.attackable:
        changed = passage.with_word(place, "NEW").to_example()
        parts = [(example.text, changed.text), (example.second or "", changed.second or "")]
        differing = [number for number, (old, new) in enumerate(parts) if old != new]
        assert len(differing) == 1
        if example.second is not None and attacked != "both":
            assert differing == [attacked == "second"]
        old, new = parts[differing[0]]
        before, _, after = new.partition("NEW")
        assert old == before + passage.words[place] + after
        shorter = passage.without(place).to_example()
        kept = [(example.text, shorter.text), (example.second or "", shorter.second or "")]
        assert kept[1 - differing[0]][0].split() == kept[1 - differing[0]][1].split()
        removed = len(old) - len(kept[differing[0]][1])
        assert removed in (len(passage.words[place]), len(passage.words[place]) + 1)


def test_a_word_goes_with_a_space() -> None:
    passage = Passage.of(TextExample("0", "a b, c"), TEXTATTACK)
    assert [passage.without(place).text for place in range(3)] == ["b, c", "a, c", "a b, "]
    passage = Passage.of(TextExample("0", "(a) c."), TEXTATTACK)
    assert [passage.without(place).text for place in range(2)] == ["() c.", "(a)."]


def test_words_of_a_pair() -> None:
    pair = TextExample("0", "a b.", " c d")
    passage = Passage.of(pair, TEXTATTACK)
    assert passage.words == ("a", "b", "c", "d") and passage.attackable == range(2, 4)
    assert passage.window(1, 3) == "b.\n c"
    assert Passage.of(pair, TEXTATTACK, "both").attackable == range(4)
    alone = Passage.of(pair, JIN, is_alone=True)
    assert alone.words == ("c", "d") and alone.attackable == range(2)
    assert alone.without(1).to_example() == TextExample("0", "a b.", " c ")
    assert Passage.of(TextExample("0", "a", " c"), TEXTATTACK, "both").without(0).to_example().text == ""
    assert Passage.of(TextExample("0", "a ", "c"), TEXTATTACK, "both").without(0).to_example().text == ""
    assert Passage.of(TextExample("0", "a b", "..."), TEXTATTACK).attackable == range(0)
