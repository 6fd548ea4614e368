"""Triplets replace words by what WordNet says, in their inflection and capitals, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from trueneg.errors import TaskError
from trueneg.evaluation.encoders.triplet_making import make_triplets
from trueneg.lexicon.replacements import ReplacementOptions
from trueneg.lexicon.wordnet import WordNet

OPTIONS = ReplacementOptions(senses="all", min_count=0, min_ratio=0.0)
TAGS = {"big": "JJ", "large": "JJ", "happy": "JJ", "film": "NN", "films": "NNS", "quickly": "RB", "stay": "VB"}


class Words:
    """Tags by spelling: the hand-made WordNet is small."""

    name = "words"
    provenance: Mapping[str, str] = {}

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        return [[TAGS.get(word.lower(), "") for word in words] for words in sentences]


@pytest.fixture(scope="module")
def wordnet() -> WordNet:
    return WordNet.load(Path(__file__).parents[2] / "data" / "wordnet")


def test_words_are_replaced_and_the_rest_stays(wordnet: WordNet) -> None:
    (triplet,) = make_triplets(["The Big  film , we stay (quickly)!"], Words(), wordnet, options=OPTIONS)
    for view, words in ((triplet.synonym, triplet.synonym_words), (triplet.antonym, triplet.antonym_words)):
        rebuilt, at = "", 0
        for word, other in words:
            start = triplet.original.index(word, at)
            rebuilt += triplet.original[at:start] + other
            at = start + len(word)
        assert rebuilt + triplet.original[at:] == view != triplet.original
    antonyms = dict(triplet.antonym_words)
    assert set(antonyms) <= {"Big", "quickly"} and antonyms.get("Big", "Small") in ("Small", "Little")
    assert dict(triplet.synonym_words).get("Big", "Large") == "Large"


def test_sentences_without_both_are_left_out(wordnet: WordNet) -> None:
    texts = ["a big film", "the film", "happy", "nothing here at all"]
    # Of "happy" this WordNet has an antonym and no synonym, of "film" the other way round.
    assert [t.original for t in make_triplets(texts, Words(), wordnet, options=OPTIONS)] == ["a big film"]
    with pytest.raises(TaskError, match="no sentence has both"):
        make_triplets(["the", "of"], Words(), wordnet, options=OPTIONS)


def test_draws_follow_from_the_seed(wordnet: WordNet) -> None:
    texts = [f"a big happy film {n} , stay quickly" for n in range(30)]
    one, again, other = (make_triplets(texts, Words(), wordnet, options=OPTIONS, seed=s) for s in (1, 1, 2))
    assert one == again != other
    few = make_triplets(texts, Words(), wordnet, options=OPTIONS, num=5, seed=1)
    assert len(few) == 5 and set(few) <= set(one)
