"""Wordnets of other languages, via the package ``wn`` (the extra of that name): ``wn:odenet``, ``wn:omw-fr``, ….

They have the lookup methods of :class:`~trueneg.lexicon.wordnet.WordNet` that replacements use. Synsets are numbered
in the order that ``wn`` lists them, and relations have the symbols of Princeton's files.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from trueneg.errors import LexiconError, MissingExtraError
from trueneg.lexicon.wordnet import Pointer, Synset
from trueneg.lexicon.wordnet_location import PartOfSpeech

_SYMBOLS = {
    "hypernym": "@",
    "instance_hypernym": "@i",
    "hyponym": "~",
    "instance_hyponym": "~i",
    "similar": "&",
    "also": "^",
}
_TYPES: dict[PartOfSpeech, tuple[str, ...]] = {"n": ("n",), "v": ("v",), "a": ("a", "s"), "r": ("r",)}
_POS_OF_TYPE: dict[str, PartOfSpeech] = {kind: pos for pos, kinds in _TYPES.items() for kind in kinds}


class WnLexicon:
    """A lexicon in the database of the package ``wn``.

    Base forms are those that the lexicon lists for a form; a lexicon without inflected forms knows base forms only.

    Args:
        name: its name in ``wn``, with or without its version: ``odenet``, ``odenet:1.4``.

    Raises:
        MissingExtraError: if ``wn`` is not installed.
        LexiconError: if its database has no such lexicon, or several.
    """

    def __init__(self, name: str) -> None:
        try:
            import wn
        except ImportError as error:
            raise MissingExtraError("wn", "wn", f"the lexicon 'wn:{name}'") from error
        found = _lexicons(wn, name)
        if len(found) != 1:
            known = ", ".join(sorted(lexicon.specifier() for lexicon in wn.lexicons())) or "none"
            problem = "several lexicons: name its version" if found else "no such lexicon"
            raise LexiconError(
                f"wn:{name}: {problem} (installed: {known}); get one with  python -m wn download {name.split(':')[0]}"
            )
        self._wordnet = wn.Wordnet(found[0].specifier(), expand="", normalizer=None, lemmatizer=None)
        self.name = f"wn:{found[0].specifier()}"
        self.language = str(found[0].language)
        """BCP 47: ``en``, ``de``, ``pt-BR``."""
        self.version = str(found[0].version)
        self.path = Path(self.name)
        """Its name in the database of ``wn``."""

    @property
    def is_english(self) -> bool:
        """Whether English inflection and spelling apply."""
        return self.language.split("-")[0] == "en"

    @cached_property
    def digest(self) -> str:
        """Digest of its name and size, and of the version of ``wn``: 16 hexadecimal digits."""
        content = f"{self.name} {len(self._synsets)} {len(self._wordnet.words())} {importlib.metadata.version('wn')}"
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()

    def morphy(self, word: str, pos: PartOfSpeech) -> tuple[str, ...]:
        """Base forms of a word, the word itself first if it is one of them."""
        bases = [entry.lemma() for kind in _TYPES[pos] for entry in self._wordnet.words(word, pos=kind)]
        return tuple(dict.fromkeys(sorted(map(str, bases), key=lambda base: base != word)))

    def senses(self, word: str, pos: PartOfSpeech | None = None) -> Iterator[tuple[PartOfSpeech, int, str]]:
        """Part of speech, number and base form of each distinct meaning, in the lexicon's order."""
        for p in _TYPES if pos is None else (pos,):
            seen: set[int] = set()
            for base in self.morphy(word, p):
                entries = [e for kind in _TYPES[p] for e in self._wordnet.words(base, pos=kind) if e.lemma() == base]
                for number in (self._numbers[sense.synset().id] for entry in entries for sense in entry.senses()):
                    if number not in seen:
                        seen.add(number)
                        yield p, number, base

    def lemmas(self, pos: PartOfSpeech, offset: int) -> tuple[str, ...]:
        """The words of a synset."""
        return tuple(str(lemma) for lemma in self._synsets[offset].lemmas())

    def synset(self, pos: PartOfSpeech, offset: int) -> Synset:
        """A synset by its number, with the relations that replacements need."""
        synset = self._synsets[offset]
        return Synset(
            pos=_POS_OF_TYPE[synset.pos],
            offset=offset,
            is_satellite=synset.pos == "s",
            lemmas=self.lemmas(pos, offset),
            pointers=(*self._pointers(synset), *self._antonyms(synset)),
            gloss=synset.definition() or "",
        )

    def _pointers(self, synset: Any) -> Iterator[Pointer]:
        for relation, targets in synset.relations(*_SYMBOLS).items():
            for target in targets:
                if target.pos in _POS_OF_TYPE and target.id in self._numbers:
                    yield Pointer(_SYMBOLS[relation], _POS_OF_TYPE[target.pos], self._numbers[target.id], 0, 0)

    def _antonyms(self, synset: Any) -> Iterator[Pointer]:
        """Opposites of its words, numbered from 1 as in Princeton's files."""
        for number, sense in enumerate(synset.senses(), 1):
            for target in sense.get_related("antonym"):
                other = target.synset()
                if other.pos in _POS_OF_TYPE:
                    ids = [each.id for each in other.senses()]
                    place = ids.index(target.id) + 1
                    yield Pointer("!", _POS_OF_TYPE[other.pos], self._numbers[other.id], number, place)

    @cached_property
    def _synsets(self) -> list[Any]:
        return list(self._wordnet.synsets())

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {synset.id: number for number, synset in enumerate(self._synsets)}


def _lexicons(wn: Any, name: str) -> list[Any]:
    try:
        return list(wn.lexicons(lexicon=name))
    except wn.Error:
        return []
