"""Whether a word can replace another at all, whatever they mean: by form, and by classes that never interchange.

Encoders see little of this. To them "takes" is almost "took", "november" almost "january", "low" almost "high".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from trueneg.lexicon.english import CARDINALS, LARGE, MONTHS, ORDINALS, TENS, WEEKDAYS
from trueneg.lexicon.morphology import penn_tags
from trueneg.lexicon.wordnet import Synset, WordNet
from trueneg.lexicon.wordnet_location import PARTS_OF_SPEECH, PartOfSpeech

MONTHS_AND_DAYS = frozenset(word.lower() for word in (*MONTHS, *WEEKDAYS))
UNITS = frozenset(
    """
    second minute hour day week month year decade century
    inch foot yard mile millimetre millimeter centimetre centimeter metre meter kilometre kilometer
    ounce pound ton tonne gram kilogram acre hectare dollar cent euro percent
    """.split()  # noqa: SIM905
)
NUMBERS = frozenset((*CARDINALS, *TENS, "hundred", *LARGE, *ORDINALS[:12], "half", "quarter", "once", "twice"))


@dataclass(frozen=True)
class Profile:
    """Properties of a word that decide which words can replace it.

    Attributes:
        tags: the Penn Treebank tags it can have; none if WordNet does not know it.
        bases: its base forms, with their parts of speech.
        is_date: a month or a day of the week.
        is_unit: a unit of time, length, weight, … in any form.
        is_number: a number, in letters or digits.
        is_name: a word that WordNet lists only as an individual, such as "Sweden".
    """

    tags: frozenset[str]
    bases: frozenset[tuple[PartOfSpeech, str]]
    is_date: bool
    is_unit: bool
    is_number: bool
    is_name: bool

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of words that never replace each other."""
        kinds = {"date": self.is_date, "unit": self.is_unit, "number": self.is_number}
        return frozenset(kind for kind, is_one in kinds.items() if is_one)


class Compatibility:
    """Decides which words can replace which, from a WordNet and the dictionary of inflections."""

    def __init__(self, wordnet: WordNet) -> None:
        self.wordnet = wordnet
        self.profile = lru_cache(maxsize=1 << 17)(self._profile)
        self.opposites = lru_cache(maxsize=1 << 17)(self._opposites)

    def fits(self, word: str, other: str) -> bool:
        """Whether ``other`` can replace ``word``.

        It cannot if both are forms of one word, if both are known and have no Penn tag in common ("took", "taking"), if
        they are opposites, both dates, both units or both numbers, or if one of them is a name.

        Example:
            With a WordNet loaded, "films" can replace "movies"; "film" and "movie" cannot.
        """
        here, there = self.profile(word.lower()), self.profile(other.lower())
        if here.is_name or there.is_name or here.kinds & there.kinds:
            return False
        if here.bases & there.bases or (here.tags and there.tags and not here.tags & there.tags):
            return False
        # WordNet's indirect antonyms go one way: from "huge" over "large" to "small", but from "small" only to "large".
        return self._is_apart(word, there, other) and self._is_apart(other, here, word)

    def _is_apart(self, word: str, profile: Profile, other: str) -> bool:
        """Whether no base form of ``other``, whose profile is given, is listed as an opposite of a word."""
        return self.opposites(word.lower()).isdisjoint({other.lower(), *(base for _, base in profile.bases)})

    def _profile(self, word: str) -> Profile:
        bases = frozenset((pos, base) for pos in PARTS_OF_SPEECH for base in self.wordnet.morphy(word, pos))
        tags = frozenset(tag for pos, base in bases for tag in penn_tags(word, base, pos))
        is_unit = not UNITS.isdisjoint({word, word.removesuffix("s"), *(base for _, base in bases)})
        is_name = is_individual(word, self.wordnet)
        return Profile(tags, bases, word in MONTHS_AND_DAYS, is_unit, is_number(word), is_name)

    def _opposites(self, word: str) -> frozenset[str]:
        return frozenset(lemma.lower() for lemma in self.wordnet.antonyms(word, indirect=True))


def is_number(word: str) -> bool:
    """Whether a word is a number, in letters or with digits.

    Example:
        >>> [is_number(word) for word in ("seven", "twenty-one", "1921", "severance")]
        [True, True, True, False]
    """
    parts = word.lower().replace("-", " ").split()
    return any(character.isdigit() for character in word) or (bool(parts) and NUMBERS.issuperset(parts))


def is_individual(word: str, wordnet: WordNet) -> bool:
    """Whether WordNet lists a word, and only as an individual: "Sweden", not "turkey"."""
    synsets = wordnet.synsets(word)
    return bool(synsets) and all(map(is_instance, synsets))


def is_proper(word: str, wordnet: WordNet) -> bool:
    """Whether a word, in any case, is mostly a name: "philippines", "yankees", "japanese", not "turkey" or "polish".

    That is so if WordNet capitalizes the first meaning of each of its base forms and parts of speech. Individuals have
    no plural: "gods" is not a name. Months and days do not count, as "may" is not only a month.
    """
    form = word.lower()
    firsts: dict[tuple[PartOfSpeech, str], bool] = {}
    for pos, offset, base in () if form in MONTHS_AND_DAYS else wordnet.senses(form):
        synset = wordnet.synset(pos, offset)
        if base == form or not is_instance(synset):
            firsts.setdefault((pos, base), all(lemma[0].isupper() for lemma in synset.lemmas if lemma.lower() == base))
    return bool(firsts) and all(firsts.values())


def is_instance(synset: Synset) -> bool:
    """Whether a meaning is an individual."""
    return any(pointer.symbol == "@i" for pointer in synset.pointers)
