"""The examples on which models differ: which, in what order, with which text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from made_up_results import write_result
from trueneg.config.codec import encode
from trueneg.config.finetune_options import FinetuneConfig, TaskConfig
from trueneg.errors import TaskError
from trueneg.evaluation.results.examples import differing_examples
from trueneg.tasks.base import digest_of
from trueneg.tasks.glue import GlueTask

GOLD = [0, 1, 0, 1]
HOSTILE = "a \x1b]0;title\x07 beast"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """RTE's four examples; the first would change a terminal's title."""
    folder = tmp_path / "glue" / "RTE"
    folder.mkdir(parents=True)
    labels = ("entailment", "not_entailment")
    rows = [f"{n}\t{HOSTILE if n == 0 else f'text {n}'}\t=second {n}\t{labels[gold]}" for n, gold in enumerate(GOLD)]
    (folder / "dev.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tlabel", *rows]) + "\n")
    return folder.parent


def write(folder: Path, glue: Path, predicted: Mapping[int, list[int]], **fields: Any) -> Path:
    for seed, values in predicted.items():
        config = encode(FinetuneConfig(task=TaskConfig(name="glue/rte", data=str(glue))))
        columns = {"gold": GOLD, "predicted": values}
        known = {"labels": ["entailment", "not_entailment"], "config": config, **fields}
        write_result(folder, "glue/rte", seed, columns, **known)
    return folder


def test_those_that_one_has_right_more_often_the_most_consistent_first(data: Path, tmp_path: Path) -> None:
    #  example 0: two right, none;  1: one right, both;  2: both wrong alike;  3: one each
    base = write(tmp_path / "base", data, {1: [0, 1, 1, 1], 2: [0, 0, 1, 0]})
    hc = write(tmp_path / "hc", data, {1: [1, 1, 1, 0], 2: [1, 1, 1, 1]})
    (first, second), notes = differing_examples(base, hc)
    assert (first.key, first.better, first.worse, first.margin, first.gold) == ("0", "base", "hc", 1.0, "entailment")
    assert (first.baseline, first.contender) == ({"entailment": 2}, {"not_entailment": 2})
    assert (first.text, first.second) == (HOSTILE, "=second 0")
    assert (second.key, second.better, second.margin) == ("1", "hc", 0.5)
    assert second.baseline == {"not_entailment": 1, "entailment": 1} and second.text == "text 1"
    assert notes == []


def test_without_the_data_the_key_is_there_and_the_reason(data: Path, tmp_path: Path) -> None:
    base, hc = (write(tmp_path / n, data, {1: [0, 1, 0, p]}) for n, p in (("base", 0), ("hc", 1)))
    (data / "RTE" / "dev.tsv").unlink()
    (one,), (note,) = differing_examples(base, hc)
    assert (one.key, one.text) == ("3", "") and note.startswith("glue/rte, dev: no texts: ")
    other = write_result(tmp_path / "x", "glue/rte", 1, {"gold": GOLD[:2], "predicted": [0, 0]}).parents[2]
    with pytest.raises(TaskError, match="are of different examples"):
        differing_examples(base, other)


def test_a_text_of_other_data_is_not_shown_for_an_example(data: Path, tmp_path: Path) -> None:
    """Keys may be the numbers of rows, which another row moves."""
    digest = digest_of(sorted(GlueTask("rte", data).read("dev").examples, key=repr))
    base, hc = (write(tmp_path / n, data, {1: [0, 1, 0, p]}, data=digest) for n, p in (("base", 0), ("hc", 1)))
    (one,), notes = differing_examples(base, hc)
    assert (one.text, notes) == ("text 3", [])
    file = data / "RTE" / "dev.tsv"
    file.write_text(file.read_text().replace("text 3", "text 4"))
    (one,), notes = differing_examples(base, hc)
    assert (one.text, notes) == ("", ["glue/rte, dev: no texts: the data have changed since"])


def test_numbers_differ_by_how_near_they_are(tmp_path: Path) -> None:
    for name, values in (("a", [1.0, 4.0, 2.0]), ("b", [2.0, 4.0, 2.5])):
        columns = {"gold": [1.0, 3.0, 3.0], "predicted": values}
        write_result(tmp_path / name, "glue/stsb", 1, columns, metrics=("spearman",), labels=[])
    found, _ = differing_examples(tmp_path / "a", tmp_path / "b")
    assert [(one.key, one.better, one.margin) for one in found] == [("0", "a", 1.0), ("2", "b", 0.5)]
    assert found[0].baseline == {"1.0": 1} and found[0].gold == "1.0"


NUM = 40
SINGLE_FILES = {
    "classification": ("reviews.csv", "text,label\n" + "".join(f"film {n},{n % 2}\n" for n in range(NUM))),
    "tagging": ("reviews.conll", "".join(f"film\tA\n{n}\tB\n\n" for n in range(NUM))),
}


@pytest.mark.parametrize("task", sorted(SINGLE_FILES))
def test_a_new_file_of_which_all_was_evaluated_is_read_whole(task: str, tmp_path: Path) -> None:
    name, content = SINGLE_FILES[task]
    data = tmp_path / name
    data.write_text(content)
    config = encode(FinetuneConfig(task=TaskConfig(name=task, data=str(data))))
    for system, right in (("base", 0), ("hc", 1)):
        if task == "tagging":
            columns = {"gold": [["A", "B"]] * NUM, "num_tokens": [2] * NUM, "num_tokens_right": [2 * right] * NUM}
            known: dict[str, Any] = {"metrics": ("token_accuracy",), "labels": ["A", "B"]}
        else:
            gold = [n % 2 for n in range(NUM)]
            columns, known = {"gold": gold, "predicted": [g if right else 1 - g for g in gold]}, {}
        write_result(tmp_path / system, "reviews", 1, columns, config=config, **known)
    found, notes = differing_examples(tmp_path / "base", tmp_path / "hc")
    assert {one.key: one.text for one in found} == {str(n): f"film {n}" for n in range(NUM)} and notes == []
    data.write_text(content[: content.index("film 30" if task == "classification" else "film\tA\n30")])
    found, notes = differing_examples(tmp_path / "base", tmp_path / "hc")
    assert sum(one.text == "" for one in found) == 10
    assert notes == ["reviews, dev: no text for 10 of 40 examples: the data no longer hold them"]
