"""Triplets of sentences: words replaced by synonyms, and by antonyms, of WordNet (after Wang et al. 2021, §4.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trueneg.corruption.views.replacement_table import ReplacementTable, compile_replacements
from trueneg.errors import TaskError
from trueneg.evaluation.encoders.triplets import Replaced, Triplet
from trueneg.lexicon.replacements import Kind, ReplacementOptions
from trueneg.lexicon.tagging import Tagged, Tagger, tag_text
from trueneg.lexicon.tags import PENN
from trueneg.lexicon.wordnet import WordNet

SYNONYM_SHARE, ANTONYM_SHARE = 0.4, 0.2
"""Shares of a sentence's words to replace, as in the views of training; at least one word, as in the paper."""


def make_triplets(
    sentences: Sequence[str],
    tagger: Tagger,
    wordnet: WordNet,
    *,
    options: ReplacementOptions | None = None,
    num: int = 0,
    seed: int = 0,
) -> list[Triplet]:
    """Make a triplet from each sentence that has a word with a synonym and a word with an antonym.

    These are not the paper's triplets, which replace "a word in x_ori with its synonym/antonym" (§4.6): here the share
    of replaced words is that of the views of training, on MR 5.2 synonyms and 2.2 antonyms per sentence. So most
    synonym views change more words than the antonym view, and Hits start far below 50 %. The paper has 9,626 of MR's
    10,662 sentences, without saying how they were selected. Words keep their inflection and capitals; the rest of the
    text stays as it is.

    Args:
        sentences: Texts.
        tagger: Tags parts of speech.
        wordnet: Source of synonyms and antonyms.
        options: Constraints on replacements; by default those of pre-training, without its frequency thresholds.
        num: Triplets to draw at most; 0 for all.
        seed: Seed of the draws.

    Raises:
        TaskError: if no sentence makes a triplet.
    """
    tagged = [tag_text(sentence, tagger) for sentence in sentences]
    counts: Counter[tuple[str, str]] = Counter()
    for sentence, found in zip(sentences, tagged, strict=True):
        # In lower case: what occurs only with capitals would count as a name, and these sentences may have no others.
        counts.update((word.lower(), tag) for word, tag in _words(sentence, found))
    options = options or ReplacementOptions(min_count=0, min_ratio=0.0)
    table = compile_replacements(((w, t, n) for (w, t), n in counts.items()), wordnet, options)
    random = np.random.default_rng(seed)
    triplets = [
        triplet
        for sentence, found in zip(sentences, tagged, strict=True)
        if (triplet := _triplet(sentence, found, table, random)) is not None
    ]
    if not triplets:
        raise TaskError("no sentence has both a word with a synonym and one with an antonym: give more text")
    if 0 < num < len(triplets):
        triplets = [triplets[number] for number in np.sort(random.permutation(len(triplets))[:num])]
    return triplets


def _words(sentence: str, found: Tagged) -> list[tuple[str, str]]:
    edges = zip(found.starts.tolist(), found.ends.tolist(), found.tags.tolist(), strict=True)
    return [(sentence[start:end], PENN[tag]) for start, end, tag in edges if tag]


def _triplet(sentence: str, found: Tagged, table: ReplacementTable, random: np.random.Generator) -> Triplet | None:
    places = np.flatnonzero(found.tags)
    candidates = [
        table.lookup(sentence[found.starts[place] : found.ends[place]].lower(), PENN[found.tags[place]])
        for place in places.tolist()
    ]
    views: list[tuple[str, Replaced]] = []
    for kind, share in ((Kind.SYNONYM, SYNONYM_SHARE), (Kind.ANTONYM, ANTONYM_SHARE)):
        usable = [number for number, kinds in enumerate(candidates) if kind in kinds]
        if not usable:
            return None
        num = min(len(usable), max(1, round(share * len(places))))
        chosen = {
            int(places[number]): candidates[number][kind][int(random.integers(len(candidates[number][kind])))]
            for number in sorted(random.permutation(usable)[:num].tolist())
        }
        views.append(_replaced(sentence, found.starts, found.ends, chosen))
    (synonym, synonym_words), (antonym, antonym_words) = views
    return Triplet(sentence, synonym, antonym, synonym_words, antonym_words)


def _replaced(
    sentence: str, starts: NDArray[np.int64], ends: NDArray[np.int64], chosen: dict[int, str]
) -> tuple[str, Replaced]:
    text, words, at = "", [], 0
    for place, form in chosen.items():
        word = sentence[starts[place] : ends[place]]
        other = (
            form if word == word.lower() else form.upper() if len(word) > 1 and word.isupper() else form.capitalize()
        )
        text += sentence[at : starts[place]] + other
        words.append((word, other))
        at = int(ends[place])
    return text + sentence[at:], tuple(words)
