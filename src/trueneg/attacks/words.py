"""A text cut into words, with what lies between them kept, so that one word can change and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from trueneg.tasks.text import TextExample

AttackedTexts = Literal["first", "second", "both"]
"""Which texts of a pair may change."""

# TextAttack's words hold letters, digits and some characters that look like letters, and marks that neither begin nor
# end them. Its authors' words are what their clean_str leaves: contractions are two words, some punctuation is one.
_INNER, _OUTER = r"[\w˗`×'*@-]", r"(?:[^\W_]|[˗`×])"
_CHARACTER, _CONTRACTED = r"(?:[^\W_]|['`])", r"n't|'(?:s|ve|re|d|ll)"
WORDS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "textattack": re.compile(rf"{_OUTER}(?:{_INNER}*{_OUTER})?"),
        "jin2019": re.compile(rf"[(),!?]|{_CHARACTER}+?(?={_CONTRACTED}|(?!{_CHARACTER})|\Z)", re.IGNORECASE),
    }
)
"""What a word is to an implementation of TextFooler. A word holds no white space."""


@dataclass(frozen=True)
class Passage:
    """The words of an example and what lies between them; a pair of texts is read as one, with a line break between.

    Attributes:
        example: Where everything but the texts comes from.
        words: In order.
        gaps: What lies before each word and after the last, one more than words.
        attackable: Places of the words that may change.
        boundary: Which gap holds the line break between two texts; -1 where there is one text.
        cut: Where in that gap it is.

    Example:
        >>> passage = Passage.of(TextExample("0", "Good, 'odd' film!"), WORDS["textattack"])
        >>> passage.words, passage.gaps
        (('Good', 'odd', 'film'), ('', ", '", "' ", '!'))
        >>> passage.with_word(1, "strange").text, passage.without(0).text
        ("Good, 'strange' film!", ", 'odd' film!")
    """

    example: TextExample
    words: tuple[str, ...]
    gaps: tuple[str, ...]
    attackable: range
    boundary: int = -1
    cut: int = 0

    @classmethod
    def of(
        cls,
        example: TextExample,
        pattern: re.Pattern[str],
        attacked: AttackedTexts = "second",
        *,
        is_alone: bool = False,
    ) -> Passage:
        """Cut an example's text, or both, into words.

        Args:
            example: A text, all of which may change, or a pair.
            pattern: Of a word.
            attacked: Which texts of a pair may change.
            is_alone: Whether words of a text that may not change are left out, so that they are no context.
        """
        pair = example.second is not None
        text = f"{example.text}\n{example.second}" if pair else example.text
        line = len(example.text) if pair else -1
        spans = [match.span() for match in pattern.finditer(text)]
        may_change = [
            not pair or attacked == "both" or (end <= line if attacked == "first" else start > line)
            for start, end in spans
        ]
        if is_alone:
            spans = [span for span, allowed in zip(spans, may_change, strict=True) if allowed]
            may_change = [True] * len(spans)
        first = may_change.index(True) if any(may_change) else 0
        boundary = sum(end <= line for _, end in spans) if pair else -1
        starts, ends = [*(start for start, _ in spans), len(text)], [0, *(end for _, end in spans)]
        return cls(
            example,
            tuple(text[start:end] for start, end in spans),
            tuple(text[end:start] for end, start in zip(ends, starts, strict=True)),
            range(first, first + sum(may_change)),
            boundary,
            line - ends[boundary] if pair else 0,
        )

    @property
    def text(self) -> str:
        """The text, or both with a line break between them."""
        return self._between(0, len(self.words), self.gaps[0], self.gaps[-1])

    def to_example(self) -> TextExample:
        """The example with the words as they are now."""
        old, at = self.example, self.boundary
        if at < 0:
            return TextExample(old.key, self.text, None, old.label, old.group)
        gap = self.gaps[at]
        first = self._between(0, at, self.gaps[0], gap[: self.cut]) if at else gap[: self.cut]
        rest = gap[self.cut + 1 :]
        second = self._between(at, len(self.words), rest, self.gaps[-1]) if at < len(self.words) else rest
        return TextExample(old.key, first, second, old.label, old.group)

    def with_word(self, place: int, word: str) -> Passage:
        """Put a word in the place of another."""
        words = (*self.words[:place], word, *self.words[place + 1 :])
        return Passage(self.example, words, self.gaps, self.attackable, self.boundary, self.cut)

    def without(self, place: int) -> Passage:
        """Take a word out as TextAttack does: with the space before it, or the one after the first word.

        The word is empty then, and the places of the others stay what they are.
        """
        gaps, cut = list(self.gaps), self.cut
        if place == 0:
            if gaps[1].startswith(" "):
                gaps[1] = gaps[1][1:]
                cut -= self.boundary == 1
        elif gaps[place].endswith(" ") and (place + 1 < len(self.words) or gaps[-1]):
            gaps[place] = gaps[place][:-1]
        words = (*self.words[:place], "", *self.words[place + 1 :])
        return Passage(self.example, words, tuple(gaps), self.attackable, self.boundary, cut)

    def window(self, start: int, stop: int) -> str:
        """The text from one word up to before another, without what surrounds them.

        Example:
            >>> Passage.of(TextExample("0", "(a b-b, c. d)"), WORDS["textattack"]).window(1, 3)
            'b-b, c'
        """
        return self._between(start, stop, "", "") if start < stop else ""

    def changed_from(self, original: Passage) -> list[list[int | str]]:
        """Place, old and new word of each difference."""
        pairs = enumerate(zip(original.words, self.words, strict=True))
        return [[place, old, new] for place, (old, new) in pairs if old != new]

    def _between(self, start: int, stop: int, before: str, after: str) -> str:
        pieces = [before] * (2 * (stop - start) + 1)
        pieces[1::2] = self.words[start:stop]
        pieces[2:-1:2] = self.gaps[start + 1 : stop]
        pieces[-1] = after if stop > start else before
        return "".join(pieces)


def with_case_of(word: str, model: str) -> str:
    """Write a word small, in capitals or with one capital as another is; as it is where that is none of these.

    Example:
        >>> [with_case_of("film", model) for model in ("movie", "Movie", "MOVIE", "I", "iMovie")]
        ['film', 'Film', 'FILM', 'film', 'film']
    """
    if model.islower():
        return word.lower()
    if model.isupper() and len(model) > 1:
        return word.upper()
    if model[:1].isupper() and model[1:].islower():
        return word.capitalize()
    return word
