"""Files of word vectors, whole and torn, and exact neighbours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trueneg.errors import LexiconError
from trueneg.lexicon import vectors as module
from trueneg.lexicon.vectors import Vectors, load_vectors

WORDS = ["big", "large", "Paris", "1/2", "café"]
MATRIX = np.array([[3, 4], [6, 8], [1, 0], [-1, 0.5], [0, -2]], np.float32)
LINES = [f"{word} {x:g} {y:g}" for word, (x, y) in zip(WORDS, MATRIX, strict=True)]
WHOLE = "\n".join(LINES) + "\n"


def binary(words: list[str] = WORDS, matrix: NDArray[np.floating] = MATRIX, newline: bytes = b"\n") -> bytes:
    rows = [word.encode() + b" " + row.astype("<f4").tobytes() for word, row in zip(words, matrix, strict=True)]
    return f"{len(words)} {matrix.shape[1]}\n".encode() + b"".join(row + newline for row in rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", WHOLE.encode()),
        ("glove", WHOLE.rstrip().encode()),
        ("windows.txt", WHOLE.replace("\n", "\r\n").encode()),
        ("fasttext.vec", f"5 2\n{WHOLE}".replace("\n", " \n").encode()),
        ("word2vec.txt", f"5 2\n{WHOLE}".encode()),
        ("blank.txt", f"{WHOLE}\n\n".encode()),
        ("word2vec.bin", binary()),
        ("gensim.bin", binary(newline=b"")),
    ],
)
def test_every_format_holds_the_same(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    found = load_vectors(path)
    assert found.words == tuple(WORDS) and len(found) == 5
    assert found.matrix.dtype == np.float32
    np.testing.assert_allclose(found.matrix, MATRIX / np.linalg.norm(MATRIX, axis=1, keepdims=True), rtol=1e-6)
    assert (found.provenance["vectors"], found.provenance["dimension"], found.provenance["num_words"]) == (
        name,
        "2",
        "5",
    )
    assert len(found.provenance["sha256"]) == 16


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("mixed.txt", b"a 1 2\nb 1 2\nc 1\n", "'.*mixed.txt', line 3: 1 numbers, not 2 as before it: the file is torn"),
        ("mixed.txt", b"a 1 2\nb 1 2\nc 1 2 3\n", "line 3: 3 numbers, not 2 as before it: the file mixes dimensions"),
        ("torn.txt", b"a 1 2\nb 1 2\nc", "line 3: 0 numbers, not 2"),
        ("words.txt", b"a 1 2\nb one two\n", "line 2: 'one two' are not 2 numbers"),
        ("words.txt", b"a 1 2\nb 1 2x\n", "line 2: '1 2x' are not 2 numbers"),
        ("gaps.txt", b"a 1  2\nb 1  2\n", "line 1: '1  2' are not 3 numbers"),
        ("nan.txt", b"a 1 2\nb nan 2\n", "line 2: a number is not finite"),
        ("inf.txt", b"2 2\na 1 2\nb 1 inf\n", "line 3: a number is not finite"),
        ("big.txt", b"a 1 2\nb 1 1e99\n", "line 2: a number is not finite"),
        ("alone.txt", b"a\nb\n", "line 1: expected a word and its numbers"),
        ("empty.txt", b"", "holds no vectors"),
        ("blank.txt", b"\n\n", "holds no vectors"),
        ("header.txt", b"3 2\na 1 2\nb 1 2\n", "line 1: the header says 3 words, there are 2"),
        ("header.txt", b"1 2\na 1 2\nb 1 2\n", "line 1: the header says 1 words, there are 2"),
        ("header.txt", b"2 3\na 1 2\nb 1 2\n", "line 2: 2 numbers, not 3"),
        ("header.txt", b"two 2\na 1 2\n", "line 1: expected the number of words and their dimension, got 'two 2'"),
        ("header.txt", b"2 0\na\nb\n", "line 1: 2 words of 0 numbers are no vectors"),
        ("text.bin", b"the quick brown fox\n", "line 1: expected the number of words and their dimension"),
        ("empty.bin", b"", "line 1: expected the number of words and their dimension"),
        ("torn.bin", binary()[:-5], "word 5 of 5 is cut off"),
        ("torn.bin", binary()[: -len(binary()) // 2], r"word \d of 5 is cut off"),
        ("wide.bin", b"1 " + b"1" + b"0" * 12 + b"\na 1", "says 1,000,000,000,000 numbers a word, and the file has"),
        ("wide.bin", b"1 " + b"1" + b"0" * 20 + b"\na 1", "numbers a word, and the file has"),
        ("more.bin", binary() + b"x", "the header says 5 words of 2 numbers, and more follows"),
        (
            "fewer.bin",
            binary().replace(b"5 2\n", b"4 2\n", 1),
            "the header says 4 words of 2 numbers, and more follows",
        ),
        (
            "nan.bin",
            binary(matrix=np.array([[1, 2], [np.nan, 0]], np.float32), words=["a", "b"]),
            "word 2: a number is not",
        ),
    ],
)
def test_files_that_are_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(LexiconError, match=message):
        load_vectors(path)


@pytest.mark.parametrize("name", ["nowhere.txt", "nowhere.bin"])
def test_a_missing_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(LexiconError, match=r"cannot read word vectors from '.*nowhere\....': No such file"):
        load_vectors(tmp_path / name)


@pytest.mark.parametrize("name", ["twice.txt", "twice.bin"])
def test_a_word_that_comes_twice_keeps_its_first_vector(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(binary(["a", "b", "a"], MATRIX[:3]) if name.endswith("bin") else b"a 3 4\nb 6 8\na 1 0\n")
    found = load_vectors(path)
    assert found.words == ("a", "b")
    np.testing.assert_allclose(found.matrix[0], [0.6, 0.8], rtol=1e-6)


def test_words_are_found_as_they_are_written_or_in_lower_case() -> None:
    found = Vectors.of(["paris", "Paris", "big"], MATRIX[:3], {})
    assert [found.find(word) for word in ("Paris", "paris", "PARIS", "Big", "small")] == [1, 0, 0, 2, None]


def test_a_vector_without_length_is_near_nothing() -> None:
    found = Vectors.of(["a", "b"], np.array([[0.0, 0.0], [1.0, 0.0]]), {})
    assert found.matrix.tolist() == [[0, 0], [1, 0]]


# Signs of the axes and their halves: every cosine is exact, and most have equals.
EXACT = st.lists(st.tuples(*[st.sampled_from([-1.0, 0.0, 1.0])] * 4), min_size=1, max_size=12)


def exact(rows: list[tuple[float, ...]]) -> Vectors:
    matrix = np.array(rows, np.float32)
    # Lengths 1, 2 and 0 only, so that no cosine is rounded.
    keep = np.isin((matrix**2).sum(1), (0, 1, 4))
    return Vectors.of([str(n) for n in range(int(keep.sum()))], matrix[keep], {})


@settings(deadline=None)
@given(EXACT, st.integers(0, 6), st.data(), st.integers(1, 40))
def test_neighbours_are_those_of_a_plain_loop(
    rows: list[tuple[float, ...]], num: int, data: st.DataObject, block: int
) -> None:
    found = exact(rows)
    everything = list(range(len(found)))
    subset = st.lists(st.sampled_from(everything), unique=True) if everything else st.just([])
    asked, among = data.draw(subset), data.draw(st.none() | subset)
    pool = sorted(everything if among is None else among)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        chosen = None if among is None else np.array(among, np.int64)
        near, cosines = found.nearest(np.array(asked, np.int64), num, chosen)
        within = found.within(np.array(asked, np.int64), 0.5, chosen)
    available = len(pool) - bool(set(asked) & set(pool))
    assert near.shape == cosines.shape == (len(asked), min(num, available))
    for row, ns, cs, inside in zip(asked, near.tolist(), cosines.tolist(), within, strict=True):
        to = {other: float(found.matrix[row] @ found.matrix[other]) for other in pool if other != row}
        assert ns == sorted(to, key=lambda other: (-to[other], other))[: near.shape[1]]
        assert cs == [to[n] for n in ns]
        assert inside.tolist() == [other for other in pool if to.get(other, -1) >= 0.5]


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(2, 60), st.integers(1, 8))
def test_neighbours_in_general_position(seed: int, size: int, num: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(size, 5))
    found = Vectors.of([str(n) for n in range(size)], matrix, {})
    near, cosines = found.nearest(np.arange(size), num)
    units = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    similarity = units @ units.T
    np.fill_diagonal(similarity, -2)
    np.testing.assert_allclose(cosines, -np.sort(-similarity, axis=1)[:, : near.shape[1]], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(similarity, near, 1), cosines, atol=1e-6)


def test_among_equals_the_first_of_the_file() -> None:
    found = Vectors.of(["a", "b", "c", "d"], np.array([[1.0, 0], [1, 0], [1, 0], [1, 0]]), {})
    near, _ = found.nearest(np.array([2]), 2)
    assert near.tolist() == [[0, 1]]


def test_words_with_a_vector_of_zeros_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("zero 0 0\nbig 1 0\nlarge 1 0.1\nnothing 0 0\n")
    vectors = load_vectors(tmp_path / "v.txt")
    assert vectors.words == ("big", "large") and vectors.provenance["num_zeros"] == "2"
    assert vectors.find("zero") is None
