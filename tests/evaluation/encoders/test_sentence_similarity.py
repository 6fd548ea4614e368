"""Sentences compared by an encoder as it comes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from tiny_readers import OneByOne, checkpoint

from evaluation.labelled_tokenizers import wordpiece
from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.encoders.sentence_similarity import SentenceSimilarity, sentence_similarity
from trueneg.models.text_reader import POOLINGS, Floats, Pooling, TextReader
from trueneg.tasks.text import TextExample
from trueneg.terminal.progress import ProgressCallback, no_progress

TEXTS = ["the cat sat on the mat", "bad", "the good cat", "", "x y z sat on the good bad mat"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return checkpoint(tmp_path_factory.mktemp("encoder"))


def pairs() -> list[TextExample]:
    random = np.random.default_rng(0)
    words = ["the", "cat", "sat", "on", "mat", "good", "bad"]
    texts = [" ".join(random.choice(words, size=random.integers(1, 7))) for _ in range(40)]
    return [TextExample(str(n), texts[n], texts[-n], float(n % 6)) for n in range(20)]


def test_vectors_are_the_models_own(source: str) -> None:
    reader = TextReader(source)
    vectors = reader.vectors(TEXTS)
    assert vectors["cls"].shape == (5, 3, 32)
    for number, text in enumerate(TEXTS):
        encoded = wordpiece()(text, return_tensors="pt")
        with torch.no_grad():
            states = reader.model(**encoded, output_hidden_states=True).hidden_states
        for layer, state in enumerate(states):
            np.testing.assert_allclose(vectors["cls"][number, layer], state[0, 0], atol=1e-5)
            np.testing.assert_allclose(vectors["mean"][number, layer], state[0].mean(0), atol=1e-5)


def test_neither_order_nor_neighbours_matter(source: str) -> None:
    together, alone = TextReader(source).vectors(TEXTS), OneByOne(source).vectors(TEXTS)
    back = TextReader(source).vectors(TEXTS[::-1])
    for pooling in POOLINGS:
        np.testing.assert_allclose(together[pooling], alone[pooling], atol=1e-5)
        np.testing.assert_allclose(together[pooling], back[pooling][::-1], atol=1e-5)


def test_long_texts_are_cut_and_counted(source: str) -> None:
    reader = TextReader(source, window=5)
    cut = reader.vectors(["the cat sat on the mat", "the cat sat"])
    assert reader.num_truncated == 1
    np.testing.assert_allclose(cut["mean"][0], cut["mean"][1], atol=1e-6)
    with pytest.raises(ConfigError, match="no room"):
        TextReader(source, window=2)


def test_correlations_are_scipys(source: str) -> None:
    found = sentence_similarity(TextReader(source), pairs())
    vectors = TextReader(source).vectors([e.text for e in pairs()] + [e.second or "" for e in pairs()])
    for pooling in POOLINGS:
        left, right = vectors[pooling][:20, 2], vectors[pooling][20:, 2]
        cosine = (left * right).sum(1) / np.sqrt((left**2).sum(1) * (right**2).sum(1))
        expected = spearmanr(cosine.round(6), [e.label for e in pairs()]).statistic
        assert found.spearman(pooling) == pytest.approx(expected)
    interval = found.interval(resamples=200)
    assert interval.estimate == found.spearman() and interval.low < interval.estimate < interval.high
    assert interval.num == 20


def test_all_beginnings_are_the_same_before_the_first_layer(source: str) -> None:
    found = sentence_similarity(TextReader(source), pairs())
    assert found.spearman("cls", 0) == 0.0 and found.spearman("mean", 0) != 0.0


class Parallel(TextReader):
    """Gives all texts the same direction, but for rounding."""

    def __init__(self) -> None:
        pass

    def vectors(self, texts: Sequence[str], progress: ProgressCallback = no_progress) -> dict[Pooling, Floats]:
        lengths = np.random.default_rng(0).random(len(texts)) + 0.1
        return dict.fromkeys(POOLINGS, lengths[:, None, None] * np.array([0.1, 0.7, 0.3]))


def test_rounding_makes_no_order() -> None:
    assert sentence_similarity(Parallel(), pairs()).spearman() == 0.0


def test_answers_are_a_tasks(source: str) -> None:
    found = sentence_similarity(TextReader(source), pairs())
    answers = found.predictions("mean", 1)
    assert answers[3] == {"key": "3", "gold": 3.0, "predicted": float(found.cosines["mean"][3, 1])}
    assert len(answers) == 20 and isinstance(found, SentenceSimilarity)


@pytest.mark.parametrize("odd", [TextExample("7", "a", None, 1.0), TextExample("7", "a", "b", None)])
def test_what_is_no_labelled_pair_is_refused(source: str, odd: TextExample) -> None:
    with pytest.raises(TaskError, match="'7'"):
        sentence_similarity(TextReader(source), [*pairs(), odd])
    with pytest.raises(TaskError, match="no pairs"):
        sentence_similarity(TextReader(source), [])
