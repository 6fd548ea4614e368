"""Neighbours of word vectors, as a scorer and as a table, from a file or a checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_encoders import WORDS, at, byte_level, wordpiece
from transformers import AutoModel

from trueneg.config.objective_options import CorrectionConfig
from trueneg.detectors import make_detector, make_scorer
from trueneg.detectors.base import Detector
from trueneg.detectors.scorers import neighbours
from trueneg.detectors.scorers.neighbours import NeighboursScorer, embedding_vectors, neighbour_table
from trueneg.detectors.table import TableDetector
from trueneg.errors import ConfigError, LexiconError
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.vectors import Vectors
from trueneg.tokenizer import load_tokenizer

CONTENT = [word for word in WORDS if len(word) >= 3 and word not in STOP_WORDS]
SENTENCE = "a {} thing"


def random_vectors(words: list[str], seed: int = 0) -> Vectors:
    return Vectors.of(words, np.random.default_rng(seed).normal(size=(len(words), 4)), {"vectors": "random"})


def scores(scorer: NeighboursScorer, *pairs: tuple[str, str]) -> list[float]:
    asked = [at(SENTENCE.format(word), word, other) for word, other in pairs]
    return scorer.scores(asked).tolist()


#     right  up     almost right  left
FOUR = Vectors.of(["big", "tall", "large", "small"], np.array([[1.0, 0], [0, 1], [4, 3], [-1, 0]]), {})


def test_the_score_is_the_cosine_and_a_half_for_the_list() -> None:
    scorer = NeighboursScorer(FOUR, top=1)
    assert scorer.threshold == 0.5
    found = scores(scorer, ("big", "large"), ("big", "tall"), ("big", "small"), ("large", "big"), ("big", "qwzx"))
    np.testing.assert_allclose(found, [0.5 + 0.4, 0, 0, 0.5 + 0.4, 0], atol=1e-6)
    far = NeighboursScorer(FOUR, top=1, least=0.9)
    np.testing.assert_allclose(scores(far, ("big", "large")), [0.4], atol=1e-6)


def test_without_a_list_the_score_is_the_cosine() -> None:
    scorer = NeighboursScorer(FOUR, top=0, least=0.7)
    assert scorer.threshold == 0.7
    found = scores(scorer, ("big", "large"), ("tall", "large"), ("big", "small"), ("Big", "LARGE"), ("big", "qwzx"))
    np.testing.assert_allclose(found, [0.8, 0.6, 0, 0.8, 0], atol=1e-6)


def test_several_words_are_their_mean() -> None:
    scorer = NeighboursScorer(FOUR, top=0, least=0.7)
    mean = np.array([1.0, 1.0]) / np.sqrt(2)
    found = scores(scorer, ("large", "big tall"), ("large", "big qwzx"), ("big", "big small"))
    np.testing.assert_allclose(found, [mean @ [0.8, 0.6], 0.8, 0], atol=1e-6)


def test_mutual_neighbours() -> None:
    # The nearest to "tall" is "large", whose own nearest is "big".
    assert scores(NeighboursScorer(FOUR, top=1), ("tall", "large"))[0] >= 0.5
    assert scores(NeighboursScorer(FOUR, top=1, is_mutual=True), ("tall", "large"))[0] < 0.5
    assert scores(NeighboursScorer(FOUR, top=1, is_mutual=True), ("big", "large"))[0] >= 0.5


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 99), st.integers(1, 6), st.sampled_from([0.0, 0.4]), st.booleans())
def test_the_table_says_of_a_vocabulary_what_the_scorer_says(seed: int, top: int, least: float, mutual: bool) -> None:
    tokenizer = wordpiece()
    vocabulary = tokenizer.get_vocab()
    vectors = random_vectors([*CONTENT, "unheard", "of", "!"], seed)
    table = neighbour_table(tokenizer, vectors, top=top, least=least, is_mutual=mutual, among="file")
    scorer = NeighboursScorer(vectors, top, least, mutual)
    pairs = [(word, other) for word in CONTENT for other in CONTENT if word != other]
    accepted = {pair for pair, score in zip(pairs, scores(scorer, *pairs), strict=True) if score >= 0.5}
    assert {(w, o) for w, o in pairs if table.contains(vocabulary[w], vocabulary[o])} == accepted
    assert len(table) == len(accepted)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 99), st.integers(1, 6))
def test_by_default_the_vocabularys_own_words_are_ranked(seed: int, top: int) -> None:
    tokenizer = wordpiece()
    vectors = random_vectors([*CONTENT, *(f"other{n}" for n in range(50))], seed)
    own = NeighboursScorer(random_vectors(CONTENT, seed), top)  # the first rows of the same draw
    table = neighbour_table(tokenizer, vectors, top=top)
    pairs = [(word, other) for word in CONTENT for other in CONTENT if word != other]
    accepted = {pair for pair, score in zip(pairs, scores(own, *pairs), strict=True) if score >= 0.5}
    vocabulary = tokenizer.get_vocab()
    assert {(w, o) for w, o in pairs if table.contains(vocabulary[w], vocabulary[o])} == accepted
    assert accepted


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 99), st.integers(1, 6))
def test_the_paper_ranks_the_whole_vocabulary(seed: int, top: int) -> None:
    tokens = {word: n for word, n in wordpiece().get_vocab().items() if not word.startswith(("##", "["))}
    words = sorted(tokens)[seed % 3 :]  # not all have a vector
    matrix = np.random.default_rng(seed).normal(size=(len(words), 4))
    table = neighbour_table(wordpiece(), Vectors.of(words, matrix, {}), top=top, among="whole-vocabulary")
    cosines = matrix @ matrix.T / np.outer(*[np.linalg.norm(matrix, axis=1)] * 2)
    np.fill_diagonal(cosines, -2)
    nearest = {word: {words[n] for n in np.argsort(-row)[:top]} for word, row in zip(words, cosines, strict=True)}
    listed = {word: {other for other, p in tokens.items() if table.contains(g, p)} for word, g in tokens.items()}
    assert listed == {word: set() if word in STOP_WORDS else nearest.get(word, set()) for word in tokens}
    are_listed = {"a", "in"} & set().union(*listed.values())
    assert {"a", "in"} <= STOP_WORDS and (are_listed or top < 3), "stop words are ranked as others' neighbours"


def test_an_unknown_ranking_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown among 'all'"):
        neighbour_table(wordpiece(), FOUR, among="all")  # type: ignore[arg-type]


def test_without_a_list_the_table_has_what_is_near_enough() -> None:
    tokenizer, vectors = wordpiece(), random_vectors(CONTENT)
    table, scorer = neighbour_table(tokenizer, vectors, top=0, least=0.6), NeighboursScorer(vectors, top=0, least=0.6)
    pairs = [(word, other) for word in CONTENT for other in CONTENT if word != other]
    vocabulary = tokenizer.get_vocab()
    says = [score >= scorer.threshold for score in scores(scorer, *pairs)]
    assert [bool(table.contains(vocabulary[w], vocabulary[o])) for w, o in pairs] == says
    assert 0 < sum(says) < len(says)


def test_pairs_of_a_table_agree_in_prefix_and_casing() -> None:
    tokenizer = byte_level()
    tokenizer.add_tokens(["river", "city"])  # without a space before them
    vectors = random_vectors(CONTENT)
    tokens = {token: word for word, token in tokenizer.get_vocab().items()}
    table = neighbour_table(tokenizer, vectors, top=3)
    kinds = set()
    for key in table.keys.tolist():
        gold, other = (tokens[token] for token in divmod(key, table.vocab_size))
        assert gold.startswith("Ġ") == other.startswith("Ġ")
        assert gold.removeprefix("Ġ")[0].isupper() == other.removeprefix("Ġ")[0].isupper()
        kinds.add(gold.startswith("Ġ"))
    assert kinds == {True, False}


def test_vectors_of_other_words() -> None:
    with pytest.raises(LexiconError, match="no word of the vocabulary has a vector"):
        neighbour_table(wordpiece(), random_vectors(["chat", "chien"]))


def test_embeddings_of_a_checkpoint(bert: str) -> None:
    vectors, tokens = embedding_vectors(bert), load_tokenizer(bert).get_vocab()
    assert set(vectors.words) == {word for word in tokens if not word.startswith(("##", "["))}
    table = AutoModel.from_pretrained(bert).get_input_embeddings().weight.detach()
    own = table[[tokens[word] for word in vectors.words]]
    wanted = torch.nn.functional.normalize(own - own.mean(0))
    torch.testing.assert_close(torch.from_numpy(vectors.matrix), wanted, atol=1e-5, rtol=0)


def test_of_two_entries_the_one_after_a_space_is_the_word(roberta: str) -> None:
    vectors, tokens = embedding_vectors(roberta), load_tokenizer(roberta).get_vocab()
    assert {"a", "Ġa", "Ġcity"} <= tokens.keys() and {"a", "city"} <= set(vectors.words)
    table = AutoModel.from_pretrained(roberta).get_input_embeddings().weight.detach()
    centre = table.mean(0)  # nearly: a few entries are no words
    for word in ("a", "city"):
        own = torch.from_numpy(vectors.matrix[vectors.index[word]])
        assert torch.cosine_similarity(own, table[tokens[f"Ġ{word}"]] - centre, dim=0) > 0.98


def test_by_name(checkpoint: str, tmp_path: Path) -> None:
    file = tmp_path / "v.txt"
    file.write_text("large 1 0\nhappy 4 3\nprimary 0 1\n")
    scorer = make_scorer(f"neighbours:{file}[top=1,mutual=yes,least=0.2]")
    assert isinstance(scorer, NeighboursScorer)
    assert (scorer.top, scorer.least, scorer.is_mutual, scorer.threshold) == (1, 0.2, True, 0.5)
    near = make_scorer(f"neighbours:{file}@0.7")
    assert isinstance(near, NeighboursScorer) and (near.top, near.threshold) == (0, 0.7)
    asked = [at("a large one", "large", word) for word in ("happy", "primary")]
    assert (near.acceptance(asked) >= 0.5).tolist() == [True, False]
    detector = make_detector(CorrectionConfig(detector=f"neighbours:{file}@0.7"), wordpiece())
    assert isinstance(detector, TableDetector) and detector.provenance["vectors"] == "v.txt"
    assert isinstance(make_detector(CorrectionConfig(detector=f"neighbours:{checkpoint}"), wordpiece()), TableDetector)


def test_a_table_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process of a run, and every resumed run, would read gigabytes of vectors."""
    file = tmp_path / "v.txt"
    file.write_text("large 1 0\nhappy 4 3\nprimary 0 1\n")
    made = make_detector(f"neighbours:{file}[top=1]", wordpiece())
    read = neighbours.read_vectors
    monkeypatch.setattr(neighbours, "read_vectors", lambda source: pytest.fail(f"{source} is read again"))
    again = make_detector(f"neighbours:{file}[top=1]", wordpiece())
    assert isinstance(made, TableDetector) and isinstance(again, TableDetector)
    assert pairs_of(again) == pairs_of(made) and again.provenance == made.provenance
    monkeypatch.setattr(neighbours, "read_vectors", read)
    assert pairs_of(make_detector(f"neighbours:{file}[top=2]", wordpiece())) != pairs_of(made)
    file.write_text("large 1 0\nhappy 0 1\nprimary 4 3\n")
    assert pairs_of(make_detector(f"neighbours:{file}[top=1]", wordpiece())) != pairs_of(made)


def pairs_of(detector: Detector) -> list[list[int]]:
    return [buffer.tolist() for buffer in detector.buffers()]
