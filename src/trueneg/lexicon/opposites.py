"""WordNet's opposites compiled for one vocabulary: a table of what never stands for what."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trueneg.lexicon.places import PARTS_OF_SPEECH
from trueneg.lexicon.surface import Casing, Prefix, surfaces
from trueneg.lexicon.table import LookupTable
from trueneg.lexicon.wordnet import WordNet

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def opposites_table(tokenizer: PreTrainedTokenizerFast, wordnet: WordNet) -> LookupTable:
    """List, for every word of a vocabulary, its antonyms and those of its synonyms, each in any form.

    Unlike the table of synonyms it asks for no agreement, for it says what is wrong. A pair agrees in prefix and
    casing.
    """
    groups: dict[tuple[Prefix, Casing], dict[str, int]] = defaultdict(dict)
    for token, surface in enumerate(surfaces(tokenizer)):
        if surface.starts_word and surface.word.isalpha() and surface.casing != "mixed":
            groups[surface.prefix, surface.casing][surface.word.lower()] = token
    vocabulary = {word for group in groups.values() for word in group}
    forms_of: dict[str, set[str]] = defaultdict(set)
    for word in vocabulary:
        for pos in PARTS_OF_SPEECH:
            for base in wordnet.morphy(word, pos):
                forms_of[base].add(word)
    listed = {
        word: {form for lemma in wordnet.antonyms(word, indirect=True) for form in forms_of.get(lemma.lower(), ())}
        for word in vocabulary
    }
    rows = {
        token: {group[other] for other in listed[word] - {word} if other in group}
        for group in groups.values()
        for word, token in group.items()
    }
    about = {"source": "WordNet", "wordnet_version": wordnet.version, "wordnet_digest": wordnet.digest}
    return LookupTable.from_rows(rows, tokenizer, {**about, "relation": "antonym or opposite"})
