"""Slips of the keyboard: what may slip and how, what never does, and that it is a function of seed and key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from squad_world import squad

from trueneg.attacks.typos import NEAR_KEYS, SLIPS, TypoOptions, typos
from trueneg.tasks.squad_reading import SquadAnswer, SquadExample
from trueneg.tasks.text import TextExample

ALL = TypoOptions(share=1.0)


def slipped(text: str, options: TypoOptions = ALL, seed: int = 1, key: str = "0") -> str:
    (found,) = typos([TextExample(key, text)], seed=seed, options=options)
    return found.adversarial.text


def outcomes_of(word: str, options: TypoOptions = ALL) -> set[str]:
    return {slipped(word, options, key=str(number)) for number in range(400)}


def test_a_word_slips_in_these_ways_and_no_other() -> None:
    # Inner letters alone: swapped; dropped; doubled; l beside k, o, p; i beside u, o, j, k.
    swapped, dropped, doubled = {"flim"}, {"flm", "fim"}, {"fiilm", "fillm"}
    keys = {"fikm", "fiom", "fipm", "fulm", "folm", "fjlm", "fklm"}
    assert outcomes_of("film") == swapped | dropped | doubled | keys
    free = outcomes_of("film", replace(ALL, keeps_ends=False))
    assert {"iflm", "fiml", "ilm", "fil", "ffilm", "filmm", "dilm", "filn"} < free
    assert outcomes_of("film") < free


def test_kinds_are_drawn_alike_and_a_swap_of_equal_letters_is_none() -> None:
    drawn = [slipped("film", key=str(number)) for number in range(400)]
    assert 70 < drawn.count("flim") < 130, "one of four kinds"
    assert "feel" not in outcomes_of("feel")
    assert set(SLIPS) == {"swap", "drop", "double", "key"}


def test_keys_are_those_of_a_keyboard() -> None:
    neighbours = {"q": "aw", "g": "bfhtvy", "p": "lo", "z": "asx", "m": "jkn", "l": "kop", "a": "qswz", "s": "adewxz"}
    assert {key: "".join(sorted(NEAR_KEYS[key])) for key in neighbours} == neighbours
    assert all(key in NEAR_KEYS[other] for key in NEAR_KEYS for other in NEAR_KEYS[key])
    assert len(NEAR_KEYS) == 26


def test_capitals_stay_capitals() -> None:
    assert {word for word in outcomes_of("FILM") if word.upper() == word} == outcomes_of("FILM")
    assert all(word[0] == "F" and word[-1] == "m" for word in outcomes_of("Film"))


def test_numbers_short_words_and_everything_between_words_stay() -> None:
    text = "1998, a B2B4 3rdly of the -- (2001st) x2xxx; 'odd' _it_"
    (found,) = typos([TextExample("0", text)], seed=1, options=ALL)
    assert (found.outcome, found.adversarial) == ("unchanged", found.original)
    assert found.notes == {"reason": "no word is long enough"}
    assert re.fullmatch(r"1998, \w+ \(the\)\n\w+!", slipped("1998, films (the)\nactor!"))


@pytest.mark.parametrize(
    ("num_words", "share", "num"), [(1, 0.1, 1), (19, 0.1, 1), (20, 0.1, 2), (10, 0.5, 5), (7, 1, 7)]
)
def test_the_share_of_words_that_slip(num_words: int, share: float, num: int) -> None:
    (found,) = typos([TextExample("0", "movies " * num_words)], seed=1, options=TypoOptions(share=share))
    assert len(found.notes["changed"]) == num
    words = found.adversarial.text.split(" ")
    assert all(words[place] == new != old == "movies" for place, old, new in found.notes["changed"])
    assert words.count("movies") == num_words - num


def test_of_pairs_the_second_text_slips_unless_told_otherwise() -> None:
    pair = TextExample("0", "films, films", "actor!", 1, "g")

    def changed(which: Any) -> list[bool]:
        (found,) = typos([pair], seed=1, options=replace(ALL, attacked=which))
        assert replace(found.adversarial, text=pair.text, second=pair.second) == pair
        return [found.adversarial.text != pair.text, found.adversarial.second != pair.second]

    assert [changed(which) for which in ("second", "first", "both")] == [[False, True], [True, False], [True, True]]
    (found,) = typos([pair], seed=1)
    assert found.adversarial.text == pair.text and found.adversarial.second != pair.second


def test_no_word_of_an_answer_slips_anywhere_and_offsets_move_along() -> None:
    context = "Films of the painter Martin Luther: Luther painted forms."
    example = squad("Who painted films?", context, "painter Martin", "Martin", "Luther", key="q")
    (found,) = typos([example], seed=1, options=ALL)
    new = found.adversarial
    assert new.question == example.question
    assert re.fullmatch(r"F\w+s of the painter Martin Luther: Luther p\w+d f\w+s\.", new.context)
    assert new.context != context
    assert [new.context[a.start :][: len(a.text)] for a in new.answers] == ["painter Martin", "Martin", "Luther"]
    assert [old for _, old, _ in found.notes["changed"]] == ["Films", "painted", "forms"]
    assert all(context[at:].startswith(old) for at, old, _ in found.notes["changed"])


def test_no_word_becomes_one_of_an_answer() -> None:
    for number in range(100):
        example = squad("What?", "The form, from now on.", "from", key=str(number))
        (found,) = typos([example], seed=1, options=ALL)
        assert found.outcome == "changed" and found.adversarial.context.count("from") == 1
    (found,) = typos([squad("What?", "The filmed", "film")], seed=1, options=ALL)
    assert found.outcome == "unchanged", "an answer is a part of the word"


TEXTS = st.text(st.sampled_from("abz A1,-'\n_é़"), max_size=40)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.none() | TEXTS, st.integers(0, 9), st.booleans(), st.sampled_from([0.1, 0.5, 1.0]))
def test_only_words_of_letters_change_and_each_by_one_slip(
    text: str, second: str | None, seed: int, keeps_ends: bool, share: float
) -> None:
    example = TextExample("k", text, second, 1)
    options = TypoOptions(share=share, keeps_ends=keeps_ends, attacked="both")
    (found,) = typos([example], seed=seed, options=options)
    olds, news = (pieces(f"{e.text}\n{e.second}") for e in (found.original, found.adversarial))
    assert len(olds) == len(news)
    changed = [(old, new) for old, new in zip(olds, news, strict=True) if old != new]
    assert len(changed) == len(found.notes.get("changed", []))
    assert (found.outcome == "changed") == bool(changed)
    num_words = sum(piece.isalnum() for piece in pieces(f"{text}\n{'' if second is None else second}"))
    assert len(changed) <= max(1, share * num_words)
    for old, new in changed:
        assert old.isalpha() and len(old) >= 4
        assert is_one_slip(old, new)
        if keeps_ends:
            assert (old[0], old[-1]) == (new[0], new[-1])
    assert (found.adversarial.second is None) == (second is None)


@settings(max_examples=100, deadline=None)
@given(TEXTS, TEXTS.filter(str.strip), TEXTS, st.integers(0, 9))
def test_answers_stay_byte_for_byte_and_where_their_offsets_say(left: str, text: str, right: str, seed: int) -> None:
    context = left + text + right
    example = SquadExample("k", "g", "What?", context, (SquadAnswer(text, len(left)), SquadAnswer(text, None)))
    (found,) = typos([example], seed=seed, options=ALL)
    new = found.adversarial
    assert new.answers[1] == example.answers[1] and new.answers[0].text == text
    start = new.answers[0].start
    assert start is not None and new.context[start:].startswith(text)
    # Left and right of the answer there are as many words as before, and the same between them.
    for old_side, new_side in ((left, new.context[:start]), (right, new.context[start + len(text) :])):
        olds, news = pieces(old_side), pieces(new_side)
        assert olds[::2] == news[::2] and all(len(a) >= 4 for a, b in zip(olds, news, strict=True) if a != b)


def is_one_slip(old: str, new: str) -> bool:
    """A letter is another, two are swapped, or the longer word has one more."""
    if len(old) == len(new):
        first, *others = [at for at in range(len(old)) if old[at] != new[at]]
        return not others or (others == [first + 1] and old[first : first + 2] == new[first : first + 2][::-1])
    longer, shorter = sorted((old, new), key=len, reverse=True)
    return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))


def pieces(text: str) -> list[str]:
    return re.split(r"([^\W_]+)", text)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6), st.integers(0, 99))
def test_an_example_does_not_depend_on_what_is_attacked_beside_it(texts: Sequence[str], seed: int) -> None:
    examples = [TextExample(str(number), text) for number, text in enumerate(texts)]
    alone = [typos([example], seed=seed)[0] for example in examples]
    assert typos(examples, seed=seed) == alone
    assert typos(examples[::-1], seed=seed) == alone[::-1]
