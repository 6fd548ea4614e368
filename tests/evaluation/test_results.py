"""Result files of others, of other versions, and of disks that went bad."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made_up_results import write_model, write_result
from trueneg.errors import TaskError, TruenegDeprecationWarning
from trueneg.evaluation.results.comparison import compare
from trueneg.evaluation.results.store import Result, columns_of, load_result, predictions_path, save_result
from trueneg.evaluation.results.summary import read_runs


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return write_result(tmp_path / "hc", "glue/rte", 1, {"gold": [0, 1, 1, 0], "predicted": [0, 1, 0, 0]})


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    saved = Result("mr", "test", 1, {"accuracy": 1.0, "f1": math.inf}, 1, "e", "last", 1, {"a": 2}, train={"n": [None]})
    assert load_result(save_result(saved, [{"key": "0"}], tmp_path)) == saved


def edited(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "no JSON"),
        (lambda path: path.write_text("[" * 100_000), "no JSON"),
        (lambda path: path.write_text("3"), "an object"),
        (lambda path: edited(path, schema=2), "'schema' is 2"),
        (lambda path: edited(path, schema=None), "'schema' is None"),
        (lambda path: edited(path, seed="1"), "'seed'"),
        (lambda path: edited(path, metrics={"accuracy": "high"}), r"'metrics\.accuracy'"),
        (lambda path: edited(path, labels=[1]), r"'labels\.0'"),
        (lambda path: edited(path, colour="red"), "'colour'"),
    ],
)
def test_a_damaged_result_is_named_with_its_field(result: Path, damage: Callable[[Path], None], named: str) -> None:
    damage(result)
    with pytest.raises(TaskError, match=rf"dev\.json'.*{named}.*(: |or )evaluate the model again"):
        read_runs(result.parents[2])


def test_predictions_of_the_former_version_are_read_with_a_word_until_they_are_written_anew(tmp_path: Path) -> None:
    base, other = write_model(tmp_path / "base", 0.7), write_model(tmp_path / "hc", 0.8)
    expected = compare(base, other, resamples=10).rows
    for path in list(tmp_path.rglob("*.predictions.jsonl")):
        path.rename(path.with_name("dev.answers.jsonl"))
    with pytest.warns(TruenegDeprecationWarning, match=r"predictions\.jsonl") as said:
        assert compare(base, other, resamples=10).rows == expected
    assert [str(base) in str(one.message) or str(other) in str(one.message) for one in said] == [True] * 2, "each once"
    write_model(tmp_path / "base", 0.7)
    write_model(tmp_path / "hc", 0.8)
    assert not list(tmp_path.rglob("*.answers.jsonl"))
    assert compare(base, other, resamples=10).rows == expected


@pytest.mark.parametrize("num_bytes", [-1, 30, 0])
def test_a_result_that_has_lost_answers_counts_nowhere(result: Path, num_bytes: int) -> None:
    answers = predictions_path(result)
    answers.write_bytes(answers.read_bytes()[:num_bytes])
    with pytest.raises(TaskError, match=r"dev\.predictions\.jsonl' has [0-3], and 'dev\.json' is of 4"):
        read_runs(result.parents[2])


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (b"[]", "line 2, is damaged"),
        (b'{"key": "1", "gold": \xff}', "line 2, is damaged"),
        (b'{"key": "1", "gold": 1, "predicted": "yes"}', "reads 'predicted'"),
        (b'{"key": "1", "gold": 1, "predicted": null}', "reads 'predicted'"),
        (b'{"key": "1", "gold": 1, "predicted": 1' + b"0" * 400 + b"}", "reads 'predicted'"),
        (b'{"key": "1", "gold": 1, "predicted": NaN}', "not finite"),
    ],
)
def test_a_damaged_answer_is_named(tmp_path: Path, answer: bytes, named: str) -> None:
    base, other = write_model(tmp_path / "base", 0.7, seeds=[1]), write_model(tmp_path / "hc", 0.8, seeds=[1])
    path = predictions_path(other / "rte" / "seed-1" / "dev.json")
    lines = path.read_bytes().splitlines(keepends=True)
    gold = json.loads(lines[1])["gold"]
    lines[1] = answer.replace(b'"gold": 1', b'"gold": %d' % gold) + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(TaskError, match=named):
        compare(base, other, resamples=10)


def test_metrics_of_other_versions_are_refused(tmp_path: Path) -> None:
    folders = [write_model(tmp_path / name, 0.7, seeds=[1]) for name in ("base", "hc")]
    for folder in folders:
        edited(folder / "rte" / "seed-1" / "dev.json", metrics={"acuracy": 0.7})
    with pytest.raises(TaskError, match=r"dev\.json': unknown metric 'acuracy': did you mean 'accuracy'"):
        compare(*folders, resamples=10)


def test_columns_of_one_kind_only() -> None:
    answers = [{"a": 1, "b": "x", "c": 1, "d": None, "e": 10**30}, {"a": 2.5, "b": "y", "c": "1", "d": 1, "e": 1}]
    assert {name: column.dtype.kind for name, column in columns_of(answers).items()} == {"a": "f", "b": "U"}
