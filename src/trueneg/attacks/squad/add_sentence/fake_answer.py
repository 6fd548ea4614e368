"""A wrong answer of the right kind (AddSent, Jia and Liang 2017, step 2).

The authors put one fixed answer in the place of each kind. Here answers are drawn, and keep the articles, prepositions
and verb forms of the right one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trueneg.attacks.squad.add_sentence.entities import EntityType, WordNetEntities
from trueneg.attacks.squad.add_sentence.question_words import Word, written
from trueneg.attacks.squad.add_sentence.substitutes import MONTHS, NAMES, NATIONALITIES, RELIGIONS, changed_figure, free

AnswerKind = Literal[
    "figure", "person", "place", "organization", "other", "noun", "plural", "adjective", "adverb", "verb", "gerund"
]

POOLS: Mapping[str, Sequence[str]] = {
    "count": ("hamster", "wooden clock", "garden", "violin", "lantern", "barrel"),
    "noun": ("honey", "cotton", "granite", "poetry", "copper", "chess"),
    "plural": ("hamsters", "wooden clocks", "gardens", "violins", "lanterns", "barrels"),
    "people": ("plumbers", "gardeners", "musicians", "bakers", "tailors", "shepherds"),
    "adjective": ("deep", "purple", "wooden", "silent", "round", "bitter"),
    "adverb": ("silently", "quickly", "carefully", "rarely", "loudly"),
    "verb": ("paint the walls", "repair old clocks", "plant potatoes", "feed the birds", "open a bakery"),
    "reason": ("bad weather", "a lack of paper", "the price of salt", "heavy snow"),
}
"""What is drawn from where an answer is neither a figure nor a name; names are in
:mod:`~trueneg.attacks.squad.add_sentence.substitutes`. "verb" holds base forms."""

_VERB_FORMS = {  # of the first word of POOLS["verb"]
    "paint": ("painted", "paints", "painting", "painted"),
    "repair": ("repaired", "repairs", "repairing", "repaired"),
    "plant": ("planted", "plants", "planting", "planted"),
    "feed": ("fed", "feeds", "feeding", "fed"),
    "open": ("opened", "opens", "opening", "opened"),
}
_FORM_OF = {"VBD": 0, "VBZ": 1, "VBG": 2, "VBN": 3}
_DETERMINERS = ("the", "a", "an")
_LONGEST_FIGURE = 8
_TIMES = frozenset(["year", "years", "date", "day", "month", "decade", "decades", "century", "time", "age", "era"])


@dataclass(frozen=True)
class FakeAnswer:
    """An answer that is wrong.

    Attributes:
        text: as it may stand in the place of the right one.
        kind: what it is, for the sentence that is to have it.
        rule: what made it.
    """

    text: str
    kind: AnswerKind
    rule: str


@dataclass(frozen=True)
class ExpectedAnswer:
    """What a question asks for.

    Attributes:
        wh: its question word, with "many" or the like: "who", "what", "how many", "how".
        head: the noun of the question phrase: "painter" of "which Italian painter" and of "what is the name of the
            painter"; empty if it has none.
        is_plural: whether that noun, or else the verb after a question word, is in the plural.
        is_kind: whether a kind of something is asked for.
        phrase: where the question phrase begins and ends in the text of the question.
        is_action: whether it is asked what somebody does.
    """

    wh: str
    head: str = ""
    is_plural: bool = False
    is_kind: bool = False
    phrase: tuple[int, int] = (0, 0)
    is_action: bool = False


def fake_answer(
    answer: Sequence[Word],
    expected: ExpectedAnswer,
    *,
    entities: WordNetEntities,
    taken: str,
    randomness: random.Random,
) -> FakeAnswer:
    """Make up an answer.

    Args:
        answer: the right answer.
        expected: what is asked for.
        entities: what names are names of, and what nouns are kinds of.
        taken: text in small letters; a drawn name is none that it has.
        randomness: what is drawn from.
    """
    made = _Maker(answer, expected, entities, taken, randomness)
    if expected.is_action:
        return made.common()
    return made.figure() or made.name() or made.common()


def verb_phrase(base: str, tag: str) -> str:
    """A phrase of ``POOLS["verb"]`` with its verb in another form.

    Example:
        >>> verb_phrase("feed the birds", "VBD")
        'fed the birds'
    """
    verb, _, rest = base.partition(" ")
    return f"{_VERB_FORMS[verb][_FORM_OF[tag]]} {rest}" if tag in _FORM_OF else base


@dataclass(frozen=True)
class _Maker:
    """Makes up an answer in the place of one."""

    answer: Sequence[Word]
    expected: ExpectedAnswer
    entities: WordNetEntities
    taken: str
    randomness: random.Random

    def figure(self) -> FakeAnswer | None:
        """Other figures in the same words, where the answer is about figures."""
        expected, words = self.expected, [word for word in self.answer if word.tag or word.text.isalnum()]
        if len(words) > _LONGEST_FIGURE:
            return self._made_figure()
        changed = [changed_figure(word.text, self.randomness) for word in self.answer]
        if not any(changed):
            return self._made_figure()
        rest = [word for word, new in zip(self.answer, changed, strict=True) if not new and word.tag.startswith("NNP")]
        if rest and not self.answer[0].text[0].isdigit() and expected.wh != "when" and expected.head not in _TIMES:
            return None
        figures = [word for word, new in zip(self.answer, changed, strict=True) if new]
        is_spelt = not any(letter.isdigit() for word in figures for letter in word.text)
        is_asked = expected.wh[:4] in ("when", "how ") or expected.head in _TIMES
        if is_spelt and not is_asked and len(words) > 1 and not all(word.text in MONTHS for word in figures):
            return None  # "one of the ships", "the second wife"
        new_words = [replace(w, text=new) if new else w for w, new in zip(self.answer, changed, strict=True)]
        return FakeAnswer(written(new_words).strip(" ,."), "figure", "figure")

    def _made_figure(self) -> FakeAnswer | None:
        """A figure where the question asks for one and the answer has none ("several", "when Edison died")."""
        wh, head = self.expected.wh, self.expected.head
        if wh == "when" or head in ("year", "date"):
            return FakeAnswer(str(self.randomness.randrange(1650, 1950)), "figure", "made:year")
        if wh in ("how many", "how much") and head:
            share = "%" if wh == "how much" else ""
            return FakeAnswer(f"{self.randomness.randrange(12, 90)}{share}", "figure", "made:number")
        if wh in ("how long", "how old"):
            years = "years" if wh == "how long" else "years old"
            return FakeAnswer(f"{self.randomness.randrange(12, 90)} {years}", "figure", "made:years")
        return None

    def name(self) -> FakeAnswer | None:
        """A name for a name, or for whatever answers *who* and *where*."""
        words = [word for word in self.answer if word.tag]
        if words and words[0].low in _DETERMINERS:
            words = words[1:]
        if not words:
            return None
        for pool in (NATIONALITIES, RELIGIONS):
            if len(words) == 1 and words[0].text in pool:
                return FakeAnswer(self._draw(pool), "adjective", "adjective")
        kind = "person" if self.expected.wh in ("who", "whom", "whose") else self.entities.kind(self.expected.head)
        is_name = all(word.text[0].isupper() or word.tag in ("IN", "DT", "CC", "CD", "POS") for word in words)
        is_name = is_name and any(word.text[0].isupper() for word in words)
        if not is_name:
            if self.expected.wh == "where" and len(words) < _LONGEST_FIGURE:
                return self._named("place")
            return None
        if len(words) == 1 and words[0].text.isupper() and len(words[0].text) > 1 and kind not in ("person", "place"):
            return FakeAnswer(self._draw(NAMES["abbreviation"]), "organization", "abbreviation")
        if self.expected.wh == "where":
            kind = "place"
        typed = kind or self.entities(words, 0, len(words))
        return self._named("other" if typed == "person" and not kind and self.expected.head else typed)

    def _named(self, kind: EntityType) -> FakeAnswer:
        kind = "person" if kind == "role" else kind
        name = self._draw(NAMES[kind])
        if kind == "person" and self.expected.is_plural:
            others = [other for other in NAMES[kind] if other != name]
            name = f"{name} and {self._draw(others)}"
        return FakeAnswer(name, kind, f"name:{kind}")

    def common(self) -> FakeAnswer:
        """Common words with the article, the preposition or the verb form of the answer."""
        words = [word for word in self.answer if word.tag] or list(self.answer)
        wh, tag = self.expected.wh, words[0].tag
        if self.expected.head in ("reason", "reasons", "cause") or (wh == "why" and tag not in ("TO", "VB")):
            return FakeAnswer(self._pick("reason"), "noun", "reason")
        if self.expected.is_action:
            return self._verb("VB", "")
        if tag in ("TO", "VB"):
            return self._verb("VB", "to " if tag == "TO" else "")
        if tag == "VBG" and len(words) > 1 and words[1].tag[:2] not in ("NN", "JJ", "CC"):
            return self._verb(tag, "")
        if wh == "how" and tag == "VBG":
            return self._verb(tag, "")
        head = self._head(words)
        if wh in ("who", "whom") or self.entities.kind(self.expected.head) == "person":
            return (
                FakeAnswer(self._pick("people"), "plural", "people") if self._is_plural(head) else self._named("person")
            )
        if len(words) == 1 and head.tag.startswith("RB"):
            return FakeAnswer(self._pick("adverb"), "adverb", "adverb")
        if self.expected.is_kind or head.tag.startswith("JJ") or (len(words) == 1 and head.tag in ("VBN", "VBD")):
            return FakeAnswer(self._pick("adjective"), "adjective", "adjective")
        if self._is_plural(head):
            the = "the " if words[0].low == "the" else ""
            return FakeAnswer(the + self._pick("plural"), "plural", "plural")
        if words[0].low in _DETERMINERS:
            the = "the" if words[0].low == "the" else "a"
            return FakeAnswer(f"{the} {self._pick('count')}", "noun", "noun")
        return FakeAnswer(self._pick("noun"), "noun", "noun")

    def _verb(self, tag: str, lead: str) -> FakeAnswer:
        kind: AnswerKind = "gerund" if tag == "VBG" else "verb"
        return FakeAnswer(lead + verb_phrase(self._pick("verb"), tag), kind, f"verb:{tag}")

    def _is_plural(self, head: Word) -> bool:
        return head.tag in ("NNS", "NNPS", "VBZ") or any(word.low == "and" for word in self.answer)

    def _head(self, words: Sequence[Word]) -> Word:
        """The last word of the first noun phrase: before a preposition, a verb or a comma."""
        start = next((at for at, word in enumerate(words) if word.tag not in ("IN", "TO")), 0)
        end = start + 1
        while end < len(words) and words[end].tag[:2] in ("NN", "JJ", "CD", "VB", "PO", "CC", "RB", "DT"):
            end += 1
        return words[end - 1]

    def _pick(self, pool: str) -> str:
        return self._draw(POOLS[pool])

    def _draw(self, pool: Sequence[str]) -> str:
        return free(pool, self.taken, self.randomness)
