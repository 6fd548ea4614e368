"""Replacements for words of a question: other names, numbers and, from WordNet, other words."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from trueneg.attacks.squad.add_sentence.questions import Word
from trueneg.attacks.squad.sense_frequencies import SenseFrequencies
from trueneg.lexicon.english import CARDINALS, LARGE, MONTHS, ORDINALS, TENS, WEEKDAYS
from trueneg.lexicon.morphology import inflections, penn_tags
from trueneg.lexicon.tags import coarse
from trueneg.lexicon.wordnet import Synset, WordNet

NAMES: Mapping[str, Sequence[str]] = {
    "person": ("Jeff Dean", "Edward Harrison", "Martha Whitfield", "Oliver Bennett", "Clara Hughes", "Samuel Porter",
               "Helen Crawford", "Victor Langley"),
    "surname": ("Jackson", "Harrison", "Whitfield", "Bennett", "Hughes", "Porter", "Crawford", "Langley"),
    "place": ("Chicago", "Peru", "Bavaria", "Cuba", "Portugal", "Chile", "Norway", "Sicily", "Toronto", "Florida"),
    "river": ("Danube", "Volga", "Mekong", "Loire", "Tigris", "Ganges"),
    "group": ("Vikings", "Trojans", "Spartans", "Titans", "Saxons", "Phoenicians"),
    "organization": ("Stark Industries", "Acme", "Wayne Enterprises", "Globex", "Initech", "Northwind"),
    "other": ("Neptune", "Avalon", "Orion", "Meridian", "Halcyon", "Phoenix"),
    "doctrine": ("Taoism", "Stoicism", "Cubism", "Mysticism", "Pantheism", "Vegetarianism"),
    "modifier": ("Harrison", "Kensington", "Eastwood", "Wellington", "Sheffield", "Somerset"),
    "abbreviation": ("UNICEF", "OPEC", "FIFA", "ASEAN", "UNESCO"),
}  # fmt: skip
"""Names by type."""

NATIONALITIES: Sequence[str] = (
    "French", "German", "Italian", "Spanish", "British", "English", "Chinese", "Japanese", "Russian", "Polish",
    "Dutch", "Swedish", "Greek", "Turkish", "Mexican", "Canadian", "Australian", "American", "European", "African",
    "Asian", "Scottish", "Irish", "Roman", "Persian", "Mongol", "Mongolian", "Norwegian", "Danish", "Indian",
)  # fmt: skip
"""Adjectives of nations and continents: each can replace any other."""

RELIGIONS: Sequence[str] = (
    "Catholic", "Protestant", "Muslim", "Jewish", "Buddhist", "Hindu", "Orthodox", "Lutheran", "Methodist", "Christian",
    "Islamic",
)  # fmt: skip
"""Adjectives of religions: each can replace any other."""

_ROMAN = "II III IV V VI VII VIII IX X XI XII".split()  # noqa: SIM905
_CYCLES = (MONTHS, WEEKDAYS, CARDINALS[2:13], TENS, LARGE, ORDINALS[1:10], ORDINALS[11:], _ROMAN)
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)
_YEAR = re.compile(r"1[0-9]{3}|20[0-2][0-9]")
EntityType = Literal["person", "place", "organization", "role", "other"]

_CUE_WORDS: Mapping[EntityType, str] = {
    "person": "mr. mrs. dr. sir king queen pope emperor president saint lord prince jr. sr.",
    "organization": """company corporation inc university college church party league union association society
        institute school team committee council ministry agency bank network club court parliament congress""",
    "place": """city river lake street avenue boulevard road valley county island islands mountains ocean sea park
        stadium hall square bridge palace castle desert bay district country state nation kingdom province town village
        republic empire region continent capital""",
}
_CUES: dict[str, EntityType] = {word: kind for kind, words in _CUE_WORDS.items() for word in words.split()}
_KINDS: Mapping[str, EntityType] = {
    "person": "person", "organization": "organization", "social group": "organization", "location": "place",
    "facility": "place", "structure": "place", "body of water": "place", "geological formation": "place",
}  # fmt: skip
_DETERMINERS = frozenset(["the", "a", "an", "'s", "this", "his", "her", "their", "its"])
_ABSTRACT = ("ism", "ity", "tion", "ics", "ness", "ology")
_PLACE_PREPOSITIONS = frozenset(["in", "near", "at", "to", "from", "into", "across", "outside"])
_USUAL = 4
"""Minimum count of a replacement in WordNet's tagged text."""


def changed_figure(word: str, randomness: random.Random) -> str | None:
    """Draw another number, year, month or day of the week of the same kind; None for any other word.

    Example:
        >>> [changed_figure(word, random.Random(3)) for word in ("1998", "$5.5", "three", "50th", "June", "film")]
        ['1988', '$4.5', 'eight', '40th', 'November', None]
        >>> [changed_figure(word, random.Random(2)) for word in ("21st", "3rd-century", "32nd")]
        ['2nd', '2nd-century', '12th']
    """
    for cycle in _CYCLES:
        for place, other in enumerate(cycle):
            if word.lower() == other.lower() and (word[0].isupper() or other.islower()):
                found = cycle[(place + randomness.randrange(2, len(cycle) - 1)) % len(cycle)]
                return found.capitalize() if word.istitle() and other.islower() else found
    figures = re.search(r"\d+", word)
    if figures is None:
        return None
    ordinal = _ORDINAL.match(word, figures.end())
    new = _changed_digits(figures[0], word, randomness, is_ordinal=ordinal is not None)
    if ordinal is None:
        return word[: figures.start()] + new + word[figures.end() :]
    ending = _ordinal_ending(int(new))
    return word[: figures.start()] + new + (ending.upper() if ordinal[0].isupper() else ending) + word[ordinal.end() :]


def _ordinal_ending(number: int) -> str:
    return "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _changed_digits(digits: str, word: str, randomness: random.Random, *, is_ordinal: bool) -> str:
    """Draw an earlier year (a full decade for one); another ordinal that a day can have; else another first digit."""
    value = int(digits)
    if _YEAR.fullmatch(digits) and "," not in word:
        years = randomness.randrange(3, 30)
        return str(value - (10 + years // 10 * 10 if value % 10 == 0 else years))
    if is_ordinal and value <= 31:
        return str(randomness.choice([other for other in range(1, 21) if other != value]))
    first = randomness.choice([digit for digit in "123456789" if digit != digits[0]])
    if value <= 31 and len(digits) == 2:  # maybe a day
        first = "12"[digits[0] == "1"]
    return first + digits[1:]


def free(pool: Sequence[str], taken: str, randomness: random.Random) -> str:
    """Draw from a pool an entry that does not occur in a lower-case text; any entry if all occur."""
    return randomness.choice([name for name in pool if name.lower() not in taken] or list(pool))


class WordNetEntities:
    """Determines the type of a name from its first and last word, its entry in WordNet, and the preposition before it.

    Args:
        wordnet: used to look up names and kinds of things.
    """

    def __init__(self, wordnet: WordNet) -> None:
        self._wordnet = wordnet
        self.kind = lru_cache(maxsize=1 << 16)(self._kind)

    def __call__(self, words: Sequence[Word], begin: int, end: int) -> EntityType:
        """Type of the name that consists of the words ``begin`` to ``end``."""
        name = words[begin:end]
        for cue in (name[-1].low, name[0].low):
            if cue in _CUES:
                return _CUES[cue]
        found = self.kind(" ".join(word.text for word in name)) or self.kind(name[-1].text)
        before = words[begin - 1].low if begin else ""
        if found == "person" and before in _DETERMINERS:
            if not self._is_individual(name[-1].text):
                return "role"  # the General Manager
            found = None  # the Rhine, not J. B. Rhine
        if found:
            return found
        if before in _PLACE_PREPOSITIONS:
            return "place"
        if len(name) > 1 and self._wordnet.synsets(name[0].text, "a") and self._wordnet.synsets(name[-1].text, "n"):
            return "other"  # Super Bowl
        is_plain = before not in ("the", "a", "an") and all(word.text.istitle() for word in name)
        return "person" if len(name) in (1, 2) and is_plain and not name[-1].low.endswith(_ABSTRACT) else "other"

    def _is_individual(self, word: str) -> bool:
        return any(p.symbol == "@i" for synset in self._wordnet.synsets(word, "n")[:1] for p in synset.pointers)

    def _kind(self, word: str) -> EntityType | None:
        """Type of a word, or of what it is an instance of, by its first meaning as a noun; None if WordNet has none."""
        if word.lower() in _CUES:
            return _CUES[word.lower()]
        above: set[str] = set()
        frontier = [*self._wordnet.synsets(word, "n")[:1]]
        for _ in range(16):
            above.update(lemma for synset in frontier for lemma in synset.lemmas)
            pointers = [p for synset in frontier for p in synset.pointers if p.symbol in ("@", "@i")]
            frontier = [self._wordnet.synset(p.pos, p.offset) for p in pointers]
        return next((kind for lemma, kind in _KINDS.items() if lemma in above), None)


class WordNetNeighbours:
    """Sister terms of a word in WordNet: other hyponyms of its first meaning's hypernym, most frequent first.

    A sister term is inflected by the tag, has this as its dominant meaning and shares no meaning with the word; neither
    occurs in the other's gloss. For a name, the sisters are other instances of its class.

    Args:
        wordnet: with sense counts.
    """

    def __init__(self, wordnet: WordNet) -> None:
        self._wordnet = wordnet
        self._usual = SenseFrequencies(wordnet)
        self._found: dict[tuple[str, str], tuple[str, ...]] = {}

    def __call__(self, word: str, tag: str) -> Sequence[str]:
        """Return the sister terms."""
        key = (word.lower(), tag)
        if key not in self._found:
            self._found[key] = self._names(word) if tag.startswith("NNP") else self._sisters(word.lower(), tag)
        return self._found[key]

    def antonyms(self, word: str, tag: str) -> Sequence[str]:
        """Single-word antonyms of a noun or adjective in its first meaning, with the same inflection."""
        pos = coarse(tag)
        base = next(iter(self._wordnet.morphy(word, pos)), "") if pos in ("n", "a") else ""
        if not pos or not base or tag.startswith("NNP"):
            return ()
        synset = self._wordnet.synsets(base, pos)[0]
        if self._usual.count(base, pos) and not self._usual.is_settled(base, pos, 0.3):
            return ()
        found = [
            self._wordnet.lemmas(p.pos, p.offset)[p.target - 1]
            for p in synset.pointers
            if p.symbol == "!" and synset.lemmas[p.source - 1].lower() == base
        ]
        usual = (lemma for lemma in found if self._usual.count(lemma, pos) >= _USUAL)
        return [form for lemma in usual if (form := _inflected(lemma, tag))]

    def _sisters(self, word: str, tag: str) -> tuple[str, ...]:
        pos = coarse(tag)
        base = next(iter(self._wordnet.morphy(word, pos)), "") if pos else ""
        if not pos or not base or tag not in penn_tags(word, base, pos):
            return ()
        synset = self._wordnet.synsets(base, pos)[0]
        if not self._usual.is_settled(base, pos, 0.6):
            return ()
        above = [p for p in synset.pointers if p.symbol in ("@", "&")]
        own = self._wordnet.synonyms(base, pos)
        found = {
            lemma
            for up in above
            for down in self._wordnet.synset(up.pos, up.offset).pointers
            if down.symbol in ("~", "&") and (down.pos, down.offset) != (synset.pos, synset.offset)
            for lemma in self._wordnet.lemmas(down.pos, down.offset)
            if lemma.isalpha() and lemma.islower() and lemma not in own
            and self._wordnet.synsets(lemma, pos)[0].offset == down.offset
            and self._usual.is_settled(lemma, pos, 0.5)
            and not self._explains(self._wordnet.synset(pos, down.offset), base)
            and not self._explains(synset, lemma)
        }  # fmt: skip
        usual = sorted(found, key=lambda lemma: (-self._usual.count(lemma, pos), lemma))
        forms = (_inflected(lemma, tag) for lemma in usual if self._usual.count(lemma, pos) >= _USUAL)
        return tuple(form for form in forms if form)

    @staticmethod
    def _explains(synset: Synset, lemma: str) -> bool:
        """Whether a gloss contains a word, which may then mean much the same, as "dinner" does for "supper"."""
        return lemma in synset.gloss.lower().split()

    def _names(self, word: str) -> tuple[str, ...]:
        names = (
            lemma
            for synset in self._wordnet.synsets(word, "n")[:1]
            for up in synset.pointers if up.symbol == "@i"
            for down in self._wordnet.synset(up.pos, up.offset).pointers
            if down.symbol == "~i" and down.offset != synset.offset
            for lemma in self._wordnet.lemmas(down.pos, down.offset) if lemma.isalpha()
        )  # fmt: skip
        return tuple(dict.fromkeys(names))


def _inflected(lemma: str, tag: str) -> str:
    """Inflect a single-word base form by a tag; empty if there is no such form."""
    pos = coarse(tag)
    if not pos or not lemma.isalpha() or not lemma.islower():
        return ""
    return next(iter(inflections(lemma, pos).get(tag, ())), "")
