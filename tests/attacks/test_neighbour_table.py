"""Tables of neighbours, from files and from vectors."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trueneg.attacks.word_substitution.neighbours import NeighbourTable, load_neighbours, neighbours_by_vectors
from trueneg.errors import LexiconError
from trueneg.lexicon.vectors import Vectors


def written(folder: Path, table: Any) -> Path:
    path = folder / "near.json"
    path.write_text(table if isinstance(table, str) else json.dumps(table), encoding="utf-8")
    return path


def test_a_table_is_read_in_its_order(tmp_path: Path) -> None:
    path = written(tmp_path, {"film": ["movie", "films", "cinéma"], "the": [], "movie": ["film"]})
    table = load_neighbours(path)
    assert table.near("film") == ["movie", "films", "cinéma"] and table.near("film", num=2) == ["movie", "films"]
    assert table.near("FILM") == table.near("film")
    assert table.near("the") == table.near("films") == table.near("unknown") == []
    assert len(table) == 2 and table.cosines is None and table.near("movie", min_cosine=0.9) == ["film"]
    assert table.neighbours.dtype == np.int32
    assert table.provenance["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_cosines_in_a_file_are_limits(tmp_path: Path) -> None:
    table = load_neighbours(written(tmp_path, {"a": [["b", 0.9], ["c", 0.5], ["d", 0.49]], "e": []}))
    assert table.near("a", min_cosine=0.5) == ["b", "c"] and table.near("a", 1, 0.5) == ["b"]
    assert table.cosines is not None and table.cosines.dtype == np.float16


@pytest.mark.parametrize(
    "table",
    ["{", [], {}, {"a": "bc"}, {"a": [1]}, {"a": {"b": 1}}, {"a": None}, {"a": [["b", 0.9]], "x": ["yz"]},
     {"a": [["b", 0.9]], "x": [["b"]]}, {"a": [["b", "near"]]}, {"a": [[1, 0.5]]}, "[" * 100_000,
     {"a": [["b", float("nan")]]}, {"a": [["b", 10**400]]}],
)  # fmt: skip
def test_what_is_no_table_is_refused(tmp_path: Path, table: Any) -> None:
    with pytest.raises(LexiconError, match=r"near\.json"):
        load_neighbours(written(tmp_path, table))
    with pytest.raises(LexiconError, match=r"missing\.json"):
        load_neighbours(tmp_path / "missing.json")


def test_vectors_give_the_nearest() -> None:
    random = np.random.default_rng(0)
    matrix = random.normal(size=(40, 6))
    words = [f"w{n}" for n in range(40)]
    table = neighbours_by_vectors(Vectors.of(words, matrix, {"vectors": "made"}), num=5, min_cosine=0.3)
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    for row, cosines in enumerate(unit @ unit.T):
        order = [n for n in np.argsort(-cosines) if n != row][:5]
        assert table.near(words[row]) == [words[n] for n in order if cosines[n] >= 0.3]
    assert table.provenance == {"vectors": "made", "num_neighbours": "5", "min_cosine": "0.3"}
    some = neighbours_by_vectors(Vectors.of(words, matrix, {}), ["w3", "W7", "none"], num=5, min_cosine=0.3)
    assert [some.near(word) for word in ("w3", "w7", "w8")] == [table.near("w3"), table.near("w7"), []]


def test_a_capital_that_is_only_a_neighbour_hides_no_entry() -> None:
    table = NeighbourTable.of({"film": ["Movie"], "movie": ["flick"], "Reel": ["Film"], "reel": ["spool"]})
    assert table.near("Movie") == ["flick"] and table.near("Reel") == ["Film"] and table.near("REEL") == ["spool"]


def test_cosines_are_kept_in_the_order_of_the_words() -> None:
    table = NeighbourTable.of({"a": ["b", "c"], "b": ["a"]}, {"a": [0.8, 0.2], "b": [0.4]})
    assert table.near("a", min_cosine=0.3) == ["b"] and table.near("b", min_cosine=0.3) == ["a"]
