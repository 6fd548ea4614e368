"""Hugging Face datasets as ``datasets`` loads them from folders: nothing here needs the network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import TaskError
from trueneg.tasks import make_task
from trueneg.tasks.cline import CLINE
from trueneg.tasks.glue import GLUE
from trueneg.tasks.hub import Hub
from trueneg.tasks.records import read_records
from trueneg.tasks.tabular import TabularTask


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))


def saved(folder: Path, names: list[str] | None = None, **splits: dict[str, list[Any]]) -> Path:
    """A dataset on disk; its ``label`` has names, unless there are none, in the order that their numbers have."""
    from datasets import ClassLabel, Dataset, DatasetDict

    made = {}
    for name, columns in splits.items():
        rows = Dataset.from_dict(columns)
        made[name] = rows.cast_column("label", ClassLabel(names=names)) if names else rows
    DatasetDict(made).save_to_disk(folder)
    return folder


YES = ["yes", "no", "maybe"]


def own(folder: Path, **options: Any) -> TabularTask:
    return TabularTask("own", f"hub:{folder}", **options)


def read(task: str, data: Path | str, split: str) -> list[tuple[Any, ...]]:
    made = make_task(TaskConfig(name=task, data=f"hub:{data}"))
    return [(e.key, e.text, e.second, e.label) for e in made.read(split).examples]


def test_a_folder_of_files_is_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(10)))
    (tmp_path / "validation.csv").write_text('text,label\n"a, ""b""",1\n')
    task = own(tmp_path)
    assert task.labels == ("0", "1") and len(task.read("train").examples) == 10
    assert [(e.key, e.text, e.label) for e in task.read("dev").examples] == [("0", 'a, "b"', 1)]


def test_classes_have_their_names_sorted_and_minus_one_is_none_of_them(tmp_path: Path) -> None:
    data = saved(
        tmp_path / "d",
        YES,
        train={"text": ["a", "b", "c", "x"], "words": [["a"]] * 4, "label": [0, 1, 2, -1]},
        validation_matched={"text": ["d"], "words": [["a"]], "label": [1]},
        test={"text": ["e", "f"], "words": [["a"]] * 2, "label": [-1, -1]},
    )
    task = own(data)
    assert task.labels == ("maybe", "no", "yes") and task.columns.text == "text"  # lists are no cells
    whole = task.read("train", is_whole=True)
    assert [e.label for e in whole.examples] == [2, 1, 0] and whole.counts["undecided"] == 1
    assert len(task.read("dev_matched").examples) == 1
    test = task.read("test")
    assert len(test.examples) == 2 and not test.is_labelled


def test_numbers_without_names_are_labels_minus_one_too(tmp_path: Path) -> None:
    rows = [f"t{n},{n % 3 - 1}" for n in range(30)]
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (tmp_path / "test.csv").write_text("text,label\na,-1\nb,-1\n")
    task = own(tmp_path)
    assert task.labels == ("-1", "0", "1")
    assert len(task.read("train", is_whole=True).examples) == 30
    assert not task.read("test").is_labelled, "nothing else"


def test_minus_one_is_a_value_like_any_other_unless_all_are(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,score\na,-1\nb,3\n")
    (tmp_path / "validation.csv").write_text("text,score\na,-1\nb,2\n")
    (tmp_path / "test.csv").write_text("text,score\na,-1.0\nb,-1.0\n")
    task = own(tmp_path, is_regression=True)
    assert [e.label for e in task.read("train").examples] == [-1.0, 3.0]
    assert not task.read("test").is_labelled


def test_a_configuration_makes_the_task(tmp_path: Path) -> None:
    data = saved(tmp_path / "films", YES, train={"a": ["a", "b"], "b": ["c", "d"], "label": [0, 1]})
    options = TaskConfig(name="classification", data=f"hub:{data}", text_column="b", second_column="a")
    task = make_task(options)
    assert isinstance(task, TabularTask) and task.name == "films"
    assert (task.columns.text, task.columns.second) == ("b", "a")
    one, other = (make_task(replace(options, data=f"{options.data}:{c}")).name for c in ("mrpc", "rte"))
    assert (one, other) == ("films-mrpc", "films-rte")


# Of each task: columns and class names as nyu-mll/glue has them, and what its examples are.
GLUE_ON_THE_HUB: dict[str, tuple[list[str], list[str] | None, list[Any]]] = {
    "cola": (["sentence"], ["unacceptable", "acceptable"], [1, 0]),
    "sst2": (["sentence"], ["negative", "positive"], [1, 0]),
    "mrpc": (["sentence1", "sentence2"], ["not_equivalent", "equivalent"], [1, 0]),
    "stsb": (["sentence1", "sentence2"], None, [0.25, 5.0]),
    "qqp": (["question1", "question2"], ["not_duplicate", "duplicate"], [1, 0]),
    "mnli": (["premise", "hypothesis"], ["entailment", "neutral", "contradiction"], [2, 0, 1]),
    "qnli": (["question", "sentence"], ["entailment", "not_entailment"], [1, 0]),
    "rte": (["sentence1", "sentence2"], ["entailment", "not_entailment"], [1, 0]),
    "wnli": (["sentence1", "sentence2"], ["not_entailment", "entailment"], [1, 0]),
    "ax": (["premise", "hypothesis"], ["entailment", "neutral", "contradiction"], [-1, -1]),
}


def glue_on_the_hub(folder: Path, name: str) -> list[Any]:
    """Save a task below a folder as the hub has it; return the labels' names (or values) in order."""
    columns, names, labels = GLUE_ON_THE_HUB[name]
    texts = {column: [f"{column} {n}" for n in range(len(labels))] for column in columns}
    rows = {**texts, "label": labels, "idx": list(range(7, 7 + len(labels)))}
    split = {"mnli": "validation_matched", "ax": "test"}.get(name, "validation")
    saved(folder / name, names, **{split: rows})
    return [names[n] if names and n >= 0 else n for n in labels]


@pytest.mark.parametrize("name", sorted(GLUE))
def test_glue_is_read_from_the_hub_by_the_names_of_its_classes(name: str, tmp_path: Path) -> None:
    given = glue_on_the_hub(tmp_path / "glue", name)
    columns = GLUE_ON_THE_HUB[name][0]
    split = {"mnli": "dev_matched", "ax": "test"}.get(name, "dev")
    found = read(f"glue/{name}", tmp_path / "glue", split)
    assert found == read(f"glue/{name}", f"{tmp_path / 'glue'}:{name}", split)
    texts = [tuple(f"{column} {n}" for column in columns) for n in range(len(given))]
    assert [(key, *(t for t in pair if t is not None)) for key, *pair, _ in found] == [
        (str(7 + n), *row) for n, row in enumerate(texts)
    ]
    known = GLUE[name].labels
    meaning = {"unacceptable": "0", "negative": "0", "not_equivalent": "0", "not_duplicate": "0"}
    meaning |= {"acceptable": "1", "positive": "1", "equivalent": "1", "duplicate": "1"}
    if name == "wnli":
        meaning = {"not_entailment": "0", "entailment": "1"}
    expected = [None] * 2 if name == "ax" else [known.index(meaning.get(g, g)) for g in given] if known else given
    assert [label for *_, label in found] == expected


CLINE_ON_THE_HUB: dict[str, tuple[dict[str, list[Any]], list[str] | None, list[tuple[Any, ...]]]] = {
    "imdb": ({"text": ["Bad.<br /><br />So.", "Good"], "label": [0, 1]}, ["neg", "pos"], [("Bad. So.", None, 0)]),
    "snli": (
        {"premise": ["A"] * 3, "hypothesis": ["B", "C", "D"], "label": [0, -1, 2]},
        ["entailment", "neutral", "contradiction"],
        [("A", "B", 1), ("A", "D", 0)],
    ),
    "boolq": (
        {"question": ["is it", "was it"], "answer": [True, False], "passage": ["It is.", "It was."]},
        None,
        [("is it", "It is.", 1), ("was it", "It was.", 0)],
    ),
    "ag": ({"text": ["Up", "War"], "label": [2, 0]}, ["World", "Sports", "Business", "Sci/Tech"], [("Up", None, 2)]),
    "mr": ({"text": ["bad", "good"], "label": [0, 1]}, ["neg", "pos"], [("bad", None, 0), ("good", None, 1)]),
}


@pytest.mark.parametrize("name", sorted(CLINE_ON_THE_HUB))
def test_clines_tasks_are_read_from_the_hub(name: str, tmp_path: Path) -> None:
    rows, names, expected = CLINE_ON_THE_HUB[name]
    data = saved(tmp_path / name, names, test=rows)
    assert [row[1:] for row in read(name, data, "test")][: len(expected)] == expected


def test_only_what_the_hub_lacks_is_set_aside(tmp_path: Path) -> None:
    rows = {"text": [f"t{n}" for n in range(40)], "label": [0, 1] * 20}
    task = make_task(TaskConfig(name="mr", data=f"hub:{saved(tmp_path / 'd', ['neg', 'pos'], train=rows, test=rows)}"))
    sizes = {split: len(task.read(split).examples) for split in ("train", "dev", "test")}
    assert sizes == {"train": 36, "dev": 4, "test": 40}
    assert task.read("train").counts == {"set_aside": 4}


def test_squad_is_read_from_the_hub(tmp_path: Path) -> None:
    rows = {
        "id": ["q1", "q2", "q3"],
        "title": ["T", "T", "U"],
        "context": ["A b c.", "A b c.", "D"],
        "question": ["Who?", "What?", "Where?"],
        "answers": [
            {"text": ["b", "c"], "answer_start": [2, 4]},
            {"text": [], "answer_start": []},
            {"text": ["D"], "answer_start": [0]},
        ],
    }
    data = f"hub:{saved(tmp_path / 'd', validation=rows)}"
    split = make_task(TaskConfig(name="squad/v2.0", data=data)).read("dev")
    assert [(e.key, e.group, e.is_impossible) for e in split.examples] == [
        ("q1", "T/0", False),
        ("q2", "T/0", True),
        ("q3", "U/0", False),
    ]
    assert [(a.text, a.start) for a in split.examples[0].answers] == [("b", 2), ("c", 4)]
    assert make_task(TaskConfig(name="squad", data=data)).read("dev").counts == {"unanswerable_left_out": 1}
    with pytest.raises(TaskError, match=r"paragraphs\[0\].*'question'"):
        del rows["question"]
        make_task(TaskConfig(name="squad", data=f"hub:{saved(tmp_path / 'e', validation=rows)}")).read("dev")


def test_questions_on_the_hub_need_no_titles(tmp_path: Path) -> None:
    rows = {
        "id": ["q1", "q2"],
        "context": ["A b c.", "D"],
        "question": ["Who?", "Where?"],
        "answers": [{"text": ["b"], "answer_start": [2]}, {"text": ["D"], "answer_start": [0]}],
    }
    data = f"hub:{saved(tmp_path / 'd', validation=rows)}"
    split = make_task(TaskConfig(name="squad", data=data)).read("dev")
    assert [(e.key, e.group) for e in split.examples] == [("q1", "0/0"), ("q2", "0/1")]


@pytest.mark.parametrize("task", ["perspectrum", "tagging"])
def test_tasks_that_the_hub_does_not_have_say_so(task: str, tmp_path: Path) -> None:
    data = saved(tmp_path / "d", YES, train={"text": ["a", "b"], "label": [0, 1]})
    with pytest.raises(TaskError, match=r"--data hub:"):
        make_task(TaskConfig(name=task, data=f"hub:{data}"))


def test_every_other_text_task_has_columns_on_the_hub() -> None:
    assert {name for name, dataset in CLINE.items() if dataset.hub is None} == {"perspectrum"}


def test_narrow_numbers_are_those_that_were_written(tmp_path: Path) -> None:
    """The hub has STS-B's scores as float32, and 2.4 of that is 2.4000000953674316."""
    from datasets import Dataset, DatasetDict, Value

    scores = [2.4, 0.25, 4.615, None]
    rows = Dataset.from_dict({"sentence1": ["a"] * 4, "sentence2": ["b"] * 4, "label": scores, "idx": range(4)})
    for kind in ("float32", "float64"):
        narrow = rows.cast_column("label", Value(kind))
        DatasetDict({"validation": narrow.select(range(3))}).save_to_disk(tmp_path / kind / "stsb")
        found = make_task(TaskConfig(name="glue/stsb", data=f"hub:{tmp_path / kind}")).read("dev").examples
        assert [example.label for example in found] == scores[:3]
        narrow.to_parquet(tmp_path / f"{kind}.parquet")
        read = read_records(tmp_path / f"{kind}.parquet")
        assert [row[read.names.index("label")] for row in read.rows] == ["2.4", "0.25", "4.615", ""]


def test_what_cannot_be_loaded_is_said_in_a_line(tmp_path: Path) -> None:
    for name in (str(tmp_path / "nothing"), "nyu-mll/glue:mrpc"):  # there is no network here
        with pytest.raises(TaskError, match=r"cannot load the dataset .*: check hub:NAME:CONFIGURATION") as caught:
            Hub(f"hub:{name}")
        assert "\n" not in str(caught.value)
    data = saved(tmp_path / "d", YES, train={"text": ["a", "b"], "label": [0, 1]})
    with pytest.raises(TaskError, match="unknown split 'test': Known: train"):
        own(data).read("test")
    with pytest.raises(TaskError, match="--text-column"):
        own(data, text_column="texts")


def test_splits_of_one_name_are_refused(tmp_path: Path) -> None:
    rows = {"text": ["a", "b"], "label": [0, 1]}
    with pytest.raises(TaskError, match="'dev' and 'validation' are 'dev'"):
        Hub(f"hub:{saved(tmp_path / 'd', YES, dev=rows, validation=rows)}")
