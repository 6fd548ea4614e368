"""How alike texts are to an encoder, and what parts of speech their words are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import torch

import tiny
from evaluation.labelled_tokenizers import wordpiece
from trueneg.attacks.word_substitution.part_of_speech import UniversalTagger, may_replace, universal
from trueneg.attacks.word_substitution.similarity import MeanVectors

PAIRS = [("the cat sat", "the mat sat"), ("the cat sat", "bad"), ("bad", "bad"), ("", "x y z good")]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("encoder"))
    tokenizer = wordpiece()
    tiny.make_hf_masked_lm("bert", vocab_size=len(tokenizer), initializer_range=0.3).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_angles_are_those_of_mean_vectors(source: str) -> None:
    similarity = MeanVectors(source)
    found = similarity(PAIRS)
    model = similarity._reader.model
    for pair, angle in zip(PAIRS, found, strict=True):
        left, right = (
            model(**wordpiece()(text, return_tensors="pt")).last_hidden_state[0].mean(0).double() for text in pair
        )
        expected = torch.arccos(torch.cosine_similarity(left, right, dim=0).clamp(-1, 1))
        assert angle == pytest.approx(float(expected), abs=1e-3)
    assert found[2] == pytest.approx(0, abs=1e-7)
    assert similarity([]).shape == (0,)
    assert similarity.provenance["similarity"]


def test_a_text_is_read_once(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    similarity = MeanVectors(source)
    read: list[str] = []
    tokenize = similarity._reader.tokenize
    monkeypatch.setattr(similarity._reader, "tokenize", lambda texts: read.extend(texts) or tokenize(texts))
    first = similarity(PAIRS)
    assert sorted(read) == sorted({text for pair in PAIRS for text in pair})
    np.testing.assert_array_equal(similarity(PAIRS[::-1]), first[::-1])
    assert len(read) == 5


def test_sentences_are_tagged_once_and_universally() -> None:
    class Tagger:
        name = "made up"
        provenance: Mapping[str, str] = {}

        def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
            asked.extend(map(tuple, sentences))
            return [["NNS" if word == "cats" else "PRP$" if word == "my" else "" for word in s] for s in sentences]

    asked: list[tuple[str, ...]] = []
    tag = UniversalTagger(Tagger())
    sentences = [("my", "cats"), ("cats",), ("my", "cats"), ("!",)]
    assert tag(sentences) == [("PRON", "NOUN"), ("NOUN",), ("PRON", "NOUN"), (".",)]
    assert tag(sentences[:2]) == [("PRON", "NOUN"), ("NOUN",)]
    assert asked == [("my", "cats"), ("cats",), ("!",)]


def test_parts_of_speech_are_those_of_the_universal_tag_set() -> None:
    pairs = {"MD": "VERB", "WRB": "ADV", "WP$": "PRON", "EX": "DET", "IN": "ADP", "CD": "NUM", "CC": "CONJ"}
    pairs |= {"TO": "PRT", "POS": "PRT", "UH": "X", "NNPS": "NOUN", "JJS": "ADJ", "``": "."}
    assert {tag: universal(tag) for tag in pairs} == pairs


def test_only_nouns_and_verbs_change_into_each_other() -> None:
    parts = ["NOUN", "VERB", "ADJ", "ADV", "."]
    alike = {(a, b) for a in parts for b in parts if may_replace(a, b)}
    assert alike == {("NOUN", "VERB"), ("VERB", "NOUN"), *zip(parts, parts, strict=True)}
