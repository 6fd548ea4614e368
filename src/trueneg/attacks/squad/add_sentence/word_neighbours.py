"""Words that could stand for a word and mean something else: by WordNet."""

from __future__ import annotations

from collections.abc import Sequence

from trueneg.attacks.squad.sense_frequencies import SenseFrequencies
from trueneg.lexicon.morphology import inflections, penn_tags
from trueneg.lexicon.tags import coarse
from trueneg.lexicon.wordnet import Synset, WordNet

_USUAL = 4
"""How often WordNet's tagged text has a word, at least, that stands for another."""


class WordNetNeighbours:
    """Sisters of a word in WordNet: what else its first meaning's next more general one has, most usual first.

    A sister has the tag's inflection, mostly means this, shares no meaning with the word, and neither explains the
    other. A name has the other cases of its kind.

    Args:
        wordnet: with counts of senses.
    """

    def __init__(self, wordnet: WordNet) -> None:
        self._wordnet = wordnet
        self._usual = SenseFrequencies(wordnet)
        self._found: dict[tuple[str, str], tuple[str, ...]] = {}

    def __call__(self, word: str, tag: str) -> Sequence[str]:
        """Give the sisters."""
        key = (word.lower(), tag)
        if key not in self._found:
            self._found[key] = self._names(word) if tag.startswith("NNP") else self._sisters(word.lower(), tag)
        return self._found[key]

    def antonyms(self, word: str, tag: str) -> Sequence[str]:
        """The antonyms of a noun or adjective in its first meaning, of one word, inflected alike."""
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
        """Whether a gloss has a word: what explains another may mean much the same, as "dinner" does for "supper"."""
        return lemma in synset.gloss.lower().split()

    def _names(self, word: str) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                lemma
                for synset in self._wordnet.synsets(word, "n")[:1]
                for up in synset.pointers
                if up.symbol == "@i"
                for down in self._wordnet.synset(up.pos, up.offset).pointers
                if down.symbol == "~i" and down.offset != synset.offset
                for lemma in self._wordnet.lemmas(down.pos, down.offset)
                if lemma.isalpha()
            )
        )


def _inflected(lemma: str, tag: str) -> str:
    """A base form of one word with the inflection of a tag; empty if it has none."""
    pos = coarse(tag)
    if not pos or not lemma.isalpha() or not lemma.islower():
        return ""
    return next(iter(inflections(lemma, pos).get(tag, ())), "")
