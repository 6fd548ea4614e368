"""Hits: is a sentence more like its synonym view than like its antonym view?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
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
from trueneg.models.text_reader import TextReader

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
