"""Hugging Face datasets, as ``datasets`` loads them from folders: nothing here asks the network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trueneg.config.options import TaskConfig
from trueneg.errors import TaskError
from trueneg.tasks.hub import HubTask
from trueneg.tasks.tabular import from_config


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))


def saved(folder: Path, **splits: dict[str, list[Any]]) -> Path:
    """A dataset on disk whose ``label`` has the names no, yes, in this order, and maybe."""
    from datasets import ClassLabel, Dataset, DatasetDict

    made = {}
    for name, columns in splits.items():
        rows = Dataset.from_dict(columns)
        made[name] = rows.cast_column("label", ClassLabel(names=["yes", "no", "maybe"]))
    DatasetDict(made).save_to_disk(folder)
    return folder


def test_a_folder_of_files_is_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(10)))
    (tmp_path / "validation.csv").write_text('text,label\n"a, ""b""",1\n')
    task = HubTask("own", tmp_path)
    dev = task.read("dev")
    assert task.labels == ("0", "1") and len(task.read("train").examples) == 10
    assert [(e.key, e.text, e.label) for e in dev.examples] == [("0", 'a, "b"', 1)]


def test_classes_have_their_names_sorted(tmp_path: Path) -> None:
    data = saved(
        tmp_path / "d", train={"text": ["a", "b", "c"], "label": [0, 1, 2]}, validation={"text": ["d"], "label": [1]}
    )
    task = HubTask("own", data)
    assert task.labels == ("maybe", "no", "yes")
    assert [e.label for e in task.read("train").examples] == [2, 1, 0]


def test_minus_one_is_no_label(tmp_path: Path) -> None:
    data = saved(
        tmp_path / "d",
        train={"text": ["a", "b", "c"], "label": [0, 1, -1]},
        validation_matched={"text": ["d"], "label": [1]},
        test={"text": ["e", "f"], "label": [-1, -1]},
    )
    task = HubTask("own", data)
    test = task.read("test")
    assert len(test.examples) == 2 and not test.is_labelled
    assert len(task.read("dev_matched").examples) == 1
    whole = [*task.read("train").examples, *task.read("dev").examples]
    assert len(whole) == 2 and task.read("train").counts["undecided"] == 1


def test_numbers_without_names_are_labels_minus_one_too(tmp_path: Path) -> None:
    rows = [f"t{n},{n % 3 - 1}" for n in range(30)]
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (tmp_path / "test.csv").write_text("text,label\na,-1\nb,-1\n")
    task = HubTask("own", tmp_path)
    assert task.labels == ("-1", "0", "1")
    assert len([*task.read("train").examples, *task.read("dev").examples]) == 30
    assert not task.read("test").is_labelled, "nothing else"


def test_minus_one_is_a_quantity_like_any_other_unless_all_are(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,score\na,-1\nb,3\n")
    (tmp_path / "validation.csv").write_text("text,score\na,-1\nb,2\n")
    (tmp_path / "test.csv").write_text("text,score\na,-1.0\nb,-1.0\n")
    task = HubTask("own", tmp_path, kind="regression")
    assert [e.label for e in task.read("train").examples] == [-1.0, 3.0]
    assert not task.read("test").is_labelled


def test_columns_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    data = saved(tmp_path / "d", train={"text": ["a", "b"], "words": [["a"], ["b"]], "label": [0, 1]})
    assert HubTask("own", data).columns.text == "text"


def test_a_configuration_makes_the_task(tmp_path: Path) -> None:
    data = saved(tmp_path / "films", train={"a": ["a", "b"], "b": ["c", "d"], "label": [0, 1]})
    options = TaskConfig(name="classification", data=f"hub:{data}", text_column="b", second_column="a")
    task = from_config(options)
    assert isinstance(task, HubTask) and task.name == "films"
    assert (task.columns.text, task.columns.second) == ("b", "a")
    one, other = (from_config(replace(options, data=f"{options.data}:{c}")).name for c in ("mrpc", "rte"))
    assert (one, other) == ("films-mrpc", "films-rte")


def test_what_cannot_be_loaded_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="cannot load the dataset") as caught:
        HubTask("own", tmp_path / "nothing")
    assert "\n" not in str(caught.value)
    data = saved(tmp_path / "d", train={"text": ["a", "b"], "label": [0, 1]})
    with pytest.raises(TaskError, match="unknown split 'test': Known: train"):
        HubTask("own", data).read("test")
    with pytest.raises(TaskError, match="--text-column: unknown column 'texts': did you mean 'text'"):
        HubTask("own", data, text_column="texts")
