"""Read questions about paragraphs in SQuAD's JSON format (Rajpurkar et al. 2016, 2018).

``data[] / paragraphs[] {context} / qas[] {id, question, answers[] {text, answer_start}, is_impossible}``: SQuAD 1.1 and
2.0, XQuAD, SQuADShifts, and adversarial examples in the same form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from trueneg.errors import TaskError
from trueneg.files.records import parse_json
from trueneg.tasks.base import Split

FORMAT = "give a file in SQuAD's JSON format, as rajpurkar.github.io/SQuAD-explorer has it"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SquadAnswer:
    """One annotator's answer."""

    text: str
    start: int | None
    """Offset of its first character in the context; None if the context does not contain it."""


@dataclass(frozen=True, slots=True)
class SquadExample:
    """A question about a paragraph."""

    key: str
    """The question's id."""
    group: str
    """The paragraph, shared with other questions: title and number."""
    question: str
    context: str
    answers: tuple[SquadAnswer, ...]
    """All annotators' answers; empty for an impossible question, or if answers are withheld."""
    is_impossible: bool = False
    """Whether the context is known to have no answer."""

    @property
    def is_labelled(self) -> bool:
        """Whether the right answer is known."""
        return self.is_impossible or bool(self.answers)


def read_squad(path: Path, split: str, *, with_impossible: bool) -> Split[SquadExample]:
    """Read a file; see ``squad_split``.

    Args:
        path: The file.
        split: Name of the split.
        with_impossible: Whether a question may have no answer, as in version 2.0.

    Raises:
        TaskError: for a file that is missing or not in the format, with the location of the faulty entry.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TaskError(f"cannot read '{path}' ({error.strerror}): {FORMAT}") from error
    return squad_split(parse_json(content, str(path), TaskError, FORMAT), path, split, with_impossible=with_impossible)


def squad_split(data: Any, source: Path | str, split: str, *, with_impossible: bool) -> Split[SquadExample]:
    """Make a split from a file's contents.

    Irregularities are counted: ``answers_moved`` (the text is elsewhere in the context: the occurrence nearest to its
    offset is used), ``answers_misaligned`` (it is nowhere: not trained on, but still a right answer),
    ``empty_contexts``, ``empty_questions``, ``unanswerable_left_out`` (questions without an answer where one is
    required) and ``contradictory`` (questions whose ``is_impossible`` contradicts their answers; the answers count).

    Args:
        data: Contents of the file.
        source: The file or data set, for messages.
        split: Name of the split.
        with_impossible: Whether a question may have no answer, as in version 2.0.

    Raises:
        TaskError: for data that is not in the format, with the location of the faulty entry.
    """
    counts: Counter[str] = Counter()
    questions = list(_questions(_Entry(source, "", data), counts))
    is_labelled = any(entry.has("answers") for entry, _, _ in questions)
    examples: list[SquadExample] = []
    place_of: dict[str, str] = {}
    for entry, context, group in questions:
        example = _example(entry, context, group, is_labelled, with_impossible, counts)
        if example.key in place_of:
            raise entry.fault(f"has the id of {place_of[example.key]}, '{example.key}': make ids unique")
        place_of[example.key] = entry.place
        if example.is_impossible and not with_impossible:
            counts["unanswerable_left_out"] += 1
        else:
            examples.append(example)
    if not examples:
        raise TaskError(f"{source} holds no questions{' with answers' if questions else ''}: {FORMAT}")
    return Split(split, examples, is_labelled, dict(counts))


@dataclass(frozen=True)
class _Entry:
    """A value in a file, and the path to it."""

    source: Path | str
    place: str
    value: Any

    def has(self, name: str) -> bool:
        return isinstance(self.value, dict) and name in self.value

    def get(self, name: str, kind: type[T]) -> T:
        value: Any = self.value.get(name) if isinstance(self.value, dict) else None
        if type(value) is not kind:  # a bool does not count as an int
            raise self.fault(f"has no '{name}' ({kind.__name__}): {FORMAT}")
        try:
            str(value if kind is str else "").encode()
        except UnicodeEncodeError as error:
            raise self.fault(f"has a '{name}' that is no Unicode text ({error.reason}): fix it") from error
        return value

    def each(self, name: str) -> Iterator[_Entry]:
        prefix = f"{self.place}.{name}" if self.place else name
        for number, value in enumerate(self.get(name, list)):
            yield _Entry(self.source, f"{prefix}[{number}]", value)

    def fault(self, what: str) -> TaskError:
        return TaskError(f"{self.source}: {self.place or 'the file'} {what}")


def _questions(data: _Entry, counts: Counter[str]) -> Iterator[tuple[_Entry, str, str]]:
    """Yield each question with its context and the name of its paragraph."""
    num_of_title: Counter[str] = Counter()  # articles may share a title
    for number, article in enumerate(data.each("data")):
        title = article.get("title", str) if article.has("title") else str(number)
        for paragraph in article.each("paragraphs"):
            context = paragraph.get("context", str)
            counts.update(["empty_contexts"] * (not context.strip()))
            group = f"{title}/{num_of_title[title]}"
            num_of_title[title] += 1
            for question in paragraph.each("qas"):
                yield question, context, group


def _example(
    entry: _Entry, context: str, group: str, is_labelled: bool, with_impossible: bool, counts: Counter[str]
) -> SquadExample:
    question = entry.get("question", str)
    counts.update(["empty_questions"] * (not question.strip()))
    given_answers = list(entry.each("answers")) if is_labelled else []
    if with_impossible:  # the official scorer drops answers without text, too: they are how some files say "no answer"
        given_answers = [given for given in given_answers if given.get("text", str).strip()]
    answers = tuple(_answer(given, context, counts) for given in given_answers)
    is_impossible = is_labelled and not answers
    if is_labelled and entry.has("is_impossible"):
        counts.update(["contradictory"] * (entry.get("is_impossible", bool) != is_impossible))
    return SquadExample(entry.get("id", str), group, question, context, answers, is_impossible)


def _answer(entry: _Entry, context: str, counts: Counter[str]) -> SquadAnswer:
    text, stated = entry.get("text", str), entry.get("answer_start", int)
    if not text.strip():
        start = None
    elif stated >= 0 and context.startswith(text, stated):
        return SquadAnswer(text, stated)
    else:
        start = min(_occurrences(text, context), key=lambda at: abs(at - stated), default=None)
    counts["answers_misaligned" if start is None else "answers_moved"] += 1
    return SquadAnswer(text, start)


def _occurrences(text: str, context: str) -> Iterator[int]:
    at = context.find(text)
    while at >= 0:
        yield at
        at = context.find(text, at + 1)
