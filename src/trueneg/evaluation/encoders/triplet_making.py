"""Triplets: a sentence, and its views with a WordNet synonym and a WordNet antonym (Wang et al. 2021, §4.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from trueneg.config.objective_options import TripletConfig
from trueneg.corruption.views.replacement_table import ReplacementTable, compile_replacements
from trueneg.errors import TaskError
from trueneg.evaluation.encoders.triplets import Replaced, Triplet
from trueneg.lexicon.replacements import Kind, ReplacementOptions
from trueneg.lexicon.tagging import Tagged, Tagger, tag_text
from trueneg.lexicon.tags import PENN
from trueneg.lexicon.wordnet import WordNet

SHARES = {"one": (0.0, 0.0), "many": (0.4, 0.2)}
"""Shares of a sentence's words to replace by synonyms and by antonyms, at least one word each."""


def make_triplets(
    sentences: Sequence[str],
    tagger: Tagger,
    wordnet: WordNet,
    *,
    config: TripletConfig | None = None,
    num: int = 0,
    seed: int = 0,
) -> list[Triplet]:
    """Make a triplet from each sentence that has a word with a synonym and a word with an antonym.

    As in the paper, each view replaces "a word in x_ori with its synonym/antonym" (§4.6): one, drawn at random. With
    ``replaced="many"`` the shares are those of the training views: on MR, 5.2 synonyms and 2.2 antonyms per sentence.
    As most synonym views then change more words than the antonym view, Hits start far below 50 %. Words keep their
    capitalization and, unless ``agree`` is False, their inflection; the rest of the text is unchanged.

    From MR's 10,662 sentences, the defaults make 8,494 triplets; ``senses="all"`` makes 9,283; with base forms and
    multi-word replacements as well, 9,357; the preset ``paper``, 9,629. The paper has 9,626, without saying how they
    were selected.

    Args:
        sentences: Texts.
        tagger: Part-of-speech tagger.
        wordnet: Source of synonyms and antonyms.
        config: How many words are replaced, and by what.
        num: Maximum number of triplets, drawn at random; 0 for all.
        seed: Seed of the draws.

    Raises:
        TaskError: if no sentence makes a triplet.
    """
    tagged = [tag_text(sentence, tagger) for sentence in sentences]
    counts: Counter[tuple[str, str]] = Counter()
    for sentence, found in zip(sentences, tagged, strict=True):
        # In lower case: words that occur only capitalized would count as names, and may have no other occurrence here.
        counts.update((word.lower(), tag) for word, tag in _words(sentence, found))
    config = config or TripletConfig()
    asked = {name: value for name, value in asdict(config).items() if name not in ("preset", "replaced")}
    options = ReplacementOptions(**asked, min_count=0, min_ratio=0.0)  # sentences are too few to count words in
    table = compile_replacements(((w, t, n) for (w, t), n in counts.items()), wordnet, options)
    random = np.random.default_rng(seed)
    triplets = [
        triplet
        for sentence, found in zip(sentences, tagged, strict=True)
        if (triplet := _triplet(sentence, found, table, SHARES[config.replaced], random)) is not None
    ]
    if not triplets:
        raise TaskError("no sentence has both a word with a synonym and one with an antonym: give more text")
    if 0 < num < len(triplets):
        triplets = [triplets[number] for number in np.sort(random.permutation(len(triplets))[:num])]
    return triplets


def _words(sentence: str, found: Tagged) -> list[tuple[str, str]]:
    edges = zip(found.starts.tolist(), found.ends.tolist(), found.tags.tolist(), strict=True)
    return [(sentence[start:end], PENN[tag]) for start, end, tag in edges if tag]


def _triplet(
    sentence: str, found: Tagged, table: ReplacementTable, shares: tuple[float, float], random: np.random.Generator
) -> Triplet | None:
    places = np.flatnonzero(found.tags)
    candidates = [
        table.lookup(sentence[found.starts[place] : found.ends[place]].lower(), PENN[found.tags[place]])
        for place in places.tolist()
    ]
    views: list[tuple[str, Replaced]] = []
    for kind, share in zip((Kind.SYNONYM, Kind.ANTONYM), shares, strict=True):
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
