"""Texts split into words and the gaps between them, so that a word can be changed and all else is kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from trueneg.tasks.text import TextExample

AttackableTexts = Literal["first", "second", "both"]
"""Which texts of a pair may change."""

# In TextAttack, words consist of letters, digits, some characters that look like letters, and marks within the word. In
# the code of TextFooler's authors, words are what clean_str leaves: contractions are two, some punctuation is one.
_INNER, _OUTER = r"[\w˗`×'*@-]", r"(?:[^\W_]|[˗`×])"
_CHARACTER, _CONTRACTED = r"(?:[^\W_]|['`])", r"n't|'(?:s|ve|re|d|ll)"
WORDS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "textattack": re.compile(rf"{_OUTER}(?:{_INNER}*{_OUTER})?"),
        "jin2019": re.compile(rf"[(),!?]|{_CHARACTER}+?(?={_CONTRACTED}|(?!{_CHARACTER})|\Z)", re.IGNORECASE),
    }
)
"""Pattern of a word in each implementation of TextFooler. Words contain no white space."""


@dataclass(frozen=True)
class Passage:
    """The words of an example and the gaps between them; a pair of texts is joined by a line break.

    Attributes:
        example: The example, from which everything but the texts is taken.
        words: In order.
        gaps: Text before each word and after the last one: one more than words.
        attackable: Positions of the words that may change.
        boundary: Index of the gap with the line break between two texts; -1 for a single text.
        cut: Position of the line break within that gap.

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
        attacked: AttackableTexts = "second",
        *,
        is_alone: bool = False,
    ) -> Passage:
        """Split an example's text, or both texts, into words.

        Args:
            example: A text, all of which may change, or a pair.
            pattern: Of a word.
            attacked: Which texts of a pair may change.
            is_alone: Whether to leave out the words of a text that may not change, so that they are not context.
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
        """Make an example with the current words."""
        old, at = self.example, self.boundary
        if at < 0:
            return TextExample(old.key, self.text, None, old.label, old.group)
        gap = self.gaps[at]
        first = self._between(0, at, self.gaps[0], gap[: self.cut]) if at else gap[: self.cut]
        rest = gap[self.cut + 1 :]
        second = self._between(at, len(self.words), rest, self.gaps[-1]) if at < len(self.words) else rest
        return TextExample(old.key, first, second, old.label, old.group)

    def with_word(self, place: int, word: str) -> Passage:
        """Replace the word at a position."""
        words = (*self.words[:place], word, *self.words[place + 1 :])
        return Passage(self.example, words, self.gaps, self.attackable, self.boundary, self.cut)

    def without(self, place: int) -> Passage:
        """Delete a word as TextAttack does: with the space before it, or after it for the first word.

        The word becomes empty, so the positions of the others stay the same.
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
        """The text from word ``start`` up to, but not including, word ``stop``, without surrounding gaps.

        Example:
            >>> Passage.of(TextExample("0", "(a b-b, c. d)"), WORDS["textattack"]).window(1, 3)
            'b-b, c'
        """
        return self._between(start, stop, "", "") if start < stop else ""

    def changed_from(self, original: Passage) -> list[list[int | str]]:
        """Position, old word and new word of each difference."""
        pairs = enumerate(zip(original.words, self.words, strict=True))
        return [[place, old, new] for place, (old, new) in pairs if old != new]

    def _between(self, start: int, stop: int, before: str, after: str) -> str:
        pieces = [before] * (2 * (stop - start) + 1)
        pieces[1::2] = self.words[start:stop]
        pieces[2:-1:2] = self.gaps[start + 1 : stop]
        pieces[-1] = after if stop > start else before
        return "".join(pieces)


def with_case_of(word: str, model: str) -> str:
    """Give a word the case of another (lower, upper or capitalized); unchanged if that has none of these.

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
