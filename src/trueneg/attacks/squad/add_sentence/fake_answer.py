"""A wrong answer of the right kind (AddSent, Jia and Liang 2017, step 2).

The rules ``jia2017``, their order and their answers are those of ``convert_questions.py`` of
github.com/robinjia/adversarial-squad (Copyright (c) 2017 Robin Jia, MIT licence), with tags and guessed types of names
in the place of CoreNLP's. The rules ``strict`` are ours: articles, prepositions and verb forms of the answer are kept.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from trueneg.attacks.squad.add_sentence.entities import EntityType, EntityTyper
from trueneg.attacks.squad.add_sentence.question_words import Word, written
from trueneg.attacks.squad.add_sentence.substitutes import MONTHS, NAMES, NATIONALITIES, RELIGIONS, changed_figure, free

AnswerRules = Literal["strict", "jia2017", "textflint"]
ANSWER_RULES: tuple[AnswerRules, ...] = get_args(AnswerRules)

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
"""What ``strict`` draws from where an answer is neither a figure nor a name; names are in
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
class Asked:
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
    asked: Asked,
    *,
    rules: AnswerRules,
    is_sampled: bool,
    entities: EntityTyper,
    kind_of: Callable[[str], EntityType | None],
    taken: str,
    randomness: random.Random,
) -> FakeAnswer:
    """Make up an answer.

    Args:
        answer: the right answer.
        asked: what is asked for.
        rules: see the module; "textflint" is "jia2017" without dates and numbers, as described.
        is_sampled: draw ("strict" only); else always the same.
        entities: what names are names of.
        kind_of: what a noun is a kind of: "person" for "painter".
        taken: text in small letters; a drawn name is none that it has.
        randomness: what is drawn from.
    """
    if rules != "strict":
        return _fixed(answer, asked, entities, has_figures=rules == "jia2017")
    draw = free if is_sampled else _first
    made = _Maker(answer, asked, entities, kind_of, taken, randomness, draw)
    if asked.is_action:
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


def _first(pool: Sequence[str], taken: str, randomness: random.Random) -> str:
    return next((name for name in pool if name.lower() not in taken), pool[0])


@dataclass(frozen=True)
class _Maker:
    """The strict rules, for one answer."""

    answer: Sequence[Word]
    asked: Asked
    entities: EntityTyper
    kind_of: Callable[[str], EntityType | None]
    taken: str
    randomness: random.Random
    draw: Callable[[Sequence[str], str, random.Random], str]

    def figure(self) -> FakeAnswer | None:
        """Other figures in the same words, where the answer is about figures."""
        asked, words = self.asked, [word for word in self.answer if word.tag or word.text.isalnum()]
        if len(words) > _LONGEST_FIGURE:
            return self._made_figure()
        changed = [changed_figure(word.text, self.randomness) for word in self.answer]
        if not any(changed):
            return self._made_figure()
        rest = [word for word, new in zip(self.answer, changed, strict=True) if not new and word.tag.startswith("NNP")]
        if rest and not self.answer[0].text[0].isdigit() and asked.wh != "when" and asked.head not in _TIMES:
            return None
        figures = [word for word, new in zip(self.answer, changed, strict=True) if new]
        is_spelt = not any(letter.isdigit() for word in figures for letter in word.text)
        is_asked = asked.wh[:4] in ("when", "how ") or asked.head in _TIMES
        if is_spelt and not is_asked and len(words) > 1 and not all(word.text in MONTHS for word in figures):
            return None  # "one of the ships", "the second wife"
        new_words = [replace(w, text=new) if new else w for w, new in zip(self.answer, changed, strict=True)]
        return FakeAnswer(written(new_words).strip(" ,."), "figure", "figure")

    def _made_figure(self) -> FakeAnswer | None:
        """A figure where the question asks for one and the answer has none ("several", "when Edison died")."""
        wh, head = self.asked.wh, self.asked.head
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
                return FakeAnswer(self.draw(pool, self.taken, self.randomness), "adjective", "adjective")
        kind = "person" if self.asked.wh in ("who", "whom", "whose") else self.kind_of(self.asked.head)
        is_name = all(word.text[0].isupper() or word.tag in ("IN", "DT", "CC", "CD", "POS") for word in words)
        is_name = is_name and any(word.text[0].isupper() for word in words)
        if not is_name:
            if self.asked.wh == "where" and len(words) < _LONGEST_FIGURE:
                return self._named("place")
            return None
        if len(words) == 1 and words[0].text.isupper() and len(words[0].text) > 1 and kind not in ("person", "place"):
            return FakeAnswer(
                self.draw(NAMES["abbreviation"], self.taken, self.randomness), "organization", "abbreviation"
            )
        if self.asked.wh == "where":
            kind = "place"
        typed = kind or self.entities(words, 0, len(words))
        return self._named("other" if typed == "person" and not kind and self.asked.head else typed)

    def _named(self, kind: EntityType) -> FakeAnswer:
        kind = "person" if kind == "role" else kind
        name = self.draw(NAMES[kind], self.taken, self.randomness)
        if kind == "person" and self.asked.is_plural:
            others = [other for other in NAMES[kind] if other != name]
            name = f"{name} and {self.draw(others, self.taken, self.randomness)}"
        return FakeAnswer(name, kind, f"name:{kind}")

    def common(self) -> FakeAnswer:
        """Common words with the article, the preposition or the verb form of the answer."""
        words = [word for word in self.answer if word.tag] or list(self.answer)
        wh, tag = self.asked.wh, words[0].tag
        if self.asked.head in ("reason", "reasons", "cause") or (wh == "why" and tag not in ("TO", "VB")):
            return FakeAnswer(self._pick("reason"), "noun", "reason")
        if self.asked.is_action:
            return self._verb("VB", "")
        if tag in ("TO", "VB"):
            return self._verb("VB", "to " if tag == "TO" else "")
        if tag == "VBG" and len(words) > 1 and words[1].tag[:2] not in ("NN", "JJ", "CC"):
            return self._verb(tag, "")
        if wh == "how" and tag == "VBG":
            return self._verb(tag, "")
        head = self._head(words)
        if wh in ("who", "whom") or self.kind_of(self.asked.head) == "person":
            return (
                FakeAnswer(self._pick("people"), "plural", "people") if self._is_plural(head) else self._named("person")
            )
        if len(words) == 1 and head.tag.startswith("RB"):
            return FakeAnswer(self._pick("adverb"), "adverb", "adverb")
        if self.asked.is_kind or head.tag.startswith("JJ") or (len(words) == 1 and head.tag in ("VBN", "VBD")):
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
        return self.draw(POOLS[pool], self.taken, self.randomness)


# Of adversarial-squad (MIT): what the last tag or the first gives.
_BY_FIRST_TAG = {"VB": "learn", "VBD": "learned", "VBG": "learning", "VBP": "learns", "VBZ": "learns"}
_BY_LAST_TAG = {
    "NN": "hamster",
    "NNP": "Central Park",
    "NNS": "hamsters",
    "NNPS": "Kew Gardens",
    "JJ": "deep",
    "JJR": "deeper",
    "JJS": "deepest",
    "RB": "silently",
    "VBG": "learning",
}
_BY_WH = {"who": "Jeff Dean", "when": "1956", "where": "Chicago", "how many": "42"}
_BY_ENTITY = {"person": "Jeff Dean", "place": "Chicago", "organization": "Stark Industries", "other": "Jupiter"}
_SMALL = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
_TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()  # noqa: SIM905
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety hundred".split()  # noqa: SIM905
_SPELT = {word: value for value, word in enumerate(_SMALL + _TEENS)}
_SPELT |= {word: 10 * value for value, word in enumerate(_TENS, start=2)}
_KIND_OF_TAG: Mapping[str, AnswerKind] = {
    "NNS": "plural",
    "NNP": "place",
    "NNPS": "place",
    "JJ": "adjective",
    "JJR": "adjective",
    "JJS": "adjective",
    "RB": "adverb",
    "VBG": "gerund",
}
_KIND_OF_WH: Mapping[str, AnswerKind] = {"who": "person", "when": "figure", "where": "place", "how many": "figure"}


def _fixed(answer: Sequence[Word], asked: Asked, entities: EntityTyper, *, has_figures: bool) -> FakeAnswer:
    words = [word for word in answer if word.tag] or list(answer)
    if has_figures:
        rule, changed = "date", _jia_date(answer)
        if not any(changed):
            rule, changed = "number", [_jia_number(word.text) for word in answer]
        if any(changed):
            new_words = [replace(w, text=new) if new else w for w, new in zip(answer, changed, strict=True)]
            return FakeAnswer(written(new_words), "figure", rule)
    if all(word.tag in ("NNP", "NNPS") for word in words):
        entity = entities(words, 0, len(words))
        entity = "person" if entity == "role" else entity
        return FakeAnswer(_BY_ENTITY[entity], entity, f"ner_{entity}")
    text = written(answer)
    if text.isupper():
        return FakeAnswer("LSTM", "organization", "abbrev")
    if asked.wh in _BY_WH:
        return FakeAnswer(_BY_WH[asked.wh], _KIND_OF_WH[asked.wh], f"wh_{asked.wh.replace(' ', '_')}")
    first, last = words[0].tag, words[-1].tag
    if first in _BY_FIRST_TAG:
        return FakeAnswer(_BY_FIRST_TAG[first], "gerund" if first == "VBG" else "verb", f"pos_begin_{first.lower()}")
    if last in _BY_LAST_TAG:
        has_determiner = last.startswith("NN") and words[0].low in _DETERMINERS
        determiner = ("the " if words[0].low == "the" else "a ") if has_determiner else ""
        return FakeAnswer(determiner + _BY_LAST_TAG[last], _KIND_OF_TAG.get(last, "noun"), f"pos_end_{last.lower()}")
    return FakeAnswer("aliens", "plural", "catch_all")


_DAY = re.compile(r"(?:[0-4]?\d|50)(?:st|nd|rd|th)?")
_YEAR = re.compile(r"1\d{3}|20\d\d|2100")


def _jia_date(answer: Sequence[Word]) -> list[str | None]:
    """A year 25 less, a day 11 more or less, a month half a year on, in a date; else nothing.

    The authors go by CoreNLP's DATE. Here a date is a year alone, or months with days and years and no other word. As
    there, an ordinal in it stays.
    """
    texts = [word.text for word in answer if word.tag or word.text.isalnum()]
    is_date = all(text in MONTHS or _DAY.fullmatch(text) or _YEAR.fullmatch(text) for text in texts)
    is_year = len(texts) == 1 and _YEAR.fullmatch(texts[0])
    if not is_date or not (is_year or any(text in MONTHS for text in texts)):
        return [None] * len(answer)
    return [_jia_part(word.text) for word in answer]


def _jia_part(word: str) -> str | None:
    if word in MONTHS:
        return MONTHS[(MONTHS.index(word) + 6) % 12]
    if not word.isdecimal():
        return None
    value = int(word)
    return str(value - 25 if value > 50 else value - 11 if value > 15 else value + 11)


def _jia_number(word: str) -> str | None:
    """Thousands for millions; from 1000 to 2500 75 less; else the first digit 5 more, also of what was spelt.

    A spelt number counts by itself. CoreNLP's normalized value, which the authors change, is that of its whole phrase.
    """
    if word.lower() in ("thousand", "million", "billion", "trillion"):
        return "million" if word.lower() == "thousand" else "thousand"
    if (spelt := _spelt(word)) is not None:
        _, dash, rest = word.partition("-")
        return f"{_jia_value(str(spelt or 10))}{dash}{rest}"  # the authors take any other number, as zero, for 10
    figures = re.search(r"\d[\d,]*(?:\.\d+)?(?:(?:st|nd|rd|th)\b)?", word)
    if figures is None:
        return None
    digits = re.sub(r"[^\d.]", "", figures[0])
    return word[: figures.start()] + _jia_value(digits if float(digits) else "10") + word[figures.end() :]


def _jia_value(digits: str) -> str:
    if 1000 < float(digits) < 2500:
        return f"{float(digits) - 75:g}"  # the authors' program writes 1910.0
    return str(max((int(digits[0]) + 5) % 10, 1)) + digits[1:]


def _spelt(word: str) -> int | None:
    """The value of a number in letters: 25 of "twenty-five"; None of any other word.

    Example:
        >>> [_spelt(word) for word in ("ten", "Twenty-five", "hundred", "tent")]
        [10, 25, 100, None]
    """
    values = [_SPELT.get(part) for part in word.lower().split("-")]
    return None if None in values else sum(value or 0 for value in values)
