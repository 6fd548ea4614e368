"""Hits: is a sentence more like its synonym view than like its antonym view? And BERTScore against its definition."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_readers import OneByOne, checkpoint

from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.encoders.triplets import (
    SIMILARITIES,
    Margins,
    Triplet,
    bert_score,
    hits,
    margins,
    read_triplets,
    write_triplets,
)
from trueneg.models.text_reader import States, TextReader

TRIPLETS = [
    Triplet("the good cat sat", "the good mat sat", "the bad cat sat", (("cat", "mat"),), (("good", "bad"),)),
    Triplet("the good cat sat", "the cat cat sat", "the bad cat sat on the mat"),
    Triplet("good", "good", "bad"),
    Triplet("on the mat", "on the bad", "on the bad"),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return checkpoint(tmp_path_factory.mktemp("encoder"))


def made(margin: list[list[float]], sentences: list[int]) -> Margins:
    values = np.array(margin)
    return Margins(dict.fromkeys(SIMILARITIES, values), np.array(sentences), {})


def test_triplets_are_written_and_read(tmp_path: Path) -> None:
    write_triplets(tmp_path / "t.jsonl", TRIPLETS)
    assert read_triplets(tmp_path / "t.jsonl") == TRIPLETS
    (tmp_path / "t.jsonl").write_text('\n{"original": "a", "synonym": "b", "antonym": "c"}\n', encoding="utf-8")
    assert read_triplets(tmp_path / "t.jsonl") == [Triplet("a", "b", "c")]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"original": "a", "synonym": "b"}',
        '{"original": "a", "synonym": "b", "antonym": " "}',
        '{"original": "a", "synonym": "b", "antonym": 3}',
        '{"original": "a", "synonym": "b", "antonym": "c", "synonym_words": ["a"]}',
    ],
)
def test_what_is_no_triplet_is_named(tmp_path: Path, line: str) -> None:
    write_triplets(path := tmp_path / "t.jsonl", TRIPLETS[:1])
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(TaskError, match=r"t\.jsonl:2: .*'original', 'synonym', 'antonym'"):
        read_triplets(path)


def test_a_file_without_triplets_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(TaskError, match="no triplets"):
        read_triplets(tmp_path / "t.jsonl")


def test_margins_are_differences_of_similarities(source: str) -> None:
    reader = TextReader(source)
    found = margins(reader, TRIPLETS)
    assert found.sentences.tolist() == [0, 0, 1, 2]
    assert found.counts == {"same_views": 1, "unchanged_views": 1}
    for number, triplet in enumerate(TRIPLETS):
        texts = [triplet.original, triplet.synonym, triplet.antonym]
        for pooling, of_texts in reader.vectors(texts).items():
            unit = of_texts / np.linalg.norm(of_texts, axis=-1, keepdims=True)
            expected = ((unit[1] - unit[2]) * unit[0]).sum(-1)
            np.testing.assert_allclose(found.by_similarity[pooling][number], expected, atol=1e-6)
        original, *views = (reader.states(reader.tokenize([text])) for text in texts)
        scores = [bert_score(view, original).f1[:, 0] for view in views]
        np.testing.assert_allclose(found.by_similarity["bertscore"][number], scores[0] - scores[1], atol=1e-5)
    alone = margins(OneByOne(source), TRIPLETS)
    for way in SIMILARITIES:
        np.testing.assert_allclose(found.by_similarity[way], alone.by_similarity[way], atol=1e-5)


def test_equal_views_tie_and_the_view_that_is_the_sentence_hits(source: str) -> None:
    found = margins(TextReader(source), [TRIPLETS[2], TRIPLETS[3]])
    for way in SIMILARITIES:
        result = hits(found, way)
        above = slice(1, None) if way == "cls" else slice(None)  # [CLS] is the same everywhere before the first layer
        assert set(result.curve[above]) == {0.5} and set(result.ties[above]) == {0.5}
    assert (hits(found, "cls").curve[0], hits(found, "cls").ties[0]) == (0.0, 1.0)


def test_truncated_texts_are_counted(source: str) -> None:
    assert margins(TextReader(source, window=6), TRIPLETS).counts["truncated"] == 1


def test_layers_are_chosen_on_other_sentences_than_they_are_measured_on() -> None:
    """Layer 1 is right on the validation sentences only, layer 2 on all others, the embeddings everywhere."""
    num, fraction = 50, 0.2
    sentences = [number // 2 for number in range(2 * num)]
    chosen = set(np.random.default_rng(7).permutation(num)[: round(fraction * num)].tolist())
    margin = [[1.0, 1.0, -1.0] if s in chosen else [1.0, -1.0, 1.0] for s in sentences]
    result = hits(made(margin, sentences), "mean", validation_fraction=fraction, seed=7, resamples=50)
    assert (result.chosen_layer, result.chosen.estimate, result.num_validation) == (1, 0.0, 20)
    assert (result.paper_layer, result.paper, result.chosen.num) == (2, 0.8, 40)
    assert result.curve == (1.0, 0.2, 0.8)


def test_ties_are_no_hits_and_the_lowest_of_equal_layers_is_chosen() -> None:
    margin = [[0.0, 0.5, 0.5, 0.0], [0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, -0.5, -0.5, 1e-12]]
    result = hits(made(margin, [0, 1, 2, 3]), "cls", validation_fraction=0.5, resamples=50)
    assert result.curve == (0.0, 0.5, 0.5, 0.0) and result.ties == (1.0, 0.25, 0.25, 1.0)
    assert (result.paper_layer, result.chosen_layer) == (1, 1)
    others = ~np.isin(np.arange(4), np.random.default_rng(0).permutation(4)[:2])
    assert result.chosen.estimate == np.array([1, 1, 0, 0])[others].mean()
    assert result.chosen_ties == np.array([0, 0, 1, 0])[others].mean()


def test_the_interval_is_of_sentences() -> None:
    """A thousand triplets of two sentences say no more than two."""
    validation = int(np.random.default_rng(0).permutation(3)[0])
    sentences = [0] * 500 + [1] * 500 + [2] * 500
    margin = [[0.0, 1.0 if s == (validation + 1) % 3 else -1.0] for s in sentences]
    result = hits(made(margin, sentences), "mean", validation_fraction=0.3, resamples=200)
    assert result.num_validation == 500 and result.chosen.num == 2
    assert (result.chosen.estimate, result.chosen.low, result.chosen.high) == (0.5, 0.0, 1.0)


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_nonsense_is_refused(source: str, fraction: float) -> None:
    with pytest.raises(ConfigError, match="fraction"):
        hits(made([[0.0, 1.0], [0.0, 1.0]], [0, 1]), "mean", validation_fraction=fraction)
    with pytest.raises(ConfigError, match="two sentences"):
        hits(made([[0.0, 1.0], [0.0, 1.0]], [0, 0]), "mean")
    with pytest.raises(TaskError, match="no triplets"):
        margins(TextReader(source), [])


HIDDEN = 3


def texts_of(lengths: list[int], seed: int, padding: int = 0) -> States:
    """Texts of so many words each, between two special tokens; layers of random states, padding of large ones."""
    longest = max(lengths) + 2 + padding
    hidden = torch.randn(2, len(lengths), longest, HIDDEN, generator=torch.Generator().manual_seed(seed))
    is_token = torch.arange(longest)[None] < torch.tensor(lengths)[:, None] + 2
    is_special = (torch.arange(longest)[None] == 0) | (
        torch.arange(longest)[None] == torch.tensor(lengths)[:, None] + 1
    )
    return States(hidden, is_token, is_special & is_token)


def by_definition(left: States, right: States, layer: int, row: int) -> tuple[float, float]:
    def tokens(states: States) -> list[tuple[torch.Tensor, bool]]:
        places = [place for place in range(states.is_token.shape[1]) if states.is_token[row, place]]
        return [(states.hidden[layer, row, place].double(), not states.is_special[row, place]) for place in places]

    def side(of: States, against: States) -> float:
        best = [
            max(float(x @ y / (x.norm() * y.norm())) for y, _ in tokens(against))
            for x, is_word in tokens(of)
            if is_word
        ]
        return sum(best) / len(best) if best else 0.0

    return side(left, right), side(right, left)


lengths = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=3)


@given(lengths, st.integers(0, 1000))
def test_it_is_what_the_paper_defines(sizes: list[tuple[int, int]], seed: int) -> None:
    left, right = texts_of([a for a, _ in sizes], seed), texts_of([b for _, b in sizes], seed + 1, padding=2)
    score = bert_score(left, right)
    for layer in range(2):
        for row in range(len(sizes)):
            precision, recall, f1 = (float(side[layer, row]) for side in (score.precision, score.recall, score.f1))
            expected = by_definition(left, right, layer, row)
            assert math.isclose(precision, expected[0], abs_tol=1e-5)
            assert math.isclose(recall, expected[1], abs_tol=1e-5)
            # Of what was found: F1 has no bounds where the two nearly cancel out.
            total = precision + recall
            assert math.isclose(f1, 2 * precision * recall / total if total else 0.0)


def test_a_text_matches_itself_and_padding_matches_nothing() -> None:
    states = texts_of([3, 1], seed=0, padding=3)
    assert torch.allclose(bert_score(states, states).f1, torch.ones(2, 2).double())
    # Two words that point away from all tokens of the other text: padding's 0 would be a better match.
    left = States(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[True]]), torch.tensor([[False]]))
    right = States(
        torch.tensor([[[[-1.0, 0.0], [0.0, 0.0]]]]), torch.tensor([[True, False]]), torch.tensor([[False, False]])
    )
    score = bert_score(left, right)
    assert score.precision.item() == score.recall.item() == score.f1.item() == -1.0


def test_special_tokens_are_matched_but_do_not_count() -> None:
    """The only word of the left is like the right's [SEP]; the right's only word is like nothing."""
    left = States(torch.tensor([[[[1.0, 0.0, 0.0]]]]), torch.tensor([[True]]), torch.tensor([[False]]))
    right = States(
        torch.tensor([[[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]]]),
        torch.tensor([[True, True]]),
        torch.tensor([[False, True]]),
    )
    score = bert_score(left, right)
    assert (score.precision.item(), score.recall.item(), score.f1.item()) == (1.0, 0.0, 0.0)


def test_a_text_without_words_scores_nothing() -> None:
    empty, some = texts_of([0], seed=0), texts_of([2], seed=1)
    assert bert_score(empty, empty).f1.tolist() == [[0.0], [0.0]]
    assert bert_score(empty, some).precision.tolist() == [[0.0], [0.0]]
