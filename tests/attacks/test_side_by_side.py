"""Searches that ask questions, answered together."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pytest

from trueneg.attacks.word_substitution.batched_search import run_batched


def collatz(number: int) -> Generator[int | str, int, int]:
    steps = 0
    while number > 1:
        number = (yield number) if number % 2 == 0 else (yield str(number))
        steps += 1
    return steps


def answer_even(asked: Sequence[int]) -> list[int]:
    return [number // 2 for number in asked]


def answer_odd(asked: Sequence[str]) -> list[int]:
    return [3 * int(number) + 1 for number in asked]


@pytest.mark.parametrize("at_once", [1, 7, 100])
def test_results_are_in_order_and_no_more_run_than_may(at_once: int) -> None:
    told: list[int] = []

    def counted(asked: Sequence[int]) -> list[int]:
        assert len(asked) <= at_once
        return answer_even(asked)

    answerers = {int: counted, str: answer_odd}
    found = run_batched(map(collatz, range(1, 30)), answerers, at_once=at_once, progress=told.append)
    assert found[:9] == [0, 1, 7, 2, 5, 8, 16, 3, 19] and found[26] == 111
    assert told == list(range(1, 30))


def test_a_question_that_nobody_answers_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="str"):
        run_batched([collatz(3)], {int: answer_even}, at_once=1)
