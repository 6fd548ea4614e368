"""The words of a question or an answer, as an attack that rewrites them needs them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trueneg.lexicon.tagging import Tagger, tag_text
from trueneg.lexicon.tags import PENN

_JOINING = "-–/.&'’%+°_,:"
_CONTRACTED = re.compile(r"n['’]t|['’](?:s|m|d|ll|re|ve)", re.IGNORECASE)
_PLURAL_S = re.compile(r"['’]")


@dataclass(frozen=True, slots=True)
class Word:
    """A word or punctuation mark.

    Attributes:
        text: as written.
        tag: of the Penn Treebank; empty for punctuation.
        start: where it begins in the text it comes from; -1 for a word that comes from nowhere.
        is_glued: whether nothing separates it from the word before.
    """

    text: str
    tag: str
    start: int = -1
    is_glued: bool = False

    @property
    def low(self) -> str:
        """In small letters."""
        return self.text.lower()

    @property
    def end(self) -> int:
        """Where it ends in the text it comes from."""
        return self.start + len(self.text)


def read_words(text: str, tagger: Tagger) -> list[Word]:
    """Split a text and tag its words: what hyphens, figures and abbreviations join is one word.

    Example:
        With the tagger "pattern", the words of "St. Roch's $500,000 X-ray" are St. | Roch | 's | $500,000 | X-ray.
    """
    tagged = tag_text(text, tagger)
    places = zip(tagged.starts.tolist(), tagged.ends.tolist(), tagged.tags.tolist(), strict=True)
    words: list[Word] = []
    for start, end, tag in places:
        word = Word(text[start:end], PENN[tag], start, bool(words) and words[-1].end == start)
        if words and word.is_glued and _is_joined(words[-1], word, text[end : end + 1]):
            last = words[-1]
            joined = text[last.start : end]
            words[-1] = replace(last, text=joined, tag=_joined_tag(joined, last.tag, word.tag))
        else:
            words.append(word)
    return [_corrected(words, at) for at in range(len(words))]


def written(words: Sequence[Word]) -> str:
    """The words as text."""
    parts = []
    for at, word in enumerate(words):
        parts += ["" if at == 0 or word.is_glued else " ", word.text]
    return "".join(parts)


def _is_joined(last: Word, word: Word, following: str) -> bool:
    if _CONTRACTED.fullmatch(word.text):
        return False
    if word.text in ",:":
        return last.text[-1].isdigit() and following.isdigit()
    if word.text == ".":
        is_initial = re.fullmatch(r"(?:[A-Za-z]\.)*[A-Z]", last.text) is not None
        return is_initial or following.isalnum() or last.text in ("St", "Mr", "Mrs", "Dr", "Jr", "Sr", "No", "vs")
    if word.text in "-–/&'’%+°_":
        return word.text in "%+°" or bool(following.strip())
    return last.text[-1] in _JOINING + "$£€#" and last.text[-1] not in '"“'


def _joined_tag(text: str, first: str, last: str) -> str:
    if any(letter.isdigit() for letter in text):
        return "CD" if text[0].isdigit() or text[0] in "$£€#" else "NNP"
    if "." in text:
        return "NNP"
    if last in ("VBN", "VBD", "VBG"):
        return "JJ"
    return last or first


def _corrected(words: Sequence[Word], at: int) -> Word:
    """Mend what the tagger gets wrong in questions above all."""
    word = words[at]
    text, tag = word.text, word.tag
    if _PLURAL_S.match(text):
        before = words[at - 1].low if at else ""
        tag = "VBZ" if before in ("what", "who", "where", "when", "how", "there", "it", "that") else "POS"
        tag = tag if text.lower() in ("'s", "’s", "'", "’") else "VBP"
    elif at and text in ("Who", "What", "When", "Which", "How") and words[at - 1].text[0].isupper():
        tag = "NNP"  # Doctor Who
    elif (
        tag in ("VB", "VBP")
        and at
        and words[at - 1].tag in ("DT", "PRP$")
        and words[at - 1].low not in ("that", "this")
    ) or (
        tag in ("VB", "VBP")
        and at
        and words[at - 1].low == "this"
        and at + 1 < len(words)
        and words[at + 1].tag == "VB"
    ):
        tag = "NN"
    elif tag.startswith("NNP") and text.islower():
        tag = "NNS" if tag == "NNPS" else "NN"
    elif text[0].isdigit() and tag:
        tag = "JJ" if re.fullmatch(r"\d+(?:st|nd|rd|th)", text) else "CD"
    elif at and text[0].isupper() and tag in ("NN", "NNS", "VB", "VBP", "VBD", "VBN", "VBZ", "VBG", "FW", "RB", "UH"):
        tag = "NNPS" if tag == "NNS" else "NNP"
    elif word.low in ("who", "whom", "what"):
        tag = "WP"
    elif word.low == "which":
        tag = "WDT"
    elif word.low in ("when", "where", "why", "how"):
        tag = "WRB"
    return word if tag == word.tag else replace(word, tag=tag)
