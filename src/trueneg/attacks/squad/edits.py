"""Edit the context of a question while keeping its answers aligned, as needed by every attack on SQuAD."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from trueneg.corruption.keyed import mixed_seed
from trueneg.tasks.squad_reading import SquadExample


@dataclass(frozen=True, order=True, slots=True)
class Edit:
    """Replacement of characters ``start`` to ``end`` by ``text``; an insertion if the two are equal."""

    start: int
    end: int
    text: str


def edited_text(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits that do not overlap.

    Example:
        >>> edited_text("an old film", [Edit(7, 11, "movie"), Edit(0, 2, "the")])
        'the old movie'
    """
    at, parts = 0, []
    for edit in sorted(edits):
        assert at <= edit.start <= edit.end <= len(text), "edits overlap, or reach beyond the text"
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]])


def edited_context(example: SquadExample, edits: Iterable[Edit]) -> SquadExample:
    """Apply edits to the context, none of them within an answer, and shift the answers' offsets accordingly.

    An insertion right before an answer shifts it; one right after it does not.

    Raises:
        AssertionError: if an answer is not at its offset afterwards.
    """
    edits = sorted(edits)
    context = edited_text(example.context, edits)
    answers = []
    for answer in example.answers:
        if answer.start is not None:
            grown = sum(len(e.text) - (e.end - e.start) for e in edits if e.end <= answer.start)
            answer = replace(answer, start=answer.start + grown)
            assert context.startswith(answer.text, answer.start), "an answer was changed"
        answers.append(answer)
    return replace(example, context=context, answers=tuple(answers))


def is_in_answer(start: int, end: int, example: SquadExample) -> bool:
    """Whether characters ``start`` to ``end`` of the context overlap an answer."""
    return any(
        answer.start is not None and start < answer.start + len(answer.text) and answer.start < end
        for answer in example.answers
    )


def reason_not_attackable(example: SquadExample) -> str:
    """Reason why an example cannot be attacked; empty if it can."""
    if not example.context.strip():
        return "empty context"
    if not example.question.strip():
        return "empty question"
    if example.is_impossible:
        return "impossible question"
    if not any(answer.text.strip() for answer in example.answers):
        return "no answers"
    starts = [(answer.start, answer.text) for answer in example.answers if answer.start is not None]
    if not starts:
        return "no answer is in the context"
    if any(start < 0 or not example.context.startswith(text, start) for start, text in starts):
        return "an answer is not at its offset"
    return ""


def example_randomness(seed: int, key: str) -> random.Random:
    """Random numbers for an example, which depend only on the seed and its key, not on other examples."""
    return random.Random(mixed_seed(seed, zlib.crc32(key.encode())))
