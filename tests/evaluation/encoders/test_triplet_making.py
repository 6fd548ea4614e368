"""Triplets replace a word by what WordNet says, in its inflection and capitals, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from trueneg.config.codec import override
from trueneg.config.objective_options import TripletConfig
from trueneg.errors import TaskError
from trueneg.evaluation.encoders.triplet_making import make_triplets
from trueneg.evaluation.encoders.triplets import Triplet, form_of
from trueneg.lexicon.wordnet import WordNet

EVERY_SENSE = TripletConfig(senses="all")
MANY = TripletConfig(senses="all", replaced="many")
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


TEXTS = [f"a big happy film {n} , stay quickly (the films)!" for n in range(30)]
PAPER = override(TripletConfig(), ["preset=paper"])


@pytest.mark.parametrize("config", [EVERY_SENSE, PAPER])
def test_one_word_of_each_view_is_replaced(config: TripletConfig, wordnet: WordNet) -> None:
    """Section 4.6: "by replacing a word in x_ori with its synonym/antonym"; found by comparing texts alone."""
    triplets = make_triplets(TEXTS, Words(), wordnet, config=config)
    assert len(triplets) == len(TEXTS) and form_of(triplets) == "one word each"
    replaced = set()
    for triplet in triplets:
        parts = re.split(r"(\W+)", triplet.original)
        for view, of_wordnet in ((triplet.synonym, wordnet.synonyms), (triplet.antonym, wordnet.antonyms)):
            (at,) = [number for number in range(len(parts)) if _is_replaced(parts, number, view)]
            word, other = parts[at], view[len("".join(parts[:at])) : len(view) - len("".join(parts[at + 1 :]))]
            replaced.add(word)
            if config is PAPER:
                assert other in of_wordnet(word) and other != word
    assert len(replaced) > 3  # it is drawn which


def _is_replaced(parts: Sequence[str], at: int, view: str) -> bool:
    """Whether a view is the text with this word replaced by another, or by several, and nothing else."""
    before, after = "".join(parts[:at]), "".join(parts[at + 1 :])
    between = view[len(before) : len(view) - len(after)]
    is_word = between == between.strip() and between[:1].isalpha() and between != parts[at]
    return parts[at].isalpha() and is_word and view == before + between + after


def test_many_words_are_replaced_on_request(wordnet: WordNet) -> None:
    few, many = (make_triplets(TEXTS, Words(), wordnet, config=config) for config in (EVERY_SENSE, MANY))
    assert form_of(few) == "one word each" != form_of(many)
    # 40 and 20 % of the six words that have a tag.
    assert {(len(t.synonym_words), len(t.antonym_words)) for t in many} == {(2, 1)}
    assert form_of(many) == "2.0 words by synonyms, 1.0 by antonyms"


def test_the_form_of_triplets_is_said() -> None:
    bare = Triplet("a big film", "a large film", "a small film")
    one = Triplet("a big film", "a large film", "a small film", (("big", "large"),), (("big", "small"),))
    two = Triplet(
        "a big film", "a large movie", "a small film", (("big", "large"), ("film", "movie")), one.antonym_words
    )
    assert [form_of(triplets) for triplets in ([one], [one, bare], [one, two])] == [
        "one word each",
        "not said",
        "1.5 words by synonyms, 1.0 by antonyms",
    ]


def test_words_are_replaced_and_the_rest_stays(wordnet: WordNet) -> None:
    (triplet,) = make_triplets(["The Big  film , we stay (quickly)!"], Words(), wordnet, config=MANY)
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
    assert [t.original for t in make_triplets(texts, Words(), wordnet, config=EVERY_SENSE)] == ["a big film"]
    with pytest.raises(TaskError, match="no sentence has both"):
        make_triplets(["the", "of"], Words(), wordnet, config=EVERY_SENSE)


def test_draws_follow_from_the_seed(wordnet: WordNet) -> None:
    texts = [f"a big happy film {n} , stay quickly" for n in range(30)]
    one, again, other = (make_triplets(texts, Words(), wordnet, config=EVERY_SENSE, seed=s) for s in (1, 1, 2))
    assert one == again != other
    few = make_triplets(texts, Words(), wordnet, config=EVERY_SENSE, num=5, seed=1)
    assert len(few) == 5 and set(few) <= set(one)
