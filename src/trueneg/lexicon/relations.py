"""How two words are related in WordNet: synonyms, antonyms, sisters, and what is one step away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal, get_args

from trueneg.lexicon.wordnet import Synset, WordNet
from trueneg.lexicon.wordnet_location import PARTS_OF_SPEECH, PartOfSpeech

Relation = Literal[
    "synonym",
    "first synonym",
    "hypernym",
    "hyponym",
    "sister",
    "similar",
    "antonym",
    "opposite",
    "also",
    "derived",
]
"""``synonym`` shares a synset; ``first synonym`` that of the word's most frequent sense (of each part of speech, where
none is given); ``sister`` has a hypernym in common (a co-hyponym); ``similar`` is an adjective of the same cluster;
``antonym`` is WordNet's own antonym, ``opposite`` that or one via a synonym or a cluster's head; ``derived`` is
of the same root."""

RELATIONS: tuple[Relation, ...] = get_args(Relation)

_BY_SYMBOL: dict[str, Relation] = {"@": "hypernym", "@i": "hypernym", "~": "hyponym", "~i": "hyponym", "^": "also"}

Related = Mapping[str, frozenset[Relation]]


class Relations:
    """Relations of words in a WordNet, read once for each word.

    Args:
        wordnet: Where the relations come from.
    """

    def __init__(self, wordnet: WordNet) -> None:
        self.wordnet = wordnet
        self._of = lru_cache(maxsize=1 << 16)(self._read)

    def between(self, word: str, other: str, pos: PartOfSpeech | None = None) -> frozenset[Relation]:
        """How ``other`` is related to ``word``, both in any form; empty if WordNet lists no relation.

        Args:
            word: The word that ``other`` is the synonym, hypernym, … of.
            other: Another word, or a phrase: "carry out".
            pos: Part of speech of both, or None for all.

        Example:
            ``Relations(WordNet.load()).between("towns", "cities", "n") == {"sister"}``
        """
        related = self.of(word, pos)
        found: set[Relation] = set()
        for p in PARTS_OF_SPEECH if pos is None else (pos,):
            for base in {*self.wordnet.morphy(other, p), *self._phrases(other.lower(), p)}:
                found |= related.get(base, frozenset())
        return frozenset(found)

    def _phrases(self, text: str, pos: PartOfSpeech) -> Iterator[str]:
        """A text and, if it is several words, its base forms: "took off", "points in time", "oil wells"."""
        yield text
        words = text.split()
        for place in range(len(words) if len(words) > 1 else 0):
            for base in self.wordnet.morphy(words[place], pos):
                yield " ".join([*words[:place], base, *words[place + 1 :]])

    def of(self, word: str, pos: PartOfSpeech | None = None) -> Related:
        """Every other word related to a word, in lower case and base form, with its relations."""
        return self._of(word.lower(), pos)

    def _read(self, word: str, pos: PartOfSpeech | None) -> Related:
        found: dict[str, set[Relation]] = defaultdict(set)
        bases = set()
        first_seen: set[PartOfSpeech] = set()
        for p, offset, base in self.wordnet.senses(word, pos):
            bases.add(base)
            synset = self.wordnet.synset(p, offset)
            for lemma in synset.lemmas:
                found[lemma.lower()].add("synonym")
                if p not in first_seen:
                    found[lemma.lower()].add("first synonym")
            first_seen.add(p)
            self._read_pointers(synset, found)
        for indirect, name in ((False, "antonym"), (True, "opposite")):
            for lemma in self.wordnet.antonyms(word, pos, indirect=indirect):
                found[lemma.lower()].add(name)  # type: ignore[arg-type]
        for lemma in self.wordnet.derived(word, pos):
            found[lemma.lower()].add("derived")
        return {lemma: frozenset(names) for lemma, names in found.items() if lemma not in bases and lemma != word}

    def _read_pointers(self, synset: Synset, found: dict[str, set[Relation]]) -> None:
        lemmas = self.wordnet.lemmas
        for pointer in synset.pointers:
            if name := _BY_SYMBOL.get(pointer.symbol):
                self._add(found, lemmas(pointer.pos, pointer.offset), name)
            if pointer.symbol == "@":
                for below in self.wordnet.synset(pointer.pos, pointer.offset).pointers:
                    if below.symbol == "~" and (below.pos, below.offset) != (synset.pos, synset.offset):
                        self._add(found, lemmas(below.pos, below.offset), "sister")
            elif pointer.symbol == "&":
                self._add(found, lemmas(pointer.pos, pointer.offset), "similar")
                # The other satellites of the same head.
                if synset.is_satellite:
                    for fellow in self.wordnet.synset(pointer.pos, pointer.offset).pointers:
                        if fellow.symbol == "&":
                            self._add(found, lemmas(fellow.pos, fellow.offset), "similar")

    @staticmethod
    def _add(found: dict[str, set[Relation]], lemmas: tuple[str, ...], name: Relation) -> None:
        for lemma in lemmas:
            found[lemma.lower()].add(name)
