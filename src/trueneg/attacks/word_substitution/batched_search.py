"""Concurrent searches: each is written as if it ran alone, and the queries of all are answered in batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

R = TypeVar("R")

Answerer = Callable[[Sequence[Any]], Sequence[Any]]
"""Maps questions of one type to their answers, in order. An answer must depend only on its question."""


def run_batched(
    searches: Iterable[Generator[Any, Any, R]],
    answerers: Mapping[type, Answerer],
    *,
    at_once: int,
    progress: Callable[[int], None] | None = None,
) -> list[R]:
    """Run searches to completion.

    Args:
        searches: Generators that yield a question, are sent its answer, and return a result. They are started in
            order, as others finish.
        answerers: By the class of a question.
        at_once: Number of searches that run concurrently.
        progress: Called with the number of finished searches each time that one finishes.

    Returns:
        Results in the order of the searches.

    Example:
        >>> def halve(number):
        ...     steps = 0
        ...     while number > 1:
        ...         number, steps = (yield number), steps + 1
        ...     return steps
        >>> run_batched(map(halve, [8, 1, 5]), {int: lambda asked: [n // 2 for n in asked]}, at_once=2)
        [3, 0, 2]
    """
    results: dict[int, R] = {}
    waiting: dict[int, tuple[Generator[Any, Any, R], Any]] = {}

    def go_on(number: int, search: Generator[Any, Any, R], answer: Any) -> None:
        try:
            waiting[number] = search, search.send(answer)
        except StopIteration as end:
            waiting.pop(number, None)
            results[number] = end.value
            if progress:
                progress(len(results))

    queue = enumerate(searches)
    while True:
        while len(waiting) < at_once and (following := next(queue, None)):
            go_on(*following, None)
        if not waiting:
            return [results[number] for number in range(len(results))]
        if unknown := {type(question) for _, question in waiting.values()} - answerers.keys():
            raise AssertionError(f"nobody answers questions of {unknown}")
        for kind, answerer in answerers.items():
            asking = [number for number, (_, question) in waiting.items() if type(question) is kind]
            if asking:
                answers = answerer([waiting[number][1] for number in asking])
                for number, answer in zip(asking, answers, strict=True):
                    go_on(number, waiting[number][0], answer)
